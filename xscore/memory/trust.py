"""Which stores to believe: those this user made, or accepted, at this very place.

A store that came with a clone could plant scores, so one that bears no mark of this user's secret (an HMAC over store
id and real path) is refused before its content is used. A new store is built aside and moved into place whole, already
marked, so that a killed start leaves nothing half made. A rebuilt store takes over what is left of the old one only
where that one was believed. Trade-off: a moved repository asks once for `xscore trust`.
"""

import os
import secrets
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from xscore import database, processes, sealing
from xscore.errors import StoreDamaged, StoreError, StoreUntrusted
from xscore.memory import store_key, user_secret
from xscore.memory.salvage import Salvaged, salvage
from xscore.paths import STORE_FILE
from xscore.sealing import KeySource

_WAYS = (
    "If you believe it, run `xscore trust`; else `xscore trust --rebuild` sets it aside and builds a new one."
    " XSCORE_TRUST_STORE=1 accepts it for one run (CI caches)."
)
_SIDES = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What became of a store that was built anew."""

    aside: Path | None
    """Where the old one is now; None: there was none."""
    salvaged: Salvaged | None
    """What was taken over; None: the old one was not known to be this user's, so nothing was."""


def open_store(store_dir: Path, *, user_data_dir: Path, trust: bool) -> sqlite3.Connection:
    """Open the store in this folder, making it where there is none.

    Raises StoreUntrusted for a store (or a link) that is not this user's doing, unless `trust` accepts it; links are
    refused always. Raises StoreDamaged and StoreError as `database.connect` does.
    """
    path = store_dir / STORE_FILE
    refuse_links(store_dir)
    if not path.exists():
        _create(store_dir, user_data_dir)
    if not (trust or is_trusted(store_dir, user_data_dir=user_data_dir)):
        raise StoreUntrusted(
            f"the store at {path} was not made by you at this place: it came with a copy of the repository,"
            " or the repository was moved",
            hint=_WAYS,
        )
    return database.connect(path, store_key.keys_of(user_data_dir))


def has_store(store_dir: Path) -> bool:
    """Whether there is a store, or a link that stands in its place; links are followed nowhere."""
    return os.path.lexists(store_dir / STORE_FILE) or store_dir.is_symlink()


def show_none(store_dir: Path) -> sqlite3.Connection:
    """Open an empty store in memory, without an id, for who reads where there is none; the disk stays as it is."""
    connection = database.nothing(store_dir / STORE_FILE)
    connection.execute("INSERT INTO meta (key, value) VALUES ('store_id', '')")
    return connection


def is_trusted(store_dir: Path, *, user_data_dir: Path) -> bool:
    """Whether the store in this folder bears this user's mark. A store that is not there does not."""
    path = store_dir / STORE_FILE
    if not os.path.lexists(path):
        return False
    known = user_secret.load(user_data_dir)
    real = os.path.realpath(path)
    if real not in known.marks or path.lstat().st_uid != os.geteuid():
        return False
    store_id = database.peek(path, "store_id", store_key.keys_of(user_data_dir))
    return store_id is not None and known.accepts(store_id, real)


def accept(store_dir: Path, *, user_data_dir: Path) -> None:
    """Mark the store in this folder as believed here. Raises StoreUntrusted for links, StoreDamaged if it has no id."""
    path = store_dir / STORE_FILE
    refuse_links(store_dir)
    store_id = database.peek(path, "store_id", store_key.keys_of(user_data_dir))
    if store_id is None:
        raise StoreDamaged(f"{path} has no store id", hint="Build it anew with `xscore trust --rebuild`.")
    with user_secret.locked(user_data_dir):
        user_secret.add_mark(user_data_dir, store_id, os.path.realpath(path))


def rebuild(store_dir: Path, *, user_data_dir: Path) -> Rebuilt:
    """Build the store of this folder anew, with what can be read and believed of a store that was trusted here.

    The old one is moved aside at the very end, so that an interrupted rebuild has changed nothing. Raises
    StoreUntrusted when the folder itself is a link, StoreError when the new store cannot be written or another xscore
    is at work on the old one: what that pays for would be lost.
    """
    _refuse_linked_folder(store_dir)
    path = store_dir / STORE_FILE
    vouched = _vouched_id(store_dir, user_data_dir)
    store_id = vouched or secrets.token_hex(16)
    with user_secret.locked(user_data_dir):
        keys = store_key.keys_of(user_data_dir)
        is_sealed = vouched is not None and sealing.note_of(path) is not None
        if vouched:
            refuse_at_work(path, keys)
        scratch = _scratch(store_dir, store_id, keys if is_sealed else None)
        salvaged = None
        if vouched:
            with closing(database.connect(scratch, keys)) as connection:
                salvaged = salvage(path, connection, keys)
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            refuse_at_work(path, keys)  # one may have begun meanwhile
        aside = set_aside(store_dir, keep_note=is_sealed)
        _put_in_place(scratch, path, store_id, user_data_dir)
    return Rebuilt(aside, salvaged)


