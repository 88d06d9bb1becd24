"""Rows of the table of memories as records: whole memories, and what is read of many.

How the many of a turn become candidates is `fetched_pool`'s business. Trade-off: conditions are SQL
texts of ours, so that each reader can say in one query what it needs.
"""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from typing import Any, NamedTuple

import msgspec

from xscore.platform.database import damage_if_invalid
from xscore.records.memory import Edge, Layer, Memory, Relation, View
from xscore.store.file_bodies import read_with_bodies
from xscore.store.memory_views import decode_views
from xscore.store.worktrees import HERE

MEMORY_COLUMNS = (
    *(
        "id",
        "layer",
        "kind",
        "scope",
        "status",
        "origin",
        "place",
        "path",
        "entity",
        "start_line",
        "end_line",
        "language",
    ),
    *(
        "updated_at",
        "importance",
        "confidence",
        "key",
        "evidence_count",
        "source",
    ),
    *(
        "superseded_by",
        "created_at",
        "accessed_at",
        "access_count",
        "title",
        "attrs",
        "card",
        "text",
    ),
)
"""Columns of a whole memory without its views, named after its fields; `attrs` holds facts and
details."""
HEAD_COLUMNS = MEMORY_COLUMNS[: MEMORY_COLUMNS.index("attrs")]
"""The columns before attrs, card and text, which may be in the body of a file
(`file_bodies`)."""
UNSTATED_ORIGIN = """
    CASE WHEN path <> '' OR source = 'index' THEN 'file'
    WHEN kind IN ('exchange', 'summary') THEN 'exchange' ELSE 'stated' END
"""
"""SQL: the origin of a memory whose older schema states none (`memory_writer.origin_of`)."""
IN_JSON_LIST = "IN (SELECT value FROM json_each(?))"
"""SQL condition on a column: its value is in the JSON list of the parameter."""
STATED_CONDITION = "source <> 'index' AND kind NOT IN ('exchange', 'summary', 'document')"
"""SQL condition for memories that are neither indexed from a file nor past exchanges, nor
fetched."""
LIVE_CONDITION = "status IN ('active', 'stale')"
"""SQL condition for candidates: neither superseded nor archived."""
ALL_LAYERS = str(tuple(map(str, Layer)))
"""SQL list of all layers, so that SQLite uses the index by layer and status."""

SqlRow = tuple[Any, ...]

_RELATIONS = {relation.value: relation for relation in Relation}


def memory_from_row(row: SqlRow, views: tuple[View, ...] = ()) -> Memory:
    """Turn a row of `MEMORY_COLUMNS` into a memory. Raises StoreDamaged for invalid values."""
    values: dict[str, Any] = dict(zip(MEMORY_COLUMNS, row, strict=True))
    with damage_if_invalid("a memory"):
        attrs = json.loads(values.pop("attrs"))  # keys of other writers are ignored
        values |= {"facts": attrs, "particulars": attrs, "views": views}
        return msgspec.convert(values, Memory)


def edges_from_rows(rows: Iterable[SqlRow]) -> list[Edge]:
    """Turn rows of source, target, relation and weight into edges. Raises StoreDamaged."""
    with damage_if_invalid("an edge"):
        return [
            Edge(source, target, _RELATIONS[relation], weight)
            for source, target, relation, weight in rows
        ]


def select_memories(
    connection: sqlite3.Connection, where: str, parameters: Iterable[object]
) -> list[Memory]:
    """Read whole memories by an SQL condition (never user input), ordered by path and line."""
    columns = ", ".join(("views", *HEAD_COLUMNS))
    # Closed at the row that is damaged: its transaction must end before the connection does.
    with closing(read_with_bodies(connection, columns, where, tuple(parameters))) as rows:
        return [memory_from_row(row[1:], decode_views(row[0])) for row in rows]


class MemoryPlace(NamedTuple):
    """The file and the entity that a memory describes; "" where it has none."""

    path: str
    entity: str


def stated_texts(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, str]:
    """Return the text of each of these memories that the index did not make, by id."""
    rows = connection.execute(
        f"SELECT id, text FROM memory WHERE source <> 'index' AND id {IN_JSON_LIST}",
        (json.dumps(list(ids)),),
    )
    return dict(rows.fetchall())


def named_places(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, MemoryPlace]:
    """Return where each of these memories is, by id, ordered by path and line."""
    rows = connection.execute(
        f"SELECT id, path, entity FROM memory WHERE id {IN_JSON_LIST} ORDER BY path, start_line",
        (json.dumps(list(ids)),),
    )
    return {id_: MemoryPlace(path, entity) for id_, path, entity in rows.fetchall()}


def has_stated_memory(connection: sqlite3.Connection) -> bool:
    """Whether anything was stated."""
    query = f"SELECT 1 FROM memory WHERE {STATED_CONDITION} LIMIT 1"
    return connection.execute(query).fetchone() is not None


def memories_with_ids(connection: sqlite3.Connection, ids: Iterable[str]) -> list[Memory]:
    """Read the memories with these ids, ordered by path and line; unknown ids are missing."""
    return select_memories(connection, f"id {IN_JSON_LIST}", (json.dumps(list(ids)),))


def memory_with_id(connection: sqlite3.Connection, identifier: str) -> Memory | None:
    """Read one memory; None if it is not there."""
    return next(iter(select_memories(connection, "id = ?", (identifier,))), None)


def is_erased(connection: sqlite3.Connection, identifier: str) -> bool:
    """Whether a memory was erased and is not to come back."""
    query = "SELECT 1 FROM erased_memory WHERE memory_id = ?"
    return connection.execute(query, (identifier,)).fetchone() is not None


_STALE = f"""
    SELECT memory_id FROM stale_memory WHERE worktree = {HERE}
    UNION SELECT id FROM memory_row WHERE layer IN {ALL_LAYERS} AND status = 'stale'
"""
"""SQL of the memories that cite code which has changed here, and of those that are stale for
another reason."""


def stale_memory_ids(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the ids of all stale memories."""
    rows = connection.execute(_STALE)
    return frozenset(row[0] for row in rows.fetchall())
