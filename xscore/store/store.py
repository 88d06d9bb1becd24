"""The store of a repository, opened: both of its databases, the pool of a turn, texts, memories, edges and counts.

One Store is one connection to the repository's database and at most one to the user's own; one task at a time uses
them. `memory_writer` writes memories, the cache writes judgments. Trade-off: the pool is read whole each turn (some
40 ms of CPU for 10,000 memories) and never kept, so that another process's index run is always seen.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Self

from xscore.platform import database
from xscore.platform.errors import StoreError, UsageError
from xscore.platform.hashing import content_hash
from xscore.platform.paths import RepositoryRoot
from xscore.platform.sqlite_drivers import KeySource
from xscore.records import Candidate, Edge, Layer, Memory, StoreStatus
from xscore.settings import MemorySettings
from xscore.store import encryption_key, memory_rows, memory_writer, opening, user_secret
from xscore.store.memory_rows import FetchedPool, TestView, fetch_pool

if TYPE_CHECKING:
    from xscore.store.graph import LinkGraph

Clock = Callable[[], float]
"""Unix seconds."""
_HASH: Mapping[TestView, str] = {"cards": "content_hash", "full": "text_hash"}
"""What the judge is shown, by how tests are shown."""


class Store:
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
        """Folder of the user's own store; None: it must stay closed."""
        self.keys = keys
        self.settings = settings or MemorySettings()
        self.clock = clock
        self._user: sqlite3.Connection | None = None
        self.user_is_unreadable = False
        """Whether a turn found the user's own store damaged and continues without it."""
        self.store_id = str(connection.execute("SELECT value FROM meta WHERE key = 'store_id'").fetchone()[0])
        self.secret = user.derive("store", self.store_id)
        """32 bytes of this user and store, for shuffles that content must not foresee."""

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

        create: create a missing store; False shows an empty one and leaves the disk as it is.
        user_learning: whether the user's own store may be opened; `settings` may forbid it too.
        clock: stamps what is written without a time.
        """
        is_there = create or opening.has_store(root.store_dir)
        connection = (
            opening.open_store(root.store_dir, user_data_dir=user_data_dir, trust=trust)
            if is_there
            else opening.open_empty_store()
        )
        try:
            may = user_learning and (settings is None or settings.user_learning)
            return cls(
                connection,
                root=root,
                user=user_secret.load_user_secret(user_data_dir) if is_there else user_secret.ephemeral_secret(),
                user_data_dir=user_data_dir if may else None,
                keys=encryption_key.key_source(user_data_dir),
                settings=settings,
                clock=clock,
            )
        except BaseException:
            connection.close()
            raise

    @property
    def path(self) -> Path:
        """The repository's database file."""
        return self.root.store_file

    @property
    def user_path(self) -> Path | None:
        """The file of the user's own store, present or not; None: it must stay closed."""
        return opening.user_store_path(self.user_data_dir) if self.user_data_dir else None

    @property
    def graph(self) -> "LinkGraph":
        """Questions to the links between files, entities and memories."""
        from xscore.store.graph import LinkGraph

        return LinkGraph(self.connection)

    def now_or_clock(self, now: float | None) -> float:
        """Return the time that a caller gave, or the clock's. Unix seconds."""
        return self.clock() if now is None else now

    def user_connection(self, *, create: bool = False) -> sqlite3.Connection | None:
        """Return the user's own store, opened at the first call; None: it must stay closed, or is missing.

        create: create a missing one. Raises StoreError, StoreDamaged, StoreUntrusted.
        """
        path = self.user_path
        if self._user is None and path is not None and (create or path.exists()):
            self._user = opening.open_user_store(path.parent)
        return self._user

    def connections(self) -> list[sqlite3.Connection]:
        """Return the databases that hold memories: the repository's, and the user's own if there is one.

        Raises StoreError, StoreDamaged, StoreUntrusted if one cannot be read: it would look empty.
        """
        own = self.user_connection()
        return [self.connection] if own is None else [self.connection, own]

    def connections_of_a_turn(self) -> list[sqlite3.Connection]:
        """Return those that can be read; only for a turn, whose receipt says if the user's store cannot."""
        try:
            return [self.connection] if self.user_is_unreadable else self.connections()
        except StoreError:
            return [self.connection]

    def home_of(self, layer: Layer) -> sqlite3.Connection:
        """Return the database that memories of a layer are written to. Raises UsageError if it must stay closed."""
        if layer is not Layer.USER:
            return self.connection
        own = self.user_connection(create=True)
        if own is None:
            raise UsageError(
                "the user layer is off: `memory.user_learning` is false here",
                hint="Say it of this project instead (`--layer project`), or switch the setting on in your own file.",
            )
        return own

    @contextmanager
    def transaction(self, layers: Collection[Layer] = ()) -> Iterator[None]:
        """Lock the databases of these layers and write them together; empty: the repository's and the user's.

        The user's is locked first and committed last, everywhere, so that two processes never deadlock. If its commit
        fails, the repository's stays committed: whoever writes both must be able to repeat the write.
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

    def pool(self, *, tests: TestView = "cards", thread: str = "") -> tuple[Candidate, ...]:
        """Return every active or stale memory of all layers, once for each content, in the order of path and line."""
        return self.fetch(tests=tests, thread=thread).candidates

    def fetch(self, *, tests: TestView = "cards", thread: str = "", deadline_s: float | None = None) -> FetchedPool:
        """Return the pool with what each layer gave. See `layers.fetch`; raises StoreDamaged."""
        found = fetch_pool(self.connection, self.user_connection, tests=tests, thread=thread, deadline_s=deadline_s)
        self.user_is_unreadable = any(report.problem for report in found.layers if report.layer is Layer.USER)
        return found

    def texts(self, candidates: Sequence[Candidate], *, tests: TestView = "cards") -> dict[str, str]:
        """Return what the judge is shown of each candidate: id -> text.

        Missing are those that left the store, or were written anew, since the pool was read: their score would be filed
        under a content that was not judged. Raises StoreDamaged for a text that is not the content it says it is.
        """
        wanted = {candidate.id: candidate.content_hash for candidate in candidates}
        found = [
            row
            for connection in self.connections_of_a_turn()
            for row in connection.execute(
                f"SELECT id, {_HASH[tests]}, path, entity, status, card, text FROM memory"
                f" WHERE id {memory_rows.IN_JSON_LIST}",
                (json.dumps(list(wanted)),),
            ).fetchall()
        ]
        texts: dict[str, str] = {}
        for identifier, hash_, path, entity, status, card, text in found:
            if hash_ != wanted[identifier]:
                continue
            texts[identifier] = memory_writer.judge_text(text, card, status=status, tests=tests)
            with database.damage_if_invalid("a memory"):
                if content_hash(path, entity, texts[identifier]) != hash_:
                    raise ValueError("its text does not fit its hash")
        return texts

    def memories(self, ids: Iterable[str]) -> dict[str, Memory]:
        """Return whole memories by id; ids that are not there are missing from the result."""
        among = (json.dumps(list(ids)),)
        return {
            memory.id: memory
            for connection in self.connections_of_a_turn()
            for memory in memory_rows.select_memories(connection, f"id {memory_rows.IN_JSON_LIST}", among)
        }

    def headers(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the first module-level block of each of these files: path -> its imports and head."""
        found = memory_rows.select_memories(
            self.connection, f"kind = 'block' AND path {memory_rows.IN_JSON_LIST}", (json.dumps(list(paths)),)
        )
        first: dict[str, Memory] = {}
        for memory in sorted(found, key=lambda block: (block.path, block.start_line)):
            first.setdefault(memory.path, memory)
        return {path: memory.text for path, memory in first.items()}

    def find(self, name: str) -> list[Memory]:
        """Return the memories that go by an id or by `path::entity`; several share a path and entity at times."""
        path, colons, entity = name.partition("::")
        if colons:
            return memory_rows.select_memories(self.connection, "path = ? AND entity = ?", (path, entity))
        return [
            memory for each in self.connections() for memory in memory_rows.select_memories(each, "id = ?", (name,))
        ]

    def edges_touching(self, ids: Iterable[str]) -> list[Edge]:
        """Return the edges that have one of these memories or files at either end, sorted."""
        ends = json.dumps(list(ids))
        found = self.connection.execute(
            f"SELECT source, target, relation, weight FROM edge WHERE source {memory_rows.IN_JSON_LIST}"
            " UNION SELECT source, target, relation, weight FROM edge"
            f" WHERE target {memory_rows.IN_JSON_LIST} ORDER BY 1, 3, 2",
            (ends, ends),
        )
        return list(map(memory_rows.edge_from_row, found.fetchall()))

    def degrees(self, ids: Iterable[str]) -> dict[str, int]:
        """Return how many calls touch each of these memories, as caller or called; 0 where none do."""
        ends = json.dumps(list(ids))
        found = self.connection.execute(
            "SELECT value, (SELECT count(*) FROM edge WHERE source = value AND relation = 'calls')"
            " + (SELECT count(*) FROM edge WHERE target = value AND relation = 'calls') FROM json_each(?)",
            (ends,),
        )
        return dict(found.fetchall())

    def vectors(self, embedder: str) -> list[tuple[str, bytes]]:
        """Return memory id and vector of every memory of the pool that this embedder has seen."""
        joined = "SELECT memory_id, data FROM vec JOIN memory ON memory.id = memory_id"
        query = f"{joined} WHERE embedder = ? AND {memory_rows.LIVE_CONDITION}"
        return [row for each in self.connections_of_a_turn() for row in each.execute(query, (embedder,)).fetchall()]

    def status(self, *, trusted: bool, spent_usd: Decimal | None, spent_estimated: bool = False) -> StoreStatus:
        """Count what the store holds. Counting a million judgments takes some tens of milliseconds."""
        from xscore.store.turns import latest_turn_id

        counted = {name: self._counts(f"SELECT '', count(*) FROM {name}").get("", 0) for name in _COUNTED}
        by = {name: self._counts(_GROUPED.format(column=name, table=table)) for name, table in _COUNTED_BY.items()}
        return StoreStatus(
            root=str(self.root.path),
            store=str(self.path),
            store_id=self.store_id,
            trusted=trusted,
            bytes=sum(file.stat().st_size for file in self.path.parent.glob(f"{self.path.name}*")),
            files=counted["file WHERE excluded = ''"],
            memories=counted["memory"],
            by_layer=by["layer"],
            by_kind=by["kind"],
            by_language=by["language"],
            edges=by["relation"],
            judgments=counted["judgment"],
            turns=counted["turn"],
            last_turn=latest_turn_id(self.connection),
            spent_usd=spent_usd,
            spent_estimated=spent_estimated,
        )

    def _counts(self, sql: str) -> dict[str, int]:
        with closing(self.connection.execute(sql)) as found:
            return dict(found.fetchall())


