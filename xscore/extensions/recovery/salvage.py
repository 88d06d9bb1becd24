"""Copy the valid rows of a damaged store into a new one; code is not salvaged, it is indexed again.

A judgment, job, question or prompt is valid if its checksum matches, a memory if its hashes match
its text, any other row if each value has its column's type and satisfies the schema.
`DamagedReader` reads in key order up to an unreadable row and finds the next by doubling its
stride, then halving it. Trade-offs: a changed character in a receipt or an event is not noticed;
sound rows between two damaged places that lie close together may be skipped.
"""

import sqlite3
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.judgment_store import insert_judgments
from xscore.platform import database, money, sqlite_drivers
from xscore.platform.errors import StoreError
from xscore.platform.hashing import has_judgment_checksum, row_checksum, turn_checksum
from xscore.platform.sqlite_drivers import KeySource
from xscore.records.calls import Stage
from xscore.records.judgment import Judgment
from xscore.records.memory import MemoryStatus
from xscore.store import memory_rows, memory_writer
from xscore.store.events import EventName
from xscore.store.mention_links import link_mentions
from xscore.store.worktrees import enter_worktree

DamagedRow = tuple[Any, ...]

MOST_PLACES = 5_000
"""Give up the rest of a table after this many damaged places."""
_TEXT_CHARS = 34
"""Longer than all our keys; keys with this much in common count as one."""


class KeySpace(Struct, frozen=True):
    """How the keys of a table map to whole numbers, in their order."""

    to_key: Callable[[int], object]
    to_number: Callable[[Any], int]
    end: int
    """After the last key."""


def _text_key(number: int) -> str:
    return "".join(chr(number >> 7 * place & 127) for place in reversed(range(_TEXT_CHARS)))


def _key_number(text: str) -> int:
    number = 0
    for char in text[:_TEXT_CHARS].ljust(_TEXT_CHARS, "\0"):
        number = number << 7 | min(ord(char), 127)
    return number


NUMBERS = KeySpace(int, int, 1 << 62)
TEXTS = KeySpace(_text_key, _key_number, 1 << 7 * _TEXT_CHARS)


class DamagedReader:
    """Reads one damaged database and counts the places it had to skip."""

    def __init__(self, open_it: Callable[[], sqlite3.Connection], *, reopens: bool = False) -> None:
        """Open the database. reopens: open it again after each failure, since SQLCipher then reads
        nothing more."""
        self._open = open_it
        self._reopens = reopens
        self._connection = open_it()
        self.places: int = 0

    def read(self, sql: str, keys: KeySpace, *before: object) -> Iterator[DamagedRow]:
        """Yield the readable rows of `SELECT <key>, … WHERE … <key> >= ? ORDER BY <key>`.

        before: values of the parameters before the key's.
        """
        at = 0
        given_up = self.places + MOST_PLACES
        while at < keys.end and self.places < given_up:
            try:
                for row in self._connection.execute(sql, (*before, keys.to_key(at))):
                    yield row
                    at = max(at, keys.to_number(row[0])) + 1
            except (StoreError, sqlite3.Error, TypeError, ValueError):
                self.places += 1
                self._reopen()
                at = self._next_readable(sql, keys, before, at)
            else:
                return

    def columns(self, table: str) -> list[str]:
        """Return the columns of a table, which may be of an older schema; empty if they cannot be
        read."""
        try:
            return [
                row[1] for row in self._connection.execute(f"PRAGMA table_info({table})").fetchall()
            ]
        except (StoreError, sqlite3.Error):
            self._reopen()
            return []

    def _next_readable(self, sql: str, keys: KeySpace, before: tuple[object, ...], at: int) -> int:
        """Find the first readable key: double the stride, then halve it."""
        unreadable = at
        stride = 1
        while not self._can_read(sql, (*before, keys.to_key(min(at + stride, keys.end - 1)))):
            unreadable = at + stride
            if unreadable >= keys.end:
                return keys.end
            stride *= 2
        readable = at + stride
        while readable - unreadable > 1:
            middle = (readable + unreadable) // 2
            if self._can_read(sql, (*before, keys.to_key(middle))):
                readable = middle
            else:
                unreadable = middle
        return readable

    def _can_read(self, sql: str, parameters: tuple[object, ...]) -> bool:
        try:
            self._connection.execute(sql, parameters).fetchone()
        except (StoreError, sqlite3.Error):
            self._reopen()
            return False
        return True

    def _reopen(self) -> None:
        if self._reopens:
            self._connection.close()
            self._connection = self._open()

    def close(self) -> None:
        """Release the file."""
        self._connection.close()


