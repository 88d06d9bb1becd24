"""A note that git found no uncommitted change, so that it need not be asked again while nothing has
changed.

The note holds the state in which git was asked: HEAD, its index and its settings. It counts only
where an index run has just found every file as it was, and a run that finds a change removes it.
Trade-off: git's settings outside the repository are not looked at. They could only matter for the
line ends of an untouched file.
"""

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from xscore.platform.database import lock_wait_until, transaction
from xscore.platform.errors import StoreError
from xscore.platform.files import settled_ns
from xscore.platform.git_folder import head_commit
from xscore.platform.paths import RepositoryRoot
from xscore.platform.tree_state import file_state
from xscore.store.index_rows import CLEAN_TREE, read_index_meta, write_index_meta

_SETTINGS = ("config", "config.worktree", "info/attributes")
"""Files in git's folder that decide what it takes for a change."""


def committed_state(root: RepositoryRoot) -> str:
    """Return what changes with HEAD, the index and git's settings here; empty where that cannot be
    told."""
    folder = root.git_dir
    # A linked worktree shares its settings with others, in another folder.
    if folder is None or root.worktree:
        return ""
    head = head_commit(folder)
    index = folder / "index"
    if not head or not _is_settled(index):
        return ""
    states = [file_state(os.fspath(folder / name)) for name in _SETTINGS]
    return " ".join([head, file_state(os.fspath(index)), *states])


def is_noted_clean(connection: sqlite3.Connection, state: str) -> bool:
    """Return whether git found no change in this state."""
    return bool(state) and read_index_meta(connection, CLEAN_TREE) == state


def store_version(connection: sqlite3.Connection) -> int:
    """Return a number that differs after another process has written."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def note_clean(connection: sqlite3.Connection, state: str, *, version: int) -> None:
    """Note that git found no change in this state, unless the store cannot be written at once.

    version: of the store before git was asked. Another process that has written since may have
    indexed a later change: then nothing is noted.
    """
    if not state:
        return
    no_wait = lock_wait_until(connection, time.monotonic())
    with suppress(StoreError), no_wait, transaction(connection):
        if store_version(connection) == version:
            write_index_meta(connection, CLEAN_TREE, state)


def _is_settled(index: Path) -> bool:
    """Return whether a later write of a file would show in its times."""
    try:
        return settled_ns(index.lstat(), now=time.time()) > 0
    except OSError:
        return False
