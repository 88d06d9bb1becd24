"""Which of SQLite's journals of a store may be replayed: those that a process of this user left
there.

SQLite replays any well-formed journal before a byte of ours runs, and a journal carries whole
pages. Anything that can put one next to a store (an archive, a backup, a shared folder) could
plant scores behind the store's id. Each process that opens a store therefore notes the inode of
its journal before it writes, and removes the note once the journal is gone. A note is next to
the store and is signed with the user's secret, so nobody else can write one, and a sandbox that
keeps a process out of the user's folder does not keep it from noting. A killed process leaves
journal and note, and what it committed is recovered. A journal without a valid note is refused.

Stores in the user's own folder need no notes: nobody else writes there. Trade-off: a power cut may
lose a note that the disk did not have yet; `xscore store trust` then accepts the journal.
"""

import os
import sqlite3
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Lock

from xscore.platform.database import unwritable_hint
from xscore.platform.database_files import read_header
from xscore.platform.errors import StoreError, StoreUntrusted
from xscore.platform.hashing import are_equal
from xscore.platform.processes import is_alive
from xscore.platform.sqlite_drivers import NOTE_SUFFIX
from xscore.store import user_secret

JOURNALS = ("-wal", "-shm", "-journal")
"""Suffixes of SQLite's journals, which are next to a database."""
FILE_SUFFIXES = ("", *JOURNALS, NOTE_SUFFIX)
"""Suffixes of a database and of all files that may be next to it."""
REPLAYED = ("-wal", "-journal")
"""Suffixes of journals whose pages SQLite takes over; the shared-memory file is rebuilt by the
first process."""
NOTE = "-writer-"
"""Part of a note's name between that of the database and the journal's inode; the process
follows."""
_FIRST_NOTING_SCHEMA = 2
"""First schema with notes; stores that only older versions have opened have none yet."""
_SCHEMA_OFFSET = 60
"""Place of the schema's number (`user_version`) in the header of a database file."""
_MOST_NOTE_BYTES = 100
_LOOKS = 5
"""How often a journal without a note is looked at before it counts as foreign."""
_numbers = count()
_closing = Lock()
_notes_of_closed: dict[Path, list[Path]] = {}
"""Notes of this process's closed connections to journals that were still there then, by store."""


def refuse_foreign_journal(path: Path, user_data_dir: Path) -> None:
    """Raise StoreUntrusted if a journal of the store at `path` was not left by a process of
    this user."""
    if path.is_relative_to(user_data_dir):
        return
    for suffix in REPLAYED:
        journal = Path(f"{path}{suffix}")
        if _is_foreign(journal, path, user_data_dir):
            raise StoreUntrusted(
                f"{journal} was not left by one of your own xscore processes: it may have come with"
                f" an archive or a backup{user_secret.explain_lost_marks(user_data_dir)}",
                hint=(
                    "If you put it there, accept it with `xscore store trust`. Otherwise `xscore"
                    " store rebuild` sets store and journal aside and makes a new store, with the"
                    " rows of yours without the journal."
                ),
            )


def has_unusable_journal(path: Path, user_data_dir: Path) -> bool:
    """Whether the store at `path` has a journal of others, or something in its place that is no
    file."""
    for suffix in JOURNALS:
        with suppress(OSError):
            if not stat.S_ISREG(Path(f"{path}{suffix}").lstat().st_mode):
                return True
    try:
        refuse_foreign_journal(path, user_data_dir)
    except StoreUntrusted:
        return True
    return False


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
    # Without the device, whose number may change when it is mounted again.
    inode = f"{status.st_ino:x}"
    for earlier_note in _notes_of(path):
        if not _is_for(earlier_note, path, inode):  # of a journal that is gone
            earlier_note.unlink(missing_ok=True)
    note = _write_note(path, inode, f"{os.getpid()}-{next(_numbers)}", user_data_dir)

    def forget() -> None:
        # SQLite removes the journal when its last connection closes. While it stays, so do the
        # notes.
        with _closing:
            closed = _notes_of_closed.setdefault(path, [])
            closed.append(note)
            if wal.exists():
                return
            # Those of killed processes go as well: the next journal may get the same inode.
            old_notes = _notes_of_closed.pop(path)
            for earlier_note in _notes_of(path):
                if _is_for(earlier_note, path, inode) and _is_dead(earlier_note):
                    old_notes.append(earlier_note)
            for old_note in old_notes:
                with suppress(OSError):
                    old_note.unlink()

    connection.after_close.append(forget)  # type: ignore[attr-defined]  # of our connection class


