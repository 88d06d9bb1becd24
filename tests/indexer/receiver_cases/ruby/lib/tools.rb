module Tools
  def clean
    1
  end
end
