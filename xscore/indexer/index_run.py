"""One run of the index: what it was asked, which files it met, and what it counted.

It lists the files and decides which are read; `index` names the steps, `changes` reads and writes.
"""

import os
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import asdict

from xscore.indexer.discovery import ReincludedPaths, discover_files
from xscore.platform.database import transaction
from xscore.platform.files import changed_ns, is_there, settled_ns
from xscore.platform.hashing import digest, file_digest
from xscore.platform.paths import RepositoryRoot, portable_name
from xscore.platform.text import counted
from xscore.records.indexing import (
    CommitCounts,
    Excluded,
    ExcludedCounts,
    FileCounts,
    FileStamp,
    IndexReport,
    MemoryCounts,
)
from xscore.store import index_rows
from xscore.store.worktrees import removed_worktrees

if TYPE_CHECKING:
    from xscore.indexer.admission import AdmissionRules
    from xscore.indexer.languages import Language
    from xscore.settings import IndexSettings
    from xscore.store.encoded_files import EncodedFile

INDEX_VERSION = "30"
"""Increase it when the same bytes would be split, named or linked differently: all files are
parsed again."""
_SAMPLE = 1_000
_RULES_CHARS = 12
"""How many characters of the profile are stored with each version of a file."""

ChangedFile = tuple[str, str, os.stat_result]
"""Portable path, native name and stat of a changed file."""


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
    """The stored stamp of each file of this worktree, by path."""
    changed: list[ChangedFile] = []
    """New files, and files whose stamp changed."""
    excluded: list[Excluded] = []
    notes: list[str] = []
    notes_of_files: dict[str, list[str]] = {}
    """Why a grammar was not used -> the files it was not used for."""
    is_listed: bool = True
    """Whether all files were listed before the deadline."""
    is_unchanged: bool = False
    """See `IndexReport`."""
    unchanged: int = 0
    indexed: int = 0
    adopted: int = 0
    """Changed files whose bytes another worktree has parsed."""
    removed: int = 0
    secrets: int = 0
    commits_added: int = 0
    commits_removed: int = 0
    commits: CommitCounts = CommitCounts()
    languages_read: set[str] = set()
    languages_missing: set[str] = set()
    """Languages of these files whose grammar cannot be used."""
    changes: index_rows.IndexChanges = field(default_factory=index_rows.IndexChanges)
    touched: dict[FileStamp, float] = {}
    """Files whose stamp changed but whose bytes did not -> their new modification time."""
    refused: list[FileStamp] = []
    """Files that were read and are not indexed, with the reason (`FileStamp.excluded`)."""
    unread: list[FileStamp] = []
    """Files excluded by name or size."""
    slow: list[str] = []
    """Files being parsed when the deadline came."""
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
        rule_files = ["secrets.json"]
        if not self.allow_pii:
            rule_files.append("pii.json")
        rules = ""
        for name in rule_files:
            rules += file_digest(Path(index_rows.__file__).with_name(name).read_bytes())
        decisive = relevant + self.languages + self.reincluded.rules
        return digest(INDEX_VERSION, rules, repr(decisive), str(settings.window_lines))

    @cached_property
    def reincluded(self) -> ReincludedPaths:
        """What the repository takes back of vendored folders."""
        return ReincludedPaths(self.root, git=self.settings.git)

    @cached_property
    def rules(self) -> "AdmissionRules":
        """Which files are indexed."""
        # Only new or changed files are checked.
        from xscore.indexer.admission import AdmissionRules

        return AdmissionRules(self.settings, self.reincluded.holds)

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
            from xscore.indexer.grammars import (
                lacks_package,  # most index runs look up no changed file
            )

            self.rules_by_language[language] = self._rules(
                lacks_grammar=lacks_package(language)
            )
        return self.rules_by_language[language]

    def forget_removed_worktrees(self) -> None:
        """Remove the rows of worktrees that git no longer has."""
        removed = removed_worktrees(self.connection, self.root)
        if removed:
            from xscore.store.file_versions import forget_worktrees  # few runs find one gone

            forget_worktrees(self.connection, removed)

    def compare_with_stamps(self) -> tuple[set[str], list[ChangedFile]]:
        """List the files; return the paths of those that are as they were, and the files that are
        new or changed."""
        listing = discover_files(self.root, git=self.settings.git, until=self.until)
        self.excluded = list(listing.excluded)
        self.notes += listing.notes
        self.is_listed = listing.is_whole
        present: set[str] = set()
        new_files: list[ChangedFile] = []
        prefix = os.fspath(self.root.path) + "/"
        stamps = self.stamps
        behind_links = _folders_behind_links(prefix, listing.paths)
        # Every turn looks at every file: no call that the loop can do without.
        for name in listing.paths:
            if name.isascii() and "%" not in name:
                path = name
            else:
                path = portable_name(name)
            # git counts files behind a link as deleted, and we follow no link.
            if behind_links and name.rpartition("/")[0] in behind_links:
                continue
            try:
                info = os.lstat(prefix + name)
            except (FileNotFoundError, NotADirectoryError):
                continue  # listed by git's index, deleted from disk
            # Its folder may not be searched, or its path is longer than the system takes.
            except OSError:
                self.excluded.append(Excluded(path, "unreadable"))
                continue
            stamp = stamps.get(path)
            if (
                stamp is None
                or stamp.size != info.st_size
                or stamp.mtime_ns != changed_ns(info)
            ):
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
        reasons = self.rules.refusals([(path, info) for path, _, info in new_files])
        replaced: set[str] = set()
        for (path, name, info), reason in zip(new_files, reasons, strict=True):
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

    def finds_all_as_before(self, present: set[str], new_files: Sequence[ChangedFile]) -> bool:
        """Return whether each file is as it was at the run before; note how those are that have no
        stamp.

        present: paths of the files that are as their stamps say.
        new_files: the others, admitted or refused.
        """
        if self.changed or self.unread or len(present) < len(self.stamps):
            return False
        is_settled = True
        # Links, and files whose path is a secret. Their paths do not count: they are not stored.
        states: list[str] = []
        for _, _, info in new_files:
            changed_at = settled_ns(info, now=self.now)
            is_settled = is_settled and changed_at > 0
            states.append(f"{info.st_ino} {info.st_size} {changed_at}")
        state = digest(*states) if states else ""
        if index_rows.read_index_meta(self.connection, index_rows.WITHOUT_STAMP) != state:
            with transaction(self.connection):
                index_rows.write_index_meta(self.connection, index_rows.WITHOUT_STAMP, state)
                index_rows.drop_noted_change(self.connection)
            return False
        return is_settled

    def remove_absent(self, present: set[str]) -> None:
        """Remove missing files with their memories."""
        absent = [path for path in self.stamps if path not in present]
        if absent:
            self.removed += sum(not self.stamps[path].excluded for path in absent)
            from xscore.store.file_rows import replace_files  # in most turns no file is gone

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
                    by_reason=dict(sorted(reasons.items())),
                    sample=_without_secrets(self.excluded[:_SAMPLE], self.stamps),
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
            notes=(*self.notes, *_render_notes(self.notes_of_files)),
            files_left=self.files_left,
            is_unchanged=self.is_unchanged,
            commits=self.commits,
        )


