"""Bring the store up to date with the files: by stat, then by hash, then by parsing; then link what changed.

Files are written in batches, one transaction each, and what is left to link is written with them, so a run that is
killed leaves a consistent store and the next one goes on. Where a run died while parsing, the next parses in separate
processes. Trade-off: edges are resolved after all files, so a killed first run has memories before it has edges.
"""

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from xscore.database import transaction
from xscore.hashing import digest, file_digest
from xscore.indexer import admission, discovery
from xscore.indexer.survey import Survey, stamp_of, survey
from xscore.memory import index_rows
from xscore.paths import Root
from xscore.records import Excluded, ExcludedCounts, FileCounts, FileStamp, IndexReport, MemoryCounts

if TYPE_CHECKING:
    from xscore.indexer.memories import Done, Job
    from xscore.settings import IndexSettings

INDEX_VERSION = "1"
"""Raise it when the same bytes would be cut, named or redacted differently: every file is parsed again."""
MANY_FILES = 400
"""From here on, starting parsing processes pays."""
BATCH = 64
"""Files a transaction."""
MAX_PROCESSES = 8
_SAMPLE = 20
_PROFILE, _TOTALS, _PARSING = "index_profile", "index_totals", "index_parsing"


@dataclass(slots=True)
class _Tally:
    indexed: int = 0
    touched: int = 0
    removed: int = 0
    secrets: int = 0
    excluded: list[Excluded] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    changes: index_rows.Changes = field(default_factory=index_rows.Changes)


def index(connection: sqlite3.Connection, root: Root, settings: "IndexSettings", *, now: float) -> IndexReport:
    """Index what changed under `root` since the last run, and report on everything that was seen.

    Raises StoreError, StoreDamaged. A file that cannot be read or parsed never fails the run: it is excluded with its
    reason, or cut into windows with a note.
    """
    started = time.perf_counter()
    stamps = index_rows.stamps(connection)
    listing = discovery.discover(root, git=settings.git)
    profile = _profile(settings)
    believe = index_rows.read_meta(connection, _PROFILE) == profile
    found = survey(root, listing, stamps, admission.Rules(settings), believe=believe)
    tally = _Tally(excluded=found.excluded, notes=listing.notes)
    _remove_absent(connection, stamps, found, tally)
    if found.changed:
        _take_in(connection, root, settings, stamps if believe else {}, found, tally, now=now)
    if not believe:
        with transaction(connection):
            index_rows.write_meta(connection, _PROFILE, profile)
    _link(connection)
    return _report(connection, found, tally, time.perf_counter() - started)


def _profile(settings: "IndexSettings") -> str:
    """Whatever changes how bytes become memories; unlike the last run's, no stamp is believed."""
    relevant = (settings.include, settings.exclude, settings.max_file_bytes, settings.max_line_chars)
    return digest(INDEX_VERSION, repr(relevant), str(settings.window_lines))


def _remove_absent(connection: sqlite3.Connection, stamps: dict[str, FileStamp], found: Survey, tally: _Tally) -> None:
    absent = [path for path in stamps if path not in found.present]
    if absent:
        tally.removed += sum(not stamps[path].excluded for path in absent)
        with transaction(connection):
            _add(tally.changes, index_rows.replace_files(connection, (), absent))


def _take_in(
    connection: sqlite3.Connection,
    root: Root,
    settings: "IndexSettings",
    stamps: dict[str, FileStamp],
    found: Survey,
    tally: _Tally,
    *,
    now: float,
) -> None:
    died = bool(index_rows.read_meta(connection, _PARSING))
    apart = died or len(found.changed) > MANY_FILES
    reader = _Reader(connection, root, settings, stamps, tally, now)
    results = _parsed(reader.jobs(found), settings, apart=apart, connection=connection)
    while batch := list(islice(results, BATCH)):
        with transaction(connection):
            _add(tally.changes, index_rows.replace_files(connection, [done.file for done in batch], ()))
        tally.indexed += len(batch)
        tally.secrets += sum(done.file.secrets_redacted for done in batch)
        tally.notes += [done.note for done in batch if done.note]
    reader.flush()
    if died or not apart:
        with transaction(connection):
            index_rows.write_meta(connection, _PARSING, "")


def _parsed(
    jobs: "Iterator[Job]", settings: "IndexSettings", *, apart: bool, connection: sqlite3.Connection
) -> "Iterator[Done]":
    first = next(jobs, None)
    if first is None:
        return
    if apart:
        from xscore.indexer.workers import in_processes

        count = settings.workers or min(os.cpu_count() or 1, MAX_PROCESSES)
        yield from in_processes(_chained(first, jobs), count=count)
        return
    from xscore.indexer.memories import remember

    index_rows.write_meta(connection, _PARSING, json.dumps(first.stamp.path))
    yield remember(first)
    for job in jobs:
        yield remember(job)


def _chained(first: "Job", rest: "Iterator[Job]") -> "Iterator[Job]":
    yield first
    yield from rest


