"""The files that the newest commits touched, which git lists once for each commit of HEAD.

The list is noted in the store beside the commit that HEAD was at, so a turn without a new commit
starts no process of git for it. Names that hold a secret are left out: they are in no memory.
Trade-off: a list of very many files, such as that of a first commit, is not noted.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress

import msgspec
from msgspec import Struct

from xscore.platform.clock import DAY_S
from xscore.platform.database import lock_wait_until
from xscore.platform.errors import StoreError
from xscore.platform.git import recent_commits
from xscore.platform.git_folder import head_commit
from xscore.platform.paths import RepositoryRoot, portable_name
from xscore.records.turn import ChangedFile
from xscore.store.index_rows import read_index_meta, write_index_meta
from xscore.store.redaction import is_safe_name

MAX_RECENT_DAYS = 30.0
MOST_NOTED = 5_000
"""How many files are noted at most."""
_NOTED = "recent_files"
"""Key in `worktree_meta`: the commit of HEAD, and the files of the commits before it."""


class _RecentFiles(Struct, frozen=True, array_like=True):
    """The files of the newest commits, as they are noted."""

    head: str
    paths_by_time: list[tuple[float, list[str]]]
    """Unix seconds of a commit, and the files that it touched last; newest first."""


_DECODER = msgspec.json.Decoder(_RecentFiles)


def recent_changes(root: RepositoryRoot, moment: float) -> list[ChangedFile]:
    """Return the files of recent commits, newest first.

    moment: Unix seconds; a commit after it has a negative age.
    """
    return list(_changes(_listed_by_git(root, ""), moment))


def changes_before_head(
    connection: sqlite3.Connection, root: RepositoryRoot, moment: float
) -> list[ChangedFile]:
    """Return the same, from what was noted of this commit of HEAD where there is any."""
    head = head_commit(root.git_dir) if root.git_dir is not None else ""
    # Without commits git has nothing to list, and branches that are not files cannot be compared.
    if not head:
        return recent_changes(root, moment)
    recent = _noted(connection)
    if recent is None or recent.head != head:
        recent = _listed_by_git(root, head)
        _note(connection, recent)
    return list(_changes(recent, moment))


def _changes(recent: _RecentFiles, moment: float) -> Iterator[ChangedFile]:
    for committed_at, paths in recent.paths_by_time:
        age_days = (moment - committed_at) / DAY_S
        if age_days <= MAX_RECENT_DAYS:
            for path in paths:
                yield ChangedFile(path, age_days)


def _listed_by_git(root: RepositoryRoot, head: str) -> _RecentFiles:
    touched = recent_commits(root.path)
    paths = [portable_name(file.path) for file in touched]
    # All at once: one by one takes longer than git.
    are_safe = is_safe_name("\n".join(paths))
    paths_by_time: list[tuple[float, list[str]]] = []
    for file, path in zip(touched, paths, strict=True):
        if not (are_safe or is_safe_name(path)):
            continue
        if not paths_by_time or paths_by_time[-1][0] != file.committed_at:
            paths_by_time.append((file.committed_at, []))
        paths_by_time[-1][1].append(path)
    return _RecentFiles(head, paths_by_time)


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
    count = sum(len(paths) for _, paths in recent.paths_by_time)
    # None: git may have failed, or been stopped.
    if not 0 < count <= MOST_NOTED:
        return
    with suppress(StoreError), lock_wait_until(connection, time.monotonic()):
        write_index_meta(connection, _NOTED, msgspec.json.encode(recent).decode())
