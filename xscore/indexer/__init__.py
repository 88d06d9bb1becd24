"""Files in, memories and edges out."""
