"""The two databases behind a store: the repository's, and the user's own, opened when something of it is wanted.

It knows where each layer lives and what time it is, and nothing of what the rows mean. Trade-off: one connection to
each, used by one task at a time, so that a command sees what it just wrote.
"""

import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from xscore import database
from xscore.errors import StoreError, UsageError
from xscore.memory import store_key, trust, user_secret, user_store
from xscore.paths import Root
from xscore.records import Layer
from xscore.sealing import KeySource
from xscore.settings import MemorySettings

Clock = Callable[[], float]
"""Unix seconds."""


class Databases:
    """What a repository's memories are kept in."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        root: Root,
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
        root: Root,
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
        is_there = make or trust.has_store(root.store_dir)
        connection = (
            trust.open_store(root.store_dir, user_data_dir=user_data_dir, trust=trust_it)
            if is_there
            else trust.show_none(root.store_dir)
        )
        try:
            may = user_learning and (settings is None or settings.user_learning)
            secret = user_secret.load(user_data_dir) if is_there else user_secret.passing()
            own = user_data_dir if may else None
            keys = store_key.keys_of(user_data_dir)
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
        return user_store.path_in(self.user_data_dir) if self.user_data_dir else None

    def moment(self, now: float | None) -> float:
        """Return the time a caller gave, or what the clock says. Unix seconds."""
        return self.clock() if now is None else now

    def user_connection(self, *, make: bool = False) -> sqlite3.Connection | None:
        """Return the user's own store, opened at the first call; None: it is not to be opened, or there is none.

        make: create it where there is none, to write something. Raises StoreError, StoreDamaged, StoreUntrusted.
        """
        folder = self.user_data_dir
        if self._user is None and folder is not None and (make or user_store.path_in(folder).exists()):
            self._user = user_store.open_user_store(folder)
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
