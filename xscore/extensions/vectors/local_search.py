"""Find the nearest of a store's own vectors: by signs, then by cosine.

Up to `EXACT_UP_TO` vectors all are read. Of more, only their sketches are: those whose signs agree
best with the query's, each place weighed by what the query has there, are read whole and ranked by
cosine. Trade-off: among very many some of the nearest are missed
(`docs/internals/decisions/0066-vectors-and-hot-state.md` has how many).
"""

import sqlite3

import numpy as np
from numpy.typing import NDArray

from xscore.extensions.vectors.embedders import nearest
from xscore.store.vector_rows import (
    HASH_BYTES,
    all_vectors,
    read_sketches,
    sign_bits,
    sign_bytes,
    vectors_of_texts,
)

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
    sketches = read_sketches(connection, embedder, dimensions=len(query))
    sketch_bytes = sign_bytes(len(query)) + HASH_BYTES
    count = len(sketches) // sketch_bytes
    read = max(READ_AT_LEAST, k)
    if count <= max(EXACT_UP_TO, read):
        return nearest(all_vectors(connection, embedder), query, k)
    text_hashes: list[str] = []
    for row in _nearest_by_signs(sketches, query, count, read).tolist():
        end = (row + 1) * sketch_bytes
        text_hashes.append(sketches[end - HASH_BYTES : end].hex())
    return nearest(vectors_of_texts(connection, embedder, text_hashes), query, k)


def _nearest_by_signs(
    sketches: bytes, query: NDArray[np.float32], count: int, read: int
) -> NDArray[np.intp]:
    """Return the rows of the sketches that are to be read whole, in no order; read: fewer than all
    of them."""
    words = np.frombuffer(sketches, dtype=WORD).reshape(count, -1)
    signs = words[:, : -HASH_BYTES // WORD.itemsize]
    query_signs = np.frombuffer(sign_bits(query.astype("<f2").tobytes()), dtype=WORD)
    differing = np.zeros(count, dtype=np.uint16)
    # Column by column: numpy takes twice as long for sums of short rows.
    for counts_of_word in np.bitwise_count(signs ^ query_signs).T:
        differing += counts_of_word
    weighed = np.argsort(differing, kind="stable")[: max(WEIGHED, read)]
    agreement = _agreement(signs[weighed].view(np.uint8), query)
    return weighed[np.argpartition(-agreement, read - 1)[:read]]


def _agreement(signs: NDArray[np.uint8], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the product of the query with each row of signs, as 1 and -1.

    With the query's own places instead of their signs, far more of the nearest come first.
    """
    # The bits of a sketch are filled up in front, and 1 is a negative place.
    places = np.zeros(8 * signs.shape[1], dtype=np.float32)
    places[len(places) - len(query) :] = query
    bits_of_byte = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    sums_of_bytes = places.reshape(-1, 8) @ (1 - 2 * bits_of_byte.astype(np.float32)).T
    agreement = np.zeros(len(signs), dtype=np.float32)
    for sums, byte in zip(sums_of_bytes, np.ascontiguousarray(signs.T), strict=True):
        agreement += sums.take(byte)
    return agreement
