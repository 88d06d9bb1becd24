"""SQLite, opened the same way everywhere: private files, WAL, one schema, one kind of transaction,
our own errors.

Every connection of the package comes from here. A database with a key note is opened with the
user's key (`sqlite_drivers`); a plain database never asks for one. A database of an older
schema is migrated as its `Schema` says; one of a newer schema is refused before a byte next to
it changes. Trade-off: `synchronous=NORMAL` keeps every commit when the process is killed, but
may lose the last ones in a power cut.
"""

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct

from xscore.platform import sqlite_drivers
from xscore.platform.database_files import read_header
from xscore.platform.errors import BrokenReceipt, StoreDamaged, StoreError, StoreTooNew
from xscore.platform.files import is_there
from xscore.platform.sqlite_drivers import (
    BUSY_TIMEOUT_S,
    IN_MEMORY,
    KeySource,
    open_plain,
    recovery_hint,
    too_new_error,
)


class Migration(Struct, frozen=True):
    """What brought an older database to the schema that this xscore reads."""

    before: int
    """Schema number of the database until then."""
    after: int
    copy: Path
    """Folder with a copy of what cannot be rebuilt."""


ROOM_BYTES = 1_000_000
"""Space that must be free on the disk before something is paid for: room for a turn's own rows,
and for the judgments of some calls."""


class Schema(Struct, frozen=True):
    """The tables of one kind of database."""

    file: Path
    """The SQL that creates it; read only for a new database."""
    application_id: int
    """Number written to the header of the file."""
    version: int
    """Schema number, which rises with every change of the file (`migrations`)."""
    migrate: Callable[[sqlite3.Connection, Path, KeySource | None], Migration | None]
    """Brings an open older database to `version`; None if another process has done so
    meanwhile."""


BeforeWriting = Callable[[sqlite3.Connection], None]
"""Takes a connection that has read and not written yet: it may look at the database, and refuse
it."""


def connect(
    path: Path,
    schema: Schema,
    keys: KeySource | None = None,
    *,
    create: bool = True,
    before_writing: BeforeWriting = lambda _: None,
) -> sqlite3.Connection:
    """Open the database at `path`. create: make it (0600, in a 0700 folder that git ignores) if it
    is missing.

    keys: asked for the key of an encrypted database. The connection autocommits: group writes with
    `transaction`. It may move between threads, but only one may use it at a time. An older database
    of ours is migrated (`migration_of`). Raises StoreTooNew for one of a newer xscore, StoreDamaged
    for a file of another program, StoreError if it cannot be used.
    """
    if create:
        _prepare(path)
    while True:  # again where it was replaced meanwhile: encrypted, decrypted or rebuilt
        before = inode_of(path)
        try:
            connection = _connect(path, schema, keys, before_writing)
        except StoreError:
            if inode_of(path) == before:
                raise
            continue
        if inode_of(path) == before:
            return connection
        connection.close()


def open_in_memory(schema: Schema) -> sqlite3.Connection:
    """Open an empty database in memory."""
    connection = open_plain(Path(IN_MEMORY))
    _configure(connection)
    _create_tables(connection, Path(IN_MEMORY), schema)
    return connection


def migration_of(connection: sqlite3.Connection) -> Migration | None:
    """Return how the database was migrated when this connection opened it; None if it was
    not."""
    migration: Migration | None = getattr(connection, "migration", None)
    return migration


