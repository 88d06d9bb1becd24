"""A copy of what was stated, in the user's own folder, so that it survives the loss of the store.

Each store has a copy of its own, `stated/<path>-<store>.db`, named by digests of the store's real
path and id. It holds every memory that is neither indexed from a file nor a past exchange, with
citations, and the ids that stay erased. The copy of an encrypted store is encrypted too. The event
log says whether a copy is behind, so no writer knows of copies: it is brought up to date when the
store is closed, after a killed process by the next one. A memory leaves the copy only if the log
says that it was removed, so damage in the store takes nothing from it. Trade-offs: use counts and
moved lines of a citation follow with the next statement; a statement is lost if its process is
killed right after it and the store is deleted before the next command.
"""

import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from xscore.platform import database, sqlite_drivers
from xscore.platform.errors import StoreDamaged, StoreError
from xscore.platform.file_lock import hold_lock
from xscore.platform.sqlite_drivers import KeySource
from xscore.platform.text import counted
from xscore.store import memory_rows, stated_rows
from xscore.store.copied_stores import (
    COPIES_DIR,
    NEWEST_EVENT,
    CopiedStore,
    copies_at,
    is_worth_a_copy,
    note_copied,
)
from xscore.store.events import EventName
from xscore.store.index_rows import read_meta, write_meta
from xscore.store.journals import FILE_SUFFIXES
from xscore.store.stated_rows import CopyRow, StatedMemory
from xscore.store.user_secret import OTHER_FOLDER_HINT

if TYPE_CHECKING:
    from xscore.store.line_search import LineMatcher


def _migrate(
    connection: sqlite3.Connection, path: Path, keys: KeySource | None
) -> database.Migration | None:
    raise StoreDamaged(
        f"{path} has a schema that no version of xscore wrote",
        hint="Remove it: it is rebuilt from the store.",
    )


SCHEMA = database.Schema(
    Path(__file__).with_name("stated_copy.sql"),
    application_id=0x78736373,
    version=1,
    migrate=_migrate,
)
"""Schema of a copy; the id is `xscs`."""
_LOCK_WAIT_S = 2.0
_REMOVED_LAST = f"""
    SELECT subject FROM event WHERE subject {memory_rows.IN_JSON_LIST} GROUP BY subject
    HAVING max(id) = max(CASE WHEN name = '{EventName.REMOVED}' THEN id END)
"""

Result = TypeVar("Result")


class CopyContents(Struct, frozen=True):
    """What a copy holds."""

    memories: tuple[StatedMemory, ...]
    """Stated memories by id."""
    erased: dict[str, float]
    """Ids that no import brings back -> when they were erased."""


def describe_earlier_statements(path: Path, user_data_dir: Path, keys: KeySource) -> str:
    """Say what was stated in stores that were at this path; empty: nothing.

    Call it where there is no store now.
    """
    ids = set[str]()
    problem = ""
    for copy in copies_at(path, user_data_dir):
        try:
            ids |= {stated.memory.id for stated in read_copy(copy, keys).memories}
        except StoreError as error:
            problem = f"what you stated here before cannot be read: {error.message}"
    if not ids:
        return problem
    memories = counted(len(ids), "memory", "memories")
    return f"you stated {memories} here before: restore with `xscore store rebuild --stated`"


def update_copy(source: CopiedStore) -> str:
    """Make the copy hold what the store holds; return what was wrong with the copy, empty: nothing.

    Raises StoreError if it cannot be written, or another process holds its lock for long.
    """
    connection = source.connection
    if not (source.copy_path.exists() or is_worth_a_copy(connection)):
        note_copied(connection, 0, 0)  # no file is made for nothing
        return ""
    with locked(source.user_data_dir):
        # Read under the lock: the later of two processes to write also reads later.
        with database.read_snapshot(connection):
            (newest,) = connection.execute(NEWEST_EVENT).fetchone()
            rows = stated_rows.rows_to_copy(connection)
            erased = connection.execute("SELECT memory_id, at FROM erased_memory").fetchall()
        _follow_a_move(source)
        copied, problem = _or_made_again(
            source.copy_path, partial(_write_copy, source, rows, erased)
        )
    note_copied(connection, newest, copied)
    return problem


def erase_from_copies(source: CopiedStore, ids: Collection[str], lines: "LineMatcher") -> None:
    """Erase these memories, and others that hold one of the lines, from every copy of the store and
    of its path.

    A copy that is damaged is removed, since what it holds cannot be known. Raises StoreError.
    """
    with locked(source.user_data_dir):
        for copy in source.copies:
            for scratch in _scratch(copy):  # no one converts it now, since this holds the lock
                _remove(scratch)
            if copy.exists():
                _or_removed(copy, partial(_erase, copy, source.keys, ids, lines))


def read_copy(copy: Path, keys: KeySource) -> CopyContents:
    """Read a copy. Raises StoreDamaged, and StoreError if it cannot be read."""
    with closing(_open(copy, keys)) as connection, database.read_snapshot(connection):
        rows = stated_rows.copied_rows(connection)
        erased = connection.execute("SELECT memory_id, at FROM erased").fetchall()
    with database.damage_if_invalid("a copied memory"):
        memories = map(stated_rows.memory_of, rows.values())
        # Earlier versions also copied what files show.
        stated = tuple(copied for copied in memories if not copied.memory.is_shown_by_files)
        return CopyContents(stated, dict(erased))


