"""The rows of a table that lies partly on damaged pages: read on until one cannot be read, jump over it, read on.

It reads in the order of a key, and finds the first key behind a damaged place by doubling its stride and then halving
it, so a place costs some hundred looks however large it is. It believes nothing it reads; `memory.salvage` decides.
Trade-off: sound rows between two damaged places that lie close together may be jumped over too.

What a damaged store still tells of offline jobs: what is at a vendor was paid for, and is still to be fetched.

A job, a question or an ask is believed when its checksum fits; a request when its question and ask are there; a batch when
its job is. Of a batch whose job cannot be believed the vendor's id is told instead, since its results are the user's.
Dollars set aside for batches come along. Trade-off: a request on a damaged page is forgotten; if it was sent, its
result bears an id that nobody knows any more, and is asked and paid for again.

What a damaged store still tells, row by row: everything that was paid for or said by someone, and can be believed.

A judgment is believed when its checksum fits, a memory when its hashes fit its text, any other row when each value has its
type and the words and numbers in it are such. Code is not salvaged, it is indexed again. Whether the store was trusted
at all is `memory.trust`'s business. Trade-off: a changed character inside a receipt, a reason or an event is not
noticed; only judgments and memories are sealed by their content.
"""

import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from xscore.platform import database, money, sqlite_drivers
from xscore.platform.errors import StoreError
from xscore.platform.hashing import judgment_checksums, row_checksum, turn_checksum
from xscore.platform.sqlite_drivers import KeySource
from xscore.records import Stage
from xscore.store import memory_rows, memory_writer
from xscore.store.events import EventName
from xscore.store.mention_links import link_mentions
from xscore.store.turns import TurnState

DamagedRow = tuple[Any, ...]

MOST_PLACES = 5_000
"""Damaged places of one table after which the rest is given up."""
_TEXT_CHARS = 34
"""Longer than every key of ours; keys that agree so far count as one."""


class KeySpace(Struct):
    """How the keys of a table stand on a line of whole numbers."""

    to_key: Callable[[int], object]
    to_number: Callable[[Any], int]
    end: int
    """Behind the last key."""


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
    """A reader of one damaged database, and how many places it had to jump over."""

    def __init__(self, open_it: Callable[[], sqlite3.Connection], *, anew: bool = False) -> None:
        """Open the database; anew: again after each failure, as SQLCipher reads nothing more after a damaged page."""
        self._open, self._anew = open_it, anew
        self._connection = open_it()
        self.places = 0

    def read(self, sql: str, keys: KeySpace, *before: object) -> Iterator[DamagedRow]:
        """Yield what can be read of `SELECT <key>, … WHERE … <key> >= ? ORDER BY <key>`.

        before: values of the parameters in front of the key's.
        """
        at, given_up = 0, self.places + MOST_PLACES
        while at < keys.end and self.places < given_up:
            try:
                for row in self._connection.execute(sql, (*before, keys.to_key(at))):
                    yield row
                    at = max(at, keys.to_number(row[0])) + 1
            except (StoreError, sqlite3.Error, TypeError, ValueError):
                self.places += 1
                self._go_on()
                at = self._behind(sql, keys, before, at)
            else:
                return

    def columns(self, table: str) -> frozenset[str]:
        """Name the columns that the table has in this database; none where it has no such table."""
        try:
            return frozenset(row[1] for row in self._connection.execute(f"PRAGMA table_info({table})").fetchall())
        except (StoreError, sqlite3.Error):
            self._go_on()
            return frozenset()

    def _behind(self, sql: str, keys: KeySpace, before: tuple[object, ...], at: int) -> int:
        """Find the first key from which on can be read again."""
        unreadable, stride = at, 1
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
            self._go_on()
            return False
        return True

    def _go_on(self) -> None:
        if self._anew:
            self._connection.close()
            self._connection = self._open()

    def close(self) -> None:
        """Release the file."""
        self._connection.close()


_JOB_TYPES: Mapping[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (float, int)}
_INVALID_JOB_ROW = (ValueError, TypeError, ArithmeticError, AttributeError, KeyError, StoreError)
_SET_ASIDE = """
    SELECT id, turn_id, day, process, leased_until, amount FROM reservation WHERE id >= ? ORDER BY id
"""