_INVALID_ROW = (
    ValueError,
    TypeError,
    ArithmeticError,
    AttributeError,
    KeyError,
    struct.error,
    StoreError,
)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "TEXT": (str,),
    "INTEGER": (int,),
    "REAL": (float, int),
    "BLOB": (bytes,),
}
_MEMORIES = (
    "SELECT rowid, thread, {columns} FROM {table}"
    " WHERE source <> 'index' AND rowid >= ? ORDER BY rowid"
)
_VIEWS = "SELECT memory, hash FROM memory_view WHERE memory >= ? AND worktree = 0 ORDER BY memory"
_PAIRS = (
    "SELECT rowid, content_hash, text_hash FROM {table} WHERE source <> 'index' AND rowid >= ?"
    " ORDER BY rowid"
)
_JUDGMENTS = """
    SELECT content_id, score, prior, pack, position, checksum FROM judgment
    WHERE query_id = ? AND content_id >= ? ORDER BY content_id
"""
_REASONS = (
    "SELECT content_id, text FROM reason WHERE query_id = ? AND content_id >= ? ORDER BY content_id"
)
_SPENDING_OF_CALLS = """
    INSERT OR IGNORE INTO spending (span, spent)
    SELECT span, iif(millions >= 9223372036854, 9223372036854775807, millions * 1000000 + rest)
      FROM (
        SELECT span, sum(cost / 1000000) + sum(cost % 1000000) / 1000000 AS millions,
            sum(cost % 1000000) % 1000000 AS rest
        FROM (SELECT date(started_at, 'unixepoch') AS span, cost FROM call
            UNION ALL SELECT 'repository', cost FROM call)
        WHERE span IS NOT NULL AND cost IS NOT NULL GROUP BY span
    )
"""
"""What the caps of a day and of the repository count; summed in two parts so that no sum
overflows."""
_SPENDING_OF_ALL_CALLS = """
    UPDATE spending SET spent = max(spent, (SELECT coalesce(sum(cost), 0) FROM call
        WHERE span IN ('repository', date(started_at, 'unixepoch'))))
    WHERE (SELECT total(cost) FROM call) < 9e18
"""
"""The same for a store that had calls already."""
_SAME_KEY = ("id", "layer", "scope", "key", "updated_at")
_NEWER = """
    SELECT id FROM memory WHERE id = :id AND updated_at >= :updated_at UNION ALL
    SELECT id FROM memory WHERE layer = :layer AND scope = :scope AND key = :key AND key <> ''
        AND status IN ('active', 'stale') AND updated_at > :updated_at AND id <> :id LIMIT 1
"""
"""What a store that is added to says instead of a memory."""
_COSTS = ("cost", "cost_without_prefix_cache", "cost_without_packs", "cost_by_batch", "cost_live")
_RESERVED = (
    "SELECT id, turn_id, day, leased_until, amount FROM reservation WHERE id >= ? ORDER BY id"
)
_KEEP_RESERVED = """
    INSERT INTO reservation (id, turn_id, day, leased_until, amount)
      VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_HAS_QUESTION_AND_ASK = """
    EXISTS (SELECT 1 FROM job_question WHERE job = :job AND number = :question)
    AND EXISTS (SELECT 1 FROM job_ask WHERE job = :job AND number = :ask)
"""
_HAS_MEMORY = "EXISTS (SELECT 1 FROM memory_row WHERE id = :memory_id)"
_WITHOUT_BATCH = """
    UPDATE job_request SET state = 'planned', batch = 0 WHERE state = 'sent'
    AND NOT EXISTS (SELECT 1 FROM batch WHERE batch.job = job_request.job
      AND number = job_request.batch)