def schema_version(connection: sqlite3.Connection) -> int:
    """Return the schema number of an open database; 0 if it has no tables yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(path: Path, schema: Schema) -> None:
    """Raise StoreTooNew if the header says that a newer xscore made this database; SQLite is not
    asked.

    An encrypted header says nothing, and a journal may hold a newer one: `connect` looks again.
    """
    header = read_header(path)
    if header is None or header.application_id != schema.application_id:
        return
    if header.schema_version > schema.version:
        raise too_new_error(path, header.schema_version, schema.version)


def has_older_header(path: Path, schema: Schema) -> bool:
    """Whether the header says that opening this database will migrate it; an encrypted one does not
    say."""
    header = read_header(path)
    if header is None or header.application_id != schema.application_id:
        return False
    return 0 < header.schema_version < schema.version


def read_meta_value(
    path: Path, name: str, keys: KeySource | None = None, *, busy_s: float = BUSY_TIMEOUT_S
) -> str | None:
    """Read one value of table `meta` without writing to, migrating or trusting the database.

    None: no such value. busy_s: how long to wait where another program holds it.
    Raises StoreDamaged, StoreError.
    """
    opened = open_unchecked(path, keys, read_only=True, busy_s=busy_s)
    with closing(opened) as connection, _unless_encrypted(path):
        return untrusted_meta_value(connection, name)


def untrusted_meta_value(connection: sqlite3.Connection, name: str) -> str | None:
    """Read one value of table `meta` of a database that may be anybody's; None: no such value.

    Raises StoreDamaged.
    """
    kind = connection.execute("SELECT type FROM sqlite_master WHERE name = 'meta'").fetchone()
    if kind == ("view",):  # someone else's query, which may never end
        return None
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (name,)).fetchone()
    return str(row[0]) if row else None


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Hold the write lock from the first statement (BEGIN IMMEDIATE); commit at the end, roll back
    on any exception.

    Raises StoreTooNew if a newer xscore has migrated the database since this connection was opened.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        _refuse_migrated(connection)
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def lock_wait_until(connection: sqlite3.Connection, until: float | None) -> Iterator[None]:
    """Wait for the locks of other processes until then (`time.monotonic`) and no longer; None: as
    long as ever."""
    if until is None:
        yield
        return
    before_ms = int(connection.execute("PRAGMA busy_timeout").fetchone()[0])
    left_ms = max(0, round((until - time.monotonic()) * 1000))
    connection.execute(f"PRAGMA busy_timeout = {min(left_ms, before_ms)}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {before_ms}")


@contextmanager
def read_snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Let several reads see the same state, whatever others write meanwhile; an open transaction is
    one already."""
    is_within = connection.in_transaction
    if not is_within:
        connection.execute("BEGIN")
    try:
        yield
    finally:
        # A generator that an error left half-read may end after its connection.
        if not (is_within or _is_closed(connection)) and connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_closed(connection: sqlite3.Connection) -> bool:
    """Whether a connection that this module opened is closed."""
    return getattr(connection, "file", connection) is None


@contextmanager
def damage_if_invalid(what: str) -> Iterator[None]:
    """Turn the errors of decoding our own rows into StoreDamaged."""
    try:
        yield
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        BrokenReceipt,
    ) as error:
        raise StoreDamaged(
            f"the store is damaged: {what} is invalid ({error})", hint=recovery_hint(None)
        ) from error


@contextmanager
def lenient_text(connection: sqlite3.Connection) -> Iterator[None]:
    """Replace undecodable bytes with U+FFFD instead of failing the whole query."""
    before = connection.text_factory
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        yield
    finally:
        connection.text_factory = before


def is_read_only(connection: sqlite3.Connection) -> bool:
    """Whether the connection is read-only."""
    return bool(connection.execute("PRAGMA query_only").fetchone()[0])


def require_room(path: Path) -> None:
    """Raise StoreError if the disk of a database is all but full: what is paid for next could not
    be kept.

    A system that does not tell, or a limit of another kind, is found by the first write instead.
    """
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return
    free_bytes = disk.f_bavail * disk.f_frsize
    if free_bytes < ROOM_BYTES:
        raise full_disk_error(path, free_bytes)


def full_disk_error(path: Path, free_bytes: int) -> StoreError:
    """Return the error for a call that was not made, since its result could not be kept."""
    return StoreError(
        f"the disk of {path} is full ({free_bytes // 1_000} kB are left), so nothing was sent",
        hint="Free some space, then run it again.",
    )


def unwritable_hint(error: OSError, *, otherwise: str) -> str:
    """Return what to do about a file that could not be written. otherwise: unless the disk is
    full."""
    if error.errno == errno.ENOSPC:
        return "Free some space, then run it again."
    return otherwise


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
        hint = unwritable_hint(error, otherwise="Check that its folder exists and is yours.")
        raise StoreError(f"{path} cannot be created: {error.strerror}", hint=hint) from error


def _connect(
    path: Path, schema: Schema, keys: KeySource | None, before_writing: BeforeWriting
) -> sqlite3.Connection:
    refuse_newer(path, schema)
    connection = open_unchecked(path, keys)
    try:
        with _unless_encrypted(path):
            if schema_version(connection) > schema.version:
                _stored_version(connection, path, schema)
            before_writing(connection)
            if _configure(connection):  # which has made the journal only now
                before_writing(connection)
            migration = _bring_to_version(connection, path, schema, keys)
    except StoreTooNew:
        # The last connection to close would write the journal into the database, unless it may only
        # read.
        with closing(open_unchecked(path, keys, read_only=True)) as reader:
            schema_version(reader)
            connection.close()
        raise
    except BaseException:
        connection.close()
        raise
    connection.schema_version = schema.version  # type: ignore[attr-defined]  # our subclass has a `__dict__`
    connection.migration = migration  # type: ignore[attr-defined]  # likewise
    return connection


