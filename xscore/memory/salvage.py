"""What a damaged store still tells, row by row: everything that was paid for or said by someone, and can be believed.

A judgment is believed when its seal fits, a memory when its hashes fit its text, any other row when each value has its
type and the words and numbers in it are such. Code is not salvaged, it is indexed again. Whether the store was trusted
at all is `memory.trust`'s business. Trade-off: a changed character inside a receipt, a reason or an event is not
noticed; only judgments and memories are sealed by their content.
"""

import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from xscore import database, money, sealing
from xscore.errors import StoreError
from xscore.hashing import judgment_seals, turn_seal
from xscore.memory import door, rows
from xscore.memory.damaged_rows import NUMBERS, TEXTS, DamagedRows, Keys, Row
from xscore.memory.events import EventName
from xscore.memory.links.mention_links import link_mentions
from xscore.memory.salvaged_jobs import salvage_jobs
from xscore.memory.turns import TurnState
from xscore.records import Stage
from xscore.sealing import KeySource

_NO_SENSE = (ValueError, TypeError, ArithmeticError, AttributeError, KeyError, struct.error, StoreError)
_TYPES: Mapping[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (float, int), "BLOB": (bytes,)}
_MEMORIES = (
    f"SELECT rowid, thread, {rows.MEMORY_COLUMNS} FROM memory WHERE source <> 'index' AND rowid >= ? ORDER BY rowid"  # noqa: S608  columns are ours
)
_JUDGMENTS = """
    SELECT content_id, score, prior, pack, position, seal FROM judgment
    WHERE query_id = ? AND content_id >= ? ORDER BY content_id
"""
_REASONS = "SELECT content_id, text FROM reason WHERE query_id = ? AND content_id >= ? ORDER BY content_id"
_KEEP = """
    INSERT INTO judgment (query_id, content_id, score, prior, pack, position, seal)
    SELECT ?, id, ?, ?, ?, ?, ? FROM content WHERE hash = ?
    ON CONFLICT (query_id, content_id) DO NOTHING
"""
_KEEP_REASON = """
    INSERT INTO reason (query_id, content_id, text) SELECT ?, id, ? FROM content WHERE hash = ?
    ON CONFLICT (query_id, content_id) DO NOTHING
"""
_GAPS = ("bills_of_calls", "figures_of_receipts")
"""Statements that fill what could not be read or was not kept yet: what caps count, what reports add up."""
_COSTS = ("cost", "cost_without_prefix_cache", "cost_without_packs", "cost_by_batch")
_QUERY = "SELECT id FROM query WHERE turn_key = ? AND judge = ? AND sample = ?"


@dataclass(slots=True)
class Salvaged:
    """What came over, and what did not."""

    kept: Counter[str] = field(default_factory=Counter)
    """Rows by what they are, in plural words; `tasks` counts the turns by one judge that kept a judgment."""
    not_believed: int = 0
    """Rows that could be read and made no sense."""
    places: int = 0
    """Places at which rows could not be read."""
    at_vendors: list[str] = field(default_factory=list)
    """The vendor's ids of batches that no job collects any more; they were paid for."""

    @property
    def words(self) -> str:
        """`salvaged 1,234 judgments of 3 tasks, 12 turns; 56 rows made no sense and 2 places could not be read`."""
        kept = [f"{count:,} {what}" for what, count in self.kept.items() if count and what != "tasks"]
        if self.kept["judgments"]:
            kept[0] += f" of {self.kept['tasks']:,} tasks"
        lost = f"{self.not_believed:,} rows made no sense and {self.places:,} places could not be read"
        batches = f"; at the vendor, and no job here knows of them: {', '.join(self.at_vendors)}"
        return f"salvaged {', '.join(kept) or 'nothing'}; {lost}{batches if self.at_vendors else ''}"


