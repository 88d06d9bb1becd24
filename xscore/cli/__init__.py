"""argv in, terminal or JSON out, errors to exit codes."""
