class Site < Base
  include Tools
  attr_reader :store

  def initialize
    @store = Store.new(1)
  end

  def process
    reset
    shared
    clean
    items.each { |item| render item }
  end

  def kept
    store.get
    @store.done?
  end

  def opened
    Store.open.get
  end

  def render(reset)
    reset
  end

  def reset
    shared = 2
    shared
  end
end