_COUNTED = ("file WHERE excluded = ''", "memory", "judgment", "turn")
_COUNTED_BY = {"layer": "memory", "kind": "memory", "language": "memory", "relation": "edge"}
_GROUPED = "SELECT {column}, count(*) FROM {table} WHERE {column} <> '' GROUP BY 1 ORDER BY 1"

PackSlots = dict[str, tuple[str, int]]
"""Memory id -> (pack, position)."""


def load_pack_slots(connection: sqlite3.Connection, profile: str) -> PackSlots:
    """Return which pack each memory is judged in under this packing profile."""
    found = connection.execute("SELECT memory_id, pack, position FROM pack_slot WHERE profile = ?", (profile,))
    return {identifier: (pack, position) for identifier, pack, position in found.fetchall()}


def save_pack_slots(connection: sqlite3.Connection, profile: str, wanted: Mapping[str, tuple[str, int]]) -> None:
    """Make these the slots of the profile; rows that stay as they are are not written."""
    with database.transaction(connection):
        known = load_pack_slots(connection, profile)
        connection.executemany(
            "DELETE FROM pack_slot WHERE profile = ? AND memory_id = ?",
            [(profile, identifier) for identifier in known.keys() - wanted.keys()],
        )
        connection.executemany(
            "INSERT INTO pack_slot (profile, memory_id, pack, position) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (profile, memory_id) DO UPDATE SET pack = excluded.pack, position = excluded.position",
            [(profile, identifier, *slot) for identifier, slot in wanted.items() if known.get(identifier) != slot],
        )
