"""Memories by exact id, and those of chosen layers, kinds and states, for listings and exports.

An id is taken whole or not at all: a prefix that fits one memory today fits two tomorrow, and deleting goes by ids too.
It ranks nothing. Trade-off: a listing reads whole memories, since most of them are shown.

How much each layer holds beside the memories of the index, against its caps, and how much of it is ever used.

It counts; what is over a cap is archived by consolidation. Trade-off: bytes are those of titles, texts and particulars,
not of the file, whose pages, vectors and judgments are `xscore status`'s.

What each project says about a key, noted in the user's own store, so that what holds in several is the user's (L02).

A project is named by a hash of its store's id: the user's store does not tell where it is. A note goes when the memory
that said it goes (`memory.erasure`). Trade-off: notes hold the choice in words (one sentence,
redacted with the memory), because a hash could be compared but never be shown to the user it is about.
"""

import json
import sqlite3
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.hashing import digest
from xscore.records import Kind, Layer, LayerStats, Memory, MemoryScope, MemorySource, MemoryStatus, Observation
from xscore.settings import MemorySettings
from xscore.store import memory_rows

if TYPE_CHECKING:
    from xscore.store.store import Store

LIVE_STATUSES = (MemoryStatus.ACTIVE, MemoryStatus.STALE)
INDEXED_LAYERS = (Layer.VECTOR, Layer.GRAPH)
"""Layers that are made from files."""
STATED_LAYERS = "layer IN ('session', 'project', 'governance', 'user')"
"""Condition of the other layers, for which there is an index; there is none by source."""
_HEAD_CHARS = 80
_SHOWN = 10
"""Ids that a hint lists."""


class MemoryFilter(Struct, frozen=True, kw_only=True):
    """Which memories are meant; what is empty leaves nothing out."""

    layers: Collection[Layer] = ()
    """Empty: every layer, and of it what does not come from the index."""
    kinds: Collection[Kind] = ()
    scopes: Collection[MemoryScope] = ()
    statuses: Collection[MemoryStatus] = LIVE_STATUSES

    @property
    def is_users_whole(self) -> bool:
        """Whether all of the user's own layer is meant."""
        return Layer.USER in self.layers and not (self.kinds or self.scopes)

    @property
    def where(self) -> tuple[str, tuple[str, ...]]:
        """The condition in SQL, and its parameters."""
        chosen = {"layer": self.layers, "kind": self.kinds, "scope": self.scopes, "status": self.statuses}
        asked = {column: json.dumps(sorted(values)) for column, values in chosen.items() if values}
        parts = [f"{column} IN (SELECT value FROM json_each(?))" for column in asked]
        if not self.layers:
            parts.append("source <> 'index'")
        return " AND ".join(parts), tuple(asked.values())


def filter_memories(store: "Store", choice: MemoryFilter) -> list[Memory]:
    """Return the memories that are meant: by layer, then the newest first.

    Raises StoreError where the user's own store cannot be read: it would look empty.
    """
    where, values = choice.where
    found = [
        memory
        for connection in store.connections()
        for memory in memory_rows.select_memories(connection, where, values)
    ]
    order = list(Layer)
    return sorted(found, key=lambda memory: (order.index(memory.layer), -memory.updated_at, memory.id))


def wipeable_ids(store: "Store", choice: MemoryFilter) -> list[str]:
    """Return the ids of the memories that are meant, of both stores, sorted; none of those that come from files.

    Raises UsageError for a choice that leaves nothing out, or names a layer that the index makes anew; StoreError where
    the user's store cannot be read, since what is in it may be meant.
    """
    if not (choice.layers or choice.kinds or choice.scopes):
        raise UsageError("nothing says what to wipe", hint="Name a --layer, --scope or --kind; several narrow it down.")
    refused = next((layer for layer in INDEXED_LAYERS if layer in choice.layers), None)
    if refused:
        raise UsageError(
            f"the {refused} layer comes from files and would be back with the next index",
            hint="Exclude files with `index.exclude`, then run `xscore index`.",
        )
    return sorted(memory.id for memory in filter_memories(store, choice) if memory.source is not MemorySource.INDEX)


def newest_memories(found: Sequence[Memory], limit: int) -> list[Memory]:
    """Return so many of them, those changed last, in the order they stand in."""
    latest = sorted(found, key=lambda memory: (-memory.updated_at, memory.id))[:limit]
    ids = {memory.id for memory in latest}
    return [memory for memory in found if memory.id in ids]


def memory_by_id(store: "Store", identifier: str) -> Memory:
    """Return the memory with this very id. Raises NothingMatched, whose hint lists the ids that begin so."""
    (memory,) = memories_by_id(store, [identifier])
    return memory


def memories_by_id(store: "Store", ids: Iterable[str]) -> list[Memory]:
    """Return the memories with these very ids, in this order. Raises NothingMatched where one is missing."""
    wanted = list(dict.fromkeys(ids))
    found = {
        memory.id: memory
        for connection in store.connections()
        for memory in memory_rows.select_memories(
            connection, "id IN (SELECT value FROM json_each(?))", (json.dumps(wanted),)
        )
    }
    missing = [identifier for identifier in wanted if identifier not in found]
    if missing:
        raise NothingMatched(f"no memory has the id {', '.join(missing)}", hint=_ids_that_begin_so(store, missing[0]))
    return [found[identifier] for identifier in wanted]


