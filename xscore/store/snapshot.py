"""A store whose folder cannot be written, or whose disk is full: a copy of it in a temporary
folder, which is gone when it is closed.

Sandboxes of agents and read-only mounts leave the git folder readable only. A turn then reads,
judges and answers as usual, and keeps nothing. On a full disk SQLite cannot even read, because it
needs a file for memory that processes share; the copy goes where there is room, if need be into
memory (`/dev/shm`). The copy is taken while other processes may write to
the store, so it is repeated until database and journal did not change meanwhile. Trade-off: each
command copies the whole database.
"""

import os
import shutil
import sqlite3
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

from xscore.platform import sqlite_drivers
from xscore.platform.errors import StoreError
from xscore.platform.paths import STORE_FILE
from xscore.platform.processes import is_alive
from xscore.store import opening
from xscore.store.journals import refuse_foreign_journal

COPIED = ("", "-wal", sqlite_drivers.NOTE_SUFFIX)
"""Suffixes of the files that make a store; shared memory is rebuilt from the journal."""
_MOST_TRIES = 10
_PREFIX = "xscore-copy-"
_JOURNAL_BYTES = 1_000_000
"""Room for the journal of a copy, in bytes."""
_IN_MEMORY = Path("/dev/shm")  # noqa: S108  a folder that only this user may enter is made in it
"""A file system in memory that Linux has."""


def open_snapshot(
    store_dir: Path, *, user_data_dir: Path, trust: bool
) -> tuple[sqlite3.Connection, opening.StoreKeys]:
    """Open a copy of the store in this folder, or an empty one if there is none.

    Return the connection and what opens the copy again. Closing the connection removes the
    copy. Raises StoreUntrusted as `open_store` does, StoreDamaged, and StoreError if there is no
    room for a copy.
    """
    path = store_dir / STORE_FILE
    keys = opening.StoreKeys(user_data_dir, notes_journals=False)
    folder = _make_folder(sum(size for _, size, _ in _state(path)) + _JOURNAL_BYTES)
    copy = folder / STORE_FILE
    try:
        if os.path.lexists(path):
            opening.refuse_links(store_dir)
            if not trust:
                refuse_foreign_journal(path, user_data_dir)
            _copy_store(path, copy)
            if not (
                trust or opening.is_trusted(store_dir, user_data_dir=user_data_dir, copy=copy)
            ):
                raise opening.untrusted_error(path, user_data_dir)
        else:
            opening.create_scratch(copy, "", None).rename(copy)
        connection = opening.connect_store(copy, keys)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    remove_copy = partial(shutil.rmtree, folder, ignore_errors=True)
    connection.after_close.append(remove_copy)  # type: ignore[attr-defined]  # of our connection class
    return connection, keys


def _make_folder(needed_bytes: int) -> Path:
    """Make a folder with this much room. Raises StoreError."""
    _remove_copies_of_dead()
    problem = "each disk for them is full"
    for place in _temporary_folders():
        try:
            if shutil.disk_usage(place).free >= needed_bytes:
                return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
        except OSError as error:
            problem = str(error.strerror)
    raise StoreError(
        f"there is no folder for temporary files: {problem}",
        hint="Name one that you may write with TMPDIR.",
    )


def _temporary_folders() -> list[Path]:
    """Return where a copy may be put, the usual place first."""
    try:
        usual = Path(tempfile.gettempdir())
    except FileNotFoundError:  # it looks for one with room
        return [_IN_MEMORY]
    # Its last resort is the working folder: the tree of a repository, as often as not.
    if usual == Path.cwd() and not os.environ.get("TMPDIR"):
        return [_IN_MEMORY]
    return [usual, _IN_MEMORY]


def _remove_copies_of_dead() -> None:
    """Remove the copies that killed processes of this user left: they hold all that the store
    holds."""
    for place in _temporary_folders():
        for folder in place.glob(f"{_PREFIX}*-*"):
            process = folder.name.removeprefix(_PREFIX).partition("-")[0]
            with suppress(OSError):
                if (
                    process.isdecimal()
                    and folder.lstat().st_uid == os.geteuid()
                    and not is_alive(int(process))
                ):
                    shutil.rmtree(folder)


def _copy_store(path: Path, copy: Path) -> None:
    """Copy a store that others may be writing to. Raises StoreError."""
    for _ in range(_MOST_TRIES):
        before = _state(path)
        try:
            for suffix in COPIED:
                if os.path.lexists(f"{path}{suffix}"):
                    shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}", follow_symlinks=False)
        except FileNotFoundError:
            continue  # the journal went as its last writer closed
        except OSError as error:
            raise StoreError(
                f"{path} cannot be copied: {error.strerror}", hint="Check its permissions."
            ) from error
        if _state(path) == before:
            return
        for suffix in COPIED:
            Path(f"{copy}{suffix}").unlink(missing_ok=True)
    raise StoreError(
        f"{path} is being written continuously",
        hint="Wait for the other xscore, then run it again.",
    )


def _state(path: Path) -> list[tuple[int, int, int]]:
    """Return inode, size and time of change of a store's files."""
    state = []
    for suffix in COPIED:
        try:
            status = os.lstat(f"{path}{suffix}")
            state.append((status.st_ino, status.st_size, status.st_mtime_ns))
        except OSError:
            state.append((0, 0, 0))
    return state