class _Reader:
    """Opens changed files and tells those that must be parsed from those that need not or must not be."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        root: Root,
        settings: "IndexSettings",
        stamps: dict[str, FileStamp],
        tally: _Tally,
        now: float,
    ) -> None:
        self._connection, self._root, self._settings = connection, root, settings
        self._stamps, self._tally, self._now = stamps, tally, now
        self._touched: list[FileStamp] = []
        self._refused: list[FileStamp] = []

    def jobs(self, found: Survey) -> "Iterator[Job]":
        """Yield the files to parse; what is refused or merely touched is set aside for `flush`."""
        from xscore.indexer.memories import Job

        top = os.open(self._root.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for path, name, info in found.changed:
                job = self._read(top, path, name, info)
                if job is not None:
                    stamp, text = job
                    yield Job(stamp, text, info.st_mtime_ns, self._settings.window_lines, self._now)
        finally:
            os.close(top)

    def flush(self) -> None:
        """Write down what was only touched, and what its bytes keep out."""
        gone = [stamp.path for stamp in self._refused if stamp.path in self._stamps]
        was_indexed = [path for path in gone if not self._stamps[path].excluded]
        self._tally.removed += len(was_indexed)
        if not (self._touched or self._refused):
            return
        with transaction(self._connection):
            index_rows.touch_files(self._connection, self._touched)
            _add(self._tally.changes, index_rows.replace_files(self._connection, (), gone))
            index_rows.exclude_files(self._connection, self._refused)

    def _read(self, top: int, path: str, name: str, info: os.stat_result) -> tuple[FileStamp, str] | None:
        known, file_hash = self._stamps.get(path), ""
        try:
            data = admission.read_bytes(top, name, max_bytes=self._settings.max_file_bytes)
            file_hash = file_digest(data)
            stamp = stamp_of(path, info, now=self._now, file_hash=file_hash)
            if known is not None and known.file_hash == file_hash and not known.excluded:
                self._tally.touched += 1
                self._touched.append(FileStamp(path, stamp.size, stamp.mtime_ns, file_hash, known.language))
                return None
            return stamp, admission.decoded(data, path, max_line_chars=self._settings.max_line_chars)
        except admission.Refused as refusal:
            self._refuse(path, info, file_hash, str(refusal))
        except OSError:
            self._refuse(path, info, file_hash, "unreadable")
        return None

    def _refuse(self, path: str, info: os.stat_result, file_hash: str, reason: str) -> None:
        self._tally.excluded.append(Excluded(path, reason))
        self._refused.append(stamp_of(path, info, now=self._now, file_hash=file_hash, excluded=reason))


def _link(connection: sqlite3.Connection) -> None:
    """Resolve the mentions of every file that a change can have touched."""
    due = index_rows.links_due(connection)
    if not due:
        return
    from xscore.indexer import links

    paths = None if due.everything else due.paths | index_rows.paths_mentioning(connection, due.names)
    targets = (
        links.Target(row.id, row.path, row.entity, row.kind, row.language) for row in index_rows.definitions(connection)
    )
    languages = index_rows.file_languages(connection)
    known = links.repository(targets, languages, index_rows.imports(connection))
    mentions = index_rows.mentions_of(connection, paths)
    stated = languages if paths is None else paths & languages.keys()
    edges = [(path, edge) for path in stated for edge in links.edges_of(path, mentions.get(path, ()), known)]
    with transaction(connection):
        index_rows.replace_edges(connection, paths, edges)
        index_rows.write_meta(connection, _TOTALS, "")


def _report(connection: sqlite3.Connection, found: Survey, tally: _Tally, duration_s: float) -> IndexReport:
    by_kind, by_language, edges = _totals(connection)
    reasons: dict[str, int] = {}
    for excluded in tally.excluded:
        reasons[excluded.reason] = reasons.get(excluded.reason, 0) + 1
    unchanged = found.unchanged + tally.touched
    return IndexReport(
        files=FileCounts(
            seen=tally.indexed + unchanged + len(tally.excluded),
            indexed=tally.indexed,
            unchanged=unchanged,
            removed=tally.removed,
            excluded=ExcludedCounts(by_reason=dict(sorted(reasons.items())), sample=tuple(tally.excluded[:_SAMPLE])),
        ),
        memories=MemoryCounts(
            total=sum(by_kind.values()),
            by_kind=by_kind,
            by_language=by_language,
            **asdict(tally.changes),
        ),
        edges=edges,
        secrets_redacted=tally.secrets,
        duration_s=duration_s,
        notes=tuple(tally.notes),
    )


def _totals(connection: sqlite3.Connection) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Totals as kept since the last change; counted anew after one."""
    kept = index_rows.read_meta(connection, _TOTALS)
    if kept:
        by_kind, by_language, edges = json.loads(kept)
        return by_kind, by_language, edges
    counted = index_rows.totals(connection)
    with transaction(connection):
        index_rows.write_meta(connection, _TOTALS, json.dumps(counted))
    return counted


def _add(sum_: index_rows.Changes, more: index_rows.Changes) -> None:
    sum_.added += more.added
    sum_.changed += more.changed
    sum_.removed += more.removed
