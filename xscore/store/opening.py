"""Open the two kinds of store: a repository's, if this user made or accepted it here, and the
user's own.

A store that came with an archive could contain planted scores, so it is used only if the user's
secret file holds its mark (an HMAC over store id and real path), and only with a journal that this
user's processes left (`journals`). A new store is built beside its final path, marked, and moved
into place, so a killed start leaves nothing half made. The user's own store has the same schema and
is created at the first write. Trade-off: a moved repository asks once for trust.
"""

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from xscore.platform import database, sqlite_drivers
from xscore.platform.errors import StoreDamaged, StoreError, StoreUntrusted
from xscore.platform.files import is_there
from xscore.platform.paths import STORE_FILE
from xscore.platform.processes import random_hex
from xscore.platform.sqlite_drivers import BUSY_TIMEOUT_S, KeySource
from xscore.store import user_secret
from xscore.store.journals import (
    FILE_SUFFIXES,
    JOURNALS,
    accept_journals,
    note_journal,
    refuse_foreign_journal,
)
from xscore.store.worktrees import enter_worktree


def _migrate(
    connection: sqlite3.Connection, path: Path, keys: KeySource | None
) -> database.Migration | None:
    # Hardly any opening meets an older store.
    from xscore.store.migrations.steps import migrate_store

    return migrate_store(connection, path, SCHEMA, keys)


SCHEMA = database.Schema(
    Path(__file__).with_name("schema.sql"),
    application_id=0x78736372,
    version=11,
    migrate=_migrate,
)
"""Schema of both kinds of store; the id is `xscr`. A change of the file is a step: see
`migrations.steps`."""


class StoreKeys(Struct, frozen=True):
    """What opens a user's stores: called, it reads the key of encrypted ones (`KeySource`)."""

    user_data_dir: Path
    notes_journals: bool = True
    """Whether connections note their journals as this user's; not those to a copy that is thrown
    away."""

    def __call__(self) -> bytes:
        """Read the key. Raises StoreError if there is none."""
        from xscore.store.encryption_key import load_encryption_key  # few stores are encrypted

        return load_encryption_key(self.user_data_dir)


def key_source(user_data_dir: Path) -> StoreKeys:
    """Return what opens the stores of the user with this folder."""
    return StoreKeys(user_data_dir)


def connect_store(
    path: Path,
    keys: StoreKeys | None = None,
    *,
    create: bool = True,
    check: Callable[[sqlite3.Connection], None] = lambda _: None,
) -> sqlite3.Connection:
    """Open the store in this file. Raises as `database.connect` does.

    keys: of the user whose journal the store's becomes; None: of no user, for databases that are
        thrown away.
    create: create the file if it is missing.
    check: may raise, before anything is written.
    """

    def before_writing(connection: sqlite3.Connection) -> None:
        check(connection)
        if keys is not None and keys.notes_journals:
            note_journal(connection, path, keys.user_data_dir)

    return database.connect(path, SCHEMA, keys, create=create, before_writing=before_writing)


def migration_note(connection: sqlite3.Connection) -> str:
    """Say in one line that opening migrated the store; empty if it did not."""
    migration = database.migration_of(connection)
    if migration is None:
        return ""
    return (
        f"the store was migrated from schema {migration.before} to {migration.after}; a copy of its"
        f" judgments and memories from before is in {migration.copy}"
    )


def open_store(store_dir: Path, *, user_data_dir: Path, trust: bool) -> sqlite3.Connection:
    """Open the store in this folder; create it if it is missing.

    Raises StoreUntrusted for a store that this user neither made nor accepted here, unless `trust`
    is set, and for links always. Raises StoreDamaged and StoreError as `database.connect` does.
    """
    path = store_dir / STORE_FILE
    # first: even reading whether it is trusted would leave journals beside it.
    database.refuse_newer(path, SCHEMA)
    while True:  # again where a rebuild set it aside meanwhile
        before = database.inode_of(path)
        try:
            return _open_store(path, user_data_dir, trust=trust)
        except StoreError:
            if database.inode_of(path) == before:
                raise


