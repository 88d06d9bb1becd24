"""The store of a repository, opened: both of its databases, the pool of a turn, texts, memories,
edges and counts.

One Store is one connection to the repository's database and at most one to the user's own; one task
at a time uses them. `memory_writer` writes memories, the cache writes judgments. Trade-off: every
turn reads the whole pool (about 40 ms of CPU for 10,000 memories) and never caches it, so that it
sees other processes' index runs.
"""

import json
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from xscore.platform import database
from xscore.platform.errors import StoreError, UsageError
from xscore.platform.paths import RepositoryRoot, user_data_dir
from xscore.records.candidates import Candidate
from xscore.records.memory import Edge, Layer, Memory, TestView
from xscore.settings import MemorySettings, Settings
from xscore.store import memory_rows, opening, user_secret
from xscore.store.copied_stores import CopiedStore, is_due
from xscore.store.fetched_pool import FetchedPool, WithoutExchanges, fetch_pool
from xscore.store.joined_repositories import JoinedRepositories
from xscore.store.judged_texts import read_judged_texts
from xscore.store.memory_rows import IN_JSON_LIST, memories_with_ids, select_memories
from xscore.store.packed_pool import drop_packs
from xscore.store.root_database import open_database
from xscore.store.worktrees import enter_worktree, visible_memories

Clock = Callable[[], float]
"""Returns Unix seconds."""
EVERY_EXCHANGE = WithoutExchanges()
"""Filter that leaves out no exchange."""


