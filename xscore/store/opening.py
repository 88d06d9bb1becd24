"""The two databases behind a store: the repository's, and the user's own, opened when something of it is wanted.

It knows where each layer lives and what time it is, and nothing of what the rows mean. Trade-off: one connection to
each, used by one task at a time, so that a command sees what it just wrote.

Which stores to believe: those this user made, or accepted, at this very place.

A store that came with a clone could plant scores, so one that bears no mark of this user's secret (an HMAC over store
id and real path) is refused before its content is used. A new store is built aside and moved into place whole, already
marked, so that a killed start leaves nothing half made. A rebuilt store takes over what is left of the old one only
where that one was believed. Trade-off: a moved repository asks once for `xscore store trust`.

The user's own store: the user layer, and the judgments about it, in the user's data folder and nowhere else.

It has the schema of a repository's store, so that all of this room works on it. It is opened when something of it is
wanted and made when something is first written: a turn of someone who has none opens nothing. Who may open it at all
(`memory.user_learning`) is decided by whoever opens the store. Trade-off: a store that is always there to be read would
be simpler, but a person who never said anything of themselves should have no file that could say so.
"""

import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Self

from msgspec import Struct

from xscore.extensions.recovery.salvage import SalvageReport, salvage_store
from xscore.platform import database, processes, sqlite_drivers
from xscore.platform.errors import StoreDamaged, StoreError, StoreUntrusted, UsageError
from xscore.platform.paths import STORE_FILE, RepositoryRoot
from xscore.platform.sqlite_drivers import KeySource
from xscore.records import Layer
from xscore.settings import MemorySettings
from xscore.store import encryption_key, user_secret

SCHEMA = database.Schema(Path(__file__).with_name("schema.sql"), application_id=0x78736372, version=1)
"""Of a repository's store and of the user's own; the id is `xscr`."""
_WAYS = (
    "If you believe it, run `xscore store trust`; else `xscore store rebuild` sets it aside and builds a new one."
    " XSCORE_TRUST_STORE=1 accepts it for one run (CI caches)."
)
_SIDES = ("-wal", "-shm", "-journal")


def connect_store(path: Path, keys: KeySource | None = None) -> sqlite3.Connection:
    """Open the store in this file, creating it if it is missing. Raises as `database.connect` does."""
    return database.connect(path, SCHEMA, keys)


class RebuiltStore(Struct, frozen=True):
    """What became of a store that was built anew."""

    aside: Path | None
    """Where the old one is now; None: there was none."""
    salvaged: SalvageReport | None
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
    return connect_store(path, encryption_key.key_source(user_data_dir))


def has_store(store_dir: Path) -> bool:
    """Whether there is a store, or a link that stands in its place; links are followed nowhere."""
    return os.path.lexists(store_dir / STORE_FILE) or store_dir.is_symlink()


def open_empty_store() -> sqlite3.Connection:
    """Open an empty store in memory, without an id, for who reads where there is none; the disk stays as it is."""
    connection = database.open_in_memory(SCHEMA)
    connection.execute("INSERT INTO meta (key, value) VALUES ('store_id', '')")
    return connection


def is_trusted(store_dir: Path, *, user_data_dir: Path) -> bool:
    """Whether the store in this folder bears this user's mark. A store that is not there does not."""
    path = store_dir / STORE_FILE
    if not os.path.lexists(path):
        return False
    known = user_secret.load_user_secret(user_data_dir)
    real = os.path.realpath(path)
    if real not in known.marks or path.lstat().st_uid != os.geteuid():
        return False
    store_id = database.read_meta_value(path, "store_id", encryption_key.key_source(user_data_dir))
    return store_id is not None and known.accepts(store_id, real)


def accept_store(store_dir: Path, *, user_data_dir: Path) -> None:
    """Mark the store in this folder as believed here. Raises StoreUntrusted for links, StoreDamaged if it has no id."""
    path = store_dir / STORE_FILE
    refuse_links(store_dir)
    store_id = database.read_meta_value(path, "store_id", encryption_key.key_source(user_data_dir))
    if store_id is None:
        raise StoreDamaged(f"{path} has no store id", hint="Build it anew with `xscore store rebuild`.")
    with user_secret.user_lock(user_data_dir):
        user_secret.add_trust_mark(user_data_dir, store_id, os.path.realpath(path))


