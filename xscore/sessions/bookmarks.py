"""How far each session file was read, so that the next import reads what is new: rows of `session_file`.

A file of the same size and time is not opened; one that only grew is read on; any other is read anew. Trade-off: a file
that is written anew with the same beginning and a larger size is taken for one that grew.
"""

import json
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from xscore.database import making_sense
from xscore.files import settled_mtime_ns
from xscore.hashing import file_digest
from xscore.paths import portable

READERS = 1
"""Version of all readers together: another one reads every file anew."""
_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Bookmark:
    """What is known of a session file."""

    path: str
    origin: str
    size: int
    mtime_ns: int
    read_to: int
    head_hash: str
    note: str = ""
    state: Mapping[str, object] = field(default_factory=dict)

    @property
    def since(self) -> float:
        """From when on exchanges were taken."""
        return float(str(self.state.get("since", 0.0)))

    @property
    def is_current(self) -> bool:
        """Whether today's readers read it."""
        return self.state.get("readers") == READERS


def name_of(path: Path, home: Path) -> str:
    """Write a path as the store keeps it: text, with `~` for the home folder."""
    text = str(path)
    return portable(f"~{text.removeprefix(str(home))}" if text.startswith(f"{home}{os.sep}") else text)


def load(connection: sqlite3.Connection, path: str) -> Bookmark | None:
    """Return what is known of a file."""
    row = connection.execute(
        "SELECT origin, size, mtime_ns, read_to, head_hash, note, state FROM session_file WHERE path = ?", (path,)
    ).fetchone()
    if row is None:
        return None
    with making_sense("a session file"):
        origin, size, mtime_ns, read_to, head_hash, note, state = row
        return Bookmark(
            path=path,
            origin=str(origin),
            size=int(size),
            mtime_ns=int(mtime_ns),
            read_to=int(read_to),
            head_hash=str(head_hash),
            note=str(note),
            state=dict(json.loads(state)),
        )


def save(connection: sqlite3.Connection, bookmark: Bookmark, *, now: float) -> None:
    """Keep it, in the transaction that puts what was read."""
    connection.execute(
        "INSERT INTO session_file (path, origin, size, mtime_ns, read_to, head_hash, note, state, imported_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET origin = excluded.origin,"
        " size = excluded.size, mtime_ns = excluded.mtime_ns, read_to = excluded.read_to,"
        " head_hash = excluded.head_hash, note = excluded.note, state = excluded.state,"
        " imported_at = excluded.imported_at",
        (
            *(bookmark.path, bookmark.origin, bookmark.size, bookmark.mtime_ns, bookmark.read_to),
            *(bookmark.head_hash, bookmark.note, json.dumps(bookmark.state), now),
        ),
    )


def head_hash(file: BinaryIO, size: int) -> str:
    """Identify the beginning of a file that has `size` bytes at least; the file is left at its start."""
    length = min(size, _HEAD_BYTES)
    found = f"{length}:{file_digest(file.read(length))}"
    file.seek(0)
    return found


def is_same_file(file: BinaryIO, known: Bookmark) -> bool:
    """Whether the file begins as it did."""
    length = known.head_hash.partition(":")[0]
    return length.isdigit() and head_hash(file, int(length)) == known.head_hash


def seen_mtime_ns(info: os.stat_result, *, now: float) -> int:
    """The time to remember: 0 where a later write could leave the same."""
    return settled_mtime_ns(info, now=now)
