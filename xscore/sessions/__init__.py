"""Past sessions of coding agents, read once from where the agents keep them and remembered one exchange at a time."""
