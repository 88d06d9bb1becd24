"""The tables whose rows are copied from a damaged store as they are, and what makes a row valid.

Each value must have its column's type, each number be finite, each row satisfy the schema and the
check of its table; a row that refers to another needs that one. Trade-off: a changed character in a
receipt or an event is not noticed, since such rows have no checksum.
"""

import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

from msgspec import Struct, field

from xscore.extensions.recovery.damaged_reader import NUMBERS, TEXTS, DamagedReader, KeySpace
from xscore.platform import money
from xscore.platform.errors import StoreError
from xscore.platform.hashing import row_checksum
from xscore.records.calls import Stage
from xscore.store.events import EventName

INVALID_ROW = (
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
_COSTS = (
    "cost",
    "cost_without_prefix_cache",
    "cost_without_packs",
    "cost_by_batch",
    "cost_live",
)
_HAS_QUESTION_AND_ASK = """
    EXISTS (SELECT 1 FROM job_question WHERE job = :job AND number = :question)
    AND EXISTS (SELECT 1 FROM job_ask WHERE job = :job AND number = :ask)
"""
_HAS_COMPRESSED_SESSION = "EXISTS (SELECT 1 FROM compressed_session WHERE thread = :thread)"
_HAS_MEMORY = "EXISTS (SELECT 1 FROM memory_row WHERE id = :memory_id)"


class SalvageReport(Struct):
    """What was copied, and what was not."""

    kept: Counter[str] = field(default_factory=Counter)
    """Number of rows by what they are, in plural words; `tasks` counts the turns by one judge
    that kept a judgment."""
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
            if not count or name == "tasks":
                continue
            words = f"{count:,} {name}"
            if name == "judgments":
                words += f" of {self.kept['tasks']:,} tasks"
            kept.append(words)
        summary = (
            f"salvaged {', '.join(kept) or 'nothing'}; {self.rejected_rows:,} rows were invalid and"
            f" {self.damaged_places:,} places could not be read"
        )
        if self.at_vendors:
            batches = ", ".join(self.at_vendors)
            summary += f"; at the vendor, and no job here knows of them: {batches}"
        return summary


_RowCheck = Callable[[Mapping[str, Any]], object]
"""Checks a row: False, or an exception, rejects it."""


class CopiedTable(Struct, frozen=True):
    """A table whose rows are copied as they are."""

    name: str
    words: str
    key: str
    keys: KeySpace = TEXTS
    is_valid: _RowCheck = lambda row: True
    """Further check of a row; types, finite numbers and the schema's CHECKs are tested for
    all."""
    of_job: bool = False
    """Whether the key is a number within a job."""
    needs: str = ""
    """SQL that is true if the referenced row was kept."""
    came_later: bool = False
    """Whether older schemas lack the table: where it is missing, nothing is damaged."""

    def copy(
        self, reader: DamagedReader, target: sqlite3.Connection, report: SalvageReport
    ) -> None:
        """Copy the valid rows, and count the others."""
        columns_there = reader.columns(self.name)
        if self.came_later and not columns_there:
            return
        types = _column_types(target, self.name)
        columns = [self.key]
        # A damaged store may be of an older schema, without the columns that came later.
        for name in columns_there or types:
            if name in types and name != self.key:
                columns.append(name)
        placeholders = ", ".join(f":{name}" for name in columns)
        insert = (
            f"INSERT INTO {self.name} ({', '.join(columns)}) SELECT {placeholders}"
            f" WHERE {self.needs or '1'}"
        )
        for values in self._rows(reader, target, columns):
            row = dict(zip(columns, values, strict=True))
            kept = 0
            try:
                if _has_types(row, types) and self.is_valid(row):
                    kept = target.execute(insert, row).rowcount
            except INVALID_ROW:
                kept = 0
            report.kept[self.words] += kept
            report.rejected_rows += not kept

    def _rows(
        self, reader: DamagedReader, target: sqlite3.Connection, columns: list[str]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that can be read; those of jobs job by job, since each job has keys of its
        own."""
        selected = f"SELECT {', '.join(columns)} FROM {self.name}"
        from_key = f"{self.key} >= ? ORDER BY {self.key}"
        if not self.of_job:
            yield from reader.read(f"{selected} WHERE {from_key}", self.keys)
            return
        for (job,) in target.execute("SELECT id FROM job").fetchall():
            yield from reader.read(f"{selected} WHERE job = ? AND {from_key}", self.keys, job)


def _column_types(target: sqlite3.Connection, table: str) -> dict[str, tuple[type, ...]]:
    """Return what each column may hold."""
    types = {}
    for _, name, type_, is_required, *_ in target.execute(
        f"PRAGMA table_info({table})"
    ).fetchall():
        types[name] = _TYPES[type_]
        if not is_required:
            types[name] += (type(None),)
    return types


def _has_types(row: Mapping[str, Any], types: Mapping[str, tuple[type, ...]]) -> bool:
    for name, value in row.items():
        if not isinstance(value, types[name]):
            return False
        if isinstance(value, float) and not isfinite(value):
            return False
    return True


def _has_checksum(*names: str) -> _RowCheck:
    return lambda row: row_checksum(*(str(row[name]) for name in names)) == row["checksum"]


def _job_table(
    name: str, words: str, key: str, is_valid: _RowCheck = lambda row: True, *, needs: str = ""
) -> CopiedTable:
    return CopiedTable(name, words, key, NUMBERS, is_valid, of_job=True, needs=needs)


def _is_call(row: Mapping[str, Any]) -> bool:
    Stage(row["stage"])
    costs = (row[name] for name in _COSTS)
    return all(cost is None or 0 <= cost <= money.MAX_BELIEVABLE_PICODOLLARS for cost in costs)


TABLES = (
    CopiedTable("turn", "turns", "id"),
    CopiedTable("receipt", "receipts", "turn_id"),
    CopiedTable("turn_figures", "turns' figures", "turn_id"),
    CopiedTable("call", "calls", "id", is_valid=_is_call),
    CopiedTable("evaluation", "evaluations", "id"),
    CopiedTable("calibration", "calibrations", "judge", came_later=True),
    CopiedTable(
        "spending",
        "bills",
        "span",
        is_valid=lambda row: money.dollars_of_picodollars(row["spent"]) >= 0,
    ),
    CopiedTable("checkpoint", "checkpoints", "name"),
    CopiedTable("session", "sessions", "thread"),
    CopiedTable("compressed_session", "compressed sessions", "thread", came_later=True),
    CopiedTable(
        "session_turn",
        "turns of compressed sessions",
        "thread",
        needs=_HAS_COMPRESSED_SESSION,
        came_later=True,
    ),
    CopiedTable(
        "turn_summary",
        "summaries of turns",
        "thread",
        needs=_HAS_COMPRESSED_SESSION,
        came_later=True,
    ),
    CopiedTable("purpose", "purposes of files", "content", came_later=True),
    CopiedTable("vector_copy", "vectors at servers", "text_hash", came_later=True),
    CopiedTable("event", "events", "id", NUMBERS, lambda row: EventName(row["name"])),
    CopiedTable("erased_memory", "ids that stay erased", "memory_id"),
    CopiedTable("project", "projects", "id"),
    CopiedTable("observation", "observations", "key"),
    CopiedTable("untrusted_score", "scores in quarantine", "turn_key"),
    CopiedTable("muted_key", "muted keys", "key"),
    CopiedTable("repository_map", "repository maps", "id"),
    CopiedTable("job", "offline jobs", "id", is_valid=_has_checksum("id", "judge", "plan")),
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
"""Tables in an order in which a row comes after what it refers to."""
TABLES_AFTER_MEMORIES = (
    CopiedTable("occurrence", "occurrences", "id", needs=_HAS_MEMORY),
    CopiedTable(
        "evidence",
        "citations",
        "memory_id",
        is_valid=lambda row: 0 <= row["start_line"] <= row["end_line"],
        needs=_HAS_MEMORY,
    ),
)
