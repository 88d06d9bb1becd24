"""Prompts and bundles: records in, text out."""
