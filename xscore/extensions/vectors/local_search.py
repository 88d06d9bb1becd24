"""Find the nearest of a store's own vectors: by signs, then by cosine.

Up to `EXACT_UP_TO` vectors all are read. Of more, only the signs of their leading places are: those
that agree best with the query's, each place weighed by what the query has there, are read whole and
ranked by cosine. Trade-off: among very many some of the nearest are missed
(`docs/internals/decisions/0066-vectors-and-hot-state.md` has how many).
"""

import sqlite3
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xscore.extensions.vectors.embedders import nearest
from xscore.platform.errors import StoreError
from xscore.store.sign_blocks import HASH_BYTES, MOST_SIGNS, read_signs, sign_bits, sign_bytes
from xscore.store.vector_rows import all_vectors, has_more_vectors, vectors_of_texts

EXACT_UP_TO = 10_000
"""Vectors that are all compared: reading as many takes as long as a search by signs among ten times
as many."""
WEIGHED = 20_000
"""Vectors whose signs are weighed. Weighing takes longer than counting the signs that differ, and
more than these do not change what is read."""
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
    text_hashes = _nearest_by_signs(signs, query, read)
    return nearest(vectors_of_texts(connection, embedder, text_hashes), query, k)


def _nearest_by_signs(signs: bytes, query: NDArray[np.float32], read: int) -> list[str]:
    """Return the text hashes of the vectors that are to be read whole, in no order."""
    row_bytes = sign_bytes(len(query)) + HASH_BYTES
    rows = np.frombuffer(signs, dtype=np.uint8).reshape(-1, row_bytes)
    words = rows[:, :-HASH_BYTES].view(WORD)
    query_words = np.frombuffer(sign_bits(query.astype("<f2").tobytes()), dtype=WORD)
    differing = np.zeros(len(rows), dtype=np.uint16)
    # Column by column: numpy takes twice as long for sums of short rows.
    for column, query_word in zip(words.T, query_words, strict=True):
        differing += np.bitwise_count(column ^ query_word)
    weighed = _least(differing, max(WEIGHED, read))
    agreement = _agreement(rows[weighed, :-HASH_BYTES], query)
    nearest_rows = weighed[_least(-agreement, read)]
    return [text.tobytes().hex() for text in rows[nearest_rows, -HASH_BYTES:]]


def _least(values: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Return the rows of the least values, in no order; all rows where there are no more."""
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(values, count - 1)[:count]


def _agreement(signs: NDArray[np.uint8], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the product of the leading places of the query with each row of signs, as 1 and -1.

    With the query's own places instead of their signs, far more of the nearest come first.
    """
    # The bits are filled up in front, and 1 is a negative place.
    leading = query[:MOST_SIGNS]
    places = np.zeros(8 * signs.shape[1], dtype=np.float32)
    places[len(places) - len(leading) :] = leading
    bits_of_byte = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    sums_of_bytes = places.reshape(-1, 8) @ (1 - 2 * bits_of_byte.astype(np.float32)).T
    agreement = np.zeros(len(signs), dtype=np.float32)
    for sums, byte in zip(sums_of_bytes, np.ascontiguousarray(signs.T), strict=True):
        agreement += sums.take(byte)
    return agreement
