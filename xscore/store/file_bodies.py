"""Attributes, cards and texts of indexed memories: one compressed blob a file, in table
`file_version`.

The memories of a file have many words in common, so compressed together they take a third of the
bytes, and a read of the whole pool decompresses each file once. A memory that is stored by itself
has these three in its own row; `text` is NULL in the row of one whose body is here. Trade-off:
reading one memory decompresses its whole file.
"""

import sqlite3
import zlib
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from msgspec.msgpack import Decoder, encode

from xscore.platform.database import damage_if_invalid, read_snapshot

Body = tuple[str, str, str]
"""The columns attrs, card and text of a memory."""
LEVEL = 3
"""Level of zlib: level 6 takes twice the time for a tenth fewer bytes."""
_BODIES = Decoder(dict[str, Body])


def compress(data: bytes) -> bytes:
    """Compress what is stored of a file."""
    return zlib.compress(data, LEVEL)


def decompress(data: bytes) -> bytes:
    """Return what was compressed. Raises ValueError."""
    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise ValueError(str(error)) from error


def encode_bodies(bodies: Mapping[str, Body]) -> bytes:
    """Return the blob of a file's memories, given by id."""
    return compress(encode(bodies))


def read_with_bodies(
    connection: sqlite3.Connection,
    columns: str,
    where: str,
    parameters: Sequence[object] = (),
    *,
    table: str = "memory",
) -> Generator[tuple[Any, ...], None, None]:
    """Yield these columns of the memories that match, and attrs, card and text, by path, line and
    id.

    columns: SQL, never user input.
    where: SQL, never user input.
    table: `memory` for what this worktree has, `memory_row` for what any has.

    Raises StoreDamaged for a body that is missing or unreadable.
    """
    with read_snapshot(connection):
        rows = connection.execute(
            f"SELECT {columns}, id, version, attrs, card, text FROM {table} WHERE {where}"
            " ORDER BY path, start_line, id, version",
            parameters,
        ).fetchall()
        of_version = 0
        bodies = dict[str, Body]()
        for *values, identifier, version, attrs, card, text in rows:
            if text is not None:
                yield (*values, attrs, card, text)
                continue
            with damage_if_invalid("the text of a memory"):
                if version != of_version or not bodies:
                    of_version = version
                    bodies = _bodies_of(connection, version)
                body = bodies[identifier]
            yield (*values, *body)


def _bodies_of(connection: sqlite3.Connection, version: int) -> dict[str, Body]:
    row = connection.execute(
        "SELECT body FROM file_version WHERE number = ?", (version,)
    ).fetchone()
    if row is None:
        raise ValueError(f"version {version} of a file is missing")
    return _BODIES.decode(decompress(row[0]))