def _bring_to_version(
    connection: sqlite3.Connection, path: Path, schema: Schema, keys: KeySource | None
) -> Migration | None:
    """Create the tables of a new database, or migrate an older one."""
    migration = None
    while True:
        # One view: another process may be creating the tables right now.
        with read_snapshot(connection):
            version = _stored_version(connection, path, schema)
        if version == schema.version:
            return migration
        if version:
            migration = schema.migrate(connection, path, keys)
        else:
            _create_tables(connection, path, schema)


def open_unchecked(
    path: Path,
    keys: KeySource | None = None,
    *,
    read_only: bool = False,
    busy_s: float = BUSY_TIMEOUT_S,
) -> sqlite3.Connection:
    """Open a database that may be damaged, to read what can be read; nothing is checked.

    busy_s: how long a statement waits where another program holds it.
    """
    if is_there(path, stat.S_ISLNK, follow=False):
        raise StoreError(
            f"{path} is a symbolic link", hint="Remove the link; a store is a file of its own."
        )
    # To open a pipe is to wait for its other end.
    if is_there(path) and not is_there(path, stat.S_ISREG):
        raise StoreError(
            f"{path} is not a file", hint="Remove it; a store is a file of its own."
        )
    connection = _open_noted(path, keys, read_only=read_only)
    connection.execute(f"PRAGMA busy_timeout = {round(busy_s * 1000)}")
    return connection


def _open_noted(path: Path, keys: KeySource | None, *, read_only: bool) -> sqlite3.Connection:
    noted = sqlite_drivers.read_note(path)
    if noted is None:
        return open_plain(path, read_only=read_only)
    # A plain store needs none of it.
    from xscore.platform.encrypted_sqlite import key_of_note, open_encrypted

    return open_encrypted(path, key_of_note(path, noted, keys), read_only=read_only)


@contextmanager
def _unless_encrypted(path: Path) -> Iterator[None]:
    """Report an encrypted store that lost its key note as such, not as damaged."""
    try:
        yield
    except StoreDamaged as error:
        # A plain store needs none of it.
        from xscore.platform.encrypted_sqlite import looks_encrypted, missing_note_error

        if sqlite_drivers.read_note(path) is None and looks_encrypted(path):
            raise missing_note_error(path) from error
        raise


def place_of(connection: sqlite3.Connection) -> Path:
    """Return the file of a connection that this module opened."""
    return Path(connection.place)  # type: ignore[attr-defined]  # of our connection class


def inode_of(path: Path) -> int:
    """Return which file is at this path; -1 if there is none."""
    try:
        return path.lstat().st_ino
    except OSError:
        return -1


def _configure(connection: sqlite3.Connection) -> bool:
    """Set what every connection has; return whether that switched the database to a journal of its
    own (WAL)."""
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")
    # Now, before anything looks at a temporary table: set later, it would make SQLite read the
    # schema again.
    connection.execute("PRAGMA temp_store = MEMORY")
    switches = bool(connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal")
    if switches:
        _switch_to_wal(connection)
    return switches


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    give_up = time.monotonic() + BUSY_TIMEOUT_S
    # When two processes create a store at once, SQLite refuses the second without waiting.
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except StoreError as error:
            if not is_busy(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.005)


def is_busy(error: StoreError) -> bool:
    """Whether the error says that another process holds the database lock."""
    code = getattr(error.__cause__, "sqlite_errorcode", 0)
    return (code & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _create_tables(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    """Create the tables of a new database, unless another process has done so meanwhile."""
    with transaction(connection):
        if not _stored_version(connection, path, schema):
            for statement in statements(schema.file.read_text("utf-8")):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {schema.application_id}")
            connection.execute(f"PRAGMA user_version = {schema.version}")


def _stored_version(connection: sqlite3.Connection, path: Path, schema: Schema) -> int:
    """Return the schema number of our database; 0 if it is new and empty.

    Raises StoreTooNew, StoreDamaged.
    """
    version = schema_version(connection)
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if version > schema.version and owner == schema.application_id:
        raise too_new_error(path, version, schema.version)
    is_ours = owner == schema.application_id and 1 <= version <= schema.version
    if not is_ours if tables else version != 0:
        raise StoreDamaged(f"{path} is not an xscore store", hint=recovery_hint(path))
    return version


def _refuse_migrated(connection: sqlite3.Connection) -> None:
    opened: int | None = getattr(connection, "schema_version", None)
    if opened is not None:
        version = schema_version(connection)
        if version > opened:
            raise too_new_error(getattr(connection, "place", None), version, opened)


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a script one by one: `executescript` would commit an open
    transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
