"""Memories and checkpoints that a team shares on PostgreSQL."""
