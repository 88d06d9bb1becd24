"""Arguments in, one pipeline call, and its record out as text or JSON."""
