"""Judgments by content and turn, never lost once paid."""
