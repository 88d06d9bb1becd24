class Base
  def shared
    own 1
  end

  def own(x)
    x
  end
end