_WITHOUT_BATCH = """
    UPDATE job_request SET state = 'planned', batch = 0 WHERE state = 'sent'
    AND NOT EXISTS (SELECT 1 FROM batch WHERE batch.job = job_request.job AND number = job_request.batch)
"""
"""A request whose batch cannot be read would wait for ever."""


class SalvagedJobs(Struct):
    """What came over of jobs, and what did not."""

    kept: Counter[str] = field(default_factory=Counter)
    """Rows by what they are, in plural words."""
    not_believed: int = 0
    at_vendors: list[str] = field(default_factory=list)
    """The vendor's ids of batches that no job collects any more."""


class _JobTable(Struct, frozen=True):
    """The rows of one job in one table, by number."""

    table: str
    words: str
    key: str
    """A number, told apart within the job."""
    check: Callable[[Mapping[str, Any]], object]
    """Raises where a row cannot be believed."""
    needs: str = ""
    """SQL that holds where what a row speaks of is there."""

    def carry(self, reader: DamagedReader, target: sqlite3.Connection, job: str, found: SalvagedJobs) -> None:
        types = _types(target, self.table)
        if not types.keys() <= reader.columns(self.table):
            return
        names = [self.key, *(name for name in types if name not in (self.key, "job"))]
        read = f"SELECT {', '.join(names)} FROM {self.table} WHERE job = ? AND {self.key} >= ? ORDER BY {self.key}"
        for values in reader.read(read, NUMBERS, job):
            row = {"job": job, **dict(zip(names, values, strict=True))}
            self.keep(target, row, types, found)

    def keep(
        self,
        target: sqlite3.Connection,
        row: Mapping[str, Any],
        types: Mapping[str, tuple[type, ...]],
        found: SalvagedJobs,
    ) -> bool:
        """Write a row that can be believed; say whether it is there."""
        names, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        needs = f" WHERE {self.needs}" if self.needs else ""
        try:
            if not all(isinstance(value, types[name]) for name, value in row.items()):
                raise TypeError(self.table)
            self.check(row)
            written = target.execute(
                f"INSERT INTO {self.table} ({names}) SELECT {marks}{needs}",
                dict(row),
            ).rowcount
        except _INVALID_JOB_ROW:
            written = 0
        found.kept[self.words] += written
        found.not_believed += not written
        return bool(written)


def salvage_jobs(reader: DamagedReader, target: sqlite3.Connection) -> SalvagedJobs:
    """Carry over the jobs of a damaged store, within an open transaction."""
    found = SalvagedJobs()
    types = _types(target, "job")
    if types.keys() <= reader.columns("job"):
        names = ["id", *(name for name in types if name != "id")]
        read = f"SELECT {', '.join(names)} FROM job WHERE id >= ? ORDER BY id"
        for values in reader.read(read, TEXTS):
            row = {**dict(zip(names, values, strict=True)), "runner": ""}
            if _JOB.keep(target, row, types, found):
                for rows in _OF_JOBS:
                    rows.carry(reader, target, row["id"], found)
        _batches(reader, target, found)
        _set_aside(reader, target)
    return found


def _batches(reader: DamagedReader, target: sqlite3.Connection, found: SalvagedJobs) -> None:
    """Carry over the batches of jobs that are there; name those of others that may still be fetched."""
    jobs = {row[0] for row in target.execute("SELECT id FROM job").fetchall()}
    for job, vendor_id, state in _texts(reader, "SELECT job, vendor_id, state FROM batch WHERE job >= ? ORDER BY job"):
        if job not in jobs and vendor_id and state != "collected":
            found.at_vendors.append(vendor_id)
    for job in sorted(jobs):
        _BATCH.carry(reader, target, job, found)
    target.execute(_WITHOUT_BATCH)


