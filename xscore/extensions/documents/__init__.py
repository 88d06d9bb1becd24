"""Documents from elsewhere, fetched when a person asks for them: files and pages become passages
that turns judge like any other memory."""
