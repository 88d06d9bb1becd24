"""Build the user's own store anew: what can be read and believed of it comes over, the damaged one is set aside.

It touches no project's store. The user's store stands in the user's own folder, so nobody has to vouch for it.
Trade-off: killed between setting aside and putting in place, it leaves no store at its place; both lie beside it.
"""

import os
import secrets
from contextlib import closing, suppress
from pathlib import Path

from xscore.extensions.recovery.salvage import salvage_store
from xscore.platform import sqlite_drivers
from xscore.platform.errors import StoreUntrusted, UsageError
from xscore.platform.sqlite_drivers import KeySource
from xscore.store import encryption_key, user_secret
from xscore.store.opening import RebuiltStore, connect_store, refuse_busy_store, user_store_path

_SIDES = ("", "-wal", "-shm", "-journal")
_MOST_ASIDES = 10_000


def rebuild_user_store(user_data_dir: Path) -> RebuiltStore:
    """Build it anew; an interrupted call has changed nothing. Raises UsageError where there is none, StoreError."""
    path = user_store_path(user_data_dir)
    if path.is_symlink():
        raise StoreUntrusted(f"{path} is a symbolic link", hint=f"Remove it: `rm {path}`, then run it again.")
    if not path.exists():
        raise UsageError(f"there is no store of your own at {path}", hint="One is made when you first say something.")
    with user_secret.user_lock(user_data_dir):
        keys = encryption_key.key_source(user_data_dir)
        refuse_busy_store(path, keys)
        is_sealed = sqlite_drivers.read_note(path) is not None
        scratch = _create_user_scratch(path, keys if is_sealed else None)
        with closing(connect_store(scratch, keys)) as connection:
            connection.execute("INSERT INTO meta (key, value) VALUES ('store_id', ?)", (secrets.token_hex(16),))
            salvaged = salvage_store(path, connection, keys)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        aside = _set_user_store_aside(path)
        if is_sealed:
            sqlite_drivers.note_path(scratch).rename(sqlite_drivers.note_path(path))
        scratch.rename(path)
    return RebuiltStore(aside, salvaged)


def _create_user_scratch(path: Path, keys: KeySource | None) -> Path:
    scratch = path.with_name(f"{path.name}.new")
    for side in (*_SIDES, sqlite_drivers.NOTE_SUFFIX):
        scratch.with_name(scratch.name + side).unlink(missing_ok=True)
    if keys is not None:
        sqlite_drivers.write_note(scratch, keys())
    return scratch


def _set_user_store_aside(path: Path) -> Path:
    """Move the database into a numbered folder beside it; the note that it is encrypted is copied."""
    asides = (path.with_name(f"aside-{number}") for number in range(1, _MOST_ASIDES))
    aside = next(place for place in asides if not os.path.lexists(place))
    aside.mkdir(mode=0o700)
    note = sqlite_drivers.note_path(path)
    if note.is_file():
        (aside / note.name).write_bytes(note.read_bytes())
    for side in _SIDES:
        with suppress(FileNotFoundError):  # SQLite removes the journals of a database that someone closes just now
            path.with_name(path.name + side).rename(aside / (path.name + side))
    return aside