def _set_aside(reader: DamagedReader, target: sqlite3.Connection) -> None:
    marks = {row[0] for row in target.execute("SELECT token FROM batch").fetchall()}
    for row in reader.read(_SET_ASIDE, TEXTS):
        if row[0] in marks and isinstance(row[4], float) and isinstance(row[5], int) and row[5] >= 0:
            target.execute(
                "INSERT INTO reservation (id, turn_id, day, process, leased_until, amount) VALUES (?, ?, ?, '', ?, ?)"
                " ON CONFLICT DO NOTHING",
                (*row[:3], *row[4:]),
            )


def _texts(reader: DamagedReader, sql: str) -> Iterator[DamagedRow]:
    return (row for row in reader.read(sql, TEXTS) if all(isinstance(value, str) for value in row))


def _types(target: sqlite3.Connection, table: str) -> dict[str, tuple[type, ...]]:
    """Return the types that each column's values may have."""
    columns = target.execute(f"PRAGMA table_info({table})").fetchall()
    return {name: (*_JOB_TYPES[type_], *(() if notnull else (type(None),))) for _, name, type_, notnull, *_ in columns}


def _checksum_matches(*fields: str) -> Callable[[Mapping[str, Any]], None]:
    """Return what raises where these fields do not fit the row's checksum."""

    def check(row: Mapping[str, Any]) -> None:
        if row_checksum(*(str(row[name]) for name in fields)) != row["checksum"]:
            raise ValueError(row["checksum"])

    return check


def _no_check(row: Mapping[str, Any]) -> None:
    """The table's own rules suffice."""


_JOB = _JobTable("job", "offline jobs", "id", _checksum_matches("id", "judge", "plan"))
_BATCH = _JobTable("batch", "batches", "number", _no_check)
_OF_JOBS = (
    _JobTable("job_question", "questions of jobs", "number", _checksum_matches("job", "number", "context", "turn_key")),
    _JobTable("job_ask", "prompts of jobs", "number", _checksum_matches("job", "number", "pack", "pieces")),
    _JobTable(
        "job_request",
        "requests of jobs",
        "question",
        _no_check,
        "EXISTS (SELECT 1 FROM job_question WHERE job = :job AND number = :question)"
        " AND EXISTS (SELECT 1 FROM job_ask WHERE job = :job AND number = :ask)",
    ),
)


_INVALID_ROW = (ValueError, TypeError, ArithmeticError, AttributeError, KeyError, struct.error, StoreError)
_TYPES: Mapping[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (float, int), "BLOB": (bytes,)}
_MEMORIES = f"SELECT rowid, thread, {memory_rows.MEMORY_COLUMNS} FROM memory WHERE source <> 'index' AND rowid >= ? ORDER BY rowid"
_JUDGMENTS = """
    SELECT content_id, score, prior, pack, position, checksum FROM judgment
    WHERE query_id = ? AND content_id >= ? ORDER BY content_id
"""
_REASONS = "SELECT content_id, text FROM reason WHERE query_id = ? AND content_id >= ? ORDER BY content_id"
_KEEP = """
    INSERT INTO judgment (query_id, content_id, score, prior, pack, position, checksum)
    SELECT ?, id, ?, ?, ?, ?, ? FROM content WHERE hash = ?
    ON CONFLICT (query_id, content_id) DO NOTHING
"""
_KEEP_REASON = """
    INSERT INTO reason (query_id, content_id, text) SELECT ?, id, ? FROM content WHERE hash = ?
    ON CONFLICT (query_id, content_id) DO NOTHING
"""
_SPENDING_OF_CALLS = """
    INSERT OR IGNORE INTO spending (span, spent)
    SELECT span, iif(millions >= 9223372036854, 9223372036854775807, millions * 1000000 + rest) FROM (
        SELECT span, sum(cost / 1000000) + sum(cost % 1000000) / 1000000 AS millions, sum(cost % 1000000) % 1000000 AS rest
        FROM (SELECT date(started_at, 'unixepoch') AS span, cost FROM call UNION ALL SELECT 'repository', cost FROM call)
        WHERE span IS NOT NULL AND cost IS NOT NULL GROUP BY span
    )
"""
"""What the caps of a day and of the repository count; summed in two parts so that no sum overflows."""
_FIGURES_OF_RECEIPTS = """
    INSERT OR IGNORE INTO turn_figures (turn_id, command, judge, is_model, candidates, judged, cached, carried, unjudged,
        unjudged_by_cause, kept, threshold, scores, index_s, pool_s, cache_s, judge_s, select_s, primary_s, total_s)
    SELECT turn_id, '', iif(body ->> '$.judge.is_model', (body ->> '$.judge.provider') || ':' || (body ->> '$.judge.model'),
           'lexical'), body ->> '$.judge.is_model',
           body ->> '$.coverage.candidates', body ->> '$.coverage.judged', body ->> '$.coverage.cached',
           body ->> '$.coverage.carried', body ->> '$.coverage.unjudged', coalesce(body ->> '$.unjudged.by_cause', '{}'),
           json_array_length(body, '$.selected'), body ->> '$.threshold', '[]',
           coalesce(body ->> '$.latency_s.index', 0), coalesce(body ->> '$.latency_s.pool', 0),
           coalesce(body ->> '$.latency_s.cache', 0), coalesce(body ->> '$.latency_s.judge', 0),
           coalesce(body ->> '$.latency_s.select', 0), coalesce(body ->> '$.latency_s.primary', 0),
           coalesce(body ->> '$.latency_s.total', 0)
    FROM receipt JOIN turn ON turn.id = turn_id WHERE body ->> '$.coverage.candidates' IS NOT NULL
"""
_COSTS = ("cost", "cost_without_prefix_cache", "cost_without_packs", "cost_by_batch")
_QUERY = "SELECT id FROM query WHERE turn_key = ? AND judge = ? AND sample = ?"


