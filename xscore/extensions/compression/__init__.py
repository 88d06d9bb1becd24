"""A coding agent's session within a token budget, and what it must know after a compaction."""
