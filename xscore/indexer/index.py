"""What has changed since the last run, at the price of one stat a file.

Equal size and time spare the read; a file changed within the clock's own grain of its last look is not believed
(`stamp_of`). Nothing is opened and no setting is re-read here: a run over an unchanged repository ends with this.

Changed files opened, and told apart: those to parse, those merely touched, those whose bytes keep them out.

What need not be parsed is set aside and written by `settle` in one transaction, after the parsed files.

Bring the store up to date with the files: by stat, then by hash, then by parsing; then link what changed.

Files are written in batches, one transaction each, and what is left to link is written with them, so a run that is
killed leaves a consistent store and the next one goes on. Where a run died while parsing, the next parses in separate
processes. Trade-off: edges are resolved after all files, so a killed first run has memories before it has edges.
"""

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from itertools import chain, islice
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import asdict

from xscore.indexer import discovery
from xscore.indexer import discovery as admission
from xscore.indexer.discovery import AdmissionRules, FileListing
from xscore.platform.database import damage_if_invalid, transaction
from xscore.platform.files import FileRefused, read_file_under, settled_mtime_ns
from xscore.platform.hashing import digest, file_digest
from xscore.platform.paths import RepositoryRoot, portable_name
from xscore.records import Excluded, ExcludedCounts, FileCounts, FileStamp, IndexReport, MemoryCounts
from xscore.store import index_rows, mention_links

if TYPE_CHECKING:
    from xscore.indexer.memories import ParsedFile, ParseJob
    from xscore.settings import IndexSettings


ChangedEntry = tuple[str, str, os.stat_result]
"""Text path, native name, stat."""


class FileSurvey(Struct):
    """Every file seen, once, in exactly one of these."""

    unchanged: int = 0
    changed: list[ChangedEntry] = field(default_factory=list)
    """New, or no longer as their stamps say."""
    excluded: list[Excluded] = field(default_factory=list)
    present: set[str] = field(default_factory=set)
    """Paths whose stamps still stand or are about to be replaced."""


def survey_files(
    root: RepositoryRoot, listing: FileListing, stamps: Mapping[str, FileStamp], rules: AdmissionRules
) -> FileSurvey:
    """Sort the listed files by what has to be done about them."""
    found = FileSurvey(excluded=list(listing.excluded))
    prefix = os.fspath(root.path) + "/"
    for name in listing.paths:
        try:
            info = os.lstat(prefix + name)
        except OSError:
            continue  # listed by git's index, deleted from disk
        path = name if name.isascii() and "%" not in name else portable_name(name)
        stamp = stamps.get(path)
        if stamp is not None and stamp.mtime_ns == info.st_mtime_ns and stamp.size == info.st_size:
            found.present.add(path)
            if stamp.excluded:
                found.excluded.append(Excluded(path, stamp.excluded))
            else:
                found.unchanged += 1
            continue
        reason = rules.refusal(path, info)
        if reason:
            found.excluded.append(Excluded(path, reason))
        else:
            found.present.add(path)
            found.changed.append((path, name, info))
    return found


def stamp_of(path: str, info: os.stat_result, *, now: float, file_hash: str, excluded: str = "") -> FileStamp:
    """The stamp to keep of a file as it was read; time 0 where a later write could look the same."""
    return FileStamp(path, info.st_size, settled_mtime_ns(info, now=now), file_hash, "", excluded)