def _without_secrets(
    excluded: Sequence[Excluded], stamps: Mapping[str, FileStamp]
) -> tuple[Excluded, ...]:
    """Return excluded files with paths that may be printed, and so be kept in a log.

    stamps: the stored ones, whose paths hold no secret.
    """
    unchecked = [file.path for file in excluded if file.path not in stamps]
    if not unchecked:
        return tuple(excluded)
    from xscore.store.redaction import is_safe_name, redact  # most runs print stored paths only

    # All at once: one by one takes twice as long.
    if is_safe_name("\n".join(unchecked)):
        return tuple(excluded)
    return tuple(Excluded(redact(file.path).text, file.reason) for file in excluded)


def _folders_behind_links(prefix: str, names: Sequence[str]) -> set[str]:
    """Return the folders of these files that are links, or lie behind one.

    git's index still lists what was in a folder that a link has replaced, and the files there look
    as they did.

    prefix: the path of the root, with a slash.
    """
    paths = {name.rpartition("/")[0] for name in names}
    is_linked: dict[str, bool] = {"": False}
    for path in paths:
        parent = ""
        for part in path.split("/"):
            folder = f"{parent}/{part}" if parent else part
            if folder not in is_linked:
                is_linked[folder] = is_linked[parent] or is_there(
                    Path(prefix + folder), stat.S_ISLNK, follow=False
                )
            parent = folder
    return {folder for folder, is_link in is_linked.items() if is_link}


def _render_notes(notes_of_files: dict[str, list[str]]) -> list[str]:
    """Return one line for each note: hundreds of files may have the same."""
    lines: list[str] = []
    for note, paths in notes_of_files.items():
        files = min(paths)
        if len(paths) > 1:
            files += f" and {counted(len(paths) - 1, 'more file')}"
        lines.append(f"{files}: {note}")
    return lines
