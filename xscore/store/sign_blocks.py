"""The signs of an embedder's vectors side by side, table `sign_block`.

A search among very many vectors reads these instead, which are a fraction of their bytes.
Of each vector there is the sign of each leading place, as a bit, and then its text hash. They lie
in blocks by the first digits of the text hash. Triggers remove the block of every vector that is
added, replaced or removed, so that no sign outlives its text; whoever reads next makes it again
from the few vectors that belong to it. Trade-off: a read may write.
"""

import sqlite3
from itertools import product

from xscore.platform import database

HASH_BYTES = 16
"""Of a text hash, after the signs of its vector."""
MOST_SIGNS = 512
"""Leading places of a vector whose signs are kept: more find hardly more, and take longer to read
(`docs/internals/decisions/0066-vectors-and-hot-state.md`)."""
PREFIXES = tuple("".join(digits) for digits in product("0123456789abcdef", repeat=3))
"""Of text hashes, one for each block. Of 100,000 vectors each block has 24, so that a changed one
is soon made again."""
BLOCKS_A_TRANSACTION = 512
"""A first search makes them all; other processes write in between."""
_AS_BINARY_DIGIT = bytes(ord("1") if byte >= 128 else ord("0") for byte in range(256))
_READ = """
    SELECT count(*), CAST(group_concat(signs, '') AS BLOB) FROM sign_block
    WHERE embedder = ? AND dimensions = ?
"""
_PRESENT = "SELECT prefix FROM sign_block WHERE embedder = ? AND dimensions = ?"
# Above every text hash of the prefix: no digit comes after `g`.
_VECTORS = """
    SELECT text_hash, data FROM vec INDEXED BY vec_by_embedder
    WHERE embedder = ? AND text_hash BETWEEN ? AND ? || 'g' AND length(data) = ?
"""
_PUT = "INSERT INTO sign_block (embedder, prefix, dimensions, signs) VALUES (?, ?, ?, ?)"


def read_signs(connection: sqlite3.Connection, embedder: str, *, dimensions: int) -> bytes:
    """Return the signs of this embedder's vectors of so many dimensions, one after the other.

    Raises StoreError where blocks are to be made and the store cannot be written.
    """
    key = (embedder, dimensions)
    blocks, signs = connection.execute(_READ, key).fetchone()
    while blocks < len(PREFIXES):
        # Made and read in one transaction: other processes may be adding vectors all the time.
        with database.transaction(connection):
            _make_missing_blocks(connection, embedder, dimensions)
            blocks, signs = connection.execute(_READ, key).fetchone()
    return signs or b""


def _make_missing_blocks(
    connection: sqlite3.Connection, embedder: str, dimensions: int
) -> None:
    """Make blocks that are missing, as many as a transaction may take."""
    rows = connection.execute(_PRESENT, (embedder, dimensions)).fetchall()
    present = {prefix for (prefix,) in rows}
    missing = [prefix for prefix in PREFIXES if prefix not in present]
    for prefix in missing[:BLOCKS_A_TRANSACTION]:
        key = (embedder, prefix, prefix, 2 * dimensions)
        vectors = connection.execute(_VECTORS, key).fetchall()
        signs = b"".join([signs_of(text_hash, data) for text_hash, data in vectors])
        connection.execute(_PUT, (embedder, prefix, dimensions, signs))


def signs_of(text_hash: str, data: bytes) -> bytes:
    """Return the signs of a vector (float16, little-endian) with its text hash; empty for what is
    no text hash."""
    try:
        text = bytes.fromhex(text_hash)
    except ValueError:
        return b""
    if len(text) != HASH_BYTES:
        return b""
    return sign_bits(data) + text


def sign_bits(data: bytes) -> bytes:
    """Return the sign of each leading place of a vector as a bit, in whole groups of 64."""
    # The sign is the highest bit of the second byte of each place.
    digits = data[1 : 2 * MOST_SIGNS : 2].translate(_AS_BINARY_DIGIT)
    return int(digits or b"0", 2).to_bytes(sign_bytes(len(digits)), "big")


def sign_bytes(dimensions: int) -> int:
    """Return how many bytes the signs of a vector take."""
    return 8 * ((min(dimensions, MOST_SIGNS) + 63) // 64)