"""
"""A request whose batch is lost would wait for ever."""


class SalvageReport(Struct):
    """What was copied, and what was not."""

    kept: Counter[str] = field(default_factory=Counter)
    """Rows by what they are, in plural words; `tasks` counts the turns by one judge that kept a
    judgment."""
    rejected_rows: int = 0
    """Rows that could be read and are invalid."""
    damaged_places: int = 0
    """Places at which rows could not be read."""
    at_vendors: list[str] = field(default_factory=list)
    """The vendor's ids of paid batches that no job collects now."""

    @property
    def summary(self) -> str:
        """`salvaged 1,234 judgments of 3 tasks, 12 turns; 56 rows were invalid and 2 places could
        not be read`."""
        kept = []
        for name, count in self.kept.items():
            if count and name != "tasks":
                kept.append(f"{count:,} {name}")
        if self.kept["judgments"]:
            kept[0] += f" of {self.kept['tasks']:,} tasks"
        lost = (
            f"{self.rejected_rows:,} rows were invalid and {self.damaged_places:,} places could not"
            " be read"
        )
        batches = f"; at the vendor, and no job here knows of them: {', '.join(self.at_vendors)}"
        return (
            f"salvaged {', '.join(kept) or 'nothing'}; {lost}{batches if self.at_vendors else ''}"
        )


def salvage_store(
    damaged: Path, target: sqlite3.Connection, keys: KeySource | None = None
) -> SalvageReport:
    """Copy the valid rows of the database at `damaged` into a new store, in one transaction."""
    report = SalvageReport()
    enter_worktree(target)
    is_encrypted = sqlite_drivers.read_note(damaged) is not None
    reader = DamagedReader(partial(database.open_unchecked, damaged, keys), reopens=is_encrypted)
    with closing(reader), database.transaction(target):
        _judgments(reader, target, report)
        for table in _TABLES:
            table.copy(reader, target, report)
        target.execute(_SPENDING_OF_CALLS)
        _memories(reader, target, report)
        for table in _AFTER_MEMORIES:
            table.copy(reader, target, report)
        _batches(reader, target, report)
        link_mentions(
            target, [row[0] for row in target.execute("SELECT id FROM memory").fetchall()]
        )
    report.damaged_places = reader.places
    return report


def merge_store(source: Path, target: sqlite3.Connection, keys: KeySource) -> None:
    """Add the rows of a store to another one of the same repository; rows that are there already
    stay as they are."""
    salvage_store(source, target, keys)
    with database.transaction(target):
        target.execute(_SPENDING_OF_ALL_CALLS)


def _judgments(reader: DamagedReader, target: sqlite3.Connection, report: SalvageReport) -> None:
    hashes: dict[int, str] = dict(
        reader.read("SELECT id, hash FROM content WHERE id >= ? ORDER BY id", NUMBERS)
    )
    queries = "SELECT id, turn_key, judge, sample FROM query WHERE id >= ? ORDER BY id"
    for number, *names in list(reader.read(queries, NUMBERS)):
        try:
            turn = turn_checksum(*names)
        except _INVALID_ROW:
            report.rejected_rows += 1
            continue
        reasons: dict[int, object] = dict(reader.read(_REASONS, NUMBERS, number))
        valid: list[Judgment] = []
        for content, score, prior, pack, position, checksum in reader.read(
            _JUDGMENTS, NUMBERS, number
        ):
            if has_judgment_checksum(
                turn, (hashes.get(content), score, prior, pack, position), checksum
            ):
                reason = reasons.get(content)
                words = reason if isinstance(reason, str) else ""
                valid.append(Judgment(hashes[content], score, words, pack, position, prior))
            else:
                report.rejected_rows += 1
        if valid:
            insert_judgments(target, valid, (names[0], names[1], names[2]))
    # Counted here: a damaged table can hold the same page, and so its rows, twice.
    judgments, tasks = target.execute(
        "SELECT count(*), count(DISTINCT query_id) FROM judgment"
    ).fetchone()
    (with_reason,) = target.execute("SELECT count(*) FROM reason").fetchone()
    report.kept.update(judgments=judgments, reasons=with_reason, tasks=tasks)


