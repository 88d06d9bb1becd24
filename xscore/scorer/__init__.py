"""Candidates in; for each a judgment, or the reason why there is none."""
