"""Copy the valid rows of a damaged store into a new one; code is not salvaged, it is indexed again.

A judgment, job, question or prompt is valid if its checksum matches, a memory if its hashes match
its text; `copied_tables` says what makes any other row valid, `damaged_reader` finds the rows. It
reads them with SQL of its own, in the order of their numbers and from any of them on, because what
the store room reads with fails at the first damaged page.
Trade-off: what could not be read is counted by places, since the number of rows is unknown.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from xscore.cache.judgment_store import insert_judgments
from xscore.extensions.recovery.copied_tables import (
    INVALID_ROW,
    TABLES,
    TABLES_AFTER_MEMORIES,
    SalvageReport,
)
from xscore.extensions.recovery.damaged_reader import NUMBERS, TEXTS, DamagedReader
from xscore.platform import database, sqlite_drivers
from xscore.platform.hashing import has_judgment_checksum, turn_checksum
from xscore.platform.sqlite_drivers import KeySource
from xscore.records.judgment import Judgment
from xscore.records.memory import Memory, MemoryStatus
from xscore.store import memory_rows, memory_writer
from xscore.store.memory_queries import all_ids, id_in_place_of
from xscore.store.mention_links import link_mentions
from xscore.store.worktrees import enter_worktree

_MEMORIES = (
    "SELECT rowid, thread, {columns} FROM {table}"
    " WHERE source <> 'index' AND rowid >= ? ORDER BY rowid"
)
_VIEWS = (
    "SELECT memory, hash FROM memory_view WHERE memory >= ? AND worktree = 0 ORDER BY memory"
)
_PAIRS = (
    "SELECT rowid, content_hash, text_hash FROM {table} WHERE source <> 'index' AND rowid >= ?"
    " ORDER BY rowid"
)
_CONTENTS = "SELECT id, hash FROM content WHERE id >= ? ORDER BY id"
_JUDGMENTS = """
    SELECT content_id, score, prior, pack, position, checksum FROM judgment
    WHERE query_id = ? AND content_id >= ? ORDER BY content_id
"""
_REASONS = (
    "SELECT content_id, text FROM reason WHERE query_id = ? AND "
    "content_id >= ? ORDER BY content_id"
)
_COPIES_WITHOUT_VECTOR = """
    UPDATE vector_copy SET is_gone = 1 WHERE NOT EXISTS (
        SELECT 1 FROM vec
        WHERE vec.text_hash = vector_copy.text_hash AND vec.embedder = vector_copy.embedder)
"""
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
"""SQL of what the caps of a day and of the repository count, summed in two parts so that no sum
overflows."""
_SPENDING_OF_ALL_CALLS = """
    UPDATE spending SET spent = max(spent, (SELECT coalesce(sum(cost), 0) FROM call
        WHERE span IN ('repository', date(started_at, 'unixepoch'))))
    WHERE (SELECT total(cost) FROM call) < 9e18
"""
"""SQL of the same sums for a store that had calls already."""
_RESERVED = (
    "SELECT id, turn_id, day, leased_until, amount FROM reservation WHERE id >= ? ORDER BY id"
)
_KEEP_RESERVED = """
    INSERT INTO reservation (id, turn_id, day, leased_until, amount)
      VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_WITHOUT_BATCH = """
    UPDATE job_request SET state = 'planned', batch = 0 WHERE state = 'sent'
    AND NOT EXISTS (SELECT 1 FROM batch WHERE batch.job = job_request.job
      AND number = job_request.batch)
"""
"""SQL of requests whose batch is lost, which would wait for ever."""


def salvage_store(
    damaged: Path, target: sqlite3.Connection, keys: KeySource | None = None
) -> SalvageReport:
    """Copy the valid rows of the database at `damaged` into a new store, in one transaction."""
    report = SalvageReport()
    enter_worktree(target)
    is_encrypted = sqlite_drivers.read_note(damaged) is not None
    reader = DamagedReader(
        partial(database.open_unchecked, damaged, keys), reopens=is_encrypted
    )
    with closing(reader), database.transaction(target):
        _judgments(reader, target, report)
        for table in TABLES:
            table.copy(reader, target, report)
        target.execute(_SPENDING_OF_CALLS)
        _memories(reader, target, report)
        for table in TABLES_AFTER_MEMORIES:
            table.copy(reader, target, report)
        _batches(reader, target, report)
        # Vectors are made again, those of texts that are still here; a server erases the others.
        target.execute(_COPIES_WITHOUT_VECTOR)
        link_mentions(target, all_ids(target))
    report.damaged_places = reader.places
    return report


def merge_store(source: Path, target: sqlite3.Connection, keys: KeySource) -> None:
    """Add the rows of a store to another one of the same repository; rows that are there already
    stay as they are."""
    salvage_store(source, target, keys)
    with database.transaction(target):
        target.execute(_SPENDING_OF_ALL_CALLS)


