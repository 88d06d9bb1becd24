"""Find memories by exact id or by layer, kind and status; layer statistics; observations of
projects about keys.

Ids are never abbreviated, because they are used for deletion. Observations are in the user's own
store, to learn what holds in several projects; a project is named by a hash of its store id, and an
observation is deleted with its memory. `memory list --match` ranks by seven rules and no model: 1.0
for an exact text match in title or text; +0.3 for each matching reference; +0.2 for the scope; +0.1
for the kind; × (0.5 + 0.5 · importance); +0.1 if used within 24 h; +0.05 for each use, at most ten;
never more than 2. Trade-offs: a match is the same characters in the same case, so that anybody can
tell what will match; a listing reads whole memories, since most are shown; an observation stores
the value as (redacted) text, because a hash could not be shown to the user.
"""

import json
import sqlite3
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import astuple

from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.hashing import digest
from xscore.records.memory import Kind, Layer, Memory, MemoryScope, MemorySource, MemoryStatus
from xscore.records.statement import LayerStats, Observation
from xscore.store.memory_rows import IN_JSON_LIST, memories_with_ids, select_memories
from xscore.store.naming import find_named

if TYPE_CHECKING:
    from xscore.store.store import Store

LIVE_STATUSES = (MemoryStatus.ACTIVE, MemoryStatus.STALE)
STATED_LAYERS = f"layer IN {tuple(str(layer) for layer in Layer if not layer.is_indexed)}"
"""SQL condition for stated memories: there is an index by layer, none by source."""
_HEAD_CHARS = 80
_SHOWN = 10
"""How many ids a hint lists."""


class MemoryFilter(Struct, frozen=True, kw_only=True):
    """Selects memories; an empty field matches all."""

    layers: Collection[Layer] = ()
    """Layers of the memories; empty: every layer, without indexed memories."""
    kinds: Collection[Kind] = ()
    """Kinds of the memories; empty: every kind but commits."""
    scopes: Collection[MemoryScope] = ()
    statuses: Collection[MemoryStatus] = LIVE_STATUSES
    without_documents: bool = False
    """Whether fetched documents are left out unless they are asked for: they have many
    passages."""

    @property
    def is_users_whole(self) -> bool:
        """Whether the whole user layer matches."""
        return Layer.USER in self.layers and not (self.kinds or self.scopes)

    @property
    def where(self) -> tuple[str, tuple[str, ...]]:
        """The condition in SQL, and its parameters."""
        chosen = {
            "layer": self.layers,
            "kind": self.kinds,
            "scope": self.scopes,
            "status": self.statuses,
        }
        conditions: list[str] = []
        parameters: list[str] = []
        for column, values in chosen.items():
            if values:
                conditions.append(f"{column} {IN_JSON_LIST}")
                parameters.append(json.dumps(sorted(values)))
        # Commits are many, and of the index: they are listed where they are asked for.
        if not self.layers and Kind.COMMIT not in self.kinds:
            conditions.append("source <> 'index'")
        elif not self.kinds:
            conditions.append(f"kind <> '{Kind.COMMIT}'")
        if self.without_documents and not (self.layers or self.kinds):
            conditions.append(f"kind <> '{Kind.DOCUMENT}'")
        return " AND ".join(conditions), tuple(parameters)


def find_memories(store: "Store", name: str) -> list[Memory]:
    """Return the memories that a name means, which may be several, of the user and of the
    joined repositories, too."""
    ids = find_named(store.connection, name) or [name]
    memories: list[Memory] = []
    for connection in store.connections():
        memories += memories_with_ids(connection, ids)
    for repository in store.others:
        memories += repository.find(name)
    return memories


def filter_memories(store: "Store", choice: MemoryFilter) -> list[Memory]:
    """Return the matching memories: by layer, then the newest first.

    Raises StoreError if the user's own store cannot be read: it would look empty.
    """
    where, values = choice.where
    memories: list[Memory] = []
    for connection in store.connections():
        memories += select_memories(connection, where, values)
    order = list(Layer)
    memories.sort(key=lambda memory: (order.index(memory.layer), -memory.updated_at, memory.id))
    return memories


def wipeable_ids(store: "Store", choice: MemoryFilter) -> list[str]:
    """Return the sorted ids of the matching memories of both stores, without indexed ones.

    Raises UsageError for a filter that matches everything or names a layer of the index; StoreError
    if the user's store cannot be read, since it may hold matches.
    """
    if not (choice.layers or choice.kinds or choice.scopes):
        raise UsageError(
            "no memory was named",
            hint="Name a --layer, --scope or --kind; several narrow it down.",
        )
    for layer in (Layer.VECTOR, Layer.GRAPH):
        if layer in choice.layers:
            raise UsageError(
                f"the {layer} layer comes from files and would be back with the next index",
                hint="Exclude files with `index.exclude`, then run `xscore index`.",
            )
    ids: list[str] = []
    for memory in filter_memories(store, choice):
        if memory.source is not MemorySource.INDEX or memory.is_commit:
            ids.append(memory.id)
    return sorted(ids)


