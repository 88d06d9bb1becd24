"""SQLite, opened one way everywhere: private files, WAL, numbered migrations, one kind of transaction."""
