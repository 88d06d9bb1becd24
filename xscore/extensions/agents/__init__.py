"""What connects coding agents to xscore: prompt hooks, the MCP server, the background process, and
installation."""
