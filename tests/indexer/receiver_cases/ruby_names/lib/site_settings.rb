class Site
  def settings
    where
  end
end
