"""What others ask of the memory table: which memories there are, and what belongs to them.

Each function names its columns and conditions, so that those who ask hold no SQL on the table;
`memory_rows` reads memories by id and the pool, `naming` finds those that a name means. It writes
nothing. Trade-off: a question of a new kind is one function more.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from xscore.platform.database import damage_if_invalid
from xscore.platform.hashing import file_id
from xscore.records.memory import Edge, Kind, Memory, Relation, SpokenMemory
from xscore.store.memory_rows import (
    IN_JSON_LIST,
    LIVE_CONDITION,
    STATED_CONDITION,
    edges_from_rows,
    select_memories,
)

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
_OPEN_ABOUT = f"""
    kind IN ('failure', 'decision') AND status = 'active' AND id IN (
        SELECT source FROM edge WHERE relation = 'references' AND (
            target {IN_JSON_LIST} OR target IN (SELECT id FROM memory WHERE path {IN_JSON_LIST}))
        UNION SELECT memory_id FROM evidence WHERE path {IN_JSON_LIST})
"""
_LATEST_DECISIONS = f"""
    id IN (SELECT id FROM memory WHERE kind = 'decision' AND {LIVE_CONDITION}
        ORDER BY updated_at DESC, id LIMIT ?)
"""
_LATEST_EXCHANGES = """
    id IN (SELECT id FROM memory WHERE layer = 'session' AND status = 'active'
        AND kind = 'exchange' AND thread = ? ORDER BY updated_at DESC, id LIMIT ?)
"""
MOST_WEIGHED = 300
"""How many memories are used to weigh words."""
_SESSION = "coalesce(json_extract(attrs, '$.session'), '')"
_SPOKEN = f"""
    SELECT id, kind, place, updated_at, {_SESSION}, text FROM memory_row
    WHERE version = 0 AND id {IN_JSON_LIST}
"""
_LATER_WORDS = f"""
    {_SPOKEN} AND kind <> 'commit' AND (text LIKE '%amend%' OR text LIKE '%supersed%'
        OR text LIKE '%overrul%' OR text LIKE '%from now on%')
"""
_CHATS = f"""
    SELECT id, kind, place, updated_at, {_SESSION}, text FROM memory_row
    WHERE layer = 'session' AND kind = 'exchange' AND {LIVE_CONDITION} AND version = 0
      AND {_SESSION} {IN_JSON_LIST}
"""
_SPOKEN_VECTORS = f"""
    SELECT terms FROM memory_row
    WHERE layer {{layers}} AND {LIVE_CONDITION} AND version = 0
    ORDER BY updated_at DESC, id LIMIT ?
"""
_CHAT_LAYERS, _OTHER_LAYERS = "= 'session'", "IN ('project', 'governance', 'user')"
_NOT_INDEXED = "SELECT id FROM memory WHERE source <> 'index'"
_EDGES_OF_STATED = f"""
    SELECT source, target, relation, weight FROM edge
    WHERE source IN ({_NOT_INDEXED}) OR target IN ({_NOT_INDEXED}) ORDER BY 1, 3, 2
"""
_LINKS_OF_CODE = f"""
    SELECT relation, count(*) FROM edge
    WHERE NOT (source GLOB 'm_*' AND source IN ({_NOT_INDEXED})) GROUP BY relation ORDER BY relation
"""
_ENTITY_SPANS = """
    SELECT entity, start_line, end_line FROM memory
    WHERE path = ? AND source = 'index' AND start_line > 0 ORDER BY start_line, end_line
"""
_FILES = """
    SELECT file.path, file_hash, file.language, count(memory.id) FROM file
    LEFT JOIN memory ON memory.path = file.path AND memory.source = 'index'
    WHERE excluded = '' GROUP BY file.path ORDER BY file.path
"""


class MemoryState(NamedTuple):
    """What tells whether a memory is to be written again."""

    text_hash: str
    status: str
    source: str
    updated_at: float


class IndexedFile(NamedTuple):
    """A file that the index has read."""

    path: str
    file_hash: str
    language: str
    memories: int
    """Number of memories that it has."""


class EntitySpan(NamedTuple):
    """The lines of an entity in its file, from 1."""

    entity: str
    start_line: int
    end_line: int


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


def unindexed_threads(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the session of every memory that the index did not make, by id; "": it has none."""
    rows = connection.execute("SELECT id, thread FROM memory WHERE source <> 'index'")
    return dict(rows.fetchall())


