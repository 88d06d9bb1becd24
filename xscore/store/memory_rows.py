"""Rows of the store as records: whole memories, and the light candidates of a turn.

Ten thousand candidates are built in each turn, so enum members come from plain dicts and no text is read for them.
Trade-off: rows are ours and not validated again, but an unknown word in one is damage and said so.

The pool of a turn: every active or stale memory of all six layers, each layer read under a deadline of its own.

The layers of one store are read one after the other in one snapshot, because threads of one interpreter take longer
for it than one after the other does (`docs/internals/decisions/0016-routing.md`). A layer that misses its deadline
lets the others go first, is finished afterwards, and is named. The project's store is what a turn cannot do without:
its damage is an error. The user's own store is not: what is wrong with it is reported, and the turn goes on without.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable
from operator import itemgetter
from time import perf_counter
from typing import Any, Literal, NamedTuple

from msgspec import Struct, field

from xscore.platform import database
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import StoreDamaged, StoreError
from xscore.platform.sqlite_drivers import recovery_hint
from xscore.records import (
    Candidate,
    CodeFacts,
    Edge,
    Kind,
    Layer,
    LayerReport,
    Memory,
    MemoryDetails,
    MemoryScope,
    MemorySource,
    MemoryStatus,
    Relation,
)

MEMORY_COLUMNS = (
    "id, layer, kind, scope, status, path, entity, start_line, end_line, language, content_hash, text_hash,"
    " updated_at, importance, confidence, key, evidence_count, source, superseded_by, created_at, accessed_at,"
    " access_count, title, attrs, card, text"
)
CANDIDATE_COLUMNS = {
    "cards": "id, content_hash, layer, kind, path, entity, start_line, end_line, language, tokens,"
    " updated_at, importance, confidence",
    "full": "id, text_hash, layer, kind, path, entity, start_line, end_line, language, text_tokens,"
    " updated_at, importance, confidence",
}
"""By what the judge is shown of tests."""
IN_JSON_LIST = "IN (SELECT value FROM json_each(?))"
"""Condition on a column; the parameter is a list as JSON."""
LIVE_CONDITION = "status IN ('active', 'stale')"
"""Condition of what may be shown: all but the superseded and the archived."""

SqlRow = tuple[Any, ...]

_PATH, _LINE = itemgetter(4), itemgetter(6)
_LAYERS = {layer.value: layer for layer in Layer}
_KINDS = {kind.value: kind for kind in Kind}


def candidates_from_rows(rows: list[SqlRow]) -> tuple[Candidate, ...]:
    """Turn rows of `CANDIDATE_COLUMNS` into candidates by path and line, one a content, its twins recorded on it."""
    rows.sort(key=_LINE)  # one after the other, which is stable and compares no tuples: half the time
    rows.sort(key=_PATH)
    layers, kinds, new = _LAYERS, _KINDS, tuple.__new__
    found, skipped = _twins(rows)
    twins = found.get
    if skipped:
        rows = [row for row in rows if row[0] not in skipped]
    try:
        return tuple(
            [  # unpacked by hand and made by the tuple's own constructor: a quarter of the time of `Candidate(*row)`
                new(
                    Candidate,
                    (i, h, layers[layer], kinds[kind], p, e, start, end, lang, t, at, imp, conf, twins(i, ())),
                )
                for i, h, layer, kind, p, e, start, end, lang, t, at, imp, conf in rows
            ]
        )
    except KeyError as error:
        raise _unknown_word(error) from error


def memory_from_row(row: SqlRow) -> Memory:
    """Turn a row of `MEMORY_COLUMNS` into the whole memory. Raises StoreDamaged for values that cannot be one."""
    values: dict[str, Any] = dict(zip(_MEMORY_FIELDS, row, strict=True))
    try:
        values["layer"] = _LAYERS[str(values["layer"])]
        values["kind"] = _KINDS[str(values["kind"])]
        values["scope"] = MemoryScope(values["scope"])
        values["status"] = MemoryStatus(values["status"])
        values["source"] = MemorySource(values["source"])
        values["facts"], values["particulars"] = facts_from_json(str(values.pop("attrs")))
        return Memory(**values)
    except (KeyError, ValueError, TypeError) as error:
        raise _unknown_word(error) from error


def edge_from_row(row: SqlRow) -> Edge:
    """Turn a row of source, target, relation and weight into an edge. Raises StoreDamaged."""
    source, target, relation, weight = row
    with damage_if_invalid("an edge"):
        return Edge(source, target, Relation(relation), weight)


def facts_from_json(attrs: str) -> tuple[CodeFacts, MemoryDetails]:
    """Read what `door.facts_to_json` wrote; keys that other writers put beside are left alone."""
    if attrs == "{}":
        return CodeFacts(), MemoryDetails()
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(attrs).items()
    }
    facts = {name: value for name, value in values.items() if name in CodeFacts.__struct_fields__}
    said = {name: value for name, value in values.items() if name in MemoryDetails.__struct_fields__}
    return CodeFacts(**facts), MemoryDetails(**said)


def select_memories(connection: sqlite3.Connection, where: str, parameters: Iterable[object]) -> list[Memory]:
    """Read whole memories by a condition of ours, in the order of path and line."""
    rows = connection.execute(
        f"SELECT {MEMORY_COLUMNS} FROM memory WHERE {where} ORDER BY path, start_line, id",
        tuple(parameters),
    )
    return [memory_from_row(row) for row in rows.fetchall()]


_MEMORY_FIELDS = [name.strip() for name in MEMORY_COLUMNS.split(",")]


def _twins(rows: list[SqlRow]) -> tuple[dict[str, tuple[str, ...]], set[str]]:
    """Map the first of each set of equal contents to the ids of the others; those others are the second part."""
    if len({row[1] for row in rows}) == len(rows):
        return {}, set()
    ids: dict[str, list[str]] = {}
    for row in rows:
        ids.setdefault(row[1], []).append(row[0])
    found = {first: tuple(others) for first, *others in ids.values() if others}
    return found, {other for others in found.values() for other in others}


def _unknown_word(error: Exception) -> StoreDamaged:
    return StoreDamaged(f"the store is damaged: a memory in it makes no sense ({error})", hint=recovery_hint(None))


TestView = Literal["cards", "full"]
ROWS_PER_FETCH = 2_000
"""Rows between two looks at the clock."""
REPOSITORY_LAYERS = (Layer.SESSION, Layer.PROJECT, Layer.GOVERNANCE, Layer.GRAPH, Layer.VECTOR)
"""Layers of a repository's store, in the order in which they are read: the small ones first."""


