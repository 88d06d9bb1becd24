"""Foundations that know nothing of the product: errors, files, git, text, hashing, SQLite."""
