"""Prove an erasure: look for each telling line of the erased text in the raw bytes of every file of the store.

What is still said by a memory that stays, or was asked in a turn, may be found and proves nothing: such lines are left
out and counted. It trusts neither the erasure nor SQLite. The bytes of an encrypted database prove nothing, so that
every row of it is read instead; that nothing is left between the rows rests on its having been rewritten. Trade-off: it
reads every byte, some 20 ms for a megabyte.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from xscore import sealing
from xscore.memory import user_store
from xscore.memory.databases import Databases
from xscore.memory.erasure.files import files_of, is_unclean, search
from xscore.memory.erasure.plan import still_said
from xscore.memory.erasure.scan import Lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the search came to."""

    lines: int
    """Telling lines, and halves of long ones, that were looked for."""
    still_said: int
    """Lines that were not: a memory that stays says them, or a task asked for them."""
    files: int
    """Files that were read, all bytes."""
    encrypted: int
    """Databases among them whose bytes prove nothing, so that all their rows were read as well."""
    found_in: tuple[str, ...]
    """Files that hold one of them."""
    journal_is_empty: bool
    """False: another process reads the journal, which therefore keeps what was erased."""

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return self.journal_is_empty and not self.found_in


def prove(store: Databases, wording: Iterable[str]) -> Proof:
    """Search the files of the repository's store and of the user's. Raises StoreError for one that cannot be read.

    wording: of `erasure.wording`, asked before the erasure.
    """
    wanted = frozenset(wording)
    connections = store.connections()
    kept = set[str]().union(*(still_said(connection, wanted, tasks=True) for connection in connections))
    files = _files(store)
    found = {str(file) for file in search(files, wanted - kept)}
    sealed = {path: connection for path, connection in _databases(store) if sealing.note_of(path) is not None}
    found |= {str(path) for path, connection in sealed.items() if _is_said(connection, Lines(wanted - kept))}
    return Proof(
        lines=len(wanted - kept),
        still_said=len(kept),
        files=len(files),
        encrypted=len(sealed),
        found_in=tuple(sorted(found)),
        journal_is_empty=not any(map(is_unclean, connections)),
    )


def _databases(store: Databases) -> Iterator[tuple[Path, sqlite3.Connection]]:
    yield store.path, store.connection
    if store.user_data_dir is not None and (own := store.user_connection()) is not None:
        yield user_store.path_in(store.user_data_dir), own


def _is_said(connection: sqlite3.Connection, lines: Lines) -> bool:
    """Whether a row of any table says one of the lines."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0").fetchall()
    rows = (row for (table,) in tables for row in connection.execute(f'SELECT * FROM "{table}"'))  # noqa: S608  names are the schema's
    texts = (
        value if isinstance(value, str) else value.decode("utf-8", "replace")
        for row in rows
        for value in row
        if isinstance(value, str | bytes)
    )
    return any(lines.found_in(text) for text in texts)


def _files(store: Databases) -> list[Path]:
    """Every file in the store's folder, and the user's store with its journals."""
    own = [place for place in store.path.parent.rglob("*") if place.is_file() and not place.is_symlink()]
    folder = store.user_data_dir
    return sorted({*own, *(files_of(user_store.path_in(folder)) if folder else [])})
