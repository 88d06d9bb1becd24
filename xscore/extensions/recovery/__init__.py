"""Salvage and rebuild of damaged stores."""
