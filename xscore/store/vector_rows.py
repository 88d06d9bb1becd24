"""The vectors of embedders, table `vec`, and what a search reads of them.

A vector belongs to a text, so memories of one text share it, and a trigger removes it with the
last of them. Beside it lies its sketch: the sign of each place as a bit, then the text hash. An
index has the sketches side by side, a tenth of the vectors' bytes, so that the nearest can be
looked for among them and few whole vectors are read. As a column of the row a sketch is encrypted,
erased and taken over with its vector. Trade-off: signs alone are coarse, so more vectors must be
read than are asked for.
"""

import json
import sqlite3
from collections.abc import Iterable

from xscore.records.memory import Memory
from xscore.store.memory_rows import LIVE_CONDITION
from xscore.store.vector_copies import FORGET_COMPLETE
from xscore.store.worktrees import visible_memories

HASH_BYTES = 16
"""Of a text hash, at the end of a sketch."""
_AS_BINARY_DIGIT = bytes(ord("1") if byte >= 128 else ord("0") for byte in range(256))
# Both sides are read in the order of their index and merged, which takes a tenth of the time.
_TEXTS_WITHOUT_VECTOR = """
    SELECT hash FROM memory_view INDEXED BY view_by_text WHERE view = 'whole' AND worktree = 0
    EXCEPT SELECT text_hash FROM vec INDEXED BY vec_by_embedder WHERE embedder = ? ORDER BY 1
"""
_PUT_VECTOR = """
    INSERT OR REPLACE INTO vec (text_hash, embedder, data, sketch)
    SELECT text_hash, ?, ?, ? FROM memory WHERE id = ? AND text_hash = ?
"""
# The index has the rows in one order, and only it is read.
_SKETCHES = """
    SELECT CAST(group_concat(sketch, '') AS BLOB) FROM vec INDEXED BY vec_by_embedder
    WHERE embedder = ? AND length(sketch) = ?
"""
_OF_TEXTS = """
    SELECT text_hash, data FROM json_each(?) AS text
    CROSS JOIN vec ON text_hash = text.value AND embedder = ?
"""
_WITH_TEXTS = f"""
    FROM json_each(?) AS text
    CROSS JOIN memory_view INDEXED BY view_by_text
        ON hash = text.value AND view = 'whole' AND worktree = 0
    CROSS JOIN memory_row ON number = memory
    WHERE {LIVE_CONDITION}
"""


def sketch_of(text_hash: str, data: bytes) -> bytes:
    """Return the sketch of a vector (float16, little-endian); empty for what is none.

    No numpy: a migration makes sketches too, and most installations have none.
    """
    try:
        text = bytes.fromhex(text_hash)
    except ValueError:
        return b""
    if len(text) != HASH_BYTES:
        return b""
    return sign_bits(data) + text


def sign_bits(data: bytes) -> bytes:
    """Return the sign of each place of a vector as a bit, in whole groups of 64."""
    # The sign is the highest bit of the second byte of each place.
    digits = data[1::2].translate(_AS_BINARY_DIGIT)
    return int(digits or b"0", 2).to_bytes(sign_bytes(len(digits)), "big")


def sign_bytes(dimensions: int) -> int:
    """Return how many bytes the signs of a vector take."""
    return 8 * ((dimensions + 63) // 64)


def ids_without_vector(connection: sqlite3.Connection, embedder: str) -> list[str]:
    """Return the candidates without a vector of this embedder, short texts first."""
    texts = [
        text for (text,) in connection.execute(_TEXTS_WITHOUT_VECTOR, (embedder,)).fetchall()
    ]
    if not texts:
        return []
    query = f"SELECT memory_row.id {_WITH_TEXTS} ORDER BY tokens, memory_row.id"
    return [id_ for (id_,) in connection.execute(query, (json.dumps(texts),)).fetchall()]


def put_vectors(
    connection: sqlite3.Connection, embedder: str, vectors: Iterable[tuple[Memory, bytes]]
) -> None:
    """Store the vectors of these memories; one whose text is no longer the same gets none."""
    rows: list[tuple[str, bytes, bytes, str, str]] = []
    for memory, data in vectors:
        sketch = sketch_of(memory.text_hash, data)
        rows.append((embedder, data, sketch, memory.id, memory.text_hash))
    connection.executemany(_PUT_VECTOR, rows)
    connection.execute(FORGET_COMPLETE)


def read_sketches(connection: sqlite3.Connection, embedder: str, *, dimensions: int) -> bytes:
    """Return the sketches of this embedder's vectors of so many dimensions, one after the other."""
    length = sign_bytes(dimensions) + HASH_BYTES
    (sketches,) = connection.execute(_SKETCHES, (embedder, length)).fetchone()
    return sketches or b""


def all_vectors(connection: sqlite3.Connection, embedder: str) -> list[tuple[str, bytes]]:
    """Return text hash and vector of every text with a vector of this embedder."""
    query = "SELECT text_hash, data FROM vec WHERE embedder = ?"
    return connection.execute(query, (embedder,)).fetchall()


def vectors_of_texts(
    connection: sqlite3.Connection, embedder: str, text_hashes: Iterable[str]
) -> list[tuple[str, bytes]]:
    """Return text hash and vector of these texts."""
    # In the order of the table, so that no page is read twice.
    return connection.execute(_OF_TEXTS, (json.dumps(sorted(text_hashes)), embedder)).fetchall()


def memories_with_texts(
    connection: sqlite3.Connection, text_hashes: Iterable[str]
) -> list[tuple[str, str]]:
    """Return id and text hash of the memories of the pool that have one of these texts."""
    query = f"SELECT memory_row.id, hash {_WITH_TEXTS} AND {visible_memories(connection)}"
    return connection.execute(query, (json.dumps(sorted(text_hashes)),)).fetchall()
