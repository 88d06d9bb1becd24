"""Where agents meet the store: prompt hooks, the MCP server, the background process, and their installation."""
