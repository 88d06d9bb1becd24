"""Files in, memories and edges out."""

from xscore.indexer.index import index

__all__ = ["index"]
