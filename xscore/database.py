"""SQLite, opened one way everywhere: private files, WAL, numbered migrations, one kind of transaction, our own errors.

Every connection of the house comes from `connect`, and what SQLite says of damage or refusal leaves it as a leaf of
`StoreError`, also from a cursor halfway through its rows. A constraint that our statement breaks is damage too: the
statements are tried, so a row or an index that should not be there stands in their way. Trade-offs: a bug of ours in a
statement would be called damage; `synchronous=NORMAL` keeps every commit when the process is killed, but may lose the
last ones in a power cut.
"""

import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Self

from xscore.errors import StoreDamaged, StoreError
from xscore.hashing import judgment_seal, turn_seal

BUSY_TIMEOUT_S = 30.0
APPLICATION_ID = 0x78736372
"""`xscr`, in the header of every store."""

_MIGRATIONS = Path(__file__).parent / "migrations"
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT})
_REASONS = {
    sqlite3.SQLITE_BUSY: ("is locked by another process", "Wait for the other xscore to finish, then run it again."),
    sqlite3.SQLITE_LOCKED: ("is locked by another process", "Wait for the other xscore to finish, then run it again."),
    sqlite3.SQLITE_READONLY: ("cannot be written", "Check the permissions of the file and its folder."),
    sqlite3.SQLITE_PERM: ("cannot be opened", "Check the permissions of the file and its folder."),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "Check that its folder exists and is yours."),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", "Check the disk."),
    sqlite3.SQLITE_FULL: ("has no room to grow: the disk is full", "Free some space, then run it again."),
}
_UNUSABLE = re.compile(
    "no such (table|column)|table \\S+ has no column|malformed|unsupported file format|unknown function"
)
"""What SQLite calls a plain error, and is damage: our statements and schema are tried."""
_FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""The latter where SQLite quotes damaged bytes in its message."""
REBUILD = "Build it anew with `xscore trust --rebuild`: what can still be read and believed of it is salvaged."
"""What to do about a store that is damaged."""


class Cursor(sqlite3.Cursor):
    """A cursor whose failures are leaves of `StoreError`."""

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        """Run one statement."""
        try:
            return super().execute(sql, parameters)
        except _FAILURES as error:
            _translate(error)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Self:
        """Run one statement once for each row of parameters."""
        try:
            return super().executemany(sql, parameters)
        except _FAILURES as error:
            _translate(error)

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except _FAILURES as error:
            _translate(error)

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        try:
            return super().fetchone()
        except _FAILURES as error:
            _translate(error)

    def fetchmany(self, size: int | None = None) -> list[Any]:
        """Return the next rows; none: there are no more."""
        try:
            return super().fetchmany(size)
        except _FAILURES as error:
            _translate(error)

    def fetchall(self) -> list[Any]:
        """Return all remaining rows; the fast way."""
        try:
            return super().fetchall()
        except _FAILURES as error:
            _translate(error)


class Connection(sqlite3.Connection):
    """A connection whose cursors speak in leaves of `StoreError`."""

    def cursor(self, factory: Any = Cursor) -> Any:
        """Return a translating cursor."""
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        """Run one statement on a cursor of its own."""
        return Cursor(self).execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Cursor:
        """Run one statement for each row of parameters, on a cursor of its own."""
        return Cursor(self).executemany(sql, parameters)


def connect(path: Path) -> sqlite3.Connection:
    """Open the database at `path`, creating it (0600, in a 0700 folder git ignores) and migrating it where needed.

    Autocommit: group writes with `transaction`. May be handed from thread to thread, not shared by two at once.
    Raises StoreDamaged for a file that is no store or from a newer xscore, StoreError when it cannot be used.
    """
    _prepare(path)
    connection = _open(path)
    try:
        _configure(connection)
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def peek(path: Path, key: str) -> str | None:
    """Read one value of table `meta` without writing to, migrating or believing the database.

    None: no such value. Raises StoreDamaged, StoreError.
    """
    with _translated():
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, factory=Connection)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    finally:
        connection.close()
    return str(row[0]) if row else None


def open_as_it_is(path: Path) -> sqlite3.Connection:
    """Open a database that may be damaged, to read what can be read; nothing is configured, migrated or checked."""
    return _open(path)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Hold the write lock from the first statement (BEGIN IMMEDIATE); commit at the end, roll back on any exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Let several reads see one and the same state, whatever others write meanwhile."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def making_sense(what: str) -> Iterator[None]:
    """Read values that only we write: what cannot be one of them is damage. Raises StoreDamaged."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
        raise StoreDamaged(f"the store is damaged: {what} makes no sense ({error})", hint=REBUILD) from error


def _prepare(path: Path) -> None:
    if os.path.lexists(path):
        return
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = folder / ".gitignore"
        if not os.path.lexists(ignore):
            ignore.write_text("*\n", "utf-8")
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        raise StoreError(
            f"{path} cannot be created: {error.strerror}", hint="Check that its folder exists and is yours."
        ) from error


def _open(path: Path) -> sqlite3.Connection:
    if path.is_symlink():
        raise StoreError(f"{path} is a symbolic link", hint="Remove the link; a store is a file of its own.")
    with _translated():
        return sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, factory=Connection
        )


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        _switch_to_wal(connection)


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Two processes that create a store at once: SQLite refuses the second at once, without waiting, so we wait."""
    give_up = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except StoreError as error:
            if not _is_busy(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.005)


def _is_busy(error: StoreError) -> bool:
    code = getattr(error.__cause__, "sqlite_errorcode", 0)
    return (code & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    steps = _steps()
    newest = steps[-1][0]
    connection.execute("BEGIN")  # one view of the three facts: another process may be migrating just now
    try:
        version = _checked_version(connection, path, newest)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    if version == newest:
        return
    with transaction(connection):
        version = _checked_version(connection, path, newest)
        connection.create_function("turn_seal", 3, turn_seal, deterministic=True)
        connection.create_function("judgment_seal", -1, judgment_seal, deterministic=True)
        for statement in (each for number, script in steps if number > version for each in _statements(script)):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {newest}")


def _checked_version(connection: sqlite3.Connection, path: Path, newest: int) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if (owner != APPLICATION_ID or version < 1) if tables else (version != 0):
        raise StoreDamaged(f"{path} is not a store of xscore", hint=REBUILD)
    if version > newest:
        raise StoreDamaged(
            f"{path} was written by a newer xscore (schema {version}, this one knows {newest})",
            hint="Upgrade xscore, or set the store aside with `xscore trust --rebuild`.",
        )
    return version


def _steps() -> list[tuple[int, str]]:
    return [(int(file.name[:4]), file.read_text("utf-8")) for file in sorted(_MIGRATIONS.glob("[0-9]*_*.sql"))]


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        _translate(error)


def _translate(error: sqlite3.Error | UnicodeDecodeError) -> NoReturn:
    """Raise the leaf that this error is, or the error itself where it speaks of our own statement."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    unusable = code == sqlite3.SQLITE_ERROR and _UNUSABLE.match(str(error))
    undecodable = isinstance(error, UnicodeDecodeError) or str(error).startswith("Could not decode to UTF-8")
    if code in _DAMAGED or unusable or undecodable:
        raise StoreDamaged(f"the store is damaged: {error}", hint=REBUILD) from error
    if code in _REASONS:
        what, hint = _REASONS[code]
        raise StoreError(f"the store {what}: {error}", hint=hint) from error
    raise error
