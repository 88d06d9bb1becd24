"""Python's own SQLite and SQLCipher behind one connection, and the key note of an encrypted
database.

SQLite errors become `StoreError` or `StoreDamaged`. The note, one line in `<database>-key`, holds
the id of the key; the caller supplies the key. Trade-offs: a bug in our SQL would be reported as
damage; the libraries do not see each other's locks within a process, so a process must open a file
with only one of them; a lost note must be rewritten (`xscore store encrypt`) before the store
opens.
"""

import re
import sqlite3
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from xscore.platform.database_files import note_closed, note_opened
from xscore.platform.errors import StoreDamaged, StoreError, StoreTooNew
from xscore.platform.files import FileRefused, read_named_file

BUSY_TIMEOUT_S = 30.0
IN_MEMORY = ":memory:"
"""SQLite's name for a database without a file."""
REBUILD_HINT = "Rebuild it with `xscore store rebuild`: its readable, valid rows are kept."
USER_STORE_FILE = "user.db"
"""The file of the user's own store, which has its own rebuild command."""
REBUILD_USER_HINT = (
    "Rebuild it with `xscore store rebuild --user`: its readable, valid rows are kept,"
    " and no project's store is touched."
)

_DAMAGED = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
    }
)
_LOCKED = (
    "is locked by another process",
    "Wait for the other xscore to finish, then run it again.",
)
_REASONS = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: (
        "cannot be written",
        "Check the permissions of the file and its folder.",
    ),
    sqlite3.SQLITE_PERM: (
        "cannot be opened",
        "Check the permissions of the file and its folder.",
    ),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "Check that its folder exists and is yours."),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", "Check the disk and its free space."),
    sqlite3.SQLITE_INTERRUPT: ("was not written in time", "Run it again with more time."),
    sqlite3.SQLITE_FULL: (
        "has no room to grow: the disk is full",
        "Free some space, then run it again.",
    ),
}
_UNUSABLE = (
    r"no such (table|column)|table \S+ has (no column|\d+ columns)"
    "|malformed|unsupported file format|unknown function|JSON cannot hold BLOB values"
)
"""Generic SQLite errors that mean damage, since our statements and schema are tested."""
_TRANSLATED_METHODS = (
    "execute",
    "executemany",
    "__next__",
    "fetchone",
    "fetchmany",
    "fetchall",
)