def set_aside(store_dir: Path, *, keep_note: bool = False) -> Path | None:
    """Move the database into a numbered folder beside it, so that the next open builds a new one; None: there was none.

    keep_note: leave the note that it is encrypted, so that what takes its place will be. Raises StoreUntrusted when the
    folder itself is a link.
    """
    _refuse_linked_folder(store_dir)
    files = [file for file in map(store_dir.joinpath, (STORE_FILE, *_sides())) if os.path.lexists(file)]
    note = sealing.note_path(store_dir / STORE_FILE)
    if not (files or os.path.lexists(note)):
        return None
    aside = next(place for place in _asides(store_dir) if not os.path.lexists(place))
    aside.mkdir(mode=0o700)
    for file in files:
        with suppress(FileNotFoundError):  # SQLite removes the journals of a database that someone closes just now
            file.rename(aside / file.name)
    if os.path.lexists(note):
        if keep_note:
            (aside / note.name).write_bytes(note.read_bytes())
        else:
            note.rename(aside / note.name)
    return aside


def refuse_links(store_dir: Path) -> None:
    """Raise StoreUntrusted if the folder or a file in it is a link, or no such thing, or a journal stands alone."""
    for place in (store_dir, *map(store_dir.joinpath, (STORE_FILE, *_sides()))):
        if place.is_symlink():
            raise StoreUntrusted(
                f"{place} is a symbolic link and may point anywhere",
                hint=f"Remove it: `rm {place}`, then run it again.",
            )
        if os.path.lexists(place) and not (place.is_dir() if place == store_dir else place.is_file()):
            raise StoreUntrusted(
                f"{place} is not what a store has there", hint="Move it away, then run it again: a new store is made."
            )
    if not (store_dir / STORE_FILE).exists() and any((store_dir / side).exists() for side in _sides()):
        raise StoreUntrusted(
            f"{store_dir} holds a journal without its database, which could be planted",
            hint="Set it aside with `xscore trust --rebuild`.",
        )


def refuse_at_work(path: Path, keys: KeySource) -> None:
    """Raise StoreError while a living runner (see `processes`) is at work on the database at `path`."""
    here, now = processes.place(), time.time()
    for mark in _marks(path, keys):
        if mark.lives(here=here, now=now):
            where = "" if mark.place == here else f" on {mark.place}"
            raise StoreError(
                f"{path} is at work: process {mark.pid}{where} is judging with it, and what it pays for would be lost",
                hint="Wait for it to end, or stop it with Ctrl-C (nothing paid for is lost), then run it again.",
            )


def _marks(path: Path, keys: KeySource) -> list[processes.Mark]:
    try:
        with closing(database.open_as_it_is(path, keys)) as connection, database.making_sense("a runner"):
            rows = connection.execute("SELECT pid, place, seen_at FROM runner").fetchall()
            return [processes.Mark(int(pid), str(where), float(seen_at)) for pid, where, seen_at in rows]
    except (StoreError, sqlite3.Error):  # of an older xscore, or damaged there; a writer notices that its file is gone
        return []


def _vouched_id(store_dir: Path, user_data_dir: Path) -> str | None:
    """Return the id of a store that is there and trusted; None where that cannot be shown."""
    path = store_dir / STORE_FILE
    try:
        refuse_links(store_dir)
        if path.exists() and is_trusted(store_dir, user_data_dir=user_data_dir):
            return database.peek(path, "store_id", store_key.keys_of(user_data_dir))
    except (StoreUntrusted, StoreDamaged):
        return None
    return None


def _create(store_dir: Path, user_data_dir: Path) -> None:
    path = store_dir / STORE_FILE
    with user_secret.locked(user_data_dir):
        if not path.exists():
            store_id = secrets.token_hex(16)
            noted = sealing.note_of(path)  # of a rebuild that was killed: what is made anew is encrypted again
            keys = None if noted is None else store_key.keys_of(user_data_dir)
            if noted is not None:
                sealing.key_for(path, noted, keys)
            _put_in_place(_scratch(store_dir, store_id, keys), path, store_id, user_data_dir)


def _scratch(store_dir: Path, store_id: str, keys: KeySource | None) -> Path:
    """Make an empty store aside, whole in its one file; keys: for one that is encrypted."""
    scratch = store_dir / f"{STORE_FILE}.new"
    for name in ("", *_SIDES, sealing.NOTE):
        scratch.with_name(scratch.name + name).unlink(missing_ok=True)
    if keys is not None:
        sealing.write_note(scratch, keys())
    with closing(database.connect(scratch, keys)) as connection:
        connection.execute("INSERT INTO meta (key, value) VALUES ('store_id', ?)", (store_id,))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # only the database itself is moved, so all is in it
    return scratch


def _put_in_place(scratch: Path, path: Path, store_id: str, user_data_dir: Path) -> None:
    """Mark a store for its place and move it there. Call it inside `locked`."""
    user_secret.add_mark(user_data_dir, store_id, os.path.realpath(path))
    note = sealing.note_path(scratch)
    if note.exists():  # first: beside it, a database that is not encrypted opens all the same
        note.rename(sealing.note_path(path))
    scratch.rename(path)


def _refuse_linked_folder(store_dir: Path) -> None:
    if store_dir.is_symlink():
        raise StoreUntrusted(f"{store_dir} is a symbolic link", hint="Remove the link, then run xscore again.")


def _sides() -> tuple[str, ...]:
    return tuple(STORE_FILE + side for side in _SIDES)


def _asides(store_dir: Path) -> list[Path]:
    return [store_dir / f"aside-{number}" for number in range(1, 10_000)]
