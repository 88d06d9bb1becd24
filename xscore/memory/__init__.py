"""The store of memories, and the one door into it."""
