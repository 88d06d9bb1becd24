"""Memories and judgments out of a store and into another; snapshots and checkpoints."""