def remove_copy(copy: Path) -> None:
    """Remove a copy with its journals. Raises StoreError."""
    for file in [*(Path(f"{copy}{suffix}") for suffix in FILE_SUFFIXES), *_scratch(copy)]:
        _remove(file)


def open_copy(copy: Path, keys: KeySource) -> sqlite3.Connection:
    """Open an existing copy, to read its rows. Raises StoreDamaged, StoreError."""
    return _open(copy, keys)


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"{file} cannot be removed: {error.strerror}", hint="Remove it by hand."
        ) from error


def _scratch(copy: Path) -> list[Path]:
    """Return what a killed conversion left of a copy."""
    return list(copy.parent.glob(f"{copy.name}.*"))


def _open(copy: Path, keys: KeySource) -> sqlite3.Connection:
    return database.connect(copy, SCHEMA, keys, create=False)


def _write_copy(
    source: CopiedStore, rows: Mapping[str, CopyRow], erased: Collection[tuple[str, float]]
) -> int:
    """Write what differs; return how many memories the copy has. A copy of nothing is removed."""
    copy = source.copy_path
    if not copy.exists():
        _create(source)
    with closing(_open(copy, source.keys)) as connection:
        with database.transaction(connection):
            copied = stated_rows.copied_rows(connection)
            removed = removed_ids(source.connection, copied.keys() - rows.keys())
            connection.executemany(
                "DELETE FROM stated WHERE id = ?", [(id_,) for id_ in removed]
            )
            stated_rows.write_rows(
                connection, [row for id_, row in rows.items() if copied.get(id_) != row]
            )
            connection.executemany(
                "INSERT INTO erased VALUES (?, ?) ON CONFLICT DO NOTHING", erased
            )
            write_meta(connection, "store", os.path.realpath(source.path))
            (kept,) = connection.execute("SELECT count(*) FROM stated").fetchone()
        (still_erased,) = connection.execute("SELECT count(*) FROM erased").fetchone()
    if not (kept or still_erased):
        remove_copy(copy)
    return int(kept)


def removed_ids(connection: sqlite3.Connection, missing: Collection[str]) -> set[str]:
    """Return which of these missing memories were removed, by the event log; the others were lost
    by damage."""
    if not missing:
        return set()
    among = (msgspec.json.encode(sorted(missing)).decode(),)
    return {id_ for (id_,) in connection.execute(_REMOVED_LAST, among).fetchall()}


def _create(source: CopiedStore) -> None:
    copy = source.copy_path
    if sqlite_drivers.read_note(source.path) is not None:
        from xscore.platform.encrypted_sqlite import write_note  # few stores are encrypted

        write_note(copy, source.keys())
    database.connect(copy, SCHEMA, source.keys).close()


def _follow_a_move(source: CopiedStore) -> None:
    """Rename the copy of a store that was moved; another copy of it is removed where its store is
    gone."""
    for copy in source.other_copies:
        if not copy.name.endswith(source.copy_path.name.partition("-")[2]):
            continue
        with suppress(StoreDamaged), closing(_open(copy, source.keys)) as connection:
            if os.path.lexists(read_meta(connection, "store")):
                continue
        if source.copy_path.exists():
            remove_copy(copy)
        else:
            # The key note first: a copy without its note could never be opened again.
            note = sqlite_drivers.note_path(copy)
            if note.exists():
                note.rename(sqlite_drivers.note_path(source.copy_path))
            copy.rename(source.copy_path)


def _erase(copy: Path, keys: KeySource, ids: Collection[str], lines: "LineMatcher") -> None:
    with closing(_open(copy, keys)) as connection:
        with database.transaction(connection):
            is_changed = False
            for id_, row in stated_rows.copied_rows(connection).items():
                if id_ in ids or lines.found_in("\n".join(row[1:])):
                    connection.execute("DELETE FROM stated WHERE id = ?", (id_,))
                    is_changed = True
        if is_changed:
            # Pages that a killed process left in the journal are gone with it, too.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute("VACUUM")


def _or_made_again(copy: Path, write: Callable[[], Result]) -> tuple[Result, str]:
    """Write a copy; if it is damaged, remove it and write it again. Return what was wrong, too."""
    try:
        return write(), ""
    except StoreDamaged as error:
        remove_copy(copy)
        return (
            write(),
            (
                "the copy of what you stated was damaged, and was rebuilt from the store:"
                f" {error.message}"
            ),
        )


def _or_removed(copy: Path, change: Callable[[], None]) -> None:
    try:
        change()
    except StoreDamaged:
        remove_copy(copy)


@contextmanager
def locked(user_data_dir: Path) -> Iterator[None]:
    """Hold the lock of the copies across processes.

    Raises StoreError if another process holds it for long.
    """
    with hold_lock(
        user_data_dir / COPIES_DIR / "lock", wait_s=_LOCK_WAIT_S, hint=OTHER_FOLDER_HINT
    ):
        yield
