"""Reports of what calls cost: the report, its page, and the CI gate."""