def accept_journals(path: Path, user_data_dir: Path) -> None:
    """Note the journals of a store that the user accepts. Raises StoreError."""
    for suffix in REPLAYED:
        inode = _inode_of(Path(f"{path}{suffix}"))
        if inode:
            _write_note(path, inode, "accepted", user_data_dir)


def has_journal(path: Path) -> bool:
    """Whether the database at `path` has a journal with content."""
    return any(_inode_of(Path(f"{path}{suffix}")) for suffix in REPLAYED)


def _is_foreign(journal: Path, path: Path, user_data_dir: Path) -> bool:
    """Whether a journal with content lies there that no process of this user noted."""
    # The last process to close the store removes the journal and then its notes, and another may
    # make a new one under the same inode; so one look may see the old journal and no note any more.
    # A process notes its journal before it writes there: a further look sees both or neither.
    for _ in range(_LOOKS):
        inode = _inode_of(journal)
        if not inode or _is_noted(path, inode, user_data_dir) or _predates_notes(path):
            return False
    return True


def _is_noted(path: Path, inode: str, user_data_dir: Path) -> bool:
    signature = _signature(path, inode, user_data_dir)
    for note in _notes_of(path):
        if not _is_for(note, path, inode):
            continue
        with suppress(OSError), note.open("rb") as file:
            if are_equal(file.read(_MOST_NOTE_BYTES), signature):
                return True
    return False


def _write_note(path: Path, inode: str, process: str, user_data_dir: Path) -> Path:
    note = path.with_name(f"{path.name}{NOTE}{inode}-{process}")
    try:
        note.unlink(missing_ok=True)
        descriptor = os.open(note, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_signature(path, inode, user_data_dir))
    except OSError as error:
        # On a full disk the file is there and empty; nothing else would ever remove it.
        with suppress(OSError):
            note.unlink(missing_ok=True)
        hint = unwritable_hint(error, otherwise="Check the permissions.")
        raise StoreError(f"{note} cannot be written: {error.strerror}", hint=hint) from error
    return note


def _signature(path: Path, inode: str, user_data_dir: Path) -> bytes:
    secret = user_secret.known_user_secret(user_data_dir)
    return secret.derive("journal", os.path.realpath(path), inode).hex().encode()


def _notes_of(path: Path) -> list[Path]:
    beginning = f"{path.name}{NOTE}"
    try:
        return [file for file in path.parent.iterdir() if file.name.startswith(beginning)]
    except OSError:
        return []


def _is_dead(note: Path) -> bool:
    """Whether the process that wrote a note has ended; one that accepted journals has no number in
    it."""
    process = note.name.rpartition(NOTE)[2].split("-")[1]
    return not (process.isdecimal() and is_alive(int(process)))


def _is_for(note: Path, path: Path, inode: str) -> bool:
    return note.name.startswith(f"{path.name}{NOTE}{inode}-")


def _inode_of(journal: Path) -> str:
    """Return the inode of a journal; empty if there is none, or nothing in it."""
    try:
        status = journal.lstat()
    except OSError:
        return ""
    if status.st_size:
        return f"{status.st_ino:x}"
    return ""


def _predates_notes(path: Path) -> bool:
    """Whether a store has a schema of versions that noted no journals.

    Read from the file, so nothing is replayed.
    """
    header = read_header(path)
    return header is not None and 0 < header.schema_version < _FIRST_NOTING_SCHEMA
