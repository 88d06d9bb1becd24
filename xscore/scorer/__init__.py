"""Judges: candidates in; for each a judgment, or the reason there is none."""
