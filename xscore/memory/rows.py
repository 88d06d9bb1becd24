"""Rows of the store as records: whole memories, and the light candidates of a turn.

Ten thousand candidates are built in each turn, so enum members come from plain dicts and no text is read for them.
Trade-off: rows are ours and not validated again, but an unknown word in one is damage and said so.
"""

import json
import sqlite3
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from xscore.database import making_sense, way_back
from xscore.errors import StoreDamaged
from xscore.records import (
    Candidate,
    CodeFacts,
    Edge,
    Kind,
    Layer,
    Memory,
    MemoryScope,
    Particulars,
    Relation,
    Source,
    Status,
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
AMONG = "IN (SELECT value FROM json_each(?))"
"""Condition on a column; the parameter is a list as JSON."""
LIVE = "status IN ('active', 'stale')"
"""Condition of what may be shown: all but the superseded and the archived."""

Row = tuple[Any, ...]

_PATH, _LINE = itemgetter(4), itemgetter(6)
_LAYERS = {layer.value: layer for layer in Layer}
_KINDS = {kind.value: kind for kind in Kind}


def candidates(rows: list[Row]) -> tuple[Candidate, ...]:
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


def memory(row: Row) -> Memory:
    """Turn a row of `MEMORY_COLUMNS` into the whole memory. Raises StoreDamaged for values that cannot be one."""
    values: dict[str, Any] = dict(zip(_MEMORY_FIELDS, row, strict=True))
    try:
        values["layer"] = _LAYERS[str(values["layer"])]
        values["kind"] = _KINDS[str(values["kind"])]
        values["scope"] = MemoryScope(values["scope"])
        values["status"] = Status(values["status"])
        values["source"] = Source(values["source"])
        values["facts"], values["particulars"] = facts_from_json(str(values.pop("attrs")))
        return Memory(**values)
    except (KeyError, ValueError, TypeError) as error:
        raise _unknown_word(error) from error


def edge(row: Row) -> Edge:
    """Turn a row of source, target, relation and weight into an edge. Raises StoreDamaged."""
    source, target, relation, weight = row
    with making_sense("an edge"):
        return Edge(source, target, Relation(relation), weight)


def facts_from_json(attrs: str) -> tuple[CodeFacts, Particulars]:
    """Read what `door.facts_to_json` wrote; keys that other writers put beside are left alone."""
    if attrs == "{}":
        return CodeFacts(), Particulars()
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(attrs).items()
    }
    facts = {name: value for name, value in values.items() if name in CodeFacts.__slots__}
    said = {name: value for name, value in values.items() if name in Particulars.__slots__}
    return CodeFacts(**facts), Particulars(**said)


def memories(connection: sqlite3.Connection, where: str, parameters: Iterable[object]) -> list[Memory]:
    """Read whole memories by a condition of ours, in the order of path and line."""
    rows = connection.execute(
        f"SELECT {MEMORY_COLUMNS} FROM memory WHERE {where} ORDER BY path, start_line, id",  # noqa: S608  the condition is ours, its values are parameters
        tuple(parameters),
    )
    return [memory(row) for row in rows.fetchall()]


_MEMORY_FIELDS = [name.strip() for name in MEMORY_COLUMNS.split(",")]


def _twins(rows: list[Row]) -> tuple[dict[str, tuple[str, ...]], set[str]]:
    """Map the first of each set of equal contents to the ids of the others; those others are the second part."""
    if len({row[1] for row in rows}) == len(rows):
        return {}, set()
    ids: dict[str, list[str]] = {}
    for row in rows:
        ids.setdefault(row[1], []).append(row[0])
    found = {first: tuple(others) for first, *others in ids.values() if others}
    return found, {other for others in found.values() for other in others}


def _unknown_word(error: Exception) -> StoreDamaged:
    return StoreDamaged(f"the store is damaged: a memory in it makes no sense ({error})", hint=way_back(None))