def newest_memories(memories: Sequence[Memory], limit: int) -> list[Memory]:
    """Return the `limit` memories changed last, in their given order."""
    newest_first = sorted(memories, key=lambda memory: (-memory.updated_at, memory.id))
    ids = {memory.id for memory in newest_first[:limit]}
    return [memory for memory in memories if memory.id in ids]


def memory_by_id(store: "Store", identifier: str) -> Memory:
    """Return the memory with exactly this id.

    Raises NothingMatched, with ids of that prefix in its hint.
    """
    return memories_by_id(store, [identifier])[0]


def memories_by_id(store: "Store", ids: Iterable[str]) -> list[Memory]:
    """Return the memories with exactly these ids, in this order.

    Raises NothingMatched if one is missing.
    """
    identifiers = list(dict.fromkeys(ids))
    memories: dict[str, Memory] = {}
    for connection in store.connections():
        for memory in memories_with_ids(connection, identifiers):
            memories[memory.id] = memory
    missing = [identifier for identifier in identifiers if identifier not in memories]
    if missing:
        raise NothingMatched(
            f"no memory has the id {', '.join(missing)}", hint=_ids_hint(store, missing[0])
        )
    return [memories[identifier] for identifier in identifiers]


def memories_starting_with(
    connection: sqlite3.Connection, layer: Layer, kind: Kind, words: str
) -> list[Memory]:
    """Return the stated memories of this layer and kind whose text starts with these words, in any
    status.

    It uses the index `memory_by_words`, so that many statements stay cheap.
    """
    head = words[:_HEAD_CHARS].partition("\0")[0]  # SQLite ends text there
    where = (
        "source <> 'index' AND layer = ? AND kind = ? AND substr(text, 1, 80) BETWEEN ? AND ?"
    )
    memories = select_memories(
        connection, where, (layer, kind, head, head + chr(sys.maxunicode))
    )
    return [memory for memory in memories if memory.text.startswith(words)]


def _ids_hint(store: "Store", prefix: str) -> str:
    """Suggest ids with this prefix."""
    query = "SELECT id FROM memory WHERE substr(id, 1, ?) = ? ORDER BY id LIMIT ?"
    ids: list[str] = []
    for connection in store.connections():
        rows = connection.execute(query, (len(prefix), prefix, _SHOWN + 1)).fetchall()
        ids += [id_ for (id_,) in rows]
    if len(prefix) <= len("m_") or not ids:
        return "`xscore memory list` shows the ids."
    omission = ", …" if len(ids) > _SHOWN else ""
    shown = ", ".join(sorted(ids)[:_SHOWN])
    return f"IDs must be complete. These begin with it: {shown}{omission}"


_COUNTED = """
    SELECT status, count(*),
           sum(length(CAST(title AS BLOB)) + length(CAST(text AS BLOB)) +
             length(CAST(attrs AS BLOB))),
           min(created_at), max(updated_at), sum(access_count), sum(access_count = 0)
    FROM memory WHERE layer = ? AND source <> 'index' GROUP BY status ORDER BY status
"""


def layer_stats(store: "Store") -> list[LayerStats]:
    """Return statistics of the layers of stated memories; the user layer is empty if its store is
    closed."""
    stats = []
    for layer in (Layer.SESSION, Layer.PROJECT, Layer.USER, Layer.GOVERNANCE):
        connection = store.user_connection() if layer is Layer.USER else store.connection
        if connection is None:
            rows = []
        else:
            rows = connection.execute(_COUNTED, (layer,)).fetchall()
        stats.append(_sum_of_statuses(store, layer, rows))
    return stats


def _sum_of_statuses(
    store: "Store", layer: Layer, rows: Sequence[tuple[str, int, int, float, float, int, int]]
) -> LayerStats:
    """Add up the rows of `_COUNTED`, one for each status of the layer's memories."""
    by_status: dict[str, int] = {}
    size = uses = never_used = 0
    created_at: list[float] = []
    updated_at: list[float] = []
    for status, count, bytes_, oldest_at, newest_at, status_uses, status_never_used in rows:
        by_status[status] = count
        size += bytes_
        created_at.append(oldest_at)
        updated_at.append(newest_at)
        uses += status_uses
        never_used += status_never_used
    return LayerStats(
        layer=layer,
        rows=sum(by_status.values()),
        bytes=size,
        max_rows=store.settings.max_rows.get(layer, 0),
        max_bytes=store.settings.max_bytes.get(layer, 0),
        by_status=by_status,
        oldest_at=min(created_at, default=0.0),
        newest_at=max(updated_at, default=0.0),
        uses=uses,
        never_used=never_used,
    )


