"""Which open stores have a copy of what was stated, where it lies and whether it is behind.

Every command closes a store, and most change nothing that is copied: only this is loaded then. What
a copy holds, and how it is read and written, is `stated_copy`'s business.
"""

import os
import sqlite3
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from xscore.platform import database
from xscore.platform.errors import StoreError
from xscore.platform.hashing import digest
from xscore.platform.sqlite_drivers import KeySource
from xscore.store.events import EventName
from xscore.store.index_rows import read_meta, write_meta
from xscore.store.memory_rows import has_stated_memory

COPIES_DIR = "stated"
"""Folder of the copies within the user's data folder."""
_COPIED = "stated_copy"
"""Key in `meta` of a store: the newest event that its copy knows of, and how many memories the copy
has."""
_MOST_EVENTS_BEHIND = 500
"""Note a newer event after this many without a statement, so that the log is never read from far
back."""
_NOTE_WAIT_S = 0.2
NEWEST_EVENT = "SELECT coalesce(max(id), 0) FROM event"
_HAS_NEW_STATEMENT = f"""
    SELECT EXISTS (
        SELECT 1 FROM event WHERE id > ?
        AND name IN ('{EventName.STORED}', '{EventName.UPDATED}', '{EventName.REMOVED}')
        AND coalesce(json_extract(payload, '$.kind'), '') NOT IN ('exchange', 'summary')
    )
"""
_FIRST_COPY = "0 0"


class CopiedStore(Struct, frozen=True, dict=True):
    """An open store of which a copy is kept."""

    connection: sqlite3.Connection
    path: Path
    user_data_dir: Path
    keys: KeySource

    @cached_property
    def copy_path(self) -> Path:
        """The file of its copy, present or not."""
        name = f"{_path_name(self.path)}-{self._id_name}.db"
        return self.user_data_dir / COPIES_DIR / name

    @property
    def copies(self) -> list[Path]:
        """The copy of this store, present or not, and the others."""
        return [self.copy_path, *self.other_copies]

    @property
    def other_copies(self) -> list[Path]:
        """Copies of earlier stores at this path, and of this store at other paths; sorted."""
        folder = self.copy_path.parent
        files = {
            *folder.glob(f"{_path_name(self.path)}-*.db"),
            *folder.glob(f"*-{self._id_name}.db"),
        }
        return sorted(files - {self.copy_path})

    @cached_property
    def _id_name(self) -> str:
        return digest("store", read_meta(self.connection, "store_id"))[:16]


def _path_name(path: Path) -> str:
    return digest("path", os.path.realpath(path))[:16]


def copies_at(path: Path, user_data_dir: Path) -> list[Path]:
    """Return the copies of the stores that are or were at this path, the latest first."""
    times: dict[Path, float] = {}
    for copy in sorted((user_data_dir / COPIES_DIR).glob(f"{_path_name(path)}-*.db")):
        with suppress(FileNotFoundError):  # removed since
            times[copy] = copy.stat().st_mtime
    return sorted(times, key=times.__getitem__, reverse=True)


def is_behind(source: CopiedStore) -> bool:
    """Whether the copy lacks a change of the store, or is gone. Takes about 50 microseconds."""
    try:
        event, memories = map(int, read_meta(source.connection, _COPIED).split())
    except ValueError:  # never copied
        return True
    if has_statement_since(source.connection, event):
        return True
    return bool(memories) and not source.copy_path.exists()


def has_statement_since(connection: sqlite3.Connection, event: int) -> bool:
    """Whether something may have been stated, changed or removed after this event."""
    (newest,) = connection.execute(NEWEST_EVENT).fetchone()
    if newest == event:
        return False
    if newest - event > _MOST_EVENTS_BEHIND:
        return True
    (has_statement,) = connection.execute(_HAS_NEW_STATEMENT, (event,)).fetchone()
    return bool(has_statement)


def is_worth_a_copy(connection: sqlite3.Connection) -> bool:
    """Whether a store holds anything that was stated, or ids that stay erased."""
    if has_stated_memory(connection):
        return True
    return connection.execute("SELECT 1 FROM erased_memory LIMIT 1").fetchone() is not None


def note_copied(connection: sqlite3.Connection, newest: int, memories: int) -> None:
    """Note up to which event the copy is complete; where the store is being written, the next
    closing copies again."""
    try:
        with (
            database.lock_wait_until(connection, time.monotonic() + _NOTE_WAIT_S),
            database.transaction(connection),
        ):
            # Another process may have copied more meanwhile.
            before = read_meta(connection, _COPIED) or _FIRST_COPY
            if int(before.split()[0]) <= newest:
                write_meta(connection, _COPIED, f"{newest} {memories}")
    except StoreError as error:
        if not database.is_busy(error):
            raise


def is_due(source: CopiedStore) -> bool:
    """Whether the copy must be written before the store is closed.

    Where there is nothing to copy, this is noted, so that the next closing need not look again.
    """
    if not is_behind(source):
        return False
    if source.copy_path.exists() or is_worth_a_copy(source.connection):
        return True
    note_copied(source.connection, 0, 0)
    return False
