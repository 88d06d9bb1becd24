"""The store of a repository and of its user: one schema, one row mapper per table."""
