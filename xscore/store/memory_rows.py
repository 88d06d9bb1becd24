"""Rows of table `memory` as records: whole memories, and the light candidates that make the pool of a turn.

Each turn builds ten thousand candidates, so enum members come from plain dicts and no text is read. Layers are read one
after the other in one snapshot: threads are slower (`docs/internals/decisions/0016-routing.md`). Damage in the
project's store is an error; damage in the user's own store is reported, and the turn continues without it.
Trade-off: candidates are not validated, except for unknown layers and kinds.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable
from operator import attrgetter, itemgetter
from time import perf_counter
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from xscore.platform import tokens
from xscore.platform.database import damage_if_invalid, read_snapshot
from xscore.platform.errors import StoreError
from xscore.records.memory import Candidate, CodeFacts, Edge, Kind, Layer, Memory, MemoryDetails, Relation
from xscore.records.turn import LayerReport

MEMORY_COLUMNS = (
    *("id", "layer", "kind", "scope", "status", "path", "entity", "start_line", "end_line", "language"),
    *("content_hash", "text_hash", "updated_at", "importance", "confidence", "key", "evidence_count", "source"),
    *("superseded_by", "created_at", "accessed_at", "access_count", "title", "attrs", "card", "text"),
)
"""Columns of a whole memory, named after its fields; `attrs` holds facts and particulars."""
ROW_COLUMNS = (*MEMORY_COLUMNS, "tokens", "text_tokens", "thread")
"""Columns of a row as it is written."""
_SURVIVING = frozenset({"id", "created_at", "accessed_at", "access_count", "importance"})
"""Columns that an upsert leaves unchanged."""
_CANDIDATE_COLUMNS = """
    id, {hash}, layer, kind, path, entity, start_line, end_line, language, {tokens}, updated_at, importance, confidence
"""
TestView = Literal["cards", "full"]
"""How the judge is shown tests: as cards or in full."""
_SHOWN = {"cards": {"hash": "content_hash", "tokens": "tokens"}, "full": {"hash": "text_hash", "tokens": "text_tokens"}}
IN_JSON_LIST = "IN (SELECT value FROM json_each(?))"
"""SQL condition on a column; the parameter is a JSON list."""
LIVE_CONDITION = "status IN ('active', 'stale')"
"""SQL condition for candidates: neither superseded nor archived."""
REPOSITORY_LAYERS = (Layer.SESSION, Layer.PROJECT, Layer.GOVERNANCE, Layer.GRAPH, Layer.VECTOR)
"""Layers of a repository's store in reading order, small ones first."""
ALL_LAYERS = str(tuple(map(str, Layer)))
"""SQL condition on a layer, so that SQLite uses the index by layer and status."""

SqlRow = tuple[Any, ...]

_PATH, _LINE = itemgetter(4), itemgetter(6)
_LAYERS = {layer.value: layer for layer in Layer}
_KINDS = {kind.value: kind for kind in Kind}


class FetchedPool(NamedTuple):
    """The memories of all layers."""

    candidates: tuple[Candidate, ...]
    """One per content, ordered by path and line."""
    layers: tuple[LayerReport, ...]


def memory_from_row(row: SqlRow) -> Memory:
    """Turn a row of `MEMORY_COLUMNS` into a memory. Raises StoreDamaged for invalid values."""
    values: dict[str, Any] = dict(zip(MEMORY_COLUMNS, row, strict=True))
    with damage_if_invalid("a memory"):
        attrs = json.loads(values.pop("attrs"))  # keys of other writers are ignored
        return msgspec.convert(values | {"facts": attrs, "particulars": attrs}, Memory)


_CHANGED = ", ".join(f"{name} = excluded.{name}" for name in ROW_COLUMNS if name not in _SURVIVING)
_UPSERT = (
    f"INSERT INTO memory ({', '.join(ROW_COLUMNS)}) VALUES ({', '.join('?' * len(ROW_COLUMNS))})"
    f" ON CONFLICT (id) DO UPDATE SET {_CHANGED}"
)


def upsert_rows(connection: sqlite3.Connection, rows: Iterable[SqlRow]) -> None:
    """Upsert rows of `ROW_COLUMNS`; known memories keep use counts, creation time and importance."""
    connection.executemany(_UPSERT, rows)


_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_HEAD = attrgetter(*MEMORY_COLUMNS[: MEMORY_COLUMNS.index("attrs")])


def memory_row(memory: Memory, thread: str = "") -> SqlRow:
    """Return a memory as a row of `ROW_COLUMNS`."""
    text_tokens, card_tokens = (
        tokens.estimate(len(text), kind=memory.kind, language=memory.language) for text in (memory.text, memory.card)
    )
    attrs, shown_tokens = facts_to_json(memory.facts, memory.particulars), card_tokens if memory.card else text_tokens
    return (*_HEAD(memory), attrs, memory.card, memory.text, shown_tokens, text_tokens, thread)