class FetchedPool(NamedTuple):
    """What all layers gave."""

    candidates: tuple[Candidate, ...]
    """Once for each content, in the order of path and line."""
    layers: tuple[LayerReport, ...]


def fetch_pool(
    connection: sqlite3.Connection,
    user: Callable[[], sqlite3.Connection | None],
    *,
    tests: TestView = "cards",
    thread: str = "",
    deadline_s: float | None = None,
) -> FetchedPool:
    """Read the pool. Left out: exchanges of this very thread, which the answering model sees anyway. Nothing else.

    user: opens the user's own store; None: it takes no part. deadline_s: for each layer; None: none.
    Raises StoreDamaged where the table holds fewer memories than its index, by which it is read: so a torn page of the
    table hides nothing.
    """
    reader = _LayerReader(CANDIDATE_COLUMNS[tests], thread, deadline_s)
    with database.read_snapshot(connection):
        of_store = [reader.begin(connection, layer) for layer in REPOSITORY_LAYERS]
        for begun in of_store:
            reader.finish(begun)
    everything = [*of_store, _read_user_layer(reader, user)]
    found = [row for begun in everything for row in begun.rows]
    return FetchedPool(candidates_from_rows(found), tuple(begun.report() for begun in everything))


class _LayerRead(Struct):
    """A layer that is being read."""

    layer: Layer
    cursor: sqlite3.Cursor | None = None
    rows: list[Any] = field(default_factory=list)
    seconds: float = 0.0
    is_late: bool = False
    problem: str = ""

    def report(self) -> LayerReport:
        return LayerReport(self.layer, len(self.rows), round(self.seconds * 1000, 3), self.is_late, self.problem)


class _LayerReader(Struct, frozen=True):
    columns: str
    thread: str
    deadline_s: float | None

    def begin(self, connection: sqlite3.Connection, layer: Layer) -> _LayerRead:
        """Read a layer until its end or its deadline."""
        begun = _LayerRead(layer)
        started = perf_counter()
        begun.cursor = connection.execute(
            f"SELECT {self.columns} FROM memory INDEXED BY memory_by_layer"
            " WHERE layer = ? AND status IN ('active', 'stale') AND NOT (kind = 'exchange' AND thread = ?)",
            (layer, self.thread or "\0"),
        )
        while found := begun.cursor.fetchmany(ROWS_PER_FETCH):
            begun.rows += found
            if self.deadline_s is not None and perf_counter() - started > self.deadline_s:
                begun.is_late = True
                break
        begun.seconds = perf_counter() - started
        return begun

    def finish(self, begun: _LayerRead) -> None:
        """Read what a late layer has left, without a limit."""
        if begun.is_late and begun.cursor is not None:
            started = perf_counter()
            begun.rows += begun.cursor.fetchall()
            begun.seconds += perf_counter() - started


def _read_user_layer(reader: _LayerReader, user: Callable[[], sqlite3.Connection | None]) -> _LayerRead:
    try:
        connection = user()
        if connection is None:
            return _LayerRead(Layer.USER)
        with database.read_snapshot(connection):
            begun = reader.begin(connection, Layer.USER)
            reader.finish(begun)
        return begun
    except StoreError as error:
        return _LayerRead(Layer.USER, problem=error.message)
