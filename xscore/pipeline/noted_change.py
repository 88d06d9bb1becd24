"""A note of which lines are changed and not committed, so that git need not be asked again while
nothing has changed.

The note holds the state in which git was asked (HEAD, its index and its settings) and the lines,
never their text. It counts only where an index run has just found every file as it was, and a run
that writes down a change removes it. Trade-off: a change of git's settings outside the repository,
such as how it compares, is noticed only when a file, HEAD or the index changes.
"""

import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from xscore.platform.database import lock_wait_until, transaction
from xscore.platform.errors import StoreError
from xscore.platform.files import settled_ns
from xscore.platform.git_folder import head_commit
from xscore.platform.paths import RepositoryRoot
from xscore.platform.tree_state import file_state
from xscore.store.index_rows import NOTED_CHANGE, read_index_meta, write_index_meta
from xscore.store.redaction import is_safe_name

MOST_NOTED = 5_000
"""Most ranges of lines that are noted."""
_SETTINGS = ("config", "config.worktree", "info/attributes")
"""Files in git's folder that decide what it takes for a change."""


class NotedChange(Struct, frozen=True, array_like=True):
    """The change that git found in some state."""

    state: str
    """See `committed_state`."""
    has_text: bool = False
    """Whether there is a diff to show; without one git need not be asked even for its text."""
    lines: Mapping[str, Sequence[tuple[int, int]]] = {}
    """The first and last changed lines by path, as `uncommitted.edited_lines` has them."""


_DECODER = msgspec.json.Decoder(NotedChange)


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


def noted_change(connection: sqlite3.Connection, state: str) -> NotedChange | None:
    """Return the change that git found in this state; None where none is noted of it."""
    written = read_index_meta(connection, NOTED_CHANGE) if state else ""
    if not written:
        return None
    # If it is damaged, or of an earlier form, git is asked, and it is written again.
    with suppress(ValueError):
        noted = _DECODER.decode(written)
        if noted.state == state:
            return noted
    return None


def store_version(connection: sqlite3.Connection) -> int:
    """Return a number that differs after another process has written."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def note_change(connection: sqlite3.Connection, change: NotedChange, *, version: int) -> None:
    """Note what git found, unless the store cannot be written at once.

    version: version of the store before git was asked. Another process that has written since
    may have indexed a later change: then nothing is noted.
    """
    count = sum(map(len, change.lines.values()))
    if not change.state or count > MOST_NOTED or not is_safe_name("\n".join(change.lines)):
        return
    written = msgspec.json.encode(change).decode()
    if read_index_meta(connection, NOTED_CHANGE) == written:
        return
    no_wait = lock_wait_until(connection, time.monotonic())
    with suppress(StoreError), no_wait, transaction(connection):
        if store_version(connection) == version:
            write_index_meta(connection, NOTED_CHANGE, written)


def _is_settled(index: Path) -> bool:
    """Return whether a later write of a file would show in its times."""
    try:
        return settled_ns(index.lstat(), now=time.time()) > 0
    except OSError:
        return False
