"""Embedders, and the order of judging by vectors."""
