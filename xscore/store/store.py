"""The store, opened: the pool of a turn, texts, whole memories, links, packs' slots, and a count of what it holds.

One Store is one connection, used by one task at a time. Writing memories is the door's business, judgments the
cache's. Trade-off: the pool is read whole each turn (some 40 ms of CPU for 10,000 memories) and never kept, so that
another process's index run is always seen.

Which pack each memory is judged in, kept so that packs stay byte-stable over turns. Rows and nothing else.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from typing import TYPE_CHECKING

from xscore.platform import database
from xscore.platform.hashing import content_hash
from xscore.records import Candidate, Edge, Layer, Memory, Snapshot, SnapshotRestored, StoreStatus
from xscore.store import memory_rows, memory_writer, turns
from xscore.store.memory_rows import FetchedPool, TestView, fetch_pool
from xscore.store.opening import Databases

if TYPE_CHECKING:
    from xscore.extensions.evaluation.registry import Registry
    from xscore.extensions.learning.preferences import GovernanceLayer, ProjectLayer, UserLayer
    from xscore.store.graph import LinkGraph


_HASH: Mapping[TestView, str] = {"cards": "content_hash", "full": "text_hash"}
"""What the judge is shown, by how tests are shown."""


class Store(Databases):
    """A repository's memories."""

    @property
    def graph(self) -> "LinkGraph":
        """Questions to the links between files, entities and memories."""
        from xscore.store.graph import LinkGraph

        return LinkGraph(self.connection)

    @property
    def project(self) -> "ProjectLayer":
        """What holds in this repository, and the decisions that made it so."""
        from xscore.extensions.learning.preferences import ProjectLayer

        return ProjectLayer(self)

    @property
    def user(self) -> "UserLayer":
        """What is yours in every repository. Its methods raise UsageError where `memory.user_learning` is off."""
        from xscore.extensions.learning.preferences import UserLayer

        return UserLayer(self)

    @property
    def governance(self) -> "GovernanceLayer":
        """The decisions, newest first."""
        from xscore.extensions.learning.preferences import GovernanceLayer

        return GovernanceLayer(self)

    @property
    def registry(self) -> "Registry":
        """Query, register, update and remove memories of every layer, by rules and no model."""
        from xscore.extensions.evaluation.registry import Registry

        return Registry(self)

    def snapshot(self) -> Snapshot:
        """Return what was said, learned and looked up as one value. See `memory.copies.snapshot`."""
        from xscore.extensions.exchange.snapshots import take_snapshot

        return take_snapshot(self)

    def restore(self, snapshot: Snapshot, *, now: float | None = None) -> SnapshotRestored:
        """Put a snapshot back, all or nothing. now: Unix seconds. Raises UsageError for one that was altered."""
        from xscore.extensions.exchange.snapshots import restore_snapshot

        return restore_snapshot(self, snapshot, now=now)

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
                f"SELECT id, {_HASH[tests]}, path, entity, status, card, text FROM memory WHERE id {memory_rows.IN_JSON_LIST}",
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
            f" UNION SELECT source, target, relation, weight FROM edge WHERE target {memory_rows.IN_JSON_LIST} ORDER BY 1, 3, 2",
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
        return StoreStatus(
            root=str(self.root.path),
            store=str(self.path),
            store_id=self.store_id,
            trusted=trusted,
            bytes=sum(file.stat().st_size for file in self.path.parent.glob(f"{self.path.name}*")),
            files=self._count("file WHERE excluded = ''"),
            memories=self._count("memory"),
            by_layer=self._count_by("memory", "layer"),
            by_kind=self._count_by("memory", "kind"),
            by_language=self._count_by("memory", "language"),
            edges=self._count_by("edge", "relation"),
            judgments=self._count("judgment"),
            turns=self._count("turn"),
            last_turn=turns.latest_turn_id(self.connection),
            spent_usd=spent_usd,
            spent_estimated=spent_estimated,
        )

    def _count(self, table: str) -> int:
        with closing(self.connection.execute(f"SELECT count(*) FROM {table}")) as found:
            return int(found.fetchone()[0])

    def _count_by(self, table: str, column: str) -> dict[str, int]:
        found = self.connection.execute(
            f"SELECT {column}, count(*) FROM {table} WHERE {column} <> '' GROUP BY 1 ORDER BY 1"
        )
        return dict(found.fetchall())


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
