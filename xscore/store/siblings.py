"""Find the stores of other clones of the same repository ("siblings"), and read one together
with our own.

A sibling is read only if this user created or trusted it where it is, as for opening it
(`opening.is_trusted`). Clones are found through the user's list of stores; a clone must have the
same origin as this repository, or one must be the other's origin. The callers decide what to take,
always by content hash. Trade-off: an encrypted store, or one that is not in a `.git` folder in its
tree (of a submodule, a bare repository or a read-only root), is not used.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from xscore.platform import sqlite_drivers
from xscore.platform.database import lock_wait_until, open_unchecked, read_snapshot
from xscore.platform.errors import StoreDamaged, StoreError
from xscore.platform.git_folder import git_folder, origin_url
from xscore.platform.paths import GIT_STORE_DIR, STORE_FILE, RepositoryRoot
from xscore.store import opening, user_secret
from xscore.store.clone_origins import clone_origins, origin_mark

MOST_SIBLINGS = 8
"""How many stores are read at most."""
PATIENCE_S = 0.5
"""How long to wait for a sibling that another process has locked."""
_LOCK = "UPDATE main.meta SET value = value WHERE key = 'store_id'"


def sibling_stores(root: RepositoryRoot, *, user_data_dir: Path) -> list[Path]:
    """Return the readable stores of other clones of this root's repository. Never raises."""
    try:
        if root.git_dir is None or sqlite_drivers.read_note(root.store_file) is not None:
            return []
        clones = _stores_of_clones(root, user_data_dir)
        return list(
            islice(
                (store for store in clones if _lends(store.parent, user_data_dir)),
                MOST_SIBLINGS,
            )
        )
    except (StoreError, OSError):
        return []


def _stores_of_clones(root: RepositoryRoot, user_data_dir: Path) -> Iterator[Path]:
    origin = origin_mark(origin_url(root.path))
    common = root.store_dir.parent
    trusted_stores = user_secret.load_user_secret(user_data_dir).trusted_stores
    other_clones: list[Path] = []
    for store in map(Path, trusted_stores):
        # Only a store at its usual place tells where its clone is.
        is_in_clone = store.parts[-3:] == (".git", GIT_STORE_DIR, STORE_FILE)
        if is_in_clone and store.parents[1] != common:
            other_clones.append(store.parents[2])
    places = (root.path, common, common.parent)
    for clone, their_origin in clone_origins(other_clones, user_data_dir=user_data_dir):
        is_same = bool(origin) and their_origin == origin
        leads_here = any(_leads_to(their_origin, place) for place in places)
        is_sibling = is_same or leads_here or _leads_to(origin, clone)
        if is_sibling and git_folder(clone) is not None:
            yield clone / ".git" / GIT_STORE_DIR / STORE_FILE


def _leads_to(origin: str, root: Path) -> bool:
    return origin.startswith("/") and os.path.realpath(origin) == str(root)


def _lends(store_dir: Path, user_data_dir: Path) -> bool:
    try:
        opening.refuse_links(store_dir)
        if sqlite_drivers.read_note(store_dir / STORE_FILE) is not None:
            return False
        return opening.is_trusted(store_dir, user_data_dir=user_data_dir)
    except (StoreError, OSError):
        return False


@contextmanager
def attached_sibling(connection: sqlite3.Connection, store: Path) -> Iterator[None]:
    """Attach a store as the schema `sibling`.

    Raises StoreError, or StoreDamaged for another schema version.
    """
    until = time.monotonic() + PATIENCE_S
    connection.execute("ATTACH DATABASE ? AS sibling", (os.fspath(store),))
    try:
        with lock_wait_until(connection, until):
            check_schema(connection, "sibling")
        yield
    finally:
        connection.execute("DETACH DATABASE sibling")


@contextmanager
def transaction_with_sibling(connection: sqlite3.Connection) -> Iterator[None]:
    """Open a transaction that locks only our own store for writing and reads both at one state;
    commit at the end."""
    with read_snapshot(connection):  # BEGIN IMMEDIATE would lock the sibling too
        connection.execute(_LOCK)
        yield
        connection.execute("COMMIT")


@contextmanager
def opened_sibling(store: Path) -> Iterator[sqlite3.Connection]:
    """Open a store read-only, at one state.

    Raises StoreError, or StoreDamaged for another schema version.
    """
    until = time.monotonic() + PATIENCE_S
    with (
        closing(open_unchecked(store, read_only=True)) as connection,
        lock_wait_until(connection, until),
        read_snapshot(connection),
    ):
        check_schema(connection, "main")
        yield connection


def check_schema(connection: sqlite3.Connection, schema: str) -> None:
    """Raise StoreDamaged for a store of another schema version.

    schema: SQLite's name of the database, such as `main`.
    """
    (owner,) = connection.execute(f"PRAGMA {schema}.application_id").fetchone()
    (version,) = connection.execute(f"PRAGMA {schema}.user_version").fetchone()
    if (owner, version) != (opening.SCHEMA.application_id, opening.SCHEMA.version):
        raise StoreDamaged(
            "it has another schema version",
            hint="Open it with the xscore version that created it.",
        )