def rebuild_store(store_dir: Path, *, user_data_dir: Path) -> RebuiltStore:
    """Build the store of this folder anew, with what can be read and believed of a store that was trusted here.

    The old one is moved aside at the very end, so that an interrupted rebuild has changed nothing. Raises
    StoreUntrusted when the folder itself is a link, StoreError when the new store cannot be written or another xscore
    is at work on the old one: what that pays for would be lost.
    """
    _refuse_linked_folder(store_dir)
    path = store_dir / STORE_FILE
    vouched = _vouched_id(store_dir, user_data_dir)
    store_id = vouched or secrets.token_hex(16)
    with user_secret.user_lock(user_data_dir):
        keys = encryption_key.key_source(user_data_dir)
        is_sealed = vouched is not None and sqlite_drivers.read_note(path) is not None
        if vouched:
            refuse_busy_store(path, keys)
        scratch = _create_scratch(store_dir, store_id, keys if is_sealed else None)
        salvaged = None
        if vouched:
            with closing(connect_store(scratch, keys)) as connection:
                salvaged = salvage_store(path, connection, keys)
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            refuse_busy_store(path, keys)  # one may have begun meanwhile
        aside = set_store_aside(store_dir, keep_note=is_sealed)
        _put_in_place(scratch, path, store_id, user_data_dir)
    return RebuiltStore(aside, salvaged)


def set_store_aside(store_dir: Path, *, keep_note: bool = False) -> Path | None:
    """Move the database into a numbered folder beside it, so that the next open builds a new one; None: there was none.

    keep_note: leave the note that it is encrypted, so that what takes its place will be. Raises StoreUntrusted when the
    folder itself is a link.
    """
    _refuse_linked_folder(store_dir)
    files = [file for file in map(store_dir.joinpath, (STORE_FILE, *_sides())) if os.path.lexists(file)]
    note = sqlite_drivers.note_path(store_dir / STORE_FILE)
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
            hint="Set it aside with `xscore store rebuild`.",
        )


def refuse_busy_store(path: Path, keys: KeySource) -> None:
    """Raise StoreError while a living runner (see `processes`) is at work on the database at `path`."""
    here, now = processes.process_place(), time.time()
    for mark in _runner_marks(path, keys):
        if mark.lives(here=here, now=now):
            where = "" if mark.place == here else f" on {mark.place}"
            raise StoreError(
                f"{path} is at work: process {mark.pid}{where} is judging with it, and what it pays for would be lost",
                hint="Wait for it to end, or stop it with Ctrl-C (nothing paid for is lost), then run it again.",
            )


def _runner_marks(path: Path, keys: KeySource) -> list[processes.RunnerMark]:
    try:
        with closing(database.open_unchecked(path, keys)) as connection, database.damage_if_invalid("a runner"):
            rows = connection.execute("SELECT pid, place, seen_at FROM runner").fetchall()
            return [processes.RunnerMark(int(pid), str(where), float(seen_at)) for pid, where, seen_at in rows]
    except (StoreError, sqlite3.Error):  # of an older xscore, or damaged there; a writer notices that its file is gone
        return []


def _vouched_id(store_dir: Path, user_data_dir: Path) -> str | None:
    """Return the id of a store that is there and trusted; None where that cannot be shown."""
    path = store_dir / STORE_FILE
    try:
        refuse_links(store_dir)
        if path.exists() and is_trusted(store_dir, user_data_dir=user_data_dir):
            return database.read_meta_value(path, "store_id", encryption_key.key_source(user_data_dir))
    except (StoreUntrusted, StoreDamaged):
        return None
    return None


