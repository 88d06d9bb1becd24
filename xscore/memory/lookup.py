"""Memories by exact id, and those of chosen layers, kinds and states, for listings and exports.

An id is taken whole or not at all: a prefix that fits one memory today fits two tomorrow, and deleting goes by ids too.
It ranks nothing. Trade-off: a listing reads whole memories, since most of them are shown.
"""

import json
import sqlite3
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from xscore.errors import NothingMatched, UsageError
from xscore.memory import rows
from xscore.memory.databases import Databases
from xscore.records import Kind, Layer, Memory, MemoryScope, Source, Status

LIVE = (Status.ACTIVE, Status.STALE)
INDEXED = (Layer.VECTOR, Layer.GRAPH)
"""Layers that are made from files."""
OF_SAYINGS = "layer IN ('session', 'project', 'governance', 'user')"
"""Condition of the other layers, for which there is an index; there is none by source."""
_HEAD_CHARS = 80
_SHOWN = 10
"""Ids that a hint lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which memories are meant; what is empty leaves nothing out."""

    layers: Collection[Layer] = ()
    """Empty: every layer, and of it what does not come from the index."""
    kinds: Collection[Kind] = ()
    scopes: Collection[MemoryScope] = ()
    statuses: Collection[Status] = LIVE

    @property
    def is_users_whole(self) -> bool:
        """Whether all of the user's own layer is meant."""
        return Layer.USER in self.layers and not (self.kinds or self.scopes)

    @property
    def where(self) -> tuple[str, tuple[str, ...]]:
        """The condition in SQL, and its parameters."""
        chosen = {"layer": self.layers, "kind": self.kinds, "scope": self.scopes, "status": self.statuses}
        asked = {column: json.dumps(sorted(values)) for column, values in chosen.items() if values}
        parts = [f"{column} IN (SELECT value FROM json_each(?))" for column in asked]  # noqa: S608  column names are ours
        if not self.layers:
            parts.append("source <> 'index'")
        return " AND ".join(parts), tuple(asked.values())


def chosen(store: Databases, choice: Choice) -> list[Memory]:
    """Return the memories that are meant: by layer, then the newest first.

    Raises StoreError where the user's own store cannot be read: it would look empty.
    """
    where, values = choice.where
    found = [memory for connection in store.connections() for memory in rows.memories(connection, where, values)]
    order = list(Layer)
    return sorted(found, key=lambda memory: (order.index(memory.layer), -memory.updated_at, memory.id))


def to_wipe(store: Databases, choice: Choice) -> list[str]:
    """Return the ids of the memories that are meant, of both stores, sorted; none of those that come from files.

    Raises UsageError for a choice that leaves nothing out, or names a layer that the index makes anew; StoreError where
    the user's store cannot be read, since what is in it may be meant.
    """
    if not (choice.layers or choice.kinds or choice.scopes):
        raise UsageError("nothing says what to wipe", hint="Name a --layer, --scope or --kind; several narrow it down.")
    refused = next((layer for layer in INDEXED if layer in choice.layers), None)
    if refused:
        raise UsageError(
            f"the {refused} layer comes from files and would be back with the next index",
            hint="Exclude files with `index.exclude`, then run `xscore index`.",
        )
    return sorted(memory.id for memory in chosen(store, choice) if memory.source is not Source.INDEX)


def newest(found: Sequence[Memory], limit: int) -> list[Memory]:
    """Return so many of them, those changed last, in the order they stand in."""
    latest = sorted(found, key=lambda memory: (-memory.updated_at, memory.id))[:limit]
    ids = {memory.id for memory in latest}
    return [memory for memory in found if memory.id in ids]


def exactly(store: Databases, identifier: str) -> Memory:
    """Return the memory with this very id. Raises NothingMatched, whose hint lists the ids that begin so."""
    (memory,) = all_of(store, [identifier])
    return memory


def all_of(store: Databases, ids: Iterable[str]) -> list[Memory]:
    """Return the memories with these very ids, in this order. Raises NothingMatched where one is missing."""
    wanted = list(dict.fromkeys(ids))
    found = {
        memory.id: memory
        for connection in store.connections()
        for memory in rows.memories(connection, "id IN (SELECT value FROM json_each(?))", (json.dumps(wanted),))
    }
    missing = [identifier for identifier in wanted if identifier not in found]
    if missing:
        raise NothingMatched(f"no memory has the id {', '.join(missing)}", hint=_ids_that_begin_so(store, missing[0]))
    return [found[identifier] for identifier in wanted]


def saying(connection: sqlite3.Connection, layer: Layer, kind: Kind, words: str) -> list[Memory]:
    """Return what was said of this layer and kind in a text that begins with these words, whatever its state.

    The index `memory_by_words` serves, so that saying much stays cheap.
    """
    head = words[:_HEAD_CHARS].partition("\0")[0]  # at which SQL ends a text
    where = "source <> 'index' AND layer = ? AND kind = ? AND substr(text, 1, 80) BETWEEN ? AND ?"
    found = rows.memories(connection, where, (layer, kind, head, head + chr(sys.maxunicode)))
    return [memory for memory in found if memory.text.startswith(words)]


def _ids_that_begin_so(store: Databases, prefix: str) -> str:
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
