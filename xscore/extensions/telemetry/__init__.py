"""Traces of turns, stages and calls."""