def _open_store(path: Path, user_data_dir: Path, *, trust: bool) -> sqlite3.Connection:
    store_dir = path.parent
    # What the folder leads to, if it is a link, may not even be readable.
    refuse_link(store_dir)
    if not is_there(path):
        _create(store_dir, user_data_dir)
    refuse_links(store_dir)
    keys = key_source(user_data_dir)
    if trust:
        return connect_store(path, keys, create=False)
    refuse_foreign_journal(path, user_data_dir)
    secret = _secret_that_marks(path, user_data_dir)

    def refuse_foreign_id(connection: sqlite3.Connection) -> None:
        if secret is None or not _is_marked(
            path, secret, database.untrusted_meta_value(connection, "store_id")
        ):
            raise untrusted_error(path, user_data_dir)

    return connect_store(path, keys, create=False, check=refuse_foreign_id)


def untrusted_error(path: Path, user_data_dir: Path) -> StoreUntrusted:
    """Return the error for a store that this user neither made nor accepted where it is."""
    return StoreUntrusted(
        f"the store at {path} was not made by you at this place: it came with a copy of the"
        " repository, or the repository was moved"
        f"{user_secret.explain_lost_marks(user_data_dir)}",
        hint=(
            "If you trust it, run `xscore store trust`; otherwise `xscore store rebuild` sets it"
            " aside and makes a new one. XSCORE_TRUST_STORE=1 accepts it for one run (CI caches)."
        ),
    )


def has_store(store_dir: Path) -> bool:
    """Whether there is a store, or a link in its place."""
    return os.path.lexists(store_dir / STORE_FILE) or is_there(
        store_dir, stat.S_ISLNK, follow=False
    )


def open_empty_store() -> sqlite3.Connection:
    """Open an empty store in memory, without an id."""
    connection = database.open_in_memory(SCHEMA)
    connection.execute("INSERT INTO meta (key, value) VALUES ('store_id', '')")
    return connection


def is_trusted(
    store_dir: Path,
    *,
    user_data_dir: Path,
    copy: Path | None = None,
    busy_s: float = BUSY_TIMEOUT_S,
) -> bool:
    """Whether this user made or accepted the store in this folder. A missing store is not trusted.

    copy: a copy of its database, to read the id from where SQLite may not write beside the
    original. busy_s: how long to wait where another program holds it.
    """
    path = store_dir / STORE_FILE
    secret = _secret_that_marks(path, user_data_dir)
    if secret is None:
        return False
    try:
        refuse_foreign_journal(path, user_data_dir)
    except StoreUntrusted:
        return False
    keys = key_source(user_data_dir)
    store_id = database.read_meta_value(copy or path, "store_id", keys, busy_s=busy_s)
    return _is_marked(path, secret, store_id)


def _secret_that_marks(path: Path, user_data_dir: Path) -> user_secret.UserSecret | None:
    """Return the user's secret if it has a mark for a store at this path; None also for a file of
    another user."""
    try:
        owner = path.lstat().st_uid
    except OSError:
        return None
    secret = user_secret.known_user_secret(user_data_dir)
    return (
        secret
        if os.path.realpath(path) in secret.trusted_stores and owner == os.geteuid()
        else None
    )


def _is_marked(path: Path, secret: user_secret.UserSecret, store_id: str | None) -> bool:
    return store_id is not None and secret.accepts(store_id, os.path.realpath(path))


def accept_store(store_dir: Path, *, user_data_dir: Path) -> None:
    """Trust the store in this folder, with its journal.

    Raises StoreUntrusted for links, StoreTooNew for one of a newer xscore, StoreDamaged without an
    id.
    """
    path = store_dir / STORE_FILE
    database.refuse_newer(path, SCHEMA)
    refuse_links(store_dir)
    accept_journals(path, user_data_dir)
    store_id = read_store_id(path, user_data_dir)
    if store_id is None:
        raise StoreDamaged(
            f"{path} has no store id", hint="Rebuild it with `xscore store rebuild`."
        )
    with user_secret.user_lock(user_data_dir):
        user_secret.add_trust_mark(user_data_dir, store_id, os.path.realpath(path))


def read_store_id(path: Path, user_data_dir: Path) -> str | None:
    """Read the id of a store that need not be trusted.

    Raises StoreUntrusted for a foreign journal, StoreDamaged.
    """
    refuse_foreign_journal(path, user_data_dir)
    return database.read_meta_value(path, "store_id", key_source(user_data_dir))


