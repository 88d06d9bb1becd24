"""The signs of an embedder's vectors side by side, table `sign_block`.

A search among very many vectors reads these instead: 56 bytes for a vector of any length, which are
the sign of each place of its projection, as a bit, and the number of its row.

A block has the vectors of neighboring numbers. Triggers remove the block of a vector that is added
or removed, so no sign outlives its text. The next search makes the block again from its 256
vectors at most. Trade-off: a search may write.
"""

import sqlite3

import numpy as np
from numpy.typing import NDArray

from xscore.extensions.vectors.embedders import float_rows
from xscore.extensions.vectors.projection import PROJECTED, project
from xscore.platform import database

NUMBER_BYTES = 8
"""Bytes of the number of a row, little-endian."""
ROW_BYTES = PROJECTED // 8 + NUMBER_BYTES
"""Bytes of a vector's signs and number."""
VECTORS_A_BLOCK = 256
"""Numbers of a block; the triggers know it, too."""
BLOCKS_A_TRANSACTION = 64
"""Most blocks made in one transaction: thousands may be missing at first, and other processes write
in between."""
# Looked up from block to block: reading all numbers would read all vectors.
_BLOCKS = f"""
    WITH RECURSIVE found (block) AS (
        SELECT min(number) / {VECTORS_A_BLOCK} FROM vec NOT INDEXED WHERE number >= 0
        UNION ALL SELECT (SELECT min(number) / {VECTORS_A_BLOCK} FROM vec NOT INDEXED
                          WHERE number >= (found.block + 1) * {VECTORS_A_BLOCK})
        FROM found WHERE found.block IS NOT NULL)
    SELECT block FROM found WHERE block IS NOT NULL
"""
# In the order of the table: looking up the rows by the index takes twice as long.
_READ = """
    SELECT block, signs FROM sign_block NOT INDEXED WHERE embedder = ? AND dimensions = ?
"""
_VECTORS = """
    SELECT number, data FROM vec NOT INDEXED
    WHERE number BETWEEN ? AND ? AND embedder = ? AND length(data) = ?
"""
_PUT = """
    INSERT INTO sign_block (block, embedder, dimensions, signs) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET signs = excluded.signs
"""


def read_signs(
    connection: sqlite3.Connection, embedder: str, *, dimensions: int
) -> NDArray[np.uint8]:
    """Return the signs of this embedder's vectors of so many dimensions: `ROW_BYTES` columns.

    Raises StoreError where blocks are to be made and the store cannot be written.
    """
    with database.read_snapshot(connection):
        missing, signs = _missing_and_signs(connection, embedder, dimensions)
    while missing:
        # Made and read in one transaction: other processes may be adding vectors all the time.
        with database.transaction(connection):
            missing, _ = _missing_and_signs(connection, embedder, dimensions)
            for block in missing[:BLOCKS_A_TRANSACTION]:
                _make_block(connection, block, embedder, dimensions)
            missing, signs = _missing_and_signs(connection, embedder, dimensions)
    return np.frombuffer(signs, dtype=np.uint8).reshape(-1, ROW_BYTES)


def _missing_and_signs(
    connection: sqlite3.Connection, embedder: str, dimensions: int
) -> tuple[list[int], bytes]:
    """Return which blocks are to be made, and what the others hold.

    Every block with a vector, of this or another embedder, is to be there.
    """
    blocks = [block for (block,) in connection.execute(_BLOCKS).fetchall()]
    signs_of_block = dict(connection.execute(_READ, (embedder, dimensions)).fetchall())
    present: list[bytes] = []
    missing: list[int] = []
    for block in blocks:
        signs = signs_of_block.get(block)
        # A block of another length is damaged.
        if isinstance(signs, bytes) and len(signs) % ROW_BYTES == 0:
            present.append(signs)
        else:
            missing.append(block)
    return missing, b"".join(present)


def _make_block(
    connection: sqlite3.Connection, block: int, embedder: str, dimensions: int
) -> None:
    first = block * VECTORS_A_BLOCK
    last = first + VECTORS_A_BLOCK - 1
    vectors = connection.execute(_VECTORS, (first, last, embedder, 2 * dimensions)).fetchall()
    signs = _signs_of(vectors, dimensions)
    connection.execute(_PUT, (block, embedder, dimensions, signs))


def _signs_of(vectors: list[tuple[int, bytes]], dimensions: int) -> bytes:
    """Return the signs of vectors (float16, little-endian), each with its number."""
    data = b"".join([blob for _, blob in vectors])
    rows = float_rows(data, dimensions)
    numbers = np.array([number for number, _ in vectors], dtype="<i8")
    number_bytes = numbers[:, np.newaxis].view(np.uint8)
    return np.hstack([sign_bits(project(rows)), number_bytes]).tobytes()


def sign_bits(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return a bit for each place, 1 where it is negative, eight in a column."""
    return np.packbits(np.signbit(rows), axis=1)
