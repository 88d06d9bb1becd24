"""Find the memories nearest to a query among a store's own vectors: by signs, then by cosine.

Up to `EXACT_UP_TO` vectors all are read. Of more, only their sketches are: those whose signs differ
least from the query's are read whole and ranked by cosine. Trade-off: among very many some of the
nearest are missed (`docs/internals/decisions/0066-vectors-and-hot-state.md` has how many).
"""

import sqlite3
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from xscore.extensions.vectors.embedders import nearest
from xscore.store.store import Store
from xscore.store.vector_rows import (
    HASH_BYTES,
    all_vectors,
    memories_with_texts,
    read_sketches,
    sign_bits,
    sign_bytes,
    vectors_of_texts,
)

EXACT_UP_TO = 20_000
"""Vectors that are all compared: reading as many takes about as long as a search by signs."""
READ_AT_LEAST = 3_000
"""Vectors that are read whole after a search by signs."""
WORD = np.dtype("<u8")
"""Signs are compared 64 at a time."""


def nearest_memories(
    store: Store, embedder: str, query: NDArray[np.float32], k: int | None
) -> dict[str, float]:
    """Return the cosines of the k nearest memories of the pool, best first; equals by id.

    k: None: of all that have a vector, by comparing each.
    """
    cosines: list[tuple[str, float]] = []
    for connection in store.connections_of_a_turn():
        cosines += _nearest_of(connection, embedder, query, k)
    cosines.sort(key=lambda pair: (-pair[1], pair[0]))
    return dict(cosines[:k])


def _nearest_of(
    connection: sqlite3.Connection, embedder: str, query: NDArray[np.float32], k: int | None
) -> list[tuple[str, float]]:
    """Return memory id and cosine of at least the k nearest, where there are so many."""
    if k is None:
        vectors = all_vectors(connection, embedder)
        return _of_memories(connection, nearest(vectors, query, len(vectors)))
    # A text may have no memory in the pool: that of another branch, or of an archived memory.
    texts = k
    while True:
        cosines_of_texts = nearest_texts(connection, embedder, query, texts)
        cosines = _of_memories(connection, cosines_of_texts)
        if len(cosines) >= k or len(cosines_of_texts) < texts:
            return cosines
        texts *= 4


def _of_memories(
    connection: sqlite3.Connection, cosines_of_texts: list[tuple[str, float]]
) -> list[tuple[str, float]]:
    """Return memory id and cosine of the memories of the pool with these texts."""
    ids_by_text: dict[str, list[str]] = defaultdict(list)
    for memory_id, text_hash in memories_with_texts(connection, dict(cosines_of_texts)):
        ids_by_text[text_hash].append(memory_id)
    cosines: list[tuple[str, float]] = []
    for text_hash, cosine in cosines_of_texts:
        cosines += [(memory_id, cosine) for memory_id in ids_by_text[text_hash]]
    return cosines


def nearest_texts(
    connection: sqlite3.Connection, embedder: str, query: NDArray[np.float32], k: int
) -> list[tuple[str, float]]:
    """Return text hash and cosine of the k nearest vectors of one database, best first."""
    sketches = read_sketches(connection, embedder, dimensions=len(query))
    sketch_bytes = sign_bytes(len(query)) + HASH_BYTES
    count = len(sketches) // sketch_bytes
    read = max(READ_AT_LEAST, k)
    if count <= max(EXACT_UP_TO, read):
        return nearest(all_vectors(connection, embedder), query, k)
    text_hashes: list[str] = []
    for row in _by_signs(sketches, query, count)[:read].tolist():
        end = (row + 1) * sketch_bytes
        text_hashes.append(sketches[end - HASH_BYTES : end].hex())
    return nearest(vectors_of_texts(connection, embedder, text_hashes), query, k)


def _by_signs(sketches: bytes, query: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Return the rows of the sketches in the order of how many signs differ from the query's."""
    words = np.frombuffer(sketches, dtype=WORD).reshape(count, -1)
    signs = words[:, : -HASH_BYTES // WORD.itemsize]
    query_signs = np.frombuffer(sign_bits(query.astype("<f2").tobytes()), dtype=WORD)
    differing = np.bitwise_count(signs ^ query_signs).sum(axis=1, dtype=np.uint16)
    return np.argsort(differing, kind="stable")
