"""Judgments, limits and dollars shared on Redis or PostgreSQL."""
