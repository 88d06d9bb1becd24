"""Candidates in, one judgment or honest absence for each out."""
