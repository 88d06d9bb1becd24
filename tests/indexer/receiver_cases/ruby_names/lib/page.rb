class Page
  include ::Tools::Html
  attr_reader :site, :note

  def initialize(site)
    @site = site
  end

  def write
    site.where
    @site.settings
    note
    escaped
    self.class.build
  end

  def self.build
    add_mark(1)
  end
end