def _judgments(
    reader: DamagedReader, target: sqlite3.Connection, report: SalvageReport
) -> None:
    hashes: dict[int, str] = dict(reader.read(_CONTENTS, NUMBERS))
    queries = "SELECT id, turn_key, judge, sample FROM query WHERE id >= ? ORDER BY id"
    for query_id, turn_key, judge, draw in list(reader.read(queries, NUMBERS)):
        try:
            begun = turn_checksum(turn_key, judge, draw)
        except INVALID_ROW:
            report.rejected_rows += 1
            continue
        valid = list(_judgments_of(query_id, begun, hashes, reader, report))
        if valid:
            insert_judgments(target, valid, (turn_key, judge, draw))
    # Counted in the new store: a damaged table can hold the same page, and so its rows, twice.
    judgments, tasks = target.execute(
        "SELECT count(*), count(DISTINCT query_id) FROM judgment"
    ).fetchone()
    (with_reason,) = target.execute("SELECT count(*) FROM reason").fetchone()
    report.kept.update(judgments=judgments, reasons=with_reason, tasks=tasks)


def _judgments_of(
    query_id: int,
    begun: int,
    hashes: dict[int, str],
    reader: DamagedReader,
    report: SalvageReport,
) -> Iterator[Judgment]:
    """Yield a query's judgments whose checksum, begun with the query's names, matches."""
    reasons: dict[int, object] = dict(reader.read(_REASONS, NUMBERS, query_id))
    for content, score, prior, pack, position, checksum in reader.read(
        _JUDGMENTS, NUMBERS, query_id
    ):
        values = (hashes.get(content), score, prior, pack, position)
        if not has_judgment_checksum(begun, values, checksum):
            report.rejected_rows += 1
            continue
        # A reason has no checksum; one that cannot be read takes nothing from the score.
        reason = reasons.get(content)
        words = reason if isinstance(reason, str) else ""
        yield Judgment(hashes[content], score, words, pack, position, prior)


def _memories(reader: DamagedReader, target: sqlite3.Connection, report: SalvageReport) -> None:
    # Schema 1, which no migration could open, had them in a table that is a view now.
    table = "memory"
    if reader.columns("memory_row") or not reader.columns("memory"):
        table = "memory_row"
    hashes = _hashes_of_views(reader, table)
    # A text is checked by its content too: its views have a table of their own.
    contents = {hash_ for _, hash_ in reader.read(_CONTENTS, NUMBERS)}
    query = _memories_query(table, reader.columns(table))
    for number, thread, *row in reader.read(query, NUMBERS):
        try:
            memory = _behind_newer(_valid_memory(row, hashes[number], contents), target)
            if memory is None:
                continue
            memory_writer.put_memories(target, [memory], thread=thread)
        except INVALID_ROW:
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
        # Schemas 1 to 3 had them in the row of the text.
        for number, *pair in reader.read(_PAIRS.format(table=table), NUMBERS):
            hashes[number].update(pair)
    return hashes


def _valid_memory(row: list[Any], hashes: set[str], contents: set[str]) -> Memory:
    """Return the memory of a row. Raises one of INVALID_ROW, also where the hash of a text is
    in neither."""
    raw = memory_rows.memory_from_row(tuple(row))
    memory = memory_writer.with_status(raw, raw.status)
    if {view.hash for view in memory.views} - hashes - contents:
        raise ValueError(memory.id)
    return memory


def _behind_newer(memory: Memory, target: sqlite3.Connection) -> Memory | None:
    """Return the memory, superseded where the store has a newer one with its key; None where it has
    this one as it was stated again."""
    newer = id_in_place_of(target, memory)
    if not newer:
        return memory
    if newer == memory.id:
        return None
    if memory.status not in (MemoryStatus.ACTIVE, MemoryStatus.STALE):
        return memory
    superseded = memory_writer.with_status(memory, MemoryStatus.SUPERSEDED)
    return replace(superseded, superseded_by=newer)


def _batches(reader: DamagedReader, target: sqlite3.Connection, report: SalvageReport) -> None:
    """Name the vendor's batches of lost jobs, send lost requests again, and keep the dollars
    reserved for batches."""
    jobs = {id_ for (id_,) in target.execute("SELECT id FROM job").fetchall()}
    batches = "SELECT job, vendor_id, state FROM batch WHERE job >= ? ORDER BY job"
    for row in reader.read(batches, TEXTS):
        job, vendor_id, state = row
        is_readable = all(isinstance(value, str) for value in row)
        # It is paid for, and no job that was kept will collect it.
        if is_readable and vendor_id and job not in jobs and state != "collected":
            report.at_vendors.append(vendor_id)
    target.execute("UPDATE job SET runner = ''")
    target.execute(_WITHOUT_BATCH)
    tokens = {token for (token,) in target.execute("SELECT token FROM batch").fetchall()}
    for row in reader.read(_RESERVED, TEXTS):
        id_, _, _, leased_until, amount = row
        is_valid = isinstance(leased_until, float) and isinstance(amount, int) and amount >= 0
        if id_ in tokens and is_valid:
            target.execute(_KEEP_RESERVED, row)