def project_pseudonym(store_id: str) -> str:
    """Return the name of a project in the user's store, which does not reveal the store id."""
    return digest("project", store_id)


def list_observations(user: sqlite3.Connection) -> list[Observation]:
    """Return all observations, by key and project."""
    rows = user.execute(
        "SELECT project, key, kind, value, seen_at FROM observation ORDER BY key, project"
    )
    return [Observation(*row) for row in rows.fetchall()]


def list_projects(user: sqlite3.Connection) -> dict[str, float]:
    """Return every project that took part -> when it was last seen (unix seconds)."""
    return dict(user.execute("SELECT id, seen_at FROM project ORDER BY id").fetchall())


def count_observations(user: sqlite3.Connection | None) -> int:
    """Count the observations, or the projects, in the user's store; 0 without a store."""
    if user is None:
        return 0
    return len(list_observations(user)) or len(list_projects(user))


def record_project(user: sqlite3.Connection, project: str, *, now: float) -> None:
    """Record that a project takes part, in an open transaction."""
    user.execute(
        "INSERT INTO project (id, seen_at) VALUES (?, ?)"
        " ON CONFLICT (id) DO UPDATE SET seen_at = max(seen_at, excluded.seen_at)",
        (project, now),
    )


def record_observations(user: sqlite3.Connection, noted: Sequence[Observation]) -> None:
    """Store observations of a known project, in an open transaction."""
    user.executemany(
        "INSERT OR REPLACE INTO observation (project, key, kind, value, seen_at) VALUES (?, ?, ?,"
        " ?, ?)",
        map(astuple, noted),
    )


def delete_projects(user: sqlite3.Connection) -> int:
    """Delete all projects and observations, in an open transaction; return the old
    `count_observations`."""
    gone = count_observations(user)
    user.execute("DELETE FROM observation")
    user.execute("DELETE FROM project")
    return gone


def delete_observations(user: sqlite3.Connection, project: str, keys: Iterable[str]) -> int:
    """Delete the observations of a project (by its pseudonym) about these keys; return how many."""
    gone = user.executemany(
        "DELETE FROM observation WHERE project = ? AND key = ?",
        [(project, key) for key in sorted(set(keys)) if key],
    )
    return max(gone.rowcount, 0)


TEXT, REFERENCE, SCOPE, KIND = 1.0, 0.3, 0.2, 0.1
RECENT, EACH_USE, MOST_USES = 0.1, 0.05, 10
RECENT_S = 24 * 3_600.0
CAP = 2.0


class RegistryQuery(Struct, frozen=True, kw_only=True):
    """What is looked for; an empty field adds nothing."""

    text: str = ""
    references: Collection[str] = ()
    """Paths, URLs or memory ids."""
    scopes: Collection[MemoryScope] = ()
    kinds: Collection[Kind] = ()


def match_score(memory: Memory, query: RegistryQuery) -> float:
    """Return what the first four rules give: 0 where nothing of the query matches."""
    details = memory.details
    references = {memory.path, details.exception_of, *details.links, *details.paths} - {""}
    score = 0.0
    if query.text and (query.text in memory.title or query.text in memory.text):
        score += TEXT
    score += REFERENCE * len(references.intersection(query.references))
    if memory.scope in query.scopes:
        score += SCOPE
    if memory.kind in query.kinds:
        score += KIND
    return score


def registry_score(memory: Memory, query: RegistryQuery, *, now: float) -> float:
    """Return the score, 0..2. now: Unix seconds."""
    score = match_score(memory, query) * (0.5 + 0.5 * memory.importance)
    if memory.accessed_at > 0 and now - memory.accessed_at <= RECENT_S:
        score += RECENT
    return min(CAP, score + EACH_USE * min(memory.access_count, MOST_USES))


def select_by_rules(
    memories: Iterable[Memory], query: RegistryQuery, *, now: float
) -> list[tuple[float, Memory]]:
    """Return the memories of which anything matches, with their scores, best first; ties by id."""
    scored: list[tuple[float, Memory]] = []
    for memory in memories:
        if match_score(memory, query) > 0:
            scored.append((registry_score(memory, query, now=now), memory))
    return sorted(scored, key=lambda pair: (-pair[0], pair[1].id))
