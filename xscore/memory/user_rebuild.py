"""Build the user's own store anew: what can be read and believed of it comes over, the damaged one is set aside.

It touches no project's store. The user's store stands in the user's own folder, so nobody has to vouch for it.
Trade-off: killed between setting aside and putting in place, it leaves no store at its place; both lie beside it.
"""

import os
import secrets
from contextlib import closing, suppress
from pathlib import Path

from xscore import database, sealing
from xscore.errors import StoreUntrusted, UsageError
from xscore.memory import store_key, user_secret
from xscore.memory.salvage import salvage
from xscore.memory.trust import Rebuilt, refuse_at_work
from xscore.memory.user_store import path_in
from xscore.sealing import KeySource

_SIDES = ("", "-wal", "-shm", "-journal")
_MOST_ASIDES = 10_000


def rebuild_user_store(user_data_dir: Path) -> Rebuilt:
    """Build it anew; an interrupted call has changed nothing. Raises UsageError where there is none, StoreError."""
    path = path_in(user_data_dir)
    if path.is_symlink():
        raise StoreUntrusted(f"{path} is a symbolic link", hint=f"Remove it: `rm {path}`, then run it again.")
    if not path.exists():
        raise UsageError(f"there is no store of your own at {path}", hint="One is made when you first say something.")
    with user_secret.locked(user_data_dir):
        keys = store_key.keys_of(user_data_dir)
        refuse_at_work(path, keys)
        is_sealed = sealing.note_of(path) is not None
        scratch = _scratch(path, keys if is_sealed else None)
        with closing(database.connect(scratch, keys)) as connection:
            connection.execute("INSERT INTO meta (key, value) VALUES ('store_id', ?)", (secrets.token_hex(16),))
            salvaged = salvage(path, connection, keys)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        aside = _set_aside(path)
        if is_sealed:
            sealing.note_path(scratch).rename(sealing.note_path(path))
        scratch.rename(path)
    return Rebuilt(aside, salvaged)


def _scratch(path: Path, keys: KeySource | None) -> Path:
    scratch = path.with_name(f"{path.name}.new")
    for side in (*_SIDES, sealing.NOTE):
        scratch.with_name(scratch.name + side).unlink(missing_ok=True)
    if keys is not None:
        sealing.write_note(scratch, keys())
    return scratch


def _set_aside(path: Path) -> Path:
    """Move the database into a numbered folder beside it; the note that it is encrypted is copied."""
    asides = (path.with_name(f"aside-{number}") for number in range(1, _MOST_ASIDES))
    aside = next(place for place in asides if not os.path.lexists(place))
    aside.mkdir(mode=0o700)
    note = sealing.note_path(path)
    if note.is_file():
        (aside / note.name).write_bytes(note.read_bytes())
    for side in _SIDES:
        with suppress(FileNotFoundError):  # SQLite removes the journals of a database that someone closes just now
            path.with_name(path.name + side).rename(aside / (path.name + side))
    return aside