def salvage(damaged: Path, target: sqlite3.Connection, keys: KeySource | None = None) -> Salvaged:
    """Carry over what the database at `damaged` still tells into a new store, in one transaction."""
    found = Salvaged()
    open_it, is_sealed = partial(database.open_as_it_is, damaged, keys), sealing.note_of(damaged) is not None
    with closing(DamagedRows(open_it, anew=is_sealed)) as reader, database.transaction(target):
        _judgments(reader, target, found)
        for table in _TABLES:
            table.carry(reader, target, found)
        for gap in _GAPS:
            target.execute(database.statement(4, gap))
        _memories(reader, target, found)
        for table in _OF_MEMORIES:
            table.carry(reader, target, found)
        jobs = salvage_jobs(reader, target)
        found.kept.update(jobs.kept)
        found.not_believed += jobs.not_believed
        found.at_vendors = jobs.at_vendors
        link_mentions(target, [row[0] for row in target.execute("SELECT id FROM memory").fetchall()])
        found.places = reader.places
    return found


def _judgments(reader: DamagedRows, target: sqlite3.Connection, found: Salvaged) -> None:
    hashes: dict[int, str] = dict(reader.read("SELECT id, hash FROM content WHERE id >= ? ORDER BY id", NUMBERS))
    queries = "SELECT id, turn_key, judge, sample FROM query WHERE id >= ? ORDER BY id"
    for number, *names in list(reader.read(queries, NUMBERS)):
        try:
            turn = turn_seal(*names)
        except _NO_SENSE:
            found.not_believed += 1
            continue
        sealed = list(_sealed(reader.read(_JUDGMENTS, NUMBERS, number), hashes, turn, found))
        if sealed:
            target.execute(  # a damaged table can hold the same page, and so its rows, twice
                "INSERT INTO query (turn_key, judge, sample) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", names
            )
            (query,) = target.execute(_QUERY, names).fetchone()
            target.executemany(
                "INSERT INTO content (hash) VALUES (?) ON CONFLICT (hash) DO NOTHING", [row[-1:] for row in sealed]
            )
            kept = target.executemany(_KEEP, [(query, *row) for row in sealed]).rowcount
            reasons = reader.read(_REASONS, NUMBERS, number)
            judged = {row[-1] for row in sealed}
            given = [(query, text, hashes[at]) for at, text in reasons if hashes.get(at) in judged and _is(text, str)]
            target.executemany(_KEEP_REASON, given)
            found.kept.update(judgments=kept, reasons=len(given), tasks=kept > 0)


def _sealed(judgments: Iterator[Row], hashes: Mapping[int, str], turn: int, found: Salvaged) -> Iterator[Row]:
    """Yield score, prior, pack, position, seal and content hash of those whose seal fits."""
    for content, score, prior, pack, position, seal in judgments:
        try:
            fits = judgment_seals(turn, [(hashes[content], score, prior, pack, position)]) == [seal]
        except _NO_SENSE:
            fits = False
        if fits:
            yield score, prior, pack, position, seal, hashes[content]
        else:
            found.not_believed += 1


def _memories(reader: DamagedRows, target: sqlite3.Connection, found: Salvaged) -> None:
    for _, thread, *row in reader.read(_MEMORIES, NUMBERS):
        try:
            memory = rows.memory(tuple(row))
            if door.with_status(memory, memory.status) != memory:
                raise ValueError(memory.id)
            door.put(target, [memory], thread=thread)
        except _NO_SENSE:
            found.not_believed += 1
        else:
            found.kept["memories"] += 1