class Store:
    """The open store of a repository."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        root: RepositoryRoot,
        user: user_secret.UserSecret,
        user_data_dir: Path | None = None,
        keys: opening.StoreKeys | None = None,
        settings: MemorySettings | None = None,
        clock: Clock = time.time,
        siblings: Callable[[], list[Path]] = list,
        notes: Sequence[str] = (),
    ) -> None:
        self.connection = connection
        self.root = root
        self.user_data_dir = user_data_dir
        """Folder of the user's own store; None: do not open it."""
        self.keys = keys
        self.settings: MemorySettings = settings or MemorySettings()
        self.clock = clock
        self.siblings = siblings
        """Finds the stores of other clones that may be read (`store.siblings`)."""
        self._note: Callable[[str], None] | None = None
        self._unheard = [note for note in (*notes, opening.migration_note(connection)) if note]
        self._user: sqlite3.Connection | None = None
        self.others: JoinedRepositories = JoinedRepositories()
        """Other repositories that are read; closed with this store."""
        self.copies_to: Path | None = None
        """The user's data folder, if what is stated here is copied there (`copied_stores`)."""
        self.copy_problem: str = ""
        """What was wrong with those copies when the store was closed; empty if nothing was."""
        self.disk_is_full: bool = False
        """Whether a copy is read because the disk of the store has no room."""
        self.user_is_unreadable: bool = False
        """Whether a turn found the user's own store damaged and continues without it."""
        enter_worktree(connection, root.worktree)
        self.store_id: str = str(
            connection.execute("SELECT value FROM meta WHERE key = 'store_id'").fetchone()[0]
        )
        self.secret: bytes = user.derive("store", self.store_id)
        """32 bytes per user and store, for shuffles that content cannot predict."""
        self.hashed_user_id: str = user.derive("hashed user id").hex()[:32]
        """The user's pseudonym on a server."""

    @classmethod
    def open(
        cls,
        root: RepositoryRoot,
        *,
        user_data_dir: Path,
        trust: bool = False,
        create: bool = True,
        user_learning: bool = True,
        settings: MemorySettings | None = None,
        clock: Clock = time.time,
    ) -> Self:
        """Open the root's store. Raises StoreUntrusted, StoreDamaged, StoreError.

        create: create a missing store; False opens an empty one in memory.
        user_learning: whether the user's own store may be opened; `settings` may forbid it too.
        clock: the time of writes without a given time.
        """
        opened = open_database(root, user_data_dir, trust=trust, create=create)
        may_learn = user_learning and (settings is None or settings.user_learning)
        try:
            store = cls(
                opened.connection,
                root=opened.root,
                user=opened.user,
                user_data_dir=user_data_dir if may_learn else None,
                keys=opened.keys,
                notes=opened.notes,
                settings=settings,
                clock=clock,
                siblings=opened.siblings,
            )
            store.disk_is_full = opened.disk_is_full
            # A store that is used untrusted for one run may hold what a stranger stated.
            real_path = os.path.realpath(root.store_file)
            if opened.is_kept and opened.user.accepts(store.store_id, real_path):
                store.copies_to = user_data_dir
            return store
        except BaseException:
            opened.connection.close()
            raise

    @classmethod
    def open_with(
        cls, root: RepositoryRoot, settings: Settings, *, create: bool, clock: Clock = time.time
    ) -> Self:
        """Open the root's store as the settings say.

        Raises what `open` raises, and UsageError for its folder.
        """
        chosen = settings.store
        return cls.open(
            root,
            user_data_dir=user_data_dir(chosen.user_data_dir),
            trust=chosen.trust,
            create=create,
            settings=settings.memory,
            clock=clock,
        )

    @property
    def is_users_own(self) -> bool:
        """Whether it is the user's own: one that is used untrusted for a run, or read from a copy,
        may name servers and hold judgments and statements that a stranger planted."""
        return self.copies_to is not None and not self.root.read_only

    @property
    def path(self) -> Path:
        """The repository's database file."""
        return self.root.store_file

    @property
    def original_path(self) -> Path:
        """Where the database is kept.

        It differs from `path` if a copy is read: the folder cannot be written.
        """
        if self.root.read_only:
            return database.place_of(self.connection)
        return self.path

    @property
    def user_path(self) -> Path | None:
        """The file of the user's own store, present or not; None: do not open it."""
        if self.user_data_dir:
            return opening.user_store_path(self.user_data_dir)
        return None

    def now_or_clock(self, now: float | None) -> float:
        """Return the given time, or the clock's. Unix seconds."""
        if now is None:
            return self.clock()
        return now

    def user_connection(self, *, create: bool = False) -> sqlite3.Connection | None:
        """Return the user's own store, opened at the first call; None: closed, or missing.

        Raises StoreError.
        """
        path = self.user_path
        if self._user is None and path is not None and (create or path.exists()):
            self._user = opening.open_user_store(path.parent)
            note = opening.migration_note(self._user)
            if note:
                self._unheard.append(note)
                self.listen(self._note)
        return self._user

    def listen(self, note: Callable[[str], None] | None) -> None:
        """Report, now and later, what opening did that the user should know; None: keep it for the
        next listener."""
        self._note = note
        while note is not None and self._unheard:
            note(self._unheard.pop(0))

    def connections(self) -> list[sqlite3.Connection]:
        """Return the repository's database and the user's own.

        Raises StoreError if an existing one cannot be read.
        """
        user = self.user_connection()
        if user is None:
            return [self.connection]
        return [self.connection, user]

    def connections_of_a_turn(self) -> list[sqlite3.Connection]:
        """Return the readable databases; only for a turn, whose receipt reports an unreadable user
        store."""
        try:
            if self.user_is_unreadable:
                return [self.connection]
            return self.connections()
        except StoreError:
            return [self.connection]

    def home_of(self, layer: Layer) -> sqlite3.Connection:
        """Return the database that memories of a layer are written to.

        Raises UsageError if the layer is off.
        """
        if layer is not Layer.USER:
            return self.connection
        user = self.user_connection(create=True)
        if user is None:
            raise UsageError(
                "the user layer is off: `memory.user_learning` is false here",
                hint=(
                    "State it for this project (`--layer project`), or turn the setting on in your"
                    " own file."
                ),
            )
        return user

    @contextmanager
    def transaction(self, layers: Collection[Layer] = ()) -> Iterator[None]:
        """Write the databases of these layers in one transaction each; empty: the repository's and
        the user's.

        The user's is always locked first and committed last, so that two processes never deadlock.
        If its commit fails, the repository's stays committed: writes to both must be repeatable.
        """
        connections: list[sqlite3.Connection] = []
        # In this order: `ExitStack` leaves them in the opposite one.
        if Layer.USER in layers:
            connections.append(self.home_of(Layer.USER))
        elif not layers:
            user = self.user_connection()
            connections += [] if user is None else [user]
        if not layers or any(layer is not Layer.USER for layer in layers):
            connections.append(self.connection)
        with ExitStack() as open_:
            for connection in connections:
                open_.enter_context(database.transaction(connection))
            yield

    def copied_stores(self) -> list[CopiedStore]:
        """Return the open databases of which the user's folder holds a copy."""
        if self.copies_to is None:
            return []
        keys = self.keys or opening.key_source(self.copies_to)
        copied = [CopiedStore(self.connection, self.path, self.copies_to, keys)]
        if self._user is not None and self.user_path is not None:
            copied.append(CopiedStore(self._user, self.user_path, self.copies_to, keys))
        return copied

    def close(self) -> None:
        """Close the connections, once what was stated is copied."""
        try:
            if self.copies_to is not None:
                self.copy_problem = _update_copies(self.copied_stores())
        finally:
            self.copies_to = None
            self.others.close()
            self.connection.close()
            if self._user is not None:
                self._user.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pool(
        self, *, tests: TestView = "cards", purposes: bool = False, thread: str = ""
    ) -> tuple[Candidate, ...]:
        """Return every active or stale memory of all layers, one per content, ordered by path and
        line."""
        without = WithoutExchanges(thread)
        return self.fetch(tests=tests, purposes=purposes, without=without).candidates

    def fetch(
        self,
        *,
        tests: TestView = "cards",
        purposes: bool = False,
        without: WithoutExchanges = EVERY_EXCHANGE,
        deadline_s: float | None = None,
        with_terms: bool = False,
    ) -> FetchedPool:
        """Return the pool with a report per layer. See `fetch_pool`; raises StoreDamaged.

        purposes: the judge is shown what files are for, so that this is part of each content.
        """
        pool = fetch_pool(
            self.connection,
            self.user_connection,
            tests=tests,
            without=without,
            deadline_s=deadline_s,
            with_terms=with_terms,
        )
        self.user_is_unreadable = any(
            report.problem for report in pool.layers if report.layer is Layer.USER
        )
        if pool.has_damaged_packs:
            drop_packs(self.connection)
        if purposes:
            from xscore.store.purposes import with_purposes  # few judges are shown them

            described = with_purposes(self.connection, pool.candidates)
            return pool._replace(candidates=described)
        return pool

    def texts(
        self, candidates: Sequence[Candidate], *, tests: TestView = "cards"
    ) -> dict[str, str]:
        """Return what the judge is shown of each candidate: id -> text.

        Memories deleted or changed since the pool was read are missing: their score would be stored
        under a content that was not judged. Raises StoreDamaged for a text that does not match its
        hash.
        """
        candidate_of = {candidate.id: candidate for candidate in candidates}
        texts: dict[str, str] = {}
        for connection in self.connections_of_a_turn():
            texts |= read_judged_texts(connection, candidate_of, tests=tests)
        return texts | self.others.texts(candidate_of, tests=tests)

    def _rows_of_a_turn(self, query: str, *parameters: object) -> list[memory_rows.SqlRow]:
        rows: list[memory_rows.SqlRow] = []
        for connection in self.connections_of_a_turn():
            rows += connection.execute(query, parameters).fetchall()
        return rows

    def memories(self, ids: Iterable[str]) -> dict[str, Memory]:
        """Return whole memories by id; unknown ids are missing."""
        identifiers = list(ids)
        memories: dict[str, Memory] = {}
        for connection in self.connections_of_a_turn():
            for memory in memories_with_ids(connection, identifiers):
                memories[memory.id] = memory
        return memories | self.others.memories(identifiers)

    def titles(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the titles of these memories by id; unknown ids are missing."""
        among = json.dumps(list(ids))
        return dict(
            self._rows_of_a_turn(f"SELECT id, title FROM memory WHERE id {IN_JSON_LIST}", among)
        )

    def headers(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the first module-level block of each of these files: path -> its imports and
        head."""
        names = list(paths)
        among = (json.dumps(names),)
        blocks = select_memories(
            self.connection, f"kind = 'block' AND path {IN_JSON_LIST}", among
        )
        # The first of a path is set last.
        headers = {memory.path: memory.text for memory in reversed(blocks)}
        return headers | self.others.headers(names)

    def purposes(self) -> dict[str, str]:
        """Return what a model last said that each file is for, by path; empty where none was
        asked."""
        # Asked in every turn: most stores have none.
        if self.connection.execute("SELECT 1 FROM purpose LIMIT 1").fetchone() is None:
            return {}
        from xscore.store.purposes import latest_purposes  # only where there are any

        return latest_purposes(self.connection)

    def edges_touching(self, ids: Iterable[str]) -> list[Edge]:
        """Return the sorted edges with one of these memories or files at either end."""
        identifiers = list(ids)
        ends = json.dumps(identifiers)
        rows = self.connection.execute(
            f"SELECT source, target, relation, weight FROM edge WHERE source {IN_JSON_LIST}"
            " UNION SELECT source, target, relation, weight FROM edge"
            f" WHERE target {IN_JSON_LIST} ORDER BY 1, 3, 2",
            (ends, ends),
        )
        edges = memory_rows.edges_from_rows(rows.fetchall())
        return edges + self.others.edges_touching(identifiers)

    def tests_of(self, ids: Iterable[str]) -> frozenset[str]:
        """Return the ids of the tests of these memories."""
        identifiers = list(ids)
        query = f"SELECT source FROM edge WHERE relation = 'tests' AND target {IN_JSON_LIST}"
        rows = self.connection.execute(query, (json.dumps(identifiers),)).fetchall()
        tests = frozenset(source for (source,) in rows)
        return tests | self.others.tests_of(identifiers)

    def degrees(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the number of call edges of each of these memories, in either direction."""
        identifiers = list(ids)
        ends = json.dumps(identifiers)
        rows = self.connection.execute(
            "SELECT value, (SELECT count(*) FROM edge WHERE source = value AND relation = 'calls')"
            " + (SELECT count(*) FROM edge WHERE target = value AND relation = 'calls') FROM"
            " json_each(?)",
            (ends,),
        )
        degrees = dict(rows.fetchall())
        return degrees | self.others.degrees(identifiers)

    def term_vectors(self) -> list[tuple[str, bytes]]:
        """Return memory id and term vector of every memory of the pool with one."""
        rows: list[memory_rows.SqlRow] = []
        for connection in self.connections_of_a_turn():
            visible = f"{memory_rows.LIVE_CONDITION} AND {visible_memories(connection)}"
            rows += connection.execute(
                f"SELECT id, terms FROM memory_row WHERE {visible}"
            ).fetchall()
        return rows + self.others.term_vectors()


def _update_copies(sources: Iterable[CopiedStore]) -> str:
    """Update the copies that are behind, before their stores are closed; return what to tell the
    user, or nothing.

    A failure never keeps a store from closing: what is not copied now is copied when it is closed
    the next time.
    """
    problems = []
    for source in sources:
        if source.connection.in_transaction:  # it was interrupted
            continue
        if database.is_read_only(source.connection):
            continue
        try:
            if is_due(source):
                from xscore.store.stated_copy import update_copy  # most closings copy nothing

                problems.append(update_copy(source))
        except StoreError as error:
            problems.append(f"what you stated was not copied to your folder: {error.message}")
    return "; ".join(filter(None, problems))