class SalvageReport(Struct):
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


def salvage_store(damaged: Path, target: sqlite3.Connection, keys: KeySource | None = None) -> SalvageReport:
    """Carry over what the database at `damaged` still tells into a new store, in one transaction."""
    found = SalvageReport()
    open_it, is_sealed = partial(database.open_unchecked, damaged, keys), sqlite_drivers.read_note(damaged) is not None
    with closing(DamagedReader(open_it, anew=is_sealed)) as reader, database.transaction(target):
        _judgments(reader, target, found)
        for table in _TABLES:
            table.carry(reader, target, found)
        target.execute(_SPENDING_OF_CALLS)
        target.execute(_FIGURES_OF_RECEIPTS)
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


def _judgments(reader: DamagedReader, target: sqlite3.Connection, found: SalvageReport) -> None:
    hashes: dict[int, str] = dict(reader.read("SELECT id, hash FROM content WHERE id >= ? ORDER BY id", NUMBERS))
    queries = "SELECT id, turn_key, judge, sample FROM query WHERE id >= ? ORDER BY id"
    for number, *names in list(reader.read(queries, NUMBERS)):
        try:
            turn = turn_checksum(*names)
        except _INVALID_ROW:
            found.not_believed += 1
            continue
        sealed = list(_valid_judgments(reader.read(_JUDGMENTS, NUMBERS, number), hashes, turn, found))
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


def _valid_judgments(
    judgments: Iterator[DamagedRow], hashes: Mapping[int, str], turn: int, found: SalvageReport
) -> Iterator[DamagedRow]:
    """Yield score, prior, pack, position, checksum and content hash of those whose checksum fits."""
    for content, score, prior, pack, position, checksum in judgments:
        try:
            fits = judgment_checksums(turn, [(hashes[content], score, prior, pack, position)]) == [checksum]
        except _INVALID_ROW:
            fits = False
        if fits:
            yield score, prior, pack, position, checksum, hashes[content]
        else:
            found.not_believed += 1


def _memories(reader: DamagedReader, target: sqlite3.Connection, found: SalvageReport) -> None:
    for _, thread, *row in reader.read(_MEMORIES, NUMBERS):
        try:
            memory = memory_rows.memory_from_row(tuple(row))
            if memory_writer.with_status(memory, memory.status) != memory:
                raise ValueError(memory.id)
            memory_writer.put_memories(target, [memory], thread=thread)
        except _INVALID_ROW:
            found.not_believed += 1
        else:
            found.kept["memories"] += 1


