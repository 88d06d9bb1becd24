class Site
  def self.logger
    @logger ||= LogAdapter.new
  end

  def publish(page)
    page.write
    Site.logger.note
  end

  def where
    1
  end
end
