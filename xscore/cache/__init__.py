"""Judgments, keyed by content and turn."""
