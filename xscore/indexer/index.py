"""Bring the store up to date with the files: by stat, then by hash, then by parsing; then link what
changed.

An unchanged file costs one stat: equal size and time of change skip the read, unless that time was
within the resolution of timestamps at the last run (`settled_ns`). Parsed files are written in
batches, one transaction each, with their pending links, so a run that is killed or meets its
deadline leaves a consistent store and the next one continues. Trade-off: such a first run leaves
memories without edges.
"""

import os
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import asdict

from xscore.indexer.discovery import TakenBack, discover_files
from xscore.platform.database import is_busy, lock_wait_until, transaction
from xscore.platform.errors import StoreError
from xscore.platform.files import changed_ns
from xscore.platform.hashing import digest, file_digest
from xscore.platform.paths import RepositoryRoot, portable_name
from xscore.records.memory import (
    Excluded,
    ExcludedCounts,
    FileCounts,
    FileStamp,
    IndexReport,
    MemoryCounts,
)
from xscore.store import index_rows
from xscore.store.opening import open_empty_store
from xscore.store.worktrees import enter_worktree, removed_worktrees

if TYPE_CHECKING:
    from xscore.indexer.admission import AdmissionRules
    from xscore.indexer.languages import Language
    from xscore.settings import IndexSettings
    from xscore.store.encoded_files import EncodedFile

INDEX_VERSION = "24"
"""Increase it when the same bytes would be cut, named or linked differently: all files are parsed
again."""
_SAMPLE = 1_000
_FIRST_LOOK = 200
"""How many files are admitted at a time to find one that can be read."""
_RULES_CHARS = 12
"""Of the profile, as it is stored with each version of a file."""

ChangedFile = tuple[str, str, os.stat_result]
"""Portable path, native name, stat."""


def index_repository(
    connection: sqlite3.Connection,
    root: RepositoryRoot,
    settings: "IndexSettings",
    *,
    now: float,
    allow_pii: bool = False,
    until: float | None = None,
    siblings: Callable[[], Sequence[Path]] = list,
    languages: tuple["Language", ...] = (),
    progress: Callable[[int, int], None] = lambda _files, _of: None,
) -> IndexReport:
    """Index what changed under `root` since the last run, and report on every file.

    allow_pii: keep personal data of configuration.
    until: when to stop, in seconds of `time.monotonic`; what is left is counted (`files_left`) and
        the next run goes on from there.
    siblings: finds stores that a new one may begin from.
    languages: those of other packages.
    progress: told how many of how many files are read.
    Raises StoreError, StoreDamaged. A file that cannot be read or parsed never fails the run: it is
    excluded with its reason, or cut into windows with a note.
    """
    started = time.perf_counter()
    enter_worktree(connection, root.worktree)
    if languages:
        from xscore.indexer.languages import add_languages

        add_languages(languages)
    run = IndexRun(connection, root, settings, now, allow_pii, until, languages, progress)
    with lock_wait_until(connection, until):
        try:
            enter_worktree(connection, root.worktree, must_know=True)
            run.forget_removed_worktrees()
            notes = run.begin_from_another(siblings)
            run.update()
            run.notes += notes
        except StoreError as error:
            if until is None or not is_busy(error):
                raise
            run.notes.append(
                "another process is writing to the store, so the index was left as it is"
            )
        return run.report(duration_s=time.perf_counter() - started)


def nothing_to_read(
    root: RepositoryRoot, settings: "IndexSettings", *, now: float
) -> IndexReport | None:
    """Return the report of a folder in which no file would be indexed; None if there is one. Stores
    nothing.

    It reads until the first file that is text, so it costs little more than the listing.
    """
    started = time.perf_counter()
    with closing(open_empty_store()) as connection:
        enter_worktree(connection)
        run = IndexRun(connection, root, settings, now)
        _, new_files = run.compare_with_stamps()
        from xscore.indexer.changes import files_to_parse

        for start in range(0, len(new_files), _FIRST_LOOK):
            admitted_before = len(run.changed)
            run.admit(new_files[start : start + _FIRST_LOOK])
            if next(files_to_parse(run, run.changed[admitted_before:]), None) is not None:
                return None
        run.excluded += [Excluded(stamp.path, stamp.excluded) for stamp in run.refused]
        return run.report(duration_s=time.perf_counter() - started)