def _memories(reader: DamagedReader, target: sqlite3.Connection, report: SalvageReport) -> None:
    # Schema 1, which no migration could open, had them in a table that is a view now.
    table = "memory"
    if reader.columns("memory_row") or not reader.columns("memory"):
        table = "memory_row"
    hashes = _hashes_of_views(reader, table)
    query = _memories_query(table, reader.columns(table))
    for number, thread, *row in reader.read(query, NUMBERS):
        try:
            raw = memory_rows.memory_from_row(tuple(row))
            memory = memory_writer.with_status(raw, raw.status)
            if {view.hash for view in memory.views} != hashes[number]:
                raise ValueError(memory.id)
            newer = target.execute(
                _NEWER, {name: getattr(memory, name) for name in _SAME_KEY}
            ).fetchone()
            if newer and newer[0] == memory.id:
                continue  # stated again in the store that is added to
            if newer and memory.status in (MemoryStatus.ACTIVE, MemoryStatus.STALE):
                memory = memory_writer.with_status(memory, MemoryStatus.SUPERSEDED)
                memory = replace(memory, superseded_by=newer[0])
            memory_writer.put_memories(target, [memory], thread=thread)
        except _INVALID_ROW:
            report.rejected_rows += 1
        else:
            report.kept["memories"] += 1


def _memories_query(table: str, stored_columns: Collection[str]) -> str:
    """Return the query for the memories of a table of any schema."""
    columns = list(memory_rows.MEMORY_COLUMNS)
    if "origin" not in stored_columns:
        # Schema 1 to 3 said none, and knew no place but the path of a file.
        unstated = {"origin": memory_rows.UNSTATED_ORIGIN, "place": "''"}
        columns = [unstated.get(name, name) for name in columns]
    return _MEMORIES.format(columns=", ".join(columns), table=table)


def _hashes_of_views(reader: DamagedReader, table: str) -> Mapping[int, set[str]]:
    """Return the hashes by which a row of this table can be checked, by its number."""
    hashes: dict[int, set[str]] = defaultdict(set)
    if reader.columns("memory_view"):
        for number, hash_ in reader.read(_VIEWS, NUMBERS):
            hashes[number].add(hash_)
    else:
        # Schema 1 to 3 had them beside the text.
        for number, *pair in reader.read(_PAIRS.format(table=table), NUMBERS):
            hashes[number].update(pair)
    return hashes


def _batches(reader: DamagedReader, target: sqlite3.Connection, report: SalvageReport) -> None:
    """Name the vendor's batches of lost jobs, send lost requests again, and keep the dollars
    reserved for batches."""
    jobs = {row[0] for row in target.execute("SELECT id FROM job").fetchall()}
    for row in reader.read(
        "SELECT job, vendor_id, state FROM batch WHERE job >= ? ORDER BY job", TEXTS
    ):
        if (
            all(isinstance(value, str) for value in row)
            and row[0] not in jobs
            and row[1]
            and row[2] != "collected"
        ):
            report.at_vendors.append(row[1])
    target.execute("UPDATE job SET runner = ''")
    target.execute(_WITHOUT_BATCH)
    tokens = {row[0] for row in target.execute("SELECT token FROM batch").fetchall()}
    for row in reader.read(_RESERVED, TEXTS):
        if (
            row[0] in tokens
            and isinstance(row[3], float)
            and isinstance(row[4], int)
            and row[4] >= 0
        ):
            target.execute(_KEEP_RESERVED, row)


_RowCheck = Callable[[Mapping[str, Any]], object]
"""False, or an exception, rejects the row."""


