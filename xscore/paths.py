"""Where things are: the root of a repository, its store, the user's files."""
