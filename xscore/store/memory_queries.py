"""What rooms above the store ask of the memory table, without reading whole memories.

Each function names its columns and conditions, so that those who ask hold no SQL on the table;
`memory_rows` reads whole memories and the pool. It writes nothing but vectors, which belong to a
text that a memory has. Trade-off: a question of a new kind is one function more.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable
from typing import NamedTuple

from xscore.records.memory import Memory
from xscore.store.memory_rows import IN_JSON_LIST, LIVE_CONDITION

_OF_KEY = "layer = :layer AND scope = :scope AND key = :key AND key <> ''"
_LATEST_OF_KEY = f"""
    SELECT id FROM memory WHERE {_OF_KEY} AND {LIVE_CONDITION} AND updated_at >= :updated_at
    ORDER BY status, updated_at DESC LIMIT 1
"""
_INSTEAD = f"""
    SELECT id FROM memory WHERE id = :id AND updated_at >= :updated_at UNION ALL
    SELECT id FROM memory WHERE {_OF_KEY} AND {LIVE_CONDITION} AND updated_at > :updated_at
        AND id <> :id LIMIT 1
"""
_WITHOUT_VECTOR = f"""
    SELECT id FROM memory WHERE {LIVE_CONDITION} AND NOT EXISTS (
        SELECT 1 FROM vec WHERE vec.text_hash = memory.text_hash AND embedder = ?)
    ORDER BY text_tokens, id
"""
_PUT_VECTOR = """
    INSERT OR REPLACE INTO vec (text_hash, embedder, data)
    SELECT text_hash, ?, ? FROM memory WHERE id = ? AND text_hash = ?
"""


class MemoryState(NamedTuple):
    """What tells whether a memory is to be written again."""

    text_hash: str
    status: str
    source: str
    updated_at: float


def memory_states(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, MemoryState]:
    """Return the state of each of these memories that is stored, by id."""
    rows = connection.execute(
        f"SELECT id, text_hash, status, source, updated_at FROM memory WHERE id {IN_JSON_LIST}",
        (json.dumps(list(ids)),),
    )
    return {id_: MemoryState(*state) for id_, *state in rows.fetchall()}


def all_ids(connection: sqlite3.Connection) -> list[str]:
    """Return the ids of all memories."""
    return [id_ for (id_,) in connection.execute("SELECT id FROM memory").fetchall()]


def has_keyed_memory(connection: sqlite3.Connection, kinds: Collection[str]) -> bool:
    """Whether a memory of one of these kinds, not of the index, has a key."""
    query = f"SELECT 1 FROM memory WHERE source <> 'index' AND key <> '' AND kind {IN_JSON_LIST}"
    return (
        connection.execute(f"{query} LIMIT 1", (json.dumps(sorted(kinds)),)).fetchone() is not None
    )


def latest_of_key(connection: sqlite3.Connection, memory: Memory) -> str:
    """Return the id of the live memory with its key that is as new or newer; "" if there is
    none."""
    return _first_id(connection, _LATEST_OF_KEY, memory)


def stands_instead(connection: sqlite3.Connection, memory: Memory) -> str:
    """Return the id of what the store has instead of a memory: its own if that is as new, that of a
    newer one with its key, or ""."""
    return _first_id(connection, _INSTEAD, memory)


def _first_id(connection: sqlite3.Connection, query: str, memory: Memory) -> str:
    of_key = {
        "id": memory.id,
        "layer": memory.layer,
        "scope": memory.scope,
        "key": memory.key,
        "updated_at": memory.updated_at,
    }
    row = connection.execute(query, of_key).fetchone()
    return str(row[0]) if row else ""


def ids_without_vector(connection: sqlite3.Connection, embedder: str) -> list[str]:
    """Return the candidates without a vector of this embedder, short texts first."""
    return [id_ for (id_,) in connection.execute(_WITHOUT_VECTOR, (embedder,)).fetchall()]


def put_vectors(
    connection: sqlite3.Connection, embedder: str, vectors: Iterable[tuple[Memory, bytes]]
) -> None:
    """Store the vectors of these memories; one whose text is no longer the same gets none."""
    connection.executemany(
        _PUT_VECTOR, [(embedder, data, memory.id, memory.text_hash) for memory, data in vectors]
    )
