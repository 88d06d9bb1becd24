"""After rows are erased: empty the journal, rewrite the database where bytes are left in it, remove stray copies.

`secure_delete` overwrites what is deleted, and the journal keeps whole pages until it is emptied. That no page's slack
keeps a copy is what was measured, not what SQLite promises. So the files are searched, and only where something is
found, or nothing is known to search for, is the database rewritten. An encrypted one cannot be searched: it is
rewritten always, and stray copies of it go unsearched.
What the disk itself keeps of blocks that were given back is beyond it.
"""

import re
import secrets
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from xscore.extensions.privacy.erasure_plan import lines_still_stored
from xscore.platform import database, sqlite_drivers
from xscore.platform.errors import StoreError
from xscore.store.line_search import find_lines_in_files, with_halves

UNCLEAN = "unclean"
"""Key in `meta`: rows were erased, and the files were not seen to be clean since; its value names the erasure."""
_SEVERAL = "several"
"""Its value when another erasure was cut short before: what that one's lines were, nobody knows any more."""
SEARCHED_AT_MOST = 2_000
"""With more lines than this the database is rewritten without a search."""
_ASIDE = re.compile(r"aside-\d+")
_SCRATCH = re.compile(r".+\.(?:new|plain|sealed)(?:-wal|-shm|-journal|-key)?")
_SIDES = ("", "-wal", "-shm", "-journal")


def leftover_files(store_dir: Path) -> list[Path]:
    """Name the set-aside stores and scratch files in a store's folder; no links."""
    if not store_dir.is_dir():
        return []
    return [
        place
        for place in sorted(store_dir.iterdir())
        if not place.is_symlink()
        and (_ASIDE.fullmatch(place.name) if place.is_dir() else _SCRATCH.fullmatch(place.name))
    ]


def leftover_files_with(store_dir: Path, lines: Iterable[str]) -> list[Path]:
    """Name those that hold one of the lines, or may, being encrypted. Raises StoreError for one that cannot be read."""
    held = {file for place in leftover_files(store_dir) for file in _files(place)}
    guilty = search_files(held, with_halves(lines)).keys() | {file for file in held if _is_note(file)}
    return [place for place in leftover_files(store_dir) if not guilty.isdisjoint(_files(place))]


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
    """Name the database at this path and its journals, those that are there."""
    return [file for file in (path.with_name(path.name + side) for side in _SIDES) if file.is_file()]


def search_files(files: Iterable[Path], lines: Iterable[str]) -> dict[Path, set[str]]:
    """Return which of the lines stand in which of these files. Raises StoreError."""
    try:
        return find_lines_in_files(files, lines)
    except OSError as error:
        raise StoreError(f"the files cannot be searched: {error}", hint="Check their permissions.") from error


def scrub_database(
    connection: sqlite3.Connection, path: Path, lines: frozenset[str], *, mark: str, patience_s: float
) -> bool:
    """Leave none of the lines in the database at `path` or its journal; False: another process keeps it from that.

    mark: of the erasure whose lines these are. Where the store bears another's, as after a call that was killed, or no
    line is known, or very many are, it is rewritten without a search. Raises StoreError.
    """
    try:
        return _scrub(connection, path, lines, mark=mark, patience_s=patience_s)
    except StoreError as error:
        if database.is_busy(error):  # the rows are gone, and the mark stands: the next call goes on
            return False
        raise


def _scrub(connection: sqlite3.Connection, path: Path, lines: frozenset[str], *, mark: str, patience_s: float) -> bool:
    if not truncate_journal(connection, patience_s):
        return False
    is_known = (
        0 < len(lines) <= SEARCHED_AT_MOST and _mark(connection) == mark and sqlite_drivers.read_note(path) is None
    )
    if not is_known or _leftovers(connection, path, lines):
        with _waiting(connection, patience_s):
            connection.execute("VACUUM")
        if not truncate_journal(connection, patience_s):
            return False
    with _waiting(connection, patience_s):
        connection.execute("DELETE FROM meta WHERE key = ?", (UNCLEAN,))
    truncate_journal(connection, patience_s)  # the mark's own page; nothing of it is erased text
    return True


def needs_scrubbing(connection: sqlite3.Connection) -> bool:
    """Whether an erasure was cut short before the files were clean."""
    return _mark(connection) is not None


def new_erasure_mark() -> str:
    """Name an erasure."""
    return secrets.token_hex(8)


def mark_for_scrubbing(connection: sqlite3.Connection, mark: str) -> None:
    """Note in an open transaction that the files are to be cleaned, in case nobody gets to it. mark: of `new_mark`."""
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key)"
        " DO UPDATE SET value = CASE value WHEN excluded.value THEN value ELSE ? END",
        (UNCLEAN, mark, _SEVERAL),
    )


def truncate_journal(connection: sqlite3.Connection, patience_s: float) -> bool:
    """Move the journal into the database and cut it to nothing; False: a reader still needs it."""
    with _waiting(connection, patience_s):
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


@contextmanager
def _waiting(connection: sqlite3.Connection, patience_s: float) -> Iterator[None]:
    connection.execute(f"PRAGMA busy_timeout = {round(patience_s * 1_000)}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(sqlite_drivers.BUSY_TIMEOUT_S * 1_000)}")


def _mark(connection: sqlite3.Connection) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (UNCLEAN,)).fetchone()
    return None if row is None else str(row[0])


def _leftovers(connection: sqlite3.Connection, path: Path, lines: frozenset[str]) -> bool:
    found = search_files(database_files(path), with_halves(lines))
    held = set[str]().union(*found.values())
    return bool(held - lines_still_stored(connection, held, tasks=True))


def _is_note(file: Path) -> bool:
    return file.name.endswith(sqlite_drivers.NOTE_SUFFIX)


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    return sorted(file for file in place.rglob("*") if file.is_file() and not file.is_symlink())
