"""Consolidation, promotion, feedback, preferences."""