class _Table(Struct, frozen=True):
    """A table whose rows are copied as they are."""

    name: str
    words: str
    key: str
    keys: KeySpace = TEXTS
    is_valid: _RowCheck = lambda row: True
    """Types, finite numbers and the schema's CHECKs are tested for all."""
    of_job: bool = False
    """Whether the key is a number within a job."""
    needs: str = ""
    """SQL that is true if the referenced row was kept."""

    def copy(
        self, reader: DamagedReader, target: sqlite3.Connection, report: SalvageReport
    ) -> None:
        columns = target.execute(f"PRAGMA table_info({self.name})").fetchall()
        types = {}
        for _, name, type_, notnull, *_ in columns:
            types[name] = (*_TYPES[type_], *(() if notnull else (type(None),)))
        present = reader.columns(self.name) or list(types)
        names = [self.key, *(name for name in types if name != self.key and name in present)]
        scope = "job = ? AND " if self.of_job else ""
        read = (
            f"SELECT {', '.join(names)} FROM {self.name} WHERE {scope}{self.key} >= ? ORDER BY"
            f" {self.key}"
        )
        marks = ", ".join(f":{name}" for name in names)
        keep = (
            f"INSERT INTO {self.name} ({', '.join(names)}) SELECT {marks} WHERE {self.needs or '1'}"
        )
        jobs = target.execute("SELECT id FROM job").fetchall() if self.of_job else [()]
        rows = (reader.read(read, self.keys, *job) for job in jobs)
        for values in chain.from_iterable(rows):
            row = dict(zip(names, values, strict=True))
            try:
                is_valid = all(isinstance(value, types[name]) for name, value in row.items())
                is_valid = is_valid and all(
                    isfinite(value) for value in row.values() if isinstance(value, float)
                )
                kept = 0
                if is_valid and self.is_valid(row):
                    kept = target.execute(keep, row).rowcount
            except _INVALID_ROW:
                kept = 0
            report.kept[self.words] += kept
            report.rejected_rows += not kept


def _has_checksum(*names: str) -> _RowCheck:
    return lambda row: row_checksum(*(str(row[name]) for name in names)) == row["checksum"]


def _job_table(
    name: str, words: str, key: str, is_valid: _RowCheck = lambda row: True, *, needs: str = ""
) -> _Table:
    return _Table(name, words, key, NUMBERS, is_valid, of_job=True, needs=needs)


def _is_call(row: Mapping[str, Any]) -> bool:
    Stage(row["stage"])
    costs = (row[name] for name in _COSTS)
    return all(cost is None or 0 <= cost <= money.MAX_BELIEVABLE_PICODOLLARS for cost in costs)


_TABLES = (
    _Table("turn", "turns", "id"),
    _Table("receipt", "receipts", "turn_id"),
    _Table("turn_figures", "turns' figures", "turn_id"),
    _Table("call", "calls", "id", is_valid=_is_call),
    _Table("evaluation", "evaluations", "id"),
    _Table(
        "spending",
        "bills",
        "span",
        is_valid=lambda row: money.dollars_of_picodollars(row["spent"]) >= 0,
    ),
    _Table("checkpoint", "checkpoints", "name"),
    _Table("session", "sessions", "thread"),
    _Table("event", "events", "id", NUMBERS, lambda row: EventName(row["name"])),
    _Table("erased_memory", "ids that stay erased", "memory_id"),
    _Table("project", "projects", "id"),
    _Table("observation", "observations", "key"),
    _Table("untrusted_score", "scores in quarantine", "turn_key"),
    _Table("muted_key", "muted keys", "key"),
    _Table("repository_map", "repository maps", "id"),
    _Table("job", "offline jobs", "id", is_valid=_has_checksum("id", "judge", "plan")),
    _job_table(
        "job_question",
        "questions of jobs",
        "number",
        _has_checksum("job", "number", "context", "turn_key"),
    ),
    _job_table(
        "job_ask", "prompts of jobs", "number", _has_checksum("job", "number", "pack", "pieces")
    ),
    _job_table("job_request", "requests of jobs", "question", needs=_HAS_QUESTION_AND_ASK),
    _job_table("batch", "batches", "number"),
)
"""In an order in which what a row refers to comes first."""
_AFTER_MEMORIES = (
    _Table("occurrence", "occurrences", "id", needs=_HAS_MEMORY),
    _Table(
        "evidence",
        "citations",
        "memory_id",
        is_valid=lambda row: 0 <= row["start_line"] <= row["end_line"],
        needs=_HAS_MEMORY,
    ),
)
