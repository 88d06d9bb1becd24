"""Files in, memories and edges out."""

from xscore.indexer.index import index_repository

__all__ = [
    "index_repository",
]