class _Table(Struct, frozen=True):
    """A table whose rows are carried over as they are."""

    name: str
    words: str
    key: str
    keys: KeySpace
    check: Callable[[Mapping[str, Any]], object]
    """Raises where a row's values are no such."""
    older: Mapping[str, str] = field(default_factory=dict)
    """What its columns were called in earlier schemas; dollars were decimal text there (`_usd`)."""

    def carry(self, reader: DamagedReader, target: sqlite3.Connection, found: SalvageReport) -> None:
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
        read = f"SELECT {asked} FROM {self.name} WHERE {key} >= ? ORDER BY {key}"
        keep = f"INSERT INTO {self.name} ({names}) VALUES ({', '.join('?' * len(types))})"
        for found_row in reader.read(read, self.keys):
            row = dict(zip(types, found_row, strict=True))
            try:
                row |= {name: money.picodollars_of_text(row[name]) for name in is_text}
                if not all(isinstance(value, types[name]) for name, value in row.items()):
                    raise TypeError(self.name)
                self.check(row)
                target.execute(keep, tuple(row.values()))
            except _INVALID_ROW:
                found.not_believed += 1
            else:
                found.kept[self.words] += 1


def _is(value: object, type_: type) -> bool:
    return isinstance(value, type_)


def _check_timestamp(value: float) -> None:
    if not isfinite(value):
        raise ValueError(value)


def _check_score(value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(value)


def _check_turn(row: Mapping[str, Any]) -> None:
    TurnState(row["state"])
    _check_timestamp(row["started_at"])


def _check_call(row: Mapping[str, Any]) -> None:
    Stage(row["stage"])
    _check_timestamp(row["started_at"] + row["duration_s"])
    for name in _COSTS:
        if row[name] is not None and not 0 <= row[name] <= money.MAX_BELIEVABLE_PICODOLLARS:
            raise ValueError(row[name])


def _check_spending(row: Mapping[str, Any]) -> None:
    money.dollars_of_picodollars(row["spent"])


def _check_event(row: Mapping[str, Any]) -> None:
    EventName(row["name"])
    _check_timestamp(row["at"])


def _check_citation(row: Mapping[str, Any]) -> None:
    if not 0 <= row["start_line"] <= row["end_line"] or row["changed"] not in (0, 1):
        raise ValueError(row["span_hash"])


_TABLES = (
    _Table("turn", "turns", "id", TEXTS, _check_turn),
    _Table("receipt", "receipts", "turn_id", TEXTS, lambda row: None),  # its JSON is checked by the table itself
    _Table("turn_figures", "turns' figures", "turn_id", TEXTS, lambda row: _check_timestamp(row["total_s"])),
    _Table("call", "calls", "id", TEXTS, _check_call, {"cost": "cost_usd"}),
    _Table("evaluation", "evaluations", "id", TEXTS, lambda row: _check_timestamp(row["at"])),
    _Table("spending", "bills", "span", TEXTS, _check_spending, {"span": "turn_id", "spent": "spent_usd"}),
    _Table("checkpoint", "checkpoints", "name", TEXTS, lambda row: _check_timestamp(row["created_at"])),
    _Table(
        "session", "sessions", "thread", TEXTS, lambda row: _check_timestamp(row["opened_at"] + row["last_updated"])
    ),
    _Table("event", "events", "id", NUMBERS, _check_event),
    _Table("erased_memory", "ids that stay erased", "memory_id", TEXTS, lambda row: _check_timestamp(row["at"])),
    _Table("project", "projects", "id", TEXTS, lambda row: _check_timestamp(row["seen_at"])),
    _Table("observation", "observations", "key", TEXTS, lambda row: _check_timestamp(row["seen_at"])),
    _Table("untrusted_score", "scores in quarantine", "turn_key", TEXTS, lambda row: _check_score(row["score"])),
    _Table("muted_key", "muted keys", "key", TEXTS, lambda row: _check_timestamp(row["at"])),
    _Table("repository_map", "repository maps", "id", TEXTS, lambda row: None),
)
_OF_MEMORIES = (
    _Table("occurrence", "occurrences", "id", TEXTS, lambda row: None),
    _Table("evidence", "citations", "memory_id", TEXTS, _check_citation),
)
"""They hang on a memory, and go where it could not be kept."""
