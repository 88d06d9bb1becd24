"""Erase memories and turns for good, prove it, and encrypt stores."""