class IndexRun(Struct, dict=True):
    """One run, with its counts."""

    connection: sqlite3.Connection
    root: RepositoryRoot
    settings: "IndexSettings"
    now: float
    allow_pii: bool = False
    until: float | None = None
    languages: tuple["Language", ...] = ()
    progress: Callable[[int, int], None] = lambda _files, _of: None
    stamps: dict[str, FileStamp] = {}
    changed: list[ChangedFile] = []
    """New files, and files whose stamp changed."""
    excluded: list[Excluded] = []
    notes: list[str] = []
    is_listed: bool = True
    """Whether all files were listed before the deadline."""
    unchanged: int = 0
    indexed: int = 0
    adopted: int = 0
    """Changed files whose bytes another worktree has parsed."""
    removed: int = 0
    secrets: int = 0
    languages_read: set[str] = set()
    languages_missing: set[str] = set()
    """Those of them whose grammar cannot be used."""
    changes: index_rows.IndexChanges = field(default_factory=index_rows.IndexChanges)
    touched: dict[FileStamp, float] = {}
    """The same bytes at another time; when they were modified."""
    refused: list[FileStamp] = []
    unread: list[FileStamp] = []
    """Excluded by name or size."""
    slow: list[str] = []
    rules_by_language: dict[str, str] = {}

    @cached_property
    def profile(self) -> str:
        """A digest of every rule and setting that decides how bytes become memories."""
        settings = self.settings
        relevant = (
            settings.include,
            settings.exclude,
            settings.max_file_bytes,
            settings.max_line_chars,
        )
        rules = ""
        for name in ("secrets.json",) if self.allow_pii else ("secrets.json", "pii.json"):
            rules += file_digest(Path(index_rows.__file__).with_name(name).read_bytes())
        decisive = relevant + self.languages + self.taken_back.rules
        return digest(INDEX_VERSION, rules, repr(decisive), str(settings.window_lines))

    @cached_property
    def taken_back(self) -> TakenBack:
        """What the repository takes back of vendored folders."""
        return TakenBack(self.root, git=self.settings.git)

    @cached_property
    def rules(self) -> "AdmissionRules":
        """Which files are indexed."""
        from xscore.indexer.admission import AdmissionRules  # lazy: in most turns nothing changed

        return AdmissionRules(self.settings, self.taken_back.holds)

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.until is not None and time.monotonic() >= self.until

    @property
    def files_left(self) -> int:
        """Changed files that are still to be read or written."""
        return len(self.changed) - self.indexed - len(self.touched) - len(self.refused)

    def rules_behind(self, file: "EncodedFile") -> str:
        """Return a short digest of all that decided how this file was parsed, its grammar
        included."""
        return self._rules(lacks_grammar=file.lacks_grammar)

    def _rules(self, *, lacks_grammar: bool) -> str:
        rules = digest("without grammar", self.profile) if lacks_grammar else self.profile
        return rules[:_RULES_CHARS]

    def rules_of(self, language: str) -> str:
        """Return the digest for a file of this language as it would be parsed now.

        No grammar is loaded in this process, so one that is installed and does not load counts as
        usable: its files are parsed again instead of adopted.
        """
        if language not in self.rules_by_language:
            from xscore.indexer.grammars import lacks_package  # lazy: in most turns nothing changed

            self.rules_by_language[language] = self._rules(lacks_grammar=lacks_package(language))
        return self.rules_by_language[language]

    def forget_removed_worktrees(self) -> None:
        """Remove the rows of worktrees that git no longer has."""
        removed = removed_worktrees(self.connection, self.root)
        if removed:
            from xscore.store.file_versions import forget_worktrees

            forget_worktrees(self.connection, removed)

    def begin_from_another(self, siblings: Callable[[], Sequence[Path]]) -> list[str]:
        """Begin with the index of another worktree, or of a clone; return a note of it."""
        indexed_by = index_rows.read_index_meta(self.connection, index_rows.PROFILE)
        # An index of these rules is begun from another only while a first run is unfinished.
        if indexed_by and indexed_by != self.profile:
            return []
        if indexed_by and not index_rows.files_left(self.connection):
            return []
        from xscore.indexer.takeover import begin_from_clone, begin_from_worktree

        return begin_from_worktree(self) or begin_from_clone(self, siblings)

    def update(self) -> None:
        """Bring the store up to date, as far as the deadline allows."""
        connection = self.connection
        indexed_by = index_rows.read_index_meta(connection, index_rows.PROFILE)
        if indexed_by != self.profile or _has_new_grammar(connection):
            with transaction(connection):
                index_rows.invalidate_stamps(connection)
                index_rows.write_index_meta(connection, index_rows.PROFILE, self.profile)
        self.stamps = index_rows.file_stamps(connection)
        present, new_files = self.compare_with_stamps()
        # What was not listed may still be there: nothing is removed.
        if not self.is_listed:
            return
        self.remove_absent(present | self.admit(new_files))
        if self.unread:
            with transaction(connection):
                index_rows.write_stamps(connection, self.unread)
        if self.changed:
            from xscore.indexer.changes import parse_changed  # lazy: in most turns nothing changed

            parse_changed(self)
        elif index_rows.read_index_meta(connection, index_rows.FILES_LEFT):
            index_rows.write_index_meta(connection, index_rows.FILES_LEFT, "")
        index_rows.note_kept_out(connection, Counter(excluded.reason for excluded in self.excluded))
        # Links are resolved once all files are read: a name of those left would seem to be gone.
        if not (self.files_left or self.is_late) and index_rows.links_due(connection):
            from xscore.indexer.relinking import link_changes  # lazy: in most turns nothing changed

            link_changes(connection)

    def compare_with_stamps(self) -> tuple[set[str], list[ChangedFile]]:
        """List the files; return the paths of those that are as they were, and the files that are
        new or changed."""
        listing = discover_files(self.root, git=self.settings.git, until=self.until)
        self.excluded = list(listing.excluded)
        self.notes = listing.notes
        self.is_listed = listing.is_whole
        present: set[str] = set()
        new_files: list[ChangedFile] = []
        prefix = os.fspath(self.root.path) + "/"
        for name in listing.paths:
            path = portable_name(name)
            try:
                info = os.lstat(prefix + name)
            except (FileNotFoundError, NotADirectoryError):
                continue  # listed by git's index, deleted from disk
            # Its folder may not be searched, or its path is longer than the system takes.
            except OSError:
                self.excluded.append(Excluded(path, "unreadable"))
                continue
            stamp = self.stamps.get(path)
            if stamp is None or (stamp.mtime_ns, stamp.size) != (changed_ns(info), info.st_size):
                new_files.append((path, name, info))
                continue
            present.add(path)
            if stamp.excluded:
                self.excluded.append(Excluded(path, stamp.excluded))
            else:
                self.unchanged += 1
        return present, new_files

    def admit(self, new_files: Sequence[ChangedFile]) -> set[str]:
        """Decide which new or changed files are read; return the paths whose stamps will be
        replaced."""
        if not new_files:
            return set()
        from xscore.store.redaction import find_literals  # lazy: in most turns nothing changed

        # All paths are searched for secrets at once: path by path it took half of a first look at a
        # large folder.
        literals = find_literals((path for path, _, _ in new_files), prose=False)
        replaced: set[str] = set()
        for path, name, info in new_files:
            reason = self.rules.refusal(path, info, literals)
            if not reason:
                replaced.add(path)
                self.changed.append((path, name, info))
                continue
            self.excluded.append(Excluded(path, reason))
            # A path that is a secret is not stored.
            if reason == "secret" or not stat.S_ISREG(info.st_mode):
                continue
            self.unread.append(FileStamp(path, info.st_size, changed_ns(info), "", "", reason))
            stamp = self.stamps.get(path)
            if stamp is not None and stamp.excluded:
                replaced.add(path)
        return replaced

    def remove_absent(self, present: set[str]) -> None:
        """Remove missing files with their memories."""
        absent = [path for path in self.stamps if path not in present]
        if absent:
            self.removed += sum(not self.stamps[path].excluded for path in absent)
            from xscore.store.file_rows import replace_files  # lazy: in most turns nothing changed

            with transaction(self.connection):
                self.changes += replace_files(self.connection, (), absent)

    def report(self, *, duration_s: float) -> IndexReport:
        """Return the report of the run."""
        by_kind, by_language, edges = index_rows.index_totals(self.connection)
        reasons = Counter(excluded.reason for excluded in self.excluded)
        return IndexReport(
            files=FileCounts(
                seen=self.indexed + self.adopted + self.unchanged + len(self.excluded),
                indexed=self.indexed + self.adopted,
                unchanged=self.unchanged,
                removed=self.removed,
                excluded=ExcludedCounts(
                    by_reason=dict(sorted(reasons.items())), sample=tuple(self.excluded[:_SAMPLE])
                ),
            ),
            memories=MemoryCounts(
                total=sum(by_kind.values()),
                by_kind=by_kind,
                by_language=by_language,
                **asdict(self.changes),
            ),
            edges=edges,
            secrets_redacted=self.secrets,
            duration_s=duration_s,
            notes=tuple(self.notes),
            files_left=self.files_left,
        )


def _has_new_grammar(connection: sqlite3.Connection) -> bool:
    """Whether a grammar that was missing when its files were read is installed now."""
    names = index_rows.read_index_meta(connection, index_rows.GRAMMARS_MISSING).split()
    return bool(names) and without_grammar(names) != names


def without_grammar(names: Sequence[str]) -> list[str]:
    """Return the languages of these whose grammar is not installed."""
    from xscore.indexer import grammars  # lazy: in most turns nothing changed

    return grammars.without_grammar(names)
