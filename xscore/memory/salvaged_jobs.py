"""What a damaged store still tells of offline jobs: what is at a vendor was paid for, and is still to be fetched.

A job, a question or an ask is believed when its seal fits; a request when its question and ask are there; a batch when
its job is. Of a batch whose job cannot be believed the vendor's id is told instead, since its results are the user's.
Dollars set aside for batches come along. Trade-off: a request on a damaged page is forgotten; if it was sent, its
result bears an id that nobody knows any more, and is asked and paid for again.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from xscore.errors import StoreError
from xscore.hashing import seal
from xscore.memory.damaged_rows import NUMBERS, TEXTS, DamagedRows, Row

_TYPES: Mapping[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (float, int)}
_NO_SENSE = (ValueError, TypeError, ArithmeticError, AttributeError, KeyError, StoreError)
_SET_ASIDE = """
    SELECT id, turn_id, day, life, leased_until, amount FROM reservation WHERE id >= ? ORDER BY id
"""

_WITHOUT_BATCH = """
    UPDATE job_request SET state = 'planned', batch = 0 WHERE state = 'sent'
    AND NOT EXISTS (SELECT 1 FROM batch WHERE batch.job = job_request.job AND number = job_request.batch)
"""
"""A request whose batch cannot be read would wait for ever."""


@dataclass(slots=True)
class SalvagedJobs:
    """What came over of jobs, and what did not."""

    kept: Counter[str] = field(default_factory=Counter)
    """Rows by what they are, in plural words."""
    not_believed: int = 0
    at_vendors: list[str] = field(default_factory=list)
    """The vendor's ids of batches that no job collects any more."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one job in one table, by number."""

    table: str
    words: str
    key: str
    """A number, told apart within the job."""
    check: Callable[[Mapping[str, Any]], object]
    """Raises where a row cannot be believed."""
    needs: str = ""
    """SQL that holds where what a row speaks of is there."""

    def carry(self, reader: DamagedRows, target: sqlite3.Connection, job: str, found: SalvagedJobs) -> None:
        types = _types(target, self.table)
        if not types.keys() <= reader.columns(self.table):
            return
        names = [self.key, *(name for name in types if name not in (self.key, "job"))]
        read = f"SELECT {', '.join(names)} FROM {self.table} WHERE job = ? AND {self.key} >= ? ORDER BY {self.key}"  # noqa: S608  names are ours
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
        except _NO_SENSE:
            written = 0
        found.kept[self.words] += written
        found.not_believed += not written
        return bool(written)


def salvage_jobs(reader: DamagedRows, target: sqlite3.Connection) -> SalvagedJobs:
    """Carry over the jobs of a damaged store, within an open transaction."""
    found = SalvagedJobs()
    types = _types(target, "job")
    if types.keys() <= reader.columns("job"):
        names = ["id", *(name for name in types if name != "id")]
        read = f"SELECT {', '.join(names)} FROM job WHERE id >= ? ORDER BY id"  # noqa: S608  names are ours
        for values in reader.read(read, TEXTS):
            row = {**dict(zip(names, values, strict=True)), "runner": ""}
            if _JOB.keep(target, row, types, found):
                for rows in _OF_JOBS:
                    rows.carry(reader, target, row["id"], found)
        _batches(reader, target, found)
        _set_aside(reader, target)
    return found


def _batches(reader: DamagedRows, target: sqlite3.Connection, found: SalvagedJobs) -> None:
    """Carry over the batches of jobs that are there; name those of others that may still be fetched."""
    jobs = {row[0] for row in target.execute("SELECT id FROM job").fetchall()}
    for job, vendor_id, state in _texts(reader, "SELECT job, vendor_id, state FROM batch WHERE job >= ? ORDER BY job"):
        if job not in jobs and vendor_id and state != "collected":
            found.at_vendors.append(vendor_id)
    for job in sorted(jobs):
        _BATCH.carry(reader, target, job, found)
    target.execute(_WITHOUT_BATCH)


def _set_aside(reader: DamagedRows, target: sqlite3.Connection) -> None:
    marks = {row[0] for row in target.execute("SELECT mark FROM batch").fetchall()}
    for row in reader.read(_SET_ASIDE, TEXTS):
        if row[0] in marks and isinstance(row[4], float) and isinstance(row[5], int) and row[5] >= 0:
            target.execute(
                "INSERT INTO reservation (id, turn_id, day, life, leased_until, amount) VALUES (?, ?, ?, '', ?, ?)"
                " ON CONFLICT DO NOTHING",
                (*row[:3], *row[4:]),
            )


def _texts(reader: DamagedRows, sql: str) -> Iterator[Row]:
    return (row for row in reader.read(sql, TEXTS) if all(isinstance(value, str) for value in row))


def _types(target: sqlite3.Connection, table: str) -> dict[str, tuple[type, ...]]:
    """Return the types that each column's values may have."""
    columns = target.execute(f"PRAGMA table_info({table})").fetchall()
    return {name: (*_TYPES[type_], *(() if notnull else (type(None),))) for _, name, type_, notnull, *_ in columns}


def _sealed(*fields: str) -> Callable[[Mapping[str, Any]], None]:
    """Return what raises where these fields do not fit the row's seal."""

    def check(row: Mapping[str, Any]) -> None:
        if seal(*(str(row[name]) for name in fields)) != row["seal"]:
            raise ValueError(row["seal"])

    return check


def _no_check(row: Mapping[str, Any]) -> None:
    """The table's own rules suffice."""


_JOB = _Rows("job", "offline jobs", "id", _sealed("id", "judge", "plan"))
_BATCH = _Rows("batch", "batches", "number", _no_check)
_OF_JOBS = (
    _Rows("job_question", "questions of jobs", "number", _sealed("job", "number", "moment", "turn_key")),
    _Rows("job_ask", "prompts of jobs", "number", _sealed("job", "number", "pack", "pieces")),
    _Rows(
        "job_request",
        "requests of jobs",
        "question",
        _no_check,
        "EXISTS (SELECT 1 FROM job_question WHERE job = :job AND number = :question)"
        " AND EXISTS (SELECT 1 FROM job_ask WHERE job = :job AND number = :ask)",
    ),
)