def _create(store_dir: Path, user_data_dir: Path) -> None:
    path = store_dir / STORE_FILE
    with user_secret.user_lock(user_data_dir):
        if not path.exists():
            store_id = secrets.token_hex(16)
            noted = sqlite_drivers.read_note(path)  # of a rebuild that was killed: what is made anew is encrypted again
            keys = None if noted is None else encryption_key.key_source(user_data_dir)
            if noted is not None:
                sqlite_drivers.key_of_note(path, noted, keys)
            _put_in_place(_create_scratch(store_dir, store_id, keys), path, store_id, user_data_dir)


def _create_scratch(store_dir: Path, store_id: str, keys: KeySource | None) -> Path:
    """Make an empty store aside, whole in its one file; keys: for one that is encrypted."""
    scratch = store_dir / f"{STORE_FILE}.new"
    for name in ("", *_SIDES, sqlite_drivers.NOTE_SUFFIX):
        scratch.with_name(scratch.name + name).unlink(missing_ok=True)
    if keys is not None:
        sqlite_drivers.write_note(scratch, keys())
    with closing(connect_store(scratch, keys)) as connection:
        connection.execute("INSERT INTO meta (key, value) VALUES ('store_id', ?)", (store_id,))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # only the database itself is moved, so all is in it
    return scratch


def _put_in_place(scratch: Path, path: Path, store_id: str, user_data_dir: Path) -> None:
    """Mark a store for its place and move it there. Call it inside `locked`."""
    user_secret.add_trust_mark(user_data_dir, store_id, os.path.realpath(path))
    note = sqlite_drivers.note_path(scratch)
    if note.exists():  # first: beside it, a database that is not encrypted opens all the same
        note.rename(sqlite_drivers.note_path(path))
    scratch.rename(path)


def _refuse_linked_folder(store_dir: Path) -> None:
    if store_dir.is_symlink():
        raise StoreUntrusted(f"{store_dir} is a symbolic link", hint="Remove the link, then run xscore again.")


def _sides() -> tuple[str, ...]:
    return tuple(STORE_FILE + side for side in _SIDES)


def _asides(store_dir: Path) -> list[Path]:
    return [store_dir / f"aside-{number}" for number in range(1, 10_000)]


def user_store_path(user_data_dir: Path) -> Path:
    """Where the user's store is, or would be."""
    return user_data_dir / sqlite_drivers.USER_STORE_FILE


def open_user_store(user_data_dir: Path) -> sqlite3.Connection:
    """Open the user's store, making it where there is none.

    Raises StoreUntrusted for a link, StoreError, StoreDamaged.
    """
    path = user_store_path(user_data_dir)
    if path.is_symlink():
        raise StoreUntrusted(f"{path} is a symbolic link", hint=f"Remove it: `rm {path}`, then run it again.")
    connection = connect_store(path, encryption_key.key_source(user_data_dir))
    try:
        connection.execute(
            "INSERT INTO meta (key, value) VALUES ('store_id', ?) ON CONFLICT (key) DO NOTHING",
            (secrets.token_hex(16),),
        )
    except BaseException:
        connection.close()
        raise
    return connection


Clock = Callable[[], float]
"""Unix seconds."""