def open_plain(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a database with Python's own SQLite, in autocommit. Raises StoreError."""
    return open_with(sqlite3, path, read_only=read_only)


def recovery_hint(path: Path | None) -> str:
    """Return the hint for a damaged database; path None: it may be either store."""
    if path is None:
        return (
            f"{REBUILD_HINT} If it is the user's own ({USER_STORE_FILE}): `xscore store rebuild"
            " --user`."
        )
    return REBUILD_USER_HINT if path.name == USER_STORE_FILE else REBUILD_HINT


def open_with(driver: Any, path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open a database that exists with one of the two drivers, in autocommit. Raises StoreError."""
    is_file = str(path) != IN_MEMORY
    mode = "ro" if read_only else "rw"
    place = f"{path.absolute().as_uri()}?mode={mode}" if is_file else path
    note_opened(path)
    try:
        opened: sqlite3.Connection = driver.connect(
            place,
            uri=is_file,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            factory=_translating_connection(driver),
        )
    except driver.Error as error:
        note_closed(path)
        _translate(error, path)
    opened.file = path  # type: ignore[attr-defined]  # our subclass has a `__dict__`
    opened.place = path  # type: ignore[attr-defined]  # our subclass has a `__dict__`
    opened.after_close = []  # type: ignore[attr-defined]  # functions to call once it is closed
    return opened


@cache
def _translating_connection(driver: Any) -> Any:
    """Return a connection class whose cursors raise `StoreError`."""
    # The latter where SQLite quotes damaged bytes in its message.
    failures = (driver.Error, UnicodeDecodeError)

    def translating(name: str) -> Any:
        method = getattr(driver.Cursor, name)

        def translated(*arguments: Any) -> Any:
            try:
                return method(*arguments)
            except failures as error:
                connection = arguments[0].connection
                place = getattr(connection, "place", None)
                # Otherwise the statement waits at the row that failed, and its database stays
                # locked.
                arguments[0].close()
                if _is_unusable(error):
                    # What this statement misses may have gone in a migration by a newer xscore,
                    # which is not damage.
                    _refuse_if_migrated(driver, connection, place)
                _translate(error, place)

        return translated

    def close(connection: Any) -> None:
        driver.Connection.close(connection)
        file = connection.file
        connection.file = None
        if file is not None:
            note_closed(file)
        actions = connection.after_close
        connection.after_close = []
        for action in actions:
            action()

    cursor: Any = type(
        "Cursor", (driver.Cursor,), {name: translating(name) for name in _TRANSLATED_METHODS}
    )
    methods = {
        "cursor": lambda self, factory=cursor: driver.Connection.cursor(self, factory),
        "execute": lambda self, sql, parameters=(): cursor(self).execute(sql, parameters),
        "executemany": lambda self, sql, parameters: cursor(self).executemany(sql, parameters),
        "close": close,
    }
    return type("Connection", (driver.Connection,), methods)


def too_new_error(path: Path | None, version: int, readable: int) -> StoreTooNew:
    """Return the error for a store whose schema number is above the one that this xscore reads."""
    return StoreTooNew(
        f"{_named(path)} was made by a newer xscore (schema {version}; this one reads {readable})",
        hint=(
            "Upgrade xscore, and restart any older one that is still running. Nothing was changed."
        ),
    )


def _refuse_if_migrated(driver: Any, connection: Any, path: Path | None) -> None:
    """Raise StoreTooNew if the database has a higher schema number than when it was opened."""
    opened = getattr(connection, "schema_version", None)
    if opened is None:
        return
    try:
        (version,) = driver.Connection.execute(connection, "PRAGMA user_version").fetchone()
    except driver.Error:
        return
    if version > opened:
        raise too_new_error(path, version, opened)


def _is_unusable(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code == sqlite3.SQLITE_ERROR and re.match(_UNUSABLE, str(error)) is not None


def _translate(error: Exception, path: Path | None) -> NoReturn:
    """Raise the StoreError for this error, or the error itself if our own statement is wrong."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    undecodable = isinstance(error, UnicodeDecodeError) or str(error).startswith(
        "Could not decode to UTF-8"
    )
    if code in _DAMAGED or _is_unusable(error) or undecodable:
        raise StoreDamaged(
            f"{_named(path)} is damaged: {error}", hint=recovery_hint(path)
        ) from error
    if code in _REASONS:
        reason, hint = _REASONS[code]
        raise StoreError(f"{_named(path)} {reason}: {error}", hint=hint) from error
    if isinstance(error, sqlite3.Error):
        raise error
    raise _as_pythons(error) from error


def _named(path: Path | None) -> str:
    if path is None:
        return "the store"
    return f"the store {path}"


def _as_pythons(error: Exception) -> sqlite3.Error:
    kind = getattr(sqlite3, type(error).__name__, sqlite3.OperationalError)
    same: sqlite3.Error = kind(str(error))
    same.sqlite_errorcode = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    same.sqlite_errorname = getattr(error, "sqlite_errorname", "SQLITE_ERROR")
    return same


KeySource = Callable[[], bytes]
"""Returns the user's key, 32 bytes; raises StoreError if there is none. Called only for an
encrypted database."""

NOTE_SUFFIX = "-key"
_NOTE_PATTERN = rb"encrypted with key ([0-9a-f]{16})\n?"
REWRITE_NOTE_HINT = "`xscore store encrypt` rewrites it, if your key is the right one."


def note_path(path: Path) -> Path:
    """Return where the note of the database at `path` is, or would be."""
    return path.with_name(path.name + NOTE_SUFFIX)


def read_note(path: Path) -> str | None:
    """Return the key id in the note of the database at `path`; None if there is no note.

    Raises StoreError.
    """
    place = note_path(path)
    try:
        match = re.fullmatch(_NOTE_PATTERN, read_named_file(place, max_bytes=100, follow=False))
    except FileNotFoundError:
        return None
    except FileRefused:
        match = None
    except OSError as error:
        raise StoreError(
            f"{place} cannot be read: {error.strerror}", hint=f"Remove it; {REWRITE_NOTE_HINT}"
        ) from error
    if match is None:
        raise StoreError(
            f"{place} was not written by xscore", hint=f"Remove it; {REWRITE_NOTE_HINT}"
        )
    return match[1].decode()