@dataclass(frozen=True, slots=True)
class _Table:
    """A table whose rows are carried over as they are."""

    name: str
    words: str
    key: str
    keys: Keys
    check: Callable[[Mapping[str, Any]], object]
    """Raises where a row's values are no such."""
    older: Mapping[str, str] = field(default_factory=dict)
    """What its columns were called in earlier schemas; dollars were decimal text there (`_usd`)."""

    def carry(self, reader: DamagedRows, target: sqlite3.Connection, found: Salvaged) -> None:
        there = reader.columns(self.name)
        if not there:  # of a schema that had no such table
            return
        columns = target.execute(f"PRAGMA table_info({self.name})").fetchall()
        types = {name: (*_TYPES[type_], *(() if notnull else (type(None),))) for _, name, type_, notnull, *_ in columns}
        types = {self.key: types.pop(self.key), **types}
        default = {name: default for _, name, _, _, default, _ in columns}
        was = {name: name if name in there else self.older.get(name, default[name] or "NULL") for name in types}
        is_text = [name for name, before in was.items() if before.endswith("_usd")]
        names, key = ", ".join(types), was[self.key]
        asked = ", ".join(was.values())
        read = f"SELECT {asked} FROM {self.name} WHERE {key} >= ? ORDER BY {key}"  # noqa: S608  names are ours
        keep = f"INSERT INTO {self.name} ({names}) VALUES ({', '.join('?' * len(types))})"  # noqa: S608  names are ours
        for found_row in reader.read(read, self.keys):
            row = dict(zip(types, found_row, strict=True))
            try:
                row |= {name: money.picodollars_of_text(row[name]) for name in is_text}
                if not all(isinstance(value, types[name]) for name, value in row.items()):
                    raise TypeError(self.name)
                self.check(row)
                target.execute(keep, tuple(row.values()))
            except _NO_SENSE:
                found.not_believed += 1
            else:
                found.kept[self.words] += 1


def _is(value: object, type_: type) -> bool:
    return isinstance(value, type_)


def _moment(value: float) -> None:
    if not isfinite(value):
        raise ValueError(value)


def _share(value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(value)


def _check_turn(row: Mapping[str, Any]) -> None:
    TurnState(row["state"])
    _moment(row["started_at"])


def _check_call(row: Mapping[str, Any]) -> None:
    Stage(row["stage"])
    _moment(row["started_at"] + row["duration_s"])
    for name in _COSTS:
        if row[name] is not None and not 0 <= row[name] <= money.BELIEVABLE:
            raise ValueError(row[name])


def _check_spending(row: Mapping[str, Any]) -> None:
    money.dollars(row["spent"])


def _check_event(row: Mapping[str, Any]) -> None:
    EventName(row["name"])
    _moment(row["at"])


def _check_citation(row: Mapping[str, Any]) -> None:
    if not 0 <= row["start_line"] <= row["end_line"] or row["changed"] not in (0, 1):
        raise ValueError(row["span_hash"])


_TABLES = (
    _Table("turn", "turns", "id", TEXTS, _check_turn),
    _Table("receipt", "receipts", "turn_id", TEXTS, lambda row: None),  # its JSON is checked by the table itself
    _Table("turn_figures", "turns' figures", "turn_id", TEXTS, lambda row: _moment(row["total_s"])),
    _Table("call", "calls", "id", TEXTS, _check_call, {"cost": "cost_usd"}),
    _Table("evaluation", "evaluations", "id", TEXTS, lambda row: _moment(row["at"])),
    _Table("spending", "bills", "span", TEXTS, _check_spending, {"span": "turn_id", "spent": "spent_usd"}),
    _Table("checkpoint", "checkpoints", "name", TEXTS, lambda row: _moment(row["created_at"])),
    _Table("session", "sessions", "thread", TEXTS, lambda row: _moment(row["opened_at"] + row["last_updated"])),
    _Table("event", "events", "id", NUMBERS, _check_event),
    _Table("forgotten", "ids that stay erased", "memory_id", TEXTS, lambda row: _moment(row["at"])),
    _Table("project", "projects", "id", TEXTS, lambda row: _moment(row["seen_at"])),
    _Table("observation", "observations", "key", TEXTS, lambda row: _moment(row["seen_at"])),
    _Table("hearsay", "scores in quarantine", "turn_key", TEXTS, lambda row: _share(row["score"])),
    _Table("muted", "muted keys", "key", TEXTS, lambda row: _moment(row["at"])),
    _Table("repository_map", "repository maps", "id", TEXTS, lambda row: None),
)
_OF_MEMORIES = (
    _Table("occurrence", "occurrences", "id", TEXTS, lambda row: None),
    _Table("evidence", "citations", "memory_id", TEXTS, _check_citation),
)
"""They hang on a memory, and go where it could not be kept."""
