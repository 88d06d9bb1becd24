"""The proof of an erasure: search the raw bytes of every file of both stores for the erased lines.

The bytes of an encrypted database prove nothing, so its rows are read instead. A line that
another memory or a task still holds is left out, since it is there legitimately. Trade-off:
what is too short to be told from coincidence cannot be searched for, and a proof without any
line does not hold.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from msgspec import Struct

from xscore.platform import sqlite_drivers
from xscore.store import opening, stated_copy
from xscore.store.line_search import LineMatcher
from xscore.store.scrubbing import (
    database_files,
    lines_still_stored,
    needs_scrubbing,
    search_files,
)
from xscore.store.store import Store


class ErasureProof(Struct, frozen=True, kw_only=True):
    """The result of the search."""

    lines: int
    """Lines, and halves of long ones, that were searched for."""
    still_said: int
    """Lines left out because another memory or a task contains them."""
    files: int
    """Files read."""
    encrypted: int
    """How many of the files are encrypted databases, whose rows were read instead."""
    found_in: tuple[str, ...]
    """Files that contain one of the lines."""
    journal_is_empty: bool
    """Whether the journal is empty; if not, another process reads it, and it still contains
    erased text."""
    user_store_searched: bool
    """Whether the user's own store was searched; if not, `memory.user_learning` is off, so that
    it stayed closed."""
    holds: bool
    """Whether the proof holds: nothing erased was found. Also False if no line is long enough
    to search for."""


def verify_erasure(store: Store, lines: Iterable[str]) -> ErasureProof:
    """Search the files of both stores and their copies. Raises StoreError.

    lines: of `erased_lines`, asked before the erasure.
    """
    searched = frozenset(lines)
    connections = store.connections()
    still_said = set[str]()
    for connection in connections:
        still_said |= lines_still_stored(connection, searched, tasks=True)
    sought = searched - still_said
    with ExitStack() as copies:
        databases = _databases(store, copies)
        files = _files(store, databases)
        tainted = {str(file) for file in search_files(sorted(files), sought)}
        encrypted = 0
        for path, connection in databases.items():
            if sqlite_drivers.read_note(path) is not None:
                encrypted += 1
                if _has_row_with(connection, LineMatcher(sought)):
                    tainted.add(str(path))
    is_empty = not any(map(needs_scrubbing, connections))
    return ErasureProof(
        lines=len(sought),
        still_said=len(still_said),
        files=len(files),
        encrypted=encrypted,
        found_in=tuple(sorted(tainted)),
        journal_is_empty=is_empty,
        user_store_searched=store.user_data_dir is not None,
        holds=is_empty and not tainted and bool(searched),
    )


def _databases(store: Store, copies: ExitStack) -> dict[Path, sqlite3.Connection]:
    """Return both stores and, opened in `copies`, their copies, by path."""
    databases = {store.path: store.connection}
    user = store.user_connection()
    if user is not None and store.user_data_dir is not None:
        databases[opening.user_store_path(store.user_data_dir)] = user
    for source in store.copied_stores():
        for copy in filter(Path.exists, source.copies):
            opened = closing(stated_copy.open_copy(copy, source.keys))
            databases[copy] = copies.enter_context(opened)
    return databases


def _files(store: Store, databases: Mapping[Path, sqlite3.Connection]) -> set[Path]:
    """Return every file in the store's folder, and those of databases elsewhere."""
    files = set[Path]()
    for place in store.path.parent.rglob("*"):
        # Where a link leads is not ours to read.
        if place.is_file() and not place.is_symlink():
            files.add(place)
    for path in databases:
        files.update(database_files(path))
    return files


def _has_row_with(connection: sqlite3.Connection, lines: LineMatcher) -> bool:
    """Whether a row of any table holds one of the lines."""
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
    ).fetchall()
    for (table,) in tables:
        for row in connection.execute(f'SELECT * FROM "{table}"'):
            for value in row:
                text = value
                if isinstance(value, bytes):
                    text = value.decode("utf-8", "replace")
                if isinstance(text, str) and lines.found_in(text):
                    return True
    return False
