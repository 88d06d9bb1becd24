"""What a server searches of long vectors: their projections (`projection`), of 384 numbers.

So a server stores, and compares, as much for a vector of 3,072 numbers as for one of 384. It is
asked for more than is wanted, and these are ranked by the vectors of the store. Short vectors go as
they are. Trade-off: among the last of the wanted some are missed.
"""

import sqlite3
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from xscore.extensions.vectors.embedders import float_rows, nearest, unit_rows
from xscore.extensions.vectors.projection import PROJECTED, project
from xscore.extensions.vectors.vector_search import NearestTexts
from xscore.store.vector_copies import CopiedVector, vectors_to_copy

ASKED_AT_LEAST = 1_000
"""Vectors that a server is asked for by a projection: as many as pgvector looks at."""


class ProjectedSearch:
    """A server's search among the vectors of one store. See `vector_search.NearestTexts`."""

    def __init__(
        self, search: NearestTexts, connection: sqlite3.Connection, embedder: str
    ) -> None:
        self._search = search
        self._connection = connection
        self._embedder = embedder

    async def search(self, query: bytes, k: int) -> list[tuple[str, float]]:
        """Return text hash and cosine of about the k nearest, best first."""
        dimensions = len(query) // 2
        if dimensions <= PROJECTED:
            return await self._search.search(query, k)
        rows = float_rows(query, dimensions)
        server_k = max(ASKED_AT_LEAST, k)
        texts = await self._search.search(_projected(rows)[0].tobytes(), server_k)
        copies = vectors_to_copy(self._connection, self._embedder, [text for text, _ in texts])
        vectors = [(copy.text_hash, copy.data) for copy in copies]
        return nearest(vectors, rows[0], k)


def as_sent(vectors: Sequence[CopiedVector]) -> list[CopiedVector]:
    """Return vectors as a server gets them."""
    sent: list[CopiedVector] = []
    for vector_bytes, alike in groupby(vectors, key=lambda vector: len(vector.data)):
        copies = list(alike)
        dimensions = vector_bytes // 2
        if dimensions > PROJECTED:
            rows = float_rows(b"".join([copy.data for copy in copies]), dimensions)
            projections = [row.tobytes() for row in _projected(rows)]
            texts = [copy.text_hash for copy in copies]
            copies = [CopiedVector(*pair) for pair in zip(texts, projections, strict=True)]
        sent += copies
    return sent


def _projected(rows: NDArray[np.float32]) -> NDArray[np.float16]:
    """Return the projections of rows as vectors: of length 1, little-endian."""
    return unit_rows(project(rows)).astype("<f2")
