"""Which of SQLite's journals beside a store may be replayed: those that a process of this user left there.

SQLite replays any well-formed journal before our code sees the database, and a journal carries
whole pages. So whoever can put one beside a store (an archive, a backup, a shared folder) could
plant scores behind the store's id. Each process that opens a store therefore notes the journal's
inode in the user's own folder, before it writes, and removes its note once the journal is gone. A
killed process leaves both, so what it committed is recovered. A journal without a note is refused.

Stores in the user's own folder need no notes: nobody else writes there. Trade-off: a power cut may
lose a note that the disk did not have yet; `xscore store trust` then accepts the journal.
"""

import os
import sqlite3
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Lock

from xscore.platform.database_header import read_header
from xscore.platform.errors import StoreError, StoreUntrusted
from xscore.platform.hashing import digest
from xscore.platform.sqlite_drivers import NOTE_SUFFIX
from xscore.store.user_secret import OTHER_FOLDER_HINT

JOURNALS = ("-wal", "-shm", "-journal")
"""Suffixes of SQLite's files beside a database."""
FILE_SUFFIXES = ("", *JOURNALS, NOTE_SUFFIX)
"""Suffixes of a database and of everything that may lie beside it."""
REPLAYED = ("-wal", "-journal")
"""Those whose pages SQLite takes over; the shared-memory file is made again by the first process."""
_FIRST_NOTING_SCHEMA = 2
"""Stores that only older versions have opened have no notes yet."""
_numbers = count()
_notes_of_closed: dict[Path, list[Path]] = {}
"""Notes of this process's closed connections to journals that were still there then, by the folder of their store."""
_lock = Lock()
"""Guards them: threads of one process may close their connections at once."""


def refuse_foreign_journal(path: Path, user_data_dir: Path) -> None:
    """Raise StoreUntrusted if a journal beside the store at `path` was not left by a process of this user."""
    if path.is_relative_to(user_data_dir):
        return
    for suffix in REPLAYED:
        journal = Path(f"{path}{suffix}")
        inode = _inode_of(journal)
        if inode and not _is_noted(path, inode, user_data_dir) and not _predates_notes(path):
            raise StoreUntrusted(
                f"{journal} was not left by an xscore of yours: it may have come with an archive or a backup",
                hint="If you put it there, accept it with `xscore store trust`. Otherwise `xscore store rebuild` sets"
                " store and journal aside and makes a new store.",
            )


def note_journal(connection: sqlite3.Connection, path: Path, user_data_dir: Path) -> None:
    """Note the journal that this connection writes to, until it is closed. Raises StoreError.

    Call it after the first read, which makes SQLite create the journal, and before the first write.
    While the connection is open SQLite keeps the file, so its inode stays the same.
    """
    wal = Path(f"{path}-wal")
    if path.is_relative_to(user_data_dir):
        return
    try:
        status = wal.stat()
    except OSError:
        return  # not in WAL mode: another process is encrypting the store, or makes it
    folder = _notes_of(path, user_data_dir)
    name = f"{status.st_dev:x}-{status.st_ino:x}"
    note = folder / f"{name}-{os.getpid()}-{next(_numbers)}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for other in folder.iterdir():
            if not other.name.startswith(f"{name}-"):  # of a journal that is gone
                other.unlink(missing_ok=True)
        os.close(os.open(note, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be written: {error.strerror}",
            hint=OTHER_FOLDER_HINT,
        ) from error

    def forget() -> None:
        # SQLite removes the journal when its last connection closes. While it stays, so do the notes.
        with _lock:
            _notes_of_closed.setdefault(note.parent, []).append(note)
            if wal.exists():
                return
            for own_note in _notes_of_closed.pop(note.parent):
                with suppress(OSError):
                    own_note.unlink()

    connection.after_close.append(forget)  # type: ignore[attr-defined]  # of our connection class


def accept_journals(path: Path, user_data_dir: Path) -> None:
    """Note the journals beside a store that the user accepts. Raises StoreError."""
    folder = _notes_of(path, user_data_dir)
    for suffix in REPLAYED:
        inode = _inode_of(Path(f"{path}{suffix}"))
        if not inode:
            continue
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / f"{inode}-accepted").touch(mode=0o600)
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {error.strerror}", hint="Check its permissions.") from error


def has_journal(path: Path) -> bool:
    """Whether a journal with content lies beside the database at `path`."""
    return any(_inode_of(Path(f"{path}{suffix}")) for suffix in REPLAYED)


def _is_noted(path: Path, inode: str, user_data_dir: Path) -> bool:
    try:
        return any(note.name.startswith(f"{inode}-") for note in _notes_of(path, user_data_dir).iterdir())
    except OSError:
        return False


def _notes_of(path: Path, user_data_dir: Path) -> Path:
    return user_data_dir / "journals" / digest("journals", os.path.realpath(path))


def _inode_of(journal: Path) -> str:
    """Return device and inode of a journal; empty if there is none, or nothing in it."""
    try:
        status = journal.lstat()
    except OSError:
        return ""
    return f"{status.st_dev:x}-{status.st_ino:x}" if status.st_size else ""


def _predates_notes(path: Path) -> bool:
    """Whether a store has a schema of versions that noted no journals. Read from the file, so nothing is replayed."""
    header = read_header(path)
    return header is not None and 0 < header.schema_version < _FIRST_NOTING_SCHEMA
