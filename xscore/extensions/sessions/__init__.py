"""Importers of past sessions of coding agents."""
