"""Open the database of a root: its own, a copy of one that cannot be written or has no room, or an
empty one in memory.

`opening` opens a database in a folder and decides whether it is trusted; here it is decided which
one is opened. What few commands need is loaded where it is needed. Trade-off: a store that versions
before schema 2 left in the tree is looked for at each opening, which costs one `lstat`.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform import database
from xscore.platform.errors import StoreError
from xscore.platform.paths import (
    STORE_FILE,
    RepositoryRoot,
    can_write,
    fallback_store_dir,
    nearest_folder,
    refuse_wide_folder,
)
from xscore.store import opening, user_secret

OPENING_BYTES = 64_000
"""Space that SQLite and the note of the journal need on the disk before the first row can be
read."""


class OpenedDatabase(Struct, frozen=True):
    """The database of a root, and what else a store needs."""

    connection: sqlite3.Connection
    root: RepositoryRoot
    """The root, with the folder of the open database: that of a copy if its own cannot be
    written."""
    user: user_secret.UserSecret
    keys: opening.StoreKeys
    is_kept: bool = False
    """Whether what is written is kept; if not, the database is in memory, or a copy that is
    removed when it is closed."""
    disk_is_full: bool = False
    """Whether it is a copy because the disk is full: nothing should be paid for that could be
    kept with some free space."""
    siblings: Callable[[], list[Path]] = list
    notes: Sequence[str] = ()
    """Notes about the opening that the user should know."""


def open_database(
    root: RepositoryRoot, user_data_dir: Path, *, trust: bool, create: bool
) -> OpenedDatabase:
    """Open a root's database; first move the one that is still in the tree of a repository.

    create: make a missing one; False opens an empty one in memory.
    Raises StoreUntrusted,
    StoreDamaged, StoreError, and UsageError where a store would make the home folder a project.
    """
    damage = user_secret.set_damaged_aside(user_data_dir)
    notes = [damage] if damage else []
    notes += _take_over_earlier_store(root, user_data_dir)
    if not (create or opening.has_store(root.store_dir)):
        connection = opening.open_empty_store()
        keys = opening.key_source(user_data_dir)
        return OpenedDatabase(
            connection, root, user_secret.ephemeral_secret(), keys, notes=notes
        )

    def siblings() -> list[Path]:
        return _find_siblings(root, user_data_dir)

    refuse_wide_folder(root)
    # A new store needs a mark in the user's folder: where that cannot be written, nothing can be
    # kept.
    if not (root.read_only or opening.has_store(root.store_dir) or can_write(user_data_dir)):
        root = replace(root, read_only=True)
    if root.read_only:
        unwritable = user_data_dir if can_write(root.store_dir) else root.store_dir.parent
        notes.append(f"{unwritable} cannot be written here: nothing from this run is kept")
        return replace(_open_copy(root, user_data_dir, trust), siblings=siblings, notes=notes)
    try:
        connection = opening.open_store(
            root.store_dir, user_data_dir=user_data_dir, trust=trust
        )
    except StoreError as error:
        if type(error) is not StoreError or not _is_disk_full(root, user_data_dir):
            raise
        notes.append(f"the disk of {root.store_dir} is full: nothing from this run is kept")
        copy = _open_copy(replace(root, read_only=True), user_data_dir, trust)
        return replace(copy, siblings=siblings, notes=notes, disk_is_full=True)
    user = user_secret.load_user_secret(user_data_dir)
    keys = opening.key_source(user_data_dir)
    return OpenedDatabase(
        connection, root, user, keys, is_kept=True, siblings=siblings, notes=notes
    )


def _open_copy(root: RepositoryRoot, user_data_dir: Path, trust: bool) -> OpenedDatabase:
    from xscore.store.snapshot import open_snapshot  # few folders cannot be written

    connection, keys = open_snapshot(root.store_dir, user_data_dir=user_data_dir, trust=trust)
    copy = replace(root, store_dir=database.place_of(connection).parent)
    connection.place = root.store_file  # type: ignore[attr-defined]  # errors name the original
    return OpenedDatabase(connection, copy, user_secret.known_user_secret(user_data_dir), keys)


def _is_disk_full(root: RepositoryRoot, user_data_dir: Path) -> bool:
    """Whether a store could not be opened for want of room, in its folder or for the user's
    notes."""
    for place in (root.store_dir, user_data_dir):
        with suppress(OSError):
            disk = os.statvfs(nearest_folder(place))
            if disk.f_bavail * disk.f_frsize < OPENING_BYTES:
                return True
    return False


def _take_over_earlier_store(root: RepositoryRoot, user_data_dir: Path) -> list[str]:
    """Take over the store that versions before schema 2 left in the tree, if there is one; return
    what to say about it."""
    places = (root.earlier_store_dir, fallback_store_dir(root.path))
    if not any(
        place and place != root.store_dir and os.path.lexists(place / STORE_FILE)
        for place in places
    ):
        return []
    from xscore.store.earlier_place import take_over_earlier_store  # once a repository

    return take_over_earlier_store(root, user_data_dir=user_data_dir)


def _find_siblings(root: RepositoryRoot, user_data_dir: Path) -> list[Path]:
    with suppress(StoreError):
        trusted = user_secret.known_user_secret(user_data_dir).trusted_stores
        if trusted.keys() <= {os.path.realpath(root.store_file)}:
            return []
    # Only new stores and turns with something to judge look, and only of users with several stores.
    from xscore.store.siblings import sibling_stores

    return sibling_stores(root, user_data_dir=user_data_dir)
