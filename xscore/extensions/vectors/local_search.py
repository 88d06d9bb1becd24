"""Find the nearest of a store's own vectors: by signs, then by cosine.

Up to `EXACT_UP_TO` vectors all are read. Of more, only their signs are (`sign_blocks`): vectors
whose signs agree best with the query's, each weighed by what the query has there, are read whole
and ranked by cosine. Trade-off: among very many some of the nearest are missed
(`docs/internals/decisions/0066-vectors-and-hot-state.md` has how many).
"""

import sqlite3
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xscore.extensions.vectors.embedders import nearest
from xscore.extensions.vectors.projection import project
from xscore.extensions.vectors.sign_blocks import NUMBER_BYTES, read_signs, sign_bits
from xscore.platform.errors import StoreError
from xscore.store.vector_rows import (
    all_vectors,
    has_more_vectors,
    latest_dimensions,
    vectors_by_number,
)

EXACT_UP_TO = 4_000
"""Vectors that are all compared, which takes as long as a search by signs among them."""
WEIGHED = 10_000
"""Vectors whose signs are weighed. Weighing takes longer than counting the signs that differ, and
weighing more of them hardly changes what is read."""
READ_AT_LEAST = 1_500
"""Vectors that are read whole after a search by signs."""
WORD = np.dtype("<u8")
"""Signs are compared 64 at a time."""


class LocalSearch:
    """The vectors of one database."""

    def __init__(self, connection: sqlite3.Connection, embedder: str) -> None:
        self._connection = connection
        self._embedder = embedder

    async def search(self, query: bytes, k: int) -> list[tuple[str, float]]:
        """Return text hash and cosine of the k nearest, best first."""
        places = np.frombuffer(query, dtype="<f2").astype(np.float32)
        return _nearest_texts(self._connection, self._embedder, places, k)


def prepare_search(connection: sqlite3.Connection, embedder: str) -> None:
    """Make the signs that the next search would make. Raises StoreError."""
    dimensions = latest_dimensions(connection, embedder)
    if dimensions and has_more_vectors(connection, embedder, EXACT_UP_TO):
        read_signs(connection, embedder, dimensions=dimensions)


def _nearest_texts(
    connection: sqlite3.Connection, embedder: str, query: NDArray[np.float32], k: int
) -> list[tuple[str, float]]:
    read = max(READ_AT_LEAST, k)
    if not has_more_vectors(connection, embedder, max(EXACT_UP_TO, read)):
        return nearest(all_vectors(connection, embedder), query, k)
    try:
        signs = read_signs(connection, embedder, dimensions=len(query))
    except StoreError:
        # This store lacks some and cannot be written.
        return nearest(all_vectors(connection, embedder), query, k)
    numbers = _nearest_by_signs(signs, query, read)
    return nearest(vectors_by_number(connection, embedder, numbers), query, k)


def _nearest_by_signs(
    rows: NDArray[np.uint8], query: NDArray[np.float32], read: int
) -> list[int]:
    """Return the numbers of the vectors that are to be read whole, in no order."""
    places = project(query[np.newaxis])
    query_words = sign_bits(places).view(WORD)[0]
    words = rows[:, :-NUMBER_BYTES].view(WORD)
    differing = np.zeros(len(rows), dtype=np.uint16)
    # Column by column: numpy takes twice as long for sums of short rows.
    for column, query_word in zip(words.T, query_words, strict=True):
        differing += np.bitwise_count(column ^ query_word)
    weighed = _least(differing, max(WEIGHED, read))
    agreement = _agreement(rows[weighed, :-NUMBER_BYTES], places[0])
    nearest_rows = weighed[_least(-agreement, read)]
    numbers: list[int] = rows[nearest_rows, -NUMBER_BYTES:].view("<i8")[:, 0].tolist()
    return numbers


def _least(values: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Return the rows of the least values, in no order; all rows where there are no more."""
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(values, count - 1)[:count]


def _agreement(signs: NDArray[np.uint8], places: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the product of the query's places with each row of signs, as 1 and -1.

    With the places themselves instead of their signs, far more of the nearest come first.
    """
    bits_of_byte = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    sums_of_bytes = places.reshape(-1, 8) @ (1 - 2 * bits_of_byte.astype(np.float32)).T
    agreement = np.zeros(len(signs), dtype=np.float32)
    for sums, byte in zip(sums_of_bytes, np.ascontiguousarray(signs.T), strict=True):
        agreement += sums.take(byte)
    return agreement
