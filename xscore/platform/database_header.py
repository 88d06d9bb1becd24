"""The header of a database file, read without SQLite: SQLite would replay a journal beside it
first.

An encrypted database shows no header. Trade-off: a journal may hold a newer header than the file,
so whoever opens the database looks again.
"""

import stat
import struct
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from xscore.platform.open_files import kept_from_sqlite

SQLITE_MAGIC = b"SQLite format 3\0"
"""The first bytes of every database that is not encrypted."""
_HEADER = struct.Struct(">16s44xi4xI28x")
"""Magic, user_version at byte 60 and application_id at byte 68 of a database's first 100 bytes."""


class DatabaseHeader(Struct, frozen=True):
    """What the header says of the database."""

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
