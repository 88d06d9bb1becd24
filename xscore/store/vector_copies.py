"""Which vectors a server of the user's has, table `vector_copy`.

A vector is noted before it is sent, so that a server that may have it is always known. Triggers
mark the copies of vectors that are removed here, by whatever removes them; the server has yet to
erase these. That a server has all of an embedder's vectors, and how many, is noted in `meta`, since
every turn asks, and looking through 100,000 copies takes longer than the search. Whatever adds
vectors or changes copies removes that note.
Trade-off: a store that is deleted takes its notes along, and the server keeps what it was sent.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection

from msgspec import Struct

from xscore.platform import database
from xscore.platform.hashing import digest
from xscore.store.index_rows import read_meta, write_meta
from xscore.store.memory_rows import IN_JSON_LIST

# Both sides are read in the order of their index and merged.
_MISSING = """
    SELECT text_hash FROM vec INDEXED BY vec_by_embedder WHERE embedder = ?1
    EXCEPT SELECT text_hash FROM vector_copy WHERE embedder = ?1 AND server = ?2 AND is_there
    ORDER BY 1
"""
_TO_COPY = """
    SELECT text_hash, data
    FROM json_each(?) AS text CROSS JOIN vec ON text_hash = text.value AND embedder = ?
"""
_NOTE = """
    INSERT INTO vector_copy (text_hash, embedder, server) SELECT value, ?, ? FROM json_each(?)
    WHERE true ON CONFLICT DO NOTHING
"""
_OF_TEXTS = f"embedder = ? AND server = ? AND text_hash {IN_JSON_LIST}"
_COUNT = (
    "SELECT count(*) FROM vector_copy WHERE embedder = ? AND server = ? AND is_there"
    " AND NOT is_gone"
)
_GONE = "SELECT embedder, text_hash FROM vector_copy WHERE server = ? AND is_gone ORDER BY 1, 2"
_COMPLETE = "vector_copies"
"""Begins the keys in `meta`, one for each embedder and server that has all."""
FORGET_COMPLETE = f"DELETE FROM main.meta WHERE key GLOB '{_COMPLETE}:*'"
"""For whatever adds vectors, in the same transaction."""


class CopiedVector(Struct, frozen=True):
    """A vector as a server gets it."""

    text_hash: str
    data: bytes
    """float16, little-endian."""


def uncopied_texts(connection: sqlite3.Connection, embedder: str, server: str) -> list[str]:
    """Return the hashes of texts whose vectors the server was not sent."""
    if read_meta(connection, _complete_key(embedder, server)):
        return []
    return _uncopied(connection, embedder, server)


def _uncopied(connection: sqlite3.Connection, embedder: str, server: str) -> list[str]:
    return [text for (text,) in connection.execute(_MISSING, (embedder, server)).fetchall()]


def vectors_to_copy(
    connection: sqlite3.Connection, embedder: str, text_hashes: Collection[str]
) -> list[CopiedVector]:
    """Return the vectors of these texts."""
    rows = connection.execute(_TO_COPY, (json.dumps(sorted(text_hashes)), embedder)).fetchall()
    return [CopiedVector(*row) for row in rows]


def note_copies(
    connection: sqlite3.Connection, embedder: str, server: str, text_hashes: Collection[str]
) -> None:
    """Note that the server may have the vectors of these texts, before they are sent."""
    with database.transaction(connection):
        connection.execute(_NOTE, (embedder, server, json.dumps(sorted(text_hashes))))


def confirm_copies(
    connection: sqlite3.Connection, embedder: str, server: str, text_hashes: Collection[str]
) -> None:
    """Note that the server has the vectors of these texts; one that is gone here meanwhile is still
    to be erased."""
    among = (embedder, server, json.dumps(sorted(text_hashes)))
    with database.transaction(connection):
        _forget(connection, embedder, server)
        connection.execute(f"UPDATE vector_copy SET is_there = 1 WHERE {_OF_TEXTS}", among)


def count_copies(connection: sqlite3.Connection, embedder: str, server: str) -> int:
    """Return how many vectors the server should have, by the notes; perhaps also some that are gone
    here, and that it has yet to erase."""
    noted = read_meta(connection, _complete_key(embedder, server))
    if noted:
        return int(noted)
    return _counted(connection, embedder, server)


def note_complete(connection: sqlite3.Connection, embedder: str, server: str) -> None:
    """Note for the turns to come how many vectors the server has, if it has all of them."""
    # Looked up and noted at once: what goes in between is erased there only without the note.
    with database.transaction(connection):
        if not _uncopied(connection, embedder, server):
            count = _counted(connection, embedder, server)
            write_meta(connection, _complete_key(embedder, server), str(count))


def forget_complete(connection: sqlite3.Connection, embedder: str, server: str) -> None:
    """Forget how many vectors the server has, before it is told to erase some."""
    with database.transaction(connection):
        _forget(connection, embedder, server)


def _counted(connection: sqlite3.Connection, embedder: str, server: str) -> int:
    (count,) = connection.execute(_COUNT, (embedder, server)).fetchone()
    return int(count)


def _forget(connection: sqlite3.Connection, embedder: str, server: str) -> None:
    write_meta(connection, _complete_key(embedder, server), "")


def _complete_key(embedder: str, server: str) -> str:
    return f"{_COMPLETE}:{digest(embedder, server)}"


def mark_unsent(connection: sqlite3.Connection, embedder: str, server: str) -> None:
    """Note that the server may lack all it was sent, so that all is sent again; what may still be
    there is still to be erased with its text."""
    among = (embedder, server)
    with database.transaction(connection):
        _forget(connection, embedder, server)
        connection.execute(
            "UPDATE vector_copy SET is_there = 0 WHERE embedder = ? AND server = ?", among
        )


def drop_copies(
    connection: sqlite3.Connection, embedder: str, server: str, text_hashes: Collection[str]
) -> None:
    """Note that the server has erased these; what came back meanwhile stays."""
    among = (embedder, server, json.dumps(sorted(text_hashes)))
    with database.transaction(connection):
        connection.execute(f"DELETE FROM vector_copy WHERE {_OF_TEXTS} AND is_gone", among)


def gone_copies(connection: sqlite3.Connection, server: str) -> dict[str, list[str]]:
    """Return what the server has yet to erase: embedder -> text hashes."""
    texts_by_embedder: dict[str, list[str]] = defaultdict(list)
    for embedder, text_hash in connection.execute(_GONE, (server,)).fetchall():
        texts_by_embedder[embedder].append(text_hash)
    return dict(texts_by_embedder)


def servers_with_gone_copies(connection: sqlite3.Connection) -> list[str]:
    """Return the servers that have something to erase."""
    query = "SELECT DISTINCT server FROM vector_copy WHERE is_gone ORDER BY server"
    return [server for (server,) in connection.execute(query).fetchall()]