def facts_to_json(facts: CodeFacts, particulars: MemoryDetails) -> str:
    """Return facts and particulars as JSON for the column `attrs`, without empty values."""
    values = asdict(facts) | asdict(particulars)
    return _ENCODE({name: value for name, value in values.items() if value})


def edge_from_row(row: SqlRow) -> Edge:
    """Turn a row of source, target, relation and weight into an edge. Raises StoreDamaged."""
    source, target, relation, weight = row
    with damage_if_invalid("an edge"):
        return Edge(source, target, Relation(relation), weight)


def select_memories(connection: sqlite3.Connection, where: str, parameters: Iterable[object]) -> list[Memory]:
    """Read whole memories by an SQL condition (never user input), ordered by path and line."""
    rows = connection.execute(
        f"SELECT {', '.join(MEMORY_COLUMNS)} FROM memory WHERE {where} ORDER BY path, start_line, id",
        tuple(parameters),
    )
    return [memory_from_row(row) for row in rows.fetchall()]


def stale_memory_ids(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the ids of all stale memories."""
    found = connection.execute(f"SELECT id FROM memory WHERE layer IN {ALL_LAYERS} AND status = 'stale'")
    return frozenset(row[0] for row in found.fetchall())


class WithoutExchanges(Struct, frozen=True):
    """Which exchanges are no candidates of a turn."""

    thread: str = ""
    """Those of this working session, which the answer prompt shows anyway."""
    keys: frozenset[str] = frozenset()
    """Those of these turn keys: an earlier answer to the same question is no evidence for it."""
    any: bool = False
    """All of them."""

    @property
    def condition(self) -> str:
        """The condition in SQL, with two parameters."""
        return f"{int(self.any)} OR thread = ? OR key {IN_JSON_LIST}"

    @property
    def parameters(self) -> tuple[str, str]:
        """Its parameters."""
        return self.thread or "\0", json.dumps(sorted(self.keys))


def fetch_pool(
    connection: sqlite3.Connection,
    user: Callable[[], sqlite3.Connection | None],
    *,
    tests: TestView = "cards",
    without: "WithoutExchanges",
    deadline_s: float | None = None,
) -> FetchedPool:
    """Read every active or stale memory, except some exchanges.

    user: opens the user's own store, or returns None. deadline_s: a slower layer is read whole and reported as late.
    Raises StoreDamaged if the table has fewer rows than the index used, so that a damaged page hides nothing.
    """
    rows: list[SqlRow] = []
    reports = []
    query = (
        f"SELECT {_CANDIDATE_COLUMNS.format(**_SHOWN[tests])} FROM memory INDEXED BY memory_by_layer"
        f" WHERE layer = ? AND {LIVE_CONDITION} AND NOT (kind = 'exchange' AND ({without.condition}))"
    )

    def read(source: sqlite3.Connection | None, layer: Layer) -> None:
        started = perf_counter()
        found = source.execute(query, (layer, *without.parameters)).fetchall() if source else []
        seconds = perf_counter() - started
        is_late = bool(found) and deadline_s is not None and seconds > deadline_s
        rows.extend(found)
        reports.append(LayerReport(layer, len(found), round(seconds * 1000, 3), is_late))

    with read_snapshot(connection):
        for layer in REPOSITORY_LAYERS:
            read(connection, layer)
    try:
        read(user(), Layer.USER)
    except StoreError as error:
        reports.append(LayerReport(Layer.USER, 0, 0.0, problem=error.message))
    return FetchedPool(candidates_from_rows(rows), tuple(reports))


def candidates_from_rows(rows: list[SqlRow]) -> tuple[Candidate, ...]:
    """Turn candidate rows into candidates by path and line, one per content, with its duplicates listed."""
    rows.sort(key=_LINE)  # two stable sorts, which compare no tuples: half the time
    rows.sort(key=_PATH)
    layers, kinds, new = _LAYERS, _KINDS, tuple.__new__
    found, skipped = _duplicates(rows)
    duplicates = found.get
    if skipped:
        rows = [row for row in rows if row[0] not in skipped]
    with damage_if_invalid("a memory"):
        return tuple(
            [  # unpacked by hand, made with `tuple.__new__`: a quarter of the time of `Candidate(*row)`
                new(
                    Candidate,
                    (i, h, layers[layer], kinds[kind], p, e, start, end, lang, t, at, imp, conf, duplicates(i, ())),
                )
                for i, h, layer, kind, p, e, start, end, lang, t, at, imp, conf in rows
            ]
        )


def _duplicates(rows: list[SqlRow]) -> tuple[dict[str, tuple[str, ...]], set[str]]:
    """Return the duplicates of the first memory of each content, by its id, and the set of all duplicates."""
    if len({row[1] for row in rows}) == len(rows):
        return {}, set()
    ids: dict[str, list[str]] = {}
    for row in rows:
        ids.setdefault(row[1], []).append(row[0])
    found = {first: tuple(others) for first, *others in ids.values() if others}
    return found, {other for others in found.values() for other in others}
