class Site
  def more
    reset
  end
end