def refuse_links(store_dir: Path) -> None:
    """Raise StoreUntrusted for a link, a file of the wrong kind, or a journal without its database;
    StoreError where this user may not look."""
    database_file, *journals = (store_dir / f"{STORE_FILE}{side}" for side in ("", *JOURNALS))
    for place in (store_dir, database_file, *journals):
        refuse_link(place)
        try:
            # One look: SQLite removes journals of a database that is being closed.
            mode = place.lstat().st_mode
        except PermissionError as error:
            raise StoreError(
                f"{place} cannot be read: {error.strerror}",
                hint=f"Check the permissions of {place.parent}.",
            ) from error
        except OSError:
            continue
        is_right = stat.S_ISREG(mode)
        kind = "regular file"
        if place == store_dir:
            is_right = stat.S_ISDIR(mode)
            kind = "folder"
        if not is_right:
            raise StoreUntrusted(
                f"{place} is not a {kind}",
                hint="Move it away, then run it again: a new store is created.",
            )
    if not database_file.exists() and any(journal.exists() for journal in journals):
        raise StoreUntrusted(
            f"{store_dir} holds a journal without its database, which could be planted",
            hint="Set it aside with `xscore store rebuild`.",
        )


def refuse_link(place: Path) -> None:
    """Raise StoreUntrusted if this path is a link, which may point anywhere."""
    if is_there(place, stat.S_ISLNK, follow=False):
        raise StoreUntrusted(
            f"{place} is a symbolic link", hint=f"Remove it: `rm {place}`, then run it again."
        )


def _create(store_dir: Path, user_data_dir: Path) -> None:
    path = store_dir / STORE_FILE
    with user_secret.user_lock(user_data_dir):
        if path.exists():
            return
        refuse_links(store_dir)  # only here: a rebuild holds the lock while it moves journals
        store_id = random_hex(16)
        keys = None
        # Left by a killed rebuild: encrypt the new store again.
        noted = sqlite_drivers.read_note(path)
        if noted is not None:
            # A plain store needs none of it.
            from xscore.platform.encrypted_sqlite import key_of_note

            keys = key_source(user_data_dir)
            key_of_note(path, noted, keys)
        scratch = create_scratch(path, store_id, keys)
        user_secret.add_trust_mark(user_data_dir, store_id, os.path.realpath(path))
        put_in_place(scratch, path)


def create_scratch(path: Path, store_id: str, keys: StoreKeys | None) -> Path:
    """Create an empty store beside `path`, complete in one file; keys: to encrypt it."""
    scratch = path.with_name(f"{path.name}.new")
    for suffix in FILE_SUFFIXES:
        place = Path(f"{scratch}{suffix}")
        try:
            place.unlink(missing_ok=True)
        # A folder, or a file where the store's folder belongs: a clone may bring either.
        except OSError as error:
            message = f"{place} is in the way of the store: {error.strerror}"
            raise StoreError(message, hint="Remove it by hand.") from error
    if keys is not None:
        # A plain store needs none of it.
        from xscore.platform.encrypted_sqlite import write_note

        write_note(scratch, keys())
    with closing(connect_store(scratch, keys)) as connection:
        connection.execute("INSERT INTO meta (key, value) VALUES ('store_id', ?)", (store_id,))
        # Only the database file itself is moved.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return scratch


def put_in_place(scratch: Path, path: Path) -> None:
    """Move a new store into place. Call it inside `user_lock`."""
    note = sqlite_drivers.note_path(scratch)
    # Note first: a plain database opens beside a note, an encrypted one not without it.
    if note.exists():
        note.rename(sqlite_drivers.note_path(path))
    scratch.rename(path)


def user_store_path(user_data_dir: Path) -> Path:
    """Where the user's own store is, or would be."""
    return user_data_dir / sqlite_drivers.USER_STORE_FILE


def open_user_store(user_data_dir: Path) -> sqlite3.Connection:
    """Open the user's own store; create it if it is missing.

    Raises StoreUntrusted for a link, StoreError.
    """
    path = user_store_path(user_data_dir)
    refuse_link(path)
    connection = connect_store(path, key_source(user_data_dir))
    try:
        store_id = random_hex(16)
        connection.execute(
            "INSERT OR IGNORE INTO meta (key, value) VALUES ('store_id', ?)", (store_id,)
        )
        enter_worktree(connection)
    except BaseException:
        connection.close()
        raise
    return connection
