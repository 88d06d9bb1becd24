"""Past sessions with coding agents, read from their own files and turned into memories of this repository."""
