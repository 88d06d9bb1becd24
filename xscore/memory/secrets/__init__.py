"""Secrets and personal data taken out of text before it is stored or sent; rules are data."""