class Databases:
    """What a repository's memories are kept in."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        root: RepositoryRoot,
        user: user_secret.UserSecret,
        user_data_dir: Path | None = None,
        keys: KeySource | None = None,
        settings: MemorySettings | None = None,
        clock: Clock = time.time,
    ) -> None:
        self.connection = connection
        self.root = root
        self.user_data_dir = user_data_dir
        """Where the user's own store is; None: it is not to be opened."""
        self.keys = keys
        """Where the user's key is, should a store be encrypted."""
        self.settings = settings or MemorySettings()
        """How what is said is kept."""
        self.clock = clock
        self._user: sqlite3.Connection | None = None
        self.user_is_unreadable = False
        """Whether a turn met damage in the user's own store, and goes on without it."""
        self.store_id = str(connection.execute("SELECT value FROM meta WHERE key = 'store_id'").fetchone()[0])
        self.secret = user.derive("store", self.store_id)
        """32 bytes of this user and store, for shuffles that content must not foresee."""

    @classmethod
    def open(
        cls,
        root: RepositoryRoot,
        *,
        user_data_dir: Path,
        trust_it: bool = False,
        make: bool = True,
        user_learning: bool = True,
        settings: MemorySettings | None = None,
        clock: Clock = time.time,
    ) -> Self:
        """Open the root's store, making it where there is none. Raises StoreUntrusted, StoreDamaged, StoreError.

        make: false leaves the disk as it is, for who only reads: where there is no store, an empty one is shown.
        user_learning: whether the user's own store may be opened, when something of it is wanted; `settings` may
        forbid it too. clock: stamps what is written by a call that names no time.
        """
        is_there = make or has_store(root.store_dir)
        connection = (
            open_store(root.store_dir, user_data_dir=user_data_dir, trust=trust_it) if is_there else open_empty_store()
        )
        try:
            may = user_learning and (settings is None or settings.user_learning)
            secret = user_secret.load_user_secret(user_data_dir) if is_there else user_secret.ephemeral_secret()
            own = user_data_dir if may else None
            keys = encryption_key.key_source(user_data_dir)
            return cls(connection, root=root, user=secret, user_data_dir=own, keys=keys, settings=settings, clock=clock)
        except BaseException:
            connection.close()
            raise

    @property
    def path(self) -> Path:
        """The repository's database file."""
        return self.root.store_file

    @property
    def user_path(self) -> Path | None:
        """The file of the user's own store, there or not; None: it is not to be opened."""
        return user_store_path(self.user_data_dir) if self.user_data_dir else None

    def moment(self, now: float | None) -> float:
        """Return the time a caller gave, or what the clock says. Unix seconds."""
        return self.clock() if now is None else now

    def user_connection(self, *, make: bool = False) -> sqlite3.Connection | None:
        """Return the user's own store, opened at the first call; None: it is not to be opened, or there is none.

        make: create it where there is none, to write something. Raises StoreError, StoreDamaged, StoreUntrusted.
        """
        folder = self.user_data_dir
        if self._user is None and folder is not None and (make or user_store_path(folder).exists()):
            self._user = open_user_store(folder)
        return self._user

    def connections(self) -> list[sqlite3.Connection]:
        """Return the databases that hold memories: the repository's, and the user's own where there is one.

        Raises StoreError, StoreDamaged, StoreUntrusted for one that cannot be read: it would look empty.
        """
        own = self.user_connection()
        return [self.connection] if own is None else [self.connection, own]

    def connections_of_a_turn(self) -> list[sqlite3.Connection]:
        """Return those of them that can be read; for a turn alone, whose receipt names the user's where it cannot."""
        try:
            return [self.connection] if self.user_is_unreadable else self.connections()
        except StoreError:
            return [self.connection]

    def home_of(self, layer: Layer) -> sqlite3.Connection:
        """Return the database that memories of a layer are written to. Raises UsageError where it must stay shut."""
        if layer is not Layer.USER:
            return self.connection
        own = self.user_connection(make=True)
        if own is None:
            raise UsageError(
                "the user layer is off: `memory.user_learning` is false here",
                hint="Say it of this project instead (`--layer project`), or switch the setting on in your own file.",
            )
        return own

    @contextmanager
    def transaction(self, layers: Collection[Layer] = ()) -> Iterator[None]:
        """Hold the databases of these layers to write them together; none named: the repository's and the user's.

        The user's is taken first and committed last, everywhere, so that two processes never wait for each other. A
        commit of the user's that fails leaves what was written to the repository's: whoever writes both must be able
        to do it again. Raises what `home_of` raises.
        """
        own = self.home_of(Layer.USER) if Layer.USER in layers else None if layers else self.user_connection()
        held = [] if own is None else [own]
        if not layers or any(layer is not Layer.USER for layer in layers):
            held.append(self.connection)
        with ExitStack() as open_:
            for connection in held:
                open_.enter_context(database.transaction(connection))
            yield

    def close(self) -> None:
        """Release the files."""
        self.connection.close()
        if self._user is not None:
            self._user.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
