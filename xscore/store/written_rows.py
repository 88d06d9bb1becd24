"""Memories as rows to be written to table `memory_row`, and the short names by which indexed files
look each other up.

It opens no transaction and redacts nothing: `memory_writer` does. Trade-off: known memories keep
what their use has changed, so a row alone does not say what the table holds.
"""

import re
import sqlite3
from collections.abc import Iterable
from operator import attrgetter
from zlib import crc32

import msgspec
from msgspec.structs import asdict

from xscore.platform.patterns import compiled_late
from xscore.records.memory import (
    NOTHING_STATED,
    WITHIN,
    CodeFacts,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
)
from xscore.store.file_bodies import Body
from xscore.store.memory_rows import HEAD_COLUMNS, MEMORY_COLUMNS, SqlRow
from xscore.store.memory_views import view_rows, write_views
from xscore.store.term_vectors import memory_vector

ROW_COLUMNS = (*MEMORY_COLUMNS, "thread", "name_crc", "overrides", "terms")
"""Columns of a row in the order of writing."""
COUNT_MARK = "~"
"""Precedes the number of arguments of a call, at the end of a hint."""
NAMELESS = frozenset({"module.exports", "exports", "default"})
"""Name of what a module exports, which qualifies no name."""

_USE_COLUMNS = ("created_at", "accessed_at", "access_count", "importance")
USES = ", ".join(_USE_COLUMNS)
"""SQL: the columns that an upsert leaves unchanged, and that every version of a memory has in
common."""
_SURVIVING = frozenset({"id", *_USE_COLUMNS})
_CHANGED = ", ".join(
    f"{name} = excluded.{name}" for name in ROW_COLUMNS if name not in _SURVIVING
)
# One statement for all versions: to prepare one takes SQLite 0.2 ms, since the table has triggers.
_UPSERT = (
    f"INSERT INTO memory_row ({', '.join(ROW_COLUMNS)}, version)"
    f" VALUES ({', '.join('?' * len(ROW_COLUMNS))}, ?)"
    f" ON CONFLICT (id, version) DO UPDATE SET {_CHANGED}"
)
_FACT_COLUMNS = (
    *("status", "superseded_by", "confidence", "importance"),
    *("evidence_count", "key", "updated_at", "source"),
)
"""Columns of `set_facts`, under the names of the record."""


def upsert_rows(
    connection: sqlite3.Connection, rows: Iterable[SqlRow], *, version: int = 0
) -> None:
    """Upsert rows of `ROW_COLUMNS`; known memories keep use counts, creation time and importance.

    version: version of the file that they come from; 0 if they are stated.
    """
    connection.executemany(_UPSERT, ((*row, version) for row in rows))


_HEAD = attrgetter(*HEAD_COLUMNS)


def memory_row(memory: Memory, thread: str = "") -> SqlRow:
    """Return a memory as a row of `ROW_COLUMNS`."""
    attrs = facts_to_json(memory.facts, memory.details)
    body = (attrs, memory.card, memory.text)
    overrides = (
        memory.kind is Kind.METHOD
        and "override" in attrs.lower()
        and _OVERRIDES.match(attrs) is not None
    )
    named = 0
    if memory.layer is Layer.GRAPH:
        named = name_crc(last_name(memory.entity))
    return (
        *_HEAD(memory),
        *body,
        thread,
        named,
        overrides,
        memory_vector(memory),
    )


def without_body(row: SqlRow) -> tuple[SqlRow, Body]:
    """Split a row of `ROW_COLUMNS` into one whose attrs, card and text are in the body of its file,
    and those."""
    start = len(HEAD_COLUMNS)
    attrs, card, text = row[start : start + 3]
    return (*row[:start], "{}", "", None, *row[start + 3 :]), (attrs, card, text)


_OVERRIDES = compiled_late(r'\{"signature": ?".*override', re.IGNORECASE | re.DOTALL)
"""Facts of a method whose signature says that it overrides another."""


def last_name(entity: str) -> str:
    """Return the part of an entity's name that others use: `write` of `Store.write#2`."""
    return entity.partition("#")[0].rpartition(WITHIN)[2].rpartition(".")[2]


def split_count(hint: str) -> tuple[str, int]:
    """Return a hint without the number of arguments that a call gives, and that; -1: it states
    none."""
    rest, mark, count = hint.rpartition(COUNT_MARK)
    if mark and count.isdecimal():
        return (rest, int(count))
    return (hint, -1)


def module_names(hint: str) -> set[str]:
    """Return the names by which a file may be what a hint refers to: `x.js` and `x` of
    `import:./lib/x.js#y`."""
    kind, _, rest = split_count(hint)[0].partition(":")
    name = ""
    if kind in ("import", "mod", "value"):
        name = rest.partition("#")[0].rpartition("/")[2]
    return {name, name.partition(".")[0]} - {""}


def chain_names(chains: str) -> set[str]:
    """Return the names that chains lead through: of `at:mod:./lib/x!Store|get` these are `x`,
    `Store` and `get`."""
    return {
        *_WORD.findall(_MODULE.sub(lambda module: module[1].rpartition("/")[2], chains))
    } - _NO_NAMES


_MODULE = compiled_late(r"mod:([^!#|,<>\n]*+)")
_WORD = compiled_late(r"[A-Za-z_@$][\w$]*")
_NO_NAMES = frozenset({"at", "in", "mod", "default"})


def name_crc(name: str) -> int:
    """Return the number by which a name is looked up; two names may share one."""
    return crc32(name.encode("utf-8", "surrogatepass"))


def facts_to_json(facts: CodeFacts, details: MemoryDetails) -> str:
    """Return facts and details as JSON for the column `attrs`, without empty values."""
    values = asdict(facts)
    if details != NOTHING_STATED:
        values |= msgspec.to_builtins(details)
    return msgspec.json.encode(
        {name: value for name, value in values.items() if value}
    ).decode()


def set_facts(connection: sqlite3.Connection, memory: Memory, stored: Memory) -> None:
    """Write what a stated memory says about itself, without its text.

    stored: the memory as its row has it (`memory_writer.for_all_worktrees`).
    """
    values = [getattr(stored, name) for name in _FACT_COLUMNS]
    attrs = facts_to_json(memory.facts, memory.details)
    connection.execute(
        f"UPDATE memory_row SET {' = ?, '.join(_FACT_COLUMNS)} = ?, attrs = json_patch(attrs, ?)"
        " WHERE id = ?",
        (*values, attrs, memory.id),
    )
    write_views(connection, view_rows(stored.id, stored.views), version=0)