def stated_threads(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the session of every stated memory, by id; "": it has none."""
    rows = connection.execute(f"SELECT id, thread FROM memory WHERE {STATED_CONDITION}")
    return dict(rows.fetchall())


def entity_spans(connection: sqlite3.Connection, path: str) -> list[EntitySpan]:
    """Return the entities of an indexed file, by line."""
    rows = connection.execute(_ENTITY_SPANS, (path,))
    return [EntitySpan(*row) for row in rows.fetchall()]


def stored_ids(connection: sqlite3.Connection, ids: Iterable[str]) -> set[str]:
    """Return those of these ids that a memory has."""
    rows = connection.execute(
        f"SELECT id FROM memory WHERE id {IN_JSON_LIST}", (json.dumps(list(ids)),)
    )
    return {id_ for (id_,) in rows.fetchall()}


def latest_decisions(connection: sqlite3.Connection, limit: int) -> list[Memory]:
    """Return at most `limit` decisions that are candidates, those that changed last."""
    return select_memories(connection, _LATEST_DECISIONS, (limit,))


class SpokenWords:
    """What was said in a repository and by its user, as `pipeline.amendments` compares it."""

    def __init__(self, connections: Sequence[sqlite3.Connection]) -> None:
        self._connections = connections

    def read(self, ids: Sequence[str]) -> list[SpokenMemory]:
        """Return these memories, of which none comes from a file."""
        return self._rows(_SPOKEN, ids)

    def read_later_words(self, ids: Sequence[str]) -> list[SpokenMemory]:
        """Return those of these memories, commits excepted, whose text has a word that amends."""
        return self._rows(_LATER_WORDS, ids) if ids else []

    def read_chats(self, sessions: Sequence[str]) -> list[SpokenMemory]:
        """Return the exchanges of these chats."""
        return self._rows(_CHATS, sessions)

    def read_vectors(self, *, chats: bool) -> list[bytes]:
        """Return the term vectors of the latest chats, or of the latest of all else."""
        query = _SPOKEN_VECTORS.format(layers=_CHAT_LAYERS if chats else _OTHER_LAYERS)
        vectors: list[bytes] = []
        for connection in self._connections:
            rows = connection.execute(query, (MOST_WEIGHED,)).fetchall()
            vectors += [terms for (terms,) in rows]
        return vectors

    def _rows(self, query: str, values: Sequence[str]) -> list[SpokenMemory]:
        memories: list[SpokenMemory] = []
        among = (json.dumps(list(values)),)
        for connection in self._connections:
            rows = connection.execute(query, among).fetchall()
            with damage_if_invalid("a memory"):
                memories += [SpokenMemory(id_, Kind(kind), *rest) for id_, kind, *rest in rows]
        return memories


def latest_exchanges(connection: sqlite3.Connection, thread: str, limit: int) -> list[Memory]:
    """Return a working session's latest exchanges, newest first."""
    exchanges = select_memories(connection, _LATEST_EXCHANGES, (thread, limit))
    return sorted(exchanges, key=lambda exchange: -exchange.updated_at)


def open_memories_about(connection: sqlite3.Connection, paths: Iterable[str]) -> list[Memory]:
    """Return active failures and decisions that name or cite one of these files, or its code."""
    names = sorted(paths)
    if not names:
        return []
    in_paths = json.dumps(names)
    in_ids = json.dumps([file_id(name) for name in names])
    return select_memories(connection, _OPEN_ABOUT, (in_ids, in_paths, in_paths))


def edges_of_stated(connection: sqlite3.Connection) -> list[Edge]:
    """Return the edges from or to memories that the index did not make, sorted."""
    return edges_from_rows(connection.execute(_EDGES_OF_STATED).fetchall())


def count_links_of_code(connection: sqlite3.Connection) -> dict[Relation, int]:
    """Return how many edges of each relation begin at code or at a file."""
    return {Relation(name): count for name, count in connection.execute(_LINKS_OF_CODE)}


def indexed_files(connection: sqlite3.Connection) -> list[IndexedFile]:
    """Return the files that the index has read, by path."""
    return [IndexedFile(*row) for row in connection.execute(_FILES).fetchall()]


def has_keyed_memory(connection: sqlite3.Connection, kinds: Collection[str]) -> bool:
    """Whether a memory of one of these kinds, not of the index, has a key."""
    query = (
        f"SELECT 1 FROM memory WHERE source <> 'index' AND key <> '' AND kind {IN_JSON_LIST}"
    )
    return (
        connection.execute(f"{query} LIMIT 1", (json.dumps(sorted(kinds)),)).fetchone()
        is not None
    )


def latest_of_key(connection: sqlite3.Connection, memory: Memory) -> str:
    """Return the id of the live memory with its key that is as new or newer; "" if there is
    none."""
    return _first_id(connection, _LATEST_OF_KEY, memory)


def id_in_place_of(connection: sqlite3.Connection, memory: Memory) -> str:
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
