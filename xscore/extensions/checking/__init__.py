"""Check a change: what else must change with it, and what it leaves untrue."""
