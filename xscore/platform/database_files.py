"""Database files without SQLite: which of them this process has open, and what a header says.

SQLite locks files with POSIX locks, which the system drops as soon as the process closes *any*
descriptor of the file: then another process takes itself for the last one, and removes a
journal that is in use. So nothing else in this process opens and closes a file that SQLite has
open. The header is read without SQLite, which would replay a journal of the file first; an
encrypted database shows none. Trade-offs: a connection that is dropped without being closed
counts as open; a journal may hold a newer header than the file, so opening the database means
looking again.
"""

import os
import stat
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from msgspec import Struct

_lock = Lock()
_connections: Counter[str] = Counter()
SQLITE_MAGIC = b"SQLite format 3\0"
"""The first bytes of every database that is not encrypted."""
_HEADER = struct.Struct(">16s44xi4xI28x")
"""Magic, user_version at byte 60 and application_id at byte 68 of a database's first 100 bytes."""


def note_opened(path: Path) -> None:
    """Count a connection; call it before SQLite opens the file."""
    with _lock:
        _connections[os.path.realpath(path)] += 1


def opened_databases() -> list[Path]:
    """Return the databases that this process has opened, also those that it has closed."""
    with _lock:
        return [Path(path) for path in _connections]


def note_closed(path: Path) -> None:
    """Count a connection less."""
    with _lock:
        _connections[os.path.realpath(path)] -= 1


@contextmanager
def kept_from_sqlite(path: Path) -> Iterator[bool]:
    """Keep this process from opening the database while its file is read; False if it has it
    open, so do not read it."""
    with _lock:
        yield _connections[os.path.realpath(path)] <= 0


class DatabaseHeader(Struct, frozen=True):
    """What the header says about the database."""

    schema_version: int
    """SQLite's `user_version`; 0: no tables yet."""
    application_id: int


def read_header(path: Path) -> DatabaseHeader | None:
    """Return the header of the database at `path`; None if that is not a plain database, or is open
    in this process."""
    data = b""
    with suppress(OSError), kept_from_sqlite(path) as may_read:
        if may_read and stat.S_ISREG(path.lstat().st_mode):  # reading a pipe would never end
            with path.open("rb") as file:
                data = file.read(_HEADER.size)
    if len(data) < _HEADER.size or not data.startswith(SQLITE_MAGIC):
        return None
    _, schema_version, application_id = _HEADER.unpack(data)
    return DatabaseHeader(schema_version, application_id)
