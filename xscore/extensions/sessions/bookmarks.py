"""How far each session file was read (`session_file` rows), so that the next import reads only what is new.

A file of the same size and time is not opened; one that grew is read on; any other is read from the start. Trade-off: a
file that was rewritten with the same beginning and a larger size is taken for one that grew.
"""

import json
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, field

from xscore.extensions.sessions.session_format import ReadPosition
from xscore.platform.database import damage_if_invalid
from xscore.platform.hashing import file_digest
from xscore.platform.paths import portable_name

READERS_VERSION = 2
"""Version of all readers; files read by another version are read again."""
_HEAD_BYTES = 4096
_COLUMNS = ("path", "origin", "size", "mtime_ns", "read_to", "head_hash", "note", "state")


class Bookmark(Struct, frozen=True, kw_only=True):
    """What is known of a session file; one row of `session_file`."""

    path: str
    origin: str
    size: int
    mtime_ns: int
    read_to: int
    """Byte offset to resume from."""
    head_hash: str
    """Length and digest of its beginning."""
    note: str = ""
    """Why it was refused; empty if it was not."""
    state: Mapping[str, object] = field(default_factory=dict)

    @property
    def since(self) -> float:
        """The `--since` it was read with."""
        return float(str(self.state.get("since", 0.0)))

    @property
    def taken(self) -> int:
        """The last line of which something is stored."""
        taken = self.state.get("taken")
        return taken if isinstance(taken, int) else 0

    def position(self) -> ReadPosition:
        """Return where to resume."""
        number, state = self.state.get("line"), self.state.get("reader")
        number = number if isinstance(number, int) else 1
        return ReadPosition(self.read_to, number, state if isinstance(state, dict) else {})

    def is_current(self, since: float) -> bool:
        """Whether today's readers read it, from that time on or earlier."""
        return self.state.get("readers") == READERS_VERSION and self.since <= since


def home_relative(path: Path, home: Path) -> str:
    """Write a path as the store keeps it, with `~` for the home folder."""
    text = str(path)
    return portable_name(f"~{text.removeprefix(str(home))}" if text.startswith(f"{home}{os.sep}") else text)


def load_bookmark(connection: sqlite3.Connection, path: str) -> Bookmark | None:
    """Return what is known of a file. Raises StoreError for a damaged row."""
    row = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM session_file WHERE path = ?", (path,)).fetchone()
    if row is None:
        return None
    with damage_if_invalid("a session file"):
        found = dict(zip(_COLUMNS, row, strict=True))
        numbers = {name: int(found[name]) for name in ("size", "mtime_ns", "read_to")}
        return Bookmark(**{**found, **numbers, "state": dict(json.loads(found["state"]))})


def save_bookmark(connection: sqlite3.Connection, bookmark: Bookmark, *, now: float) -> None:
    """Save a bookmark in the transaction that stores what was read."""
    values = {name: getattr(bookmark, name) for name in _COLUMNS}
    values.update(state=json.dumps(bookmark.state), imported_at=now)
    connection.execute(
        f"INSERT OR REPLACE INTO session_file ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
        tuple(values.values()),
    )


def hash_head(file: BinaryIO, size: int) -> str:
    """Identify the beginning of a file of at least `size` bytes; leaves the file at its start."""
    length = min(size, _HEAD_BYTES)
    found = f"{length}:{file_digest(file.read(length))}"
    file.seek(0)
    return found


def has_same_head(file: BinaryIO, known: Bookmark) -> bool:
    """Whether the file still begins as it did."""
    length = known.head_hash.partition(":")[0]
    return length.isdigit() and hash_head(file, int(length)) == known.head_hash
