"""Bring the store up to date with the files: by stat, then by hash, then by parsing; then link what changed.

Files are written in batches, one transaction each, and what is left to link is written with them, so a run that is
killed leaves a consistent store and the next one goes on. Where a run died while parsing, the next parses in separate
processes. Trade-off: edges are resolved after all files, so a killed first run has memories before it has edges.
"""

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from itertools import chain, islice
from typing import TYPE_CHECKING

from xscore.database import making_sense, transaction
from xscore.hashing import digest, file_digest
from xscore.indexer import admission, discovery
from xscore.indexer.intake import Intake
from xscore.indexer.survey import Survey, survey
from xscore.memory import index_rows
from xscore.memory.links import mention_links
from xscore.paths import Root
from xscore.records import Excluded, ExcludedCounts, FileCounts, FileStamp, IndexReport, MemoryCounts

if TYPE_CHECKING:
    from xscore.indexer.memories import Done, Job
    from xscore.settings import IndexSettings

INDEX_VERSION = "2"
"""Raise it when the same bytes would be cut, named or linked differently: every file is parsed again."""
MANY_FILES = 400
"""From here on, starting parsing processes pays."""
LARGE_BYTES = 64_000
"""A file above this is parsed in a process of its own kind at any rate: what a grammar can do to it is not bounded."""
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


def index(
    connection: sqlite3.Connection, root: Root, settings: "IndexSettings", *, now: float, allow_pii: bool = False
) -> IndexReport:
    """Index what changed under `root` since the last run, and report on everything that was seen.

    Raises StoreError, StoreDamaged. A file that cannot be read or parsed never fails the run: it is excluded with its
    reason, or cut into windows with a note.
    """
    started = time.perf_counter()
    _doubt_if_rules_changed(connection, settings, allow_pii=allow_pii)
    stamps = index_rows.stamps(connection)
    listing = discovery.discover(root, git=settings.git)
    found = survey(root, listing, stamps, admission.Rules(settings))
    tally = _Tally(excluded=found.excluded, notes=listing.notes)
    _remove_absent(connection, stamps, found, tally=tally)
    if found.changed:
        intake = Intake(root=root, settings=settings, stamps=stamps, now=now, allow_pii=allow_pii)
        _take_in(connection, intake, found, tally=tally)
    _link(connection)
    return _report(connection, found, tally, duration_s=time.perf_counter() - started)


def _doubt_if_rules_changed(connection: sqlite3.Connection, settings: "IndexSettings", *, allow_pii: bool) -> None:
    """Whatever changes how bytes become memories makes every stamp worthless."""
    relevant = (settings.include, settings.exclude, settings.max_file_bytes, settings.max_line_chars)
    rules = _rules("secrets.toml") + ("" if allow_pii else _rules("pii.toml"))
    profile = digest(INDEX_VERSION, rules, repr(relevant), str(settings.window_lines))
    if index_rows.read_meta(connection, _PROFILE) != profile:
        with transaction(connection):
            index_rows.doubt_stamps(connection)
            index_rows.write_meta(connection, _PROFILE, profile)


def _rules(name: str) -> str:
    return file_digest((files("xscore.memory.secrets") / name).read_bytes())


def _remove_absent(
    connection: sqlite3.Connection, stamps: Mapping[str, FileStamp], found: Survey, *, tally: _Tally
) -> None:
    absent = [path for path in stamps if path not in found.present]
    if absent:
        tally.removed += sum(not stamps[path].excluded for path in absent)
        with transaction(connection):
            tally.changes += index_rows.replace_files(connection, (), absent)


def _take_in(connection: sqlite3.Connection, intake: Intake, found: Survey, *, tally: _Tally) -> None:
    died = bool(index_rows.read_meta(connection, _PARSING))
    if died or len(found.changed) > MANY_FILES:
        _write(connection, _apart(intake.jobs(found.changed), intake.settings), tally=tally)
    else:
        small = [changed for changed in found.changed if changed[2].st_size <= LARGE_BYTES]
        large = [changed for changed in found.changed if changed[2].st_size > LARGE_BYTES]
        if small:
            index_rows.write_meta(connection, _PARSING, "1")
            _write(connection, _here(intake.jobs(small)), tally=tally)
            index_rows.write_meta(connection, _PARSING, "")
        _write(connection, _apart(intake.jobs(large), intake.settings, count=1), tally=tally)
    if died:
        index_rows.write_meta(connection, _PARSING, "")
    tally.changes += intake.settle(connection)
    tally.touched += len(intake.touched)
    tally.removed += intake.lost
    tally.excluded += intake.excluded


def _apart(jobs: "Iterator[Job]", settings: "IndexSettings", *, count: int | None = None) -> "Iterator[Done]":
    first = next(jobs, None)
    if first is None:
        return
    from xscore.indexer.workers import in_processes

    count = count or settings.workers or min(os.cpu_count() or 1, MAX_PROCESSES)
    yield from in_processes(chain((first,), jobs), count=count)


def _here(jobs: "Iterator[Job]") -> "Iterator[Done]":
    from xscore.indexer.memories import remember

    return map(remember, jobs)


def _write(connection: sqlite3.Connection, results: "Iterator[Done]", *, tally: _Tally) -> None:
    while batch := list(islice(results, BATCH)):
        with transaction(connection):
            tally.changes += index_rows.replace_files(connection, [done.file for done in batch], ())
        tally.indexed += len(batch)
        tally.secrets += sum(done.file.secrets_redacted for done in batch)
        tally.notes += [done.note for done in batch if done.note]


def _link(connection: sqlite3.Connection) -> None:
    """Resolve the mentions of every file that a change can have touched.

    Reads and writes under one lock: a second run may not change entities in between.
    """
    if not index_rows.links_due(connection):
        return
    from xscore.indexer import links

    with transaction(connection):
        due = index_rows.links_due(connection)
        paths = None if due.everything else due.paths | index_rows.paths_mentioning(connection, due.names)
        languages = index_rows.file_languages(connection)
        known = links.repository(index_rows.definitions(connection), languages, index_rows.imports(connection))
        mentions = index_rows.mentions_of(connection, paths)
        stated = languages.keys() if paths is None else paths & languages.keys()
        edges = [
            (path, edge) for path in sorted(stated) for edge in links.edges_of(path, mentions.get(path, ()), known)
        ]
        index_rows.replace_edges(connection, paths, edges)
        mention_links.relink(connection, None if due.everything else due.names)
        index_rows.write_meta(connection, _TOTALS, "")


def _report(connection: sqlite3.Connection, found: Survey, tally: _Tally, *, duration_s: float) -> IndexReport:
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
        with making_sense("a total"):
            by_kind, by_language, edges = json.loads(kept)
        return by_kind, by_language, edges
    counted = index_rows.totals(connection)
    index_rows.write_meta(connection, _TOTALS, json.dumps(counted))
    return counted