def memories_starting_with(connection: sqlite3.Connection, layer: Layer, kind: Kind, words: str) -> list[Memory]:
    """Return what was said of this layer and kind in a text that begins with these words, whatever its state.

    The index `memory_by_words` serves, so that saying much stays cheap.
    """
    head = words[:_HEAD_CHARS].partition("\0")[0]  # at which SQL ends a text
    where = "source <> 'index' AND layer = ? AND kind = ? AND substr(text, 1, 80) BETWEEN ? AND ?"
    found = memory_rows.select_memories(connection, where, (layer, kind, head, head + chr(sys.maxunicode)))
    return [memory for memory in found if memory.text.startswith(words)]


def _ids_that_begin_so(store: "Store", prefix: str) -> str:
    """Say which ids were perhaps meant."""
    if len(prefix) < len("m_") + 1:
        return "`xscore memory list` shows the ids."
    query = "SELECT id FROM memory WHERE substr(id, 1, ?) = ? ORDER BY id LIMIT ?"
    asked = (len(prefix), prefix, _SHOWN + 1)
    begin = sorted(row[0] for connection in store.connections() for row in connection.execute(query, asked).fetchall())
    if not begin:
        return "`xscore memory list` shows the ids."
    more = ", …" if len(begin) > _SHOWN else ""
    return f"Ids are given whole. These begin so: {', '.join(begin[:_SHOWN])}{more}"


_COUNTED = """
    SELECT status, count(*),
           sum(length(CAST(title AS BLOB)) + length(CAST(text AS BLOB)) + length(CAST(attrs AS BLOB))),
           min(created_at), max(updated_at), sum(access_count), sum(access_count = 0)
    FROM memory WHERE layer = ? AND source <> 'index' GROUP BY status ORDER BY status
"""


def layer_stats(store: "Store") -> list[LayerStats]:
    """Count the layers that people, programs and sessions fill; the user's where its store may be read."""
    own = store.user_connection()
    places: list[tuple[Layer, sqlite3.Connection | None]] = [
        (Layer.SESSION, store.connection),
        (Layer.PROJECT, store.connection),
        (Layer.USER, own),
        (Layer.GOVERNANCE, store.connection),
    ]
    return [_counted(layer, connection, store.settings) for layer, connection in places]


def _counted(layer: Layer, connection: sqlite3.Connection | None, settings: MemorySettings) -> LayerStats:
    found = [] if connection is None else connection.execute(_COUNTED, (layer,)).fetchall()
    return LayerStats(
        layer=layer,
        rows=sum(row[1] for row in found),
        bytes=sum(row[2] for row in found),
        max_rows=settings.max_rows.get(layer.value, 0),
        max_bytes=settings.max_bytes.get(layer.value, 0),
        by_status={row[0]: row[1] for row in found},
        oldest_at=min((row[3] for row in found), default=0.0),
        newest_at=max((row[4] for row in found), default=0.0),
        uses=sum(row[5] for row in found),
        never_used=sum(row[6] for row in found),
    )


def project_pseudonym(store_id: str) -> str:
    """Name a project in the user's store; the store's id cannot be told from it."""
    return digest("project", store_id)


def list_observations(user: sqlite3.Connection) -> list[Observation]:
    """Return all observations, by key and project."""
    found = user.execute("SELECT project, key, kind, value, seen_at FROM observation ORDER BY key, project")
    return [Observation(*row) for row in found.fetchall()]


def list_projects(user: sqlite3.Connection) -> dict[str, float]:
    """Return every project that took part -> when it was last seen (unix seconds)."""
    return dict(user.execute("SELECT id, seen_at FROM project ORDER BY id").fetchall())


def count_observations(user: sqlite3.Connection | None) -> int:
    """Count the observations, or where there are none the projects, that the user's store holds; 0 without a store."""
    if user is None:
        return 0
    return len(list_observations(user)) or len(list_projects(user))


def record_project(user: sqlite3.Connection, project: str, *, now: float) -> None:
    """Note that a project takes part, in a transaction that is open."""
    user.execute(
        "INSERT INTO project (id, seen_at) VALUES (?, ?)"
        " ON CONFLICT (id) DO UPDATE SET seen_at = max(seen_at, excluded.seen_at)",
        (project, now),
    )


def record_observations(user: sqlite3.Connection, noted: Sequence[Observation]) -> None:
    """Note what a known project says, in a transaction that is open."""
    user.executemany(
        "INSERT INTO observation (project, key, kind, value, seen_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (key, project) DO UPDATE SET kind = excluded.kind, value = excluded.value,"
        " seen_at = excluded.seen_at",
        [(each.project, each.key, each.kind, each.value, each.seen_at) for each in noted],
    )


def delete_projects(user: sqlite3.Connection) -> int:
    """Remove every project with all that it said, in a transaction that is open; return how many `noted_in` counted."""
    gone = count_observations(user)
    user.execute("DELETE FROM observation")
    user.execute("DELETE FROM project")
    return gone


def delete_observations(user: sqlite3.Connection, project: str, keys: Iterable[str]) -> int:
    """Remove what a project, by its name here, said about these keys."""
    gone = user.executemany(
        "DELETE FROM observation WHERE project = ? AND key = ?", [(project, key) for key in sorted(set(keys)) if key]
    )
    return max(gone.rowcount, 0)
