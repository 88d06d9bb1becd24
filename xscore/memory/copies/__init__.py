"""Memories going out of a store and coming back: lines of JSON, imports, snapshots."""
