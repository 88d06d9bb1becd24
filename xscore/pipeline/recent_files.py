"""The files that the newest commits touched, which git lists once for each commit of HEAD.

The list is noted in the store with the commit that HEAD was at, so a turn without a new commit
starts no process of git for it. Names that hold a secret are left out: they are in no memory.
Trade-off: a list of very many files, such as that of a first commit, is not noted.
"""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.clock import DAY_S
from xscore.platform.database import lock_wait_until
from xscore.platform.errors import StoreError
from xscore.platform.git_folder import head_commit
from xscore.platform.paths import RepositoryRoot, portable_name
from xscore.platform.tree_state import file_state
from xscore.records.turn import ChangedFile, CommitFacts
from xscore.store.index_rows import read_index_meta, write_index_meta
from xscore.store.redaction import is_safe_name

if TYPE_CHECKING:
    from xscore.platform.git_log import LogEntry

MAX_RECENT_DAYS = 30.0
MOST_NOTED = 5_000
"""Most files that are noted."""
_NOTED = "recent_files"
"""Key in `worktree_meta`: the state of the history, and the files of its newest commits."""


class _RecentFiles(Struct, frozen=True, array_like=True):
    """The files of the newest commits, as they are noted."""

    state: str
    """See `_history_state`."""
    commits: list[tuple[CommitFacts, list[str]]]
    """Each commit with the files that it touched last; newest first."""


_DECODER = msgspec.json.Decoder(_RecentFiles)


def _facts_of(commit: "LogEntry") -> CommitFacts:
    """Return what boosts may know of a commit.

    A note in the store goes by the state of the history: whatever else a fact depends on must
    not change without a commit, or be part of that state (`_history_state`).
    """
    return CommitFacts(committed_at=commit.committed_at)


def recent_changes(root: RepositoryRoot, moment: float) -> list[ChangedFile]:
    """Return the files of recent commits, newest first.

    moment: Unix seconds; a commit after it has a negative age.
    """
    return list(_changes(_listed_by_git(root), moment))


def changes_before_head(
    connection: sqlite3.Connection, root: RepositoryRoot, moment: float
) -> list[ChangedFile]:
    """Return the same, from what was noted of this commit of HEAD where there is any.

    A clock that is behind makes a commit no younger than now.
    """
    head = head_commit(root.git_dir) if root.git_dir is not None else ""
    # Without commits git has nothing to list, and branches that are not files cannot be compared.
    state = _history_state(root, head)
    recent = _noted(connection) if state else None
    if recent is None or recent.state != state:
        recent = _listed_by_git(root, head=head, state=state)
        if state:
            _note(connection, recent)
    changes: list[ChangedFile] = []
    for file in _changes(recent, moment):
        changes.append(file if file.age_days >= 0 else replace(file, age_days=0.0))
    return changes


def with_edits(
    recent: Iterable[ChangedFile], edits: Mapping[str, Sequence[tuple[int, int]]]
) -> tuple[ChangedFile, ...]:
    """Return the edited files, which keep what is known about their last commit, then the
    others.

    edits: lines of the uncommitted change, by path.
    """
    committed = {file.path: file for file in recent}
    edited: list[ChangedFile] = []
    for path, lines in edits.items():
        file = committed.pop(path, ChangedFile(path, 0.0))
        edited.append(replace(file, age_days=0.0, lines=tuple(lines)))
    return (*edited, *committed.values())


def _changes(recent: _RecentFiles, moment: float) -> Iterator[ChangedFile]:
    for commit, paths in recent.commits:
        age_days = (moment - commit.committed_at) / DAY_S
        if age_days <= MAX_RECENT_DAYS:
            for path in paths:
                yield ChangedFile(path, age_days, commit=commit)


def _history_state(root: RepositoryRoot, head: str) -> str:
    """Return what changes when git's list of the newest commits may; empty where that cannot be
    told."""
    folder = root.git_dir
    if folder is None or not head:
        return ""
    if root.worktree:
        # A linked worktree has its folder in `worktrees` of the one that all of them share.
        folder = folder.parent.parent
    # A shallow clone gets earlier commits while HEAD stays.
    return f"{head} {file_state(os.fspath(folder / 'shallow'))}"


def _listed_by_git(root: RepositoryRoot, *, head: str = "", state: str = "") -> _RecentFiles:
    """head: HEAD may move while git runs, and the list must be of the commit that was noted."""
    from xscore.platform.git_log import recent_commits  # only after a commit

    touched = recent_commits(root.path, at=head or "HEAD")
    paths = [portable_name(file.path) for file in touched]
    # All at once: one by one takes longer than git.
    are_safe = is_safe_name("\n".join(paths))
    paths_of_commit: dict[str, list[str]] = {}
    facts: dict[str, CommitFacts] = {}
    for file, path in zip(touched, paths, strict=True):
        if are_safe or is_safe_name(path):
            paths_of_commit.setdefault(file.commit.hash, []).append(path)
            facts[file.commit.hash] = _facts_of(file.commit)
    commits = [(facts[hash_], paths) for hash_, paths in paths_of_commit.items()]
    return _RecentFiles(state, commits)


def _noted(connection: sqlite3.Connection) -> _RecentFiles | None:
    written = read_index_meta(connection, _NOTED)
    if not written:
        return None
    # If it is damaged, git has it all, and it is written again.
    with suppress(ValueError):
        return _DECODER.decode(written)
    return None


def _note(connection: sqlite3.Connection, recent: _RecentFiles) -> None:
    """Note the list, unless the store cannot be written, or not at once."""
    count = sum(len(paths) for _, paths in recent.commits)
    # None: git may have failed, or been stopped.
    if not 0 < count <= MOST_NOTED:
        return
    with suppress(StoreError), lock_wait_until(connection, time.monotonic()):
        write_index_meta(connection, _NOTED, msgspec.json.encode(recent).decode())
