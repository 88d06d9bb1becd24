"""The vectors of embedders, table `vec`.

A vector belongs to a text, so memories of one text share it, and a trigger removes it with the
last of them. That an embedder has a vector of every text is noted (`complete_embedder`), since
every turn asks, and comparing 100,000 texts with their vectors takes 19 ms; triggers remove the
note whenever a memory is added, changed or restored, or a vector is removed.
"""

import json
import sqlite3
from collections.abc import Iterable

from xscore.platform import database
from xscore.records.memory import Memory
from xscore.store.memory_rows import LIVE_CONDITION
from xscore.store.vector_copies import FORGET_COMPLETE
from xscore.store.worktrees import visible_memories

# Both sides are read in the order of their index and merged, which takes a tenth of the time.
_TEXTS_WITHOUT_VECTOR = """
    SELECT hash FROM memory_view INDEXED BY view_by_text WHERE view = 'whole' AND worktree = 0
    EXCEPT SELECT text_hash FROM vec INDEXED BY vec_by_embedder WHERE embedder = ? ORDER BY 1
"""
_IS_COMPLETE = "SELECT 1 FROM complete_embedder WHERE embedder = ?"
_NOTE_COMPLETE = "INSERT INTO complete_embedder (embedder) VALUES (?) ON CONFLICT DO NOTHING"
_PUT_VECTOR = """
    INSERT INTO vec (text_hash, embedder, data)
    SELECT text_hash, ?, ? FROM memory WHERE id = ? AND text_hash = ? ON CONFLICT DO NOTHING
"""
_BY_NUMBER = """
    SELECT text_hash, data FROM json_each(?) AS listed CROSS JOIN vec ON number = listed.value
    WHERE embedder = ?
"""
_WITH_TEXTS = f"""
    FROM json_each(?) AS text
    CROSS JOIN memory_view INDEXED BY view_by_text
        ON hash = text.value AND view = 'whole' AND worktree = 0
    CROSS JOIN memory_row ON number = memory
    WHERE {LIVE_CONDITION}
"""


def ids_without_vector(connection: sqlite3.Connection, embedder: str) -> list[str]:
    """Return the candidates without a vector of this embedder, short texts first."""
    if connection.execute(_IS_COMPLETE, (embedder,)).fetchone():
        return []
    rows = connection.execute(_TEXTS_WITHOUT_VECTOR, (embedder,)).fetchall()
    texts = [text for (text,) in rows]
    query = f"SELECT memory_row.id {_WITH_TEXTS} ORDER BY tokens, memory_row.id"
    return [id_ for (id_,) in connection.execute(query, (json.dumps(texts),)).fetchall()]


def note_complete_embedder(connection: sqlite3.Connection, embedder: str) -> None:
    """Note for the turns to come that every candidate has a vector of this embedder, if so."""
    if connection.execute(_IS_COMPLETE, (embedder,)).fetchone():
        return
    # Looked up and noted at once: a memory that another process adds in between lacks one.
    with database.transaction(connection):
        if not ids_without_vector(connection, embedder):
            connection.execute(_NOTE_COMPLETE, (embedder,))


def put_vectors(
    connection: sqlite3.Connection, embedder: str, vectors: Iterable[tuple[Memory, bytes]]
) -> None:
    """Store the vectors of these memories. One whose text is no longer the same gets none, and one
    that another process has embedded meanwhile keeps that vector."""
    connection.executemany(
        _PUT_VECTOR,
        [(embedder, data, memory.id, memory.text_hash) for memory, data in vectors],
    )
    connection.execute(FORGET_COMPLETE)


def has_more_vectors(connection: sqlite3.Connection, embedder: str, count: int) -> bool:
    """Whether there are more vectors of this embedder than so many."""
    query = "SELECT count(*) FROM (SELECT 1 FROM vec WHERE embedder = ? LIMIT ?)"
    (counted,) = connection.execute(query, (embedder, count + 1)).fetchone()
    return int(counted) > count


def latest_dimensions(connection: sqlite3.Connection, embedder: str) -> int:
    """Return how many dimensions the latest vector of this embedder has; 0: it has none."""
    query = "SELECT length(data) / 2 FROM vec WHERE embedder = ? ORDER BY number DESC LIMIT 1"
    row = connection.execute(query, (embedder,)).fetchone()
    return int(row[0]) if row else 0


def all_vectors(connection: sqlite3.Connection, embedder: str) -> list[tuple[str, bytes]]:
    """Return text hash and vector of every text with a vector of this embedder."""
    # In the order of the table: looking up each row by an index takes four times as long.
    query = "SELECT text_hash, data FROM vec NOT INDEXED WHERE embedder = ?"
    return connection.execute(query, (embedder,)).fetchall()


def vectors_by_number(
    connection: sqlite3.Connection, embedder: str, numbers: Iterable[int]
) -> list[tuple[str, bytes]]:
    """Return text hash and vector of these rows of the table, except those that are gone, whose
    number a vector of another embedder may have by now."""
    # In the order of the table, so that no page is read twice.
    listed = json.dumps(sorted(set(numbers)))
    return connection.execute(_BY_NUMBER, (listed, embedder)).fetchall()


def memories_with_texts(
    connection: sqlite3.Connection, text_hashes: Iterable[str]
) -> list[tuple[str, str]]:
    """Return id and text hash of the memories of the pool that have one of these texts."""
    query = f"SELECT memory_row.id, hash {_WITH_TEXTS} AND {visible_memories(connection)}"
    return connection.execute(query, (json.dumps(sorted(text_hashes)),)).fetchall()
