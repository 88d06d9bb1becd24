class Store
  def self.open
    new(2)
  end

  def get
    1
  end

  def done?
    true
  end
end
