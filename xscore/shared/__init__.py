"""Judgments, limits and dollars shared by several processes and machines, on a server that all of them reach."""
