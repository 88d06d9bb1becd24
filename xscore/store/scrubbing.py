"""After an erasure: empty the journal and rewrite the database, so that its files keep no byte of
the erased rows.

A mark in the store records that this is pending, in case the process is killed. The module also
finds leftover copies next to a store and searches files for erased lines. Trade-offs: every
erasure rewrites the database, which takes about a second and a second copy per 100 MB; freed
disk blocks are out of reach.
"""

import re
import shutil
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from xscore.platform import database, sqlite_drivers
from xscore.platform.errors import StoreError
from xscore.platform.set_aside import set_aside_folders
from xscore.store.file_bodies import read_with_bodies
from xscore.store.index_rows import read_meta, write_meta
from xscore.store.journals import JOURNALS
from xscore.store.line_search import LineMatcher, find_lines_in_files, with_halves

_MARK = "unclean"
"""Key in `meta` that says that rows were erased, and the files were not rewritten since."""
SCRATCH_SUFFIXES = (".new", ".plain", ".sealed")
_SCRATCH = re.compile(
    rf".+(?:{'|'.join(map(re.escape, SCRATCH_SUFFIXES))})(?:-wal|-shm|-journal|-key)?"
)
_SIDES = ("", *JOURNALS)
_MEMORY_NAMES = "title, entity, path, place"
"""Names of a memory outside its body; the place of one may be the path of another."""
_PATHS = "SELECT path, path FROM file_row UNION SELECT memory_id, path FROM evidence"
"""SQL of paths. The place of a memory may be named like a file here that has no memory, or that
one cites."""
_TASKS = (
    "SELECT id, task || char(10) || context FROM turn UNION ALL SELECT thread, active_task FROM"
    " session"
)


def lines_still_stored(
    connection: sqlite3.Connection,
    lines: Iterable[str],
    *,
    but: Collection[str] = (),
    tasks: bool = False,
) -> set[str]:
    """Return the lines that other memories, or with `tasks` turns and sessions, still hold
    legitimately."""
    matcher = LineMatcher(lines)
    held = set[str]()
    if matcher:
        columns = f"id, {_MEMORY_NAMES}"
        memories = read_with_bodies(connection, columns, "true", table="memory_row")
        stored_tasks = connection.execute(_TASKS) if tasks else ()
        for id_, *texts in chain(memories, connection.execute(_PATHS), stored_tasks):
            if id_ not in but:
                held |= matcher.found_in("\n".join(texts))
    return held


def leftover_files(store_dir: Path) -> list[Path]:
    """Return the set-aside stores and scratch files in a store's folder; no links."""
    leftovers = set_aside_folders(store_dir)
    for place in sorted(store_dir.iterdir()) if store_dir.is_dir() else []:
        is_scratch = _SCRATCH.fullmatch(place.name) is not None
        if is_scratch and not place.is_dir() and not place.is_symlink():
            leftovers.append(place)
    return leftovers


def leftover_files_with(store_dir: Path, lines: Iterable[str]) -> list[Path]:
    """Return the leftovers that hold one of the lines, or may because they are encrypted.

    Raises StoreError.
    """
    places = {place: _files(place) for place in leftover_files(store_dir)}
    files = set(chain.from_iterable(places.values()))
    tainted = set(search_files(files, with_halves(lines)))
    # What an encrypted one holds cannot be searched.
    tainted |= {file for file in files if file.name.endswith(sqlite_drivers.NOTE_SUFFIX)}
    return [place for place, held in places.items() if not tainted.isdisjoint(held)]


def remove_paths(places: Iterable[Path]) -> None:
    """Remove these folders and files. Raises StoreError."""
    for place in places:
        try:
            shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"{place} holds erased text and cannot be removed: {error.strerror}",
                hint="Remove it by hand, then run it again.",
            ) from error


def database_files(path: Path) -> list[Path]:
    """Return the existing files among the database at this path and its journals."""
    files = [path.with_name(path.name + side) for side in _SIDES]
    return [file for file in files if file.is_file()]


def search_files(files: Iterable[Path], lines: Iterable[str]) -> dict[Path, set[str]]:
    """Return which of the lines are in which of these files. Raises StoreError."""
    try:
        return find_lines_in_files(files, lines)
    except OSError as error:
        raise StoreError(
            f"the files cannot be searched: {error}", hint="Check their permissions."
        ) from error


def scrub_database(connection: sqlite3.Connection, *, timeout_s: float) -> bool:
    """Rewrite the database and empty its journal; False if another process prevents it.

    Raises StoreError.
    """
    try:
        if not truncate_journal(connection, timeout_s):
            return False
        with _busy_timeout(connection, timeout_s):
            connection.execute("VACUUM")
        if not truncate_journal(connection, timeout_s):
            return False
        with _busy_timeout(connection, timeout_s):
            write_meta(connection, _MARK, "")
        truncate_journal(connection, timeout_s)  # it holds the mark's page only, no erased text
    except StoreError as error:
        # The rows are gone and the mark stays: the next call continues.
        if database.is_busy(error):
            return False
        raise
    return True


def needs_scrubbing(connection: sqlite3.Connection) -> bool:
    """Whether rows were erased and the files are not rewritten yet."""
    return bool(read_meta(connection, _MARK))


def mark_for_scrubbing(connection: sqlite3.Connection) -> None:
    """Record in an open transaction that the files are to be rewritten."""
    write_meta(connection, _MARK, "1")


def truncate_journal(connection: sqlite3.Connection, timeout_s: float) -> bool:
    """Move the journal into the database and truncate it; False if a reader still needs it."""
    with _busy_timeout(connection, timeout_s):
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


@contextmanager
def _busy_timeout(connection: sqlite3.Connection, timeout_s: float) -> Iterator[None]:
    connection.execute(f"PRAGMA busy_timeout = {round(timeout_s * 1_000)}")
    try:
        yield
    finally:
        connection.execute(
            f"PRAGMA busy_timeout = {round(sqlite_drivers.BUSY_TIMEOUT_S * 1_000)}"
        )


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    return sorted(file for file in place.rglob("*") if file.is_file() and not file.is_symlink())