class FileIntake(Struct, kw_only=True):
    """One pass over the changed files of a run."""

    root: RepositoryRoot
    settings: "IndexSettings"
    stamps: Mapping[str, FileStamp]
    now: float
    allow_pii: bool = False
    """Keep personal data of configuration."""
    touched: list[FileStamp] = field(default_factory=list)
    """Same bytes at another time."""
    refused: list[FileStamp] = field(default_factory=list)

    def jobs(self, changed: Iterable[ChangedEntry]) -> "Iterator[ParseJob]":
        """Yield the files to parse, opened one at a time."""
        from xscore.indexer.memories import ParseJob

        top = os.open(self.root.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for path, name, info in changed:
                read = self._read(top, path, name, info=info)
                if read is not None:
                    stamp, text = read
                    yield ParseJob(stamp, text, info.st_mtime_ns, self.settings.window_lines, self.now, self.allow_pii)
        finally:
            os.close(top)

    def settle(self, connection: sqlite3.Connection) -> index_rows.IndexChanges:
        """Write down what was only touched, and what its bytes keep out; forget what the latter had in the store."""
        if not (self.touched or self.refused):
            return index_rows.IndexChanges()
        with transaction(connection):
            index_rows.touch_files(connection, self.touched)
            known = [stamp.path for stamp in self.refused if stamp.path in self.stamps]
            changes = index_rows.replace_files(connection, (), known)
            index_rows.exclude_files(connection, self.refused)
        return changes

    @property
    def excluded(self) -> list[Excluded]:
        """What was refused, with its reasons."""
        return [Excluded(stamp.path, stamp.excluded) for stamp in self.refused]

    @property
    def lost(self) -> int:
        """Files that were indexed and now are refused."""
        return sum(s.path in self.stamps and not self.stamps[s.path].excluded for s in self.refused)

    def _read(self, top: int, path: str, name: str, *, info: os.stat_result) -> tuple[FileStamp, str] | None:
        known, file_hash, reason = self.stamps.get(path), "", "unreadable"
        try:
            data = read_file_under(top, name, max_bytes=self.settings.max_file_bytes)
            file_hash = file_digest(data)
            stamp = stamp_of(path, info, now=self.now, file_hash=file_hash)
            if known is not None and known.file_hash == file_hash and not known.excluded:
                self.touched.append(FileStamp(path, stamp.size, stamp.mtime_ns, file_hash, known.language))
                return None
            return stamp, discovery.decode_text(data, path, max_line_chars=self.settings.max_line_chars)
        except FileRefused as refusal:
            reason = str(refusal)
        except OSError:
            pass
        self.refused.append(stamp_of(path, info, now=self.now, file_hash=file_hash, excluded=reason))
        return None


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


class _Tally(Struct):
    indexed: int = 0
    touched: int = 0
    removed: int = 0
    secrets: int = 0
    excluded: list[Excluded] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    changes: index_rows.IndexChanges = field(default_factory=index_rows.IndexChanges)


def index_repository(
    connection: sqlite3.Connection,
    root: RepositoryRoot,
    settings: "IndexSettings",
    *,
    now: float,
    allow_pii: bool = False,
) -> IndexReport:
    """Index what changed under `root` since the last run, and report on everything that was seen.

    Raises StoreError, StoreDamaged. A file that cannot be read or parsed never fails the run: it is excluded with its
    reason, or cut into windows with a note.
    """
    started = time.perf_counter()
    _doubt_if_rules_changed(connection, settings, allow_pii=allow_pii)
    stamps = index_rows.file_stamps(connection)
    listing = discovery.discover_files(root, git=settings.git)
    found = survey_files(root, listing, stamps, admission.AdmissionRules(settings))
    tally = _Tally(excluded=found.excluded, notes=listing.notes)
    _remove_absent(connection, stamps, found, tally=tally)
    if found.changed:
        intake = FileIntake(root=root, settings=settings, stamps=stamps, now=now, allow_pii=allow_pii)
        _parse_changed(connection, intake, found, tally=tally)
    _link(connection)
    return _report(connection, found, tally, duration_s=time.perf_counter() - started)


def _doubt_if_rules_changed(connection: sqlite3.Connection, settings: "IndexSettings", *, allow_pii: bool) -> None:
    """Whatever changes how bytes become memories makes every stamp worthless."""
    relevant = (settings.include, settings.exclude, settings.max_file_bytes, settings.max_line_chars)
    rules = _rules_digest("secrets.toml") + ("" if allow_pii else _rules_digest("pii.toml"))
    profile = digest(INDEX_VERSION, rules, repr(relevant), str(settings.window_lines))
    if index_rows.read_meta(connection, _PROFILE) != profile:
        with transaction(connection):
            index_rows.invalidate_stamps(connection)
            index_rows.write_meta(connection, _PROFILE, profile)


def _rules_digest(name: str) -> str:
    return file_digest((files("xscore.store") / name).read_bytes())


def _remove_absent(
    connection: sqlite3.Connection, stamps: Mapping[str, FileStamp], found: FileSurvey, *, tally: _Tally
) -> None:
    absent = [path for path in stamps if path not in found.present]
    if absent:
        tally.removed += sum(not stamps[path].excluded for path in absent)
        with transaction(connection):
            tally.changes += index_rows.replace_files(connection, (), absent)


def _parse_changed(connection: sqlite3.Connection, intake: FileIntake, found: FileSurvey, *, tally: _Tally) -> None:
    died = bool(index_rows.read_meta(connection, _PARSING))
    if died or len(found.changed) > MANY_FILES:
        _write(connection, _parse_isolated(intake.jobs(found.changed), intake.settings), tally=tally)
    else:
        small = [changed for changed in found.changed if changed[2].st_size <= LARGE_BYTES]
        large = [changed for changed in found.changed if changed[2].st_size > LARGE_BYTES]
        if small:
            index_rows.write_meta(connection, _PARSING, "1")
            _write(connection, _parse_in_process(intake.jobs(small)), tally=tally)
            index_rows.write_meta(connection, _PARSING, "")
        _write(connection, _parse_isolated(intake.jobs(large), intake.settings, count=1), tally=tally)
    if died:
        index_rows.write_meta(connection, _PARSING, "")
    tally.changes += intake.settle(connection)
    tally.touched += len(intake.touched)
    tally.removed += intake.lost
    tally.excluded += intake.excluded


def _parse_isolated(
    jobs: "Iterator[ParseJob]", settings: "IndexSettings", *, count: int | None = None
) -> "Iterator[ParsedFile]":
    first = next(jobs, None)
    if first is None:
        return
    from xscore.indexer.workers import parse_in_processes

    count = count or settings.workers or min(os.cpu_count() or 1, MAX_PROCESSES)
    yield from parse_in_processes(chain((first,), jobs), count=count)


def _parse_in_process(jobs: "Iterator[ParseJob]") -> "Iterator[ParsedFile]":
    from xscore.indexer.memories import parse_file

    return map(parse_file, jobs)


def _write(connection: sqlite3.Connection, results: "Iterator[ParsedFile]", *, tally: _Tally) -> None:
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
        known = links.build_name_index(index_rows.entity_rows(connection), languages, index_rows.imports(connection))
        mentions = index_rows.mentions_of(connection, paths)
        stated = languages.keys() if paths is None else paths & languages.keys()
        edges = [
            (path, edge) for path in sorted(stated) for edge in links.resolve_edges(path, mentions.get(path, ()), known)
        ]
        index_rows.replace_edges(connection, paths, edges)
        mention_links.relink_mentions(connection, None if due.everything else due.names)
        index_rows.write_meta(connection, _TOTALS, "")


def _report(connection: sqlite3.Connection, found: FileSurvey, tally: _Tally, *, duration_s: float) -> IndexReport:
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
        with damage_if_invalid("a total"):
            by_kind, by_language, edges = json.loads(kept)
        return by_kind, by_language, edges
    counted = index_rows.index_totals(connection)
    index_rows.write_meta(connection, _TOTALS, json.dumps(counted))
    return counted
