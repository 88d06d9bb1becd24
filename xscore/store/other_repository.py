"""Another repository that this user has indexed on this machine, read together with a turn's
own.

What it lends: code and documents of its files, and what was stated for it: decisions, conventions,
facts. Exchanges, sessions, commits, fetched documents and the user's own layer stay there. Its
store is opened read-only and nothing of it is copied. Its name is part of every id and path:
`acme/lib: src/x.py`. Content hashes stay as they are there, so a judgment counts wherever the same
text is judged for the same turn. Trade-off: it is as new as its own last index run.
"""

import json
import shlex
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from xscore.platform import sqlite_drivers
from xscore.platform.database import open_unchecked
from xscore.platform.errors import StoreDamaged
from xscore.platform.git_folder import head_commit
from xscore.platform.hashing import digest
from xscore.platform.paths import RepositoryRoot
from xscore.platform.text import one_line
from xscore.records.candidates import Candidate
from xscore.records.memory import Edge, Kind, Layer, Memory, Relation, TestView
from xscore.store import opening
from xscore.store.commit_rows import read_state
from xscore.store.fetched_pool import WithoutExchanges, fetch_pool
from xscore.store.judged_texts import read_judged_texts
from xscore.store.memory_rows import (
    IN_JSON_LIST,
    LIVE_CONDITION,
    edges_from_rows,
    memories_with_ids,
    select_memories,
)
from xscore.store.naming import find_named
from xscore.store.other_places import BUSY_S, OtherPlace
from xscore.store.siblings import check_schema
from xscore.store.worktrees import enter_worktree, visible_memories

NAME_END = ": "
"""Separator of the name of a repository and a path in it."""
_LENT_LAYERS = frozenset({Layer.GRAPH, Layer.VECTOR, Layer.PROJECT, Layer.GOVERNANCE})
_ID_CHARS = 20
NO_EXCHANGES = WithoutExchanges(any=True)


class OtherRepository:
    """The open store of another repository, whose memories have ids and paths of their own here."""

    def __init__(self, place: OtherPlace, connection: sqlite3.Connection) -> None:
        self.name: str = place.name
        self.root: RepositoryRoot = place.root
        self.place = place
        self._connection = connection
        self._id_there: dict[str, str] = {}
        """Id here -> id there, of the memories that were read so far."""
        self._knows_all = False

    @classmethod
    def open(cls, place: OtherPlace, *, user_data_dir: Path) -> "OtherRepository":
        """Open it read-only. Raises StoreError, StoreDamaged for another schema version."""
        keys = opening.key_source(user_data_dir)
        connection = open_unchecked(place.root.store_file, keys, read_only=True, busy_s=BUSY_S)
        try:
            check_schema(connection, "main")
            enter_worktree(connection, place.root.worktree)
        except BaseException:
            connection.close()
            raise
        return cls(place, connection)

    @property
    def plain_store(self) -> Path | None:
        """Its database, if that can be attached to another; None if it is encrypted."""
        is_encrypted = sqlite_drivers.read_note(self.root.store_file) is not None
        return None if is_encrypted else self.root.store_file

    def remark(self) -> str:
        """Say in a line what the user may want to know of the repository; empty: nothing."""
        if self.place.namesakes:
            places = f"{self.name} is in {self.place.namesakes + 1} places on this machine"
            return f"{places}; the one indexed last was used: {one_line(str(self.root.path))}"
        head_read = read_state(self._connection).head
        if head_read and self.root.git_dir and head_commit(self.root.git_dir) != head_read:
            path = shlex.quote(str(self.root.path))
            return f"{self.name} has changed since it was indexed: `xscore index {path}` updates it"
        return ""

    def has(self, id_here: str) -> bool:
        """Whether it has a memory with this id."""
        return bool(self._own([id_here]))

    def close(self) -> None:
        """Close its store."""
        self._connection.close()

    def candidates(self, *, tests: TestView) -> list[Candidate]:
        """Return what it lends, under ids and paths of here. Raises StoreDamaged, StoreError."""
        fetched = fetch_pool(
            self._connection, lambda: None, tests=tests, without=NO_EXCHANGES, with_terms=False
        )
        lent: list[Candidate] = []
        for candidate in fetched.candidates:
            if _is_lent(candidate):
                lent.append(self._candidate_here(candidate))
        return lent

    def texts(
        self, candidate_of: Mapping[str, Candidate], *, tests: TestView
    ) -> dict[str, str]:
        """Return the judged text of each of its memories among these, by id here."""
        lent = {self._id_there[id_]: candidate_of[id_] for id_ in self._own(candidate_of)}
        with self._named_damage():
            texts = read_judged_texts(self._connection, lent, tests=tests)
        return {self._id_here(id_): text for id_, text in texts.items()}

    def memories(self, ids: Iterable[str]) -> dict[str, Memory]:
        """Return its memories among these ids, as they are shown here."""
        ids_there = [self._id_there[id_] for id_ in self._own(ids)]
        memories: dict[str, Memory] = {}
        with self._named_damage():
            read = memories_with_ids(self._connection, ids_there) if ids_there else ()
        for memory in read:
            shown = self._memory_here(memory)
            memories[shown.id] = shown
        return memories

    def find(self, name: str) -> list[Memory]:
        """Return what a name means that begins with this repository's: `acme/lib: src/x.py`, or
        the id that a memory of it has here."""
        begins = f"{self.name}{NAME_END}"
        if not name.startswith(begins):
            return list(self.memories([name]).values())
        ids = find_named(self._connection, name.removeprefix(begins))
        memories = memories_with_ids(self._connection, ids)
        return [self._memory_here(memory) for memory in memories]

    def headers(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the first module-level block of each of its files among these, by path here."""
        begins = f"{self.name}{NAME_END}"
        paths_there = [path.removeprefix(begins) for path in paths if path.startswith(begins)]
        if not paths_there:
            return {}
        among = (json.dumps(paths_there),)
        where = f"kind = 'block' AND path {IN_JSON_LIST}"
        blocks = select_memories(self._connection, where, among)
        # The first of a path is set last.
        return {f"{begins}{block.path}": block.text for block in reversed(blocks)}

    def edges_touching(self, ids: Iterable[str]) -> list[Edge]:
        """Return the edges with one of its memories among these at either end."""
        ends = json.dumps([self._id_there[id_] for id_ in self._own(ids)])
        if ends == "[]":
            return []
        rows = self._connection.execute(
            f"SELECT source, target, relation, weight FROM edge WHERE source {IN_JSON_LIST}"
            " UNION SELECT source, target, relation, weight FROM edge"
            f" WHERE target {IN_JSON_LIST} ORDER BY 1, 3, 2",
            (ends, ends),
        )
        edges: list[Edge] = []
        for edge in edges_from_rows(rows.fetchall()):
            source = self._end_here(edge.source)
            target = self._end_here(edge.target)
            edges.append(Edge(source, target, edge.relation, edge.weight))
        return edges

    def tests_of(self, ids: Iterable[str]) -> frozenset[str]:
        """Return the ids here of the tests of its memories among these."""
        lent = set(self._own(ids))
        tests: set[str] = set()
        for edge in self.edges_touching(lent):
            if edge.relation is Relation.TESTS and edge.target in lent:
                tests.add(edge.source)
        return frozenset(tests)

    def degrees(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the number of call edges of each of its memories among these."""
        lent = self._own(ids)
        degrees = dict.fromkeys(lent, 0)
        for edge in self.edges_touching(lent):
            if edge.relation is not Relation.CALLS:
                continue
            for end in (edge.source, edge.target):
                if end in degrees:
                    degrees[end] += 1
        return degrees

    def term_vectors(self) -> list[tuple[str, bytes]]:
        """Return id here and term vector of every memory that it has lent."""
        visible = f"{LIVE_CONDITION} AND {visible_memories(self._connection)}"
        rows = self._connection.execute(f"SELECT id, terms FROM memory_row WHERE {visible}")
        vectors: list[tuple[str, bytes]] = []
        for id_there, terms in rows.fetchall():
            id_here = self._id_here(id_there)
            if id_here in self._id_there:
                vectors.append((id_here, terms))
        return vectors

    @contextmanager
    def _named_damage(self) -> Iterator[None]:
        """Say whose store is damaged: what is advised about the turn's own would not help."""
        try:
            yield
        except StoreDamaged as error:
            folder = shlex.quote(str(self.root.path))
            raise StoreDamaged(
                f"the index of {self.name} is damaged: {error.message}",
                hint=f"Run `xscore store rebuild` in {folder}, or ask without it.",
            ) from error

    def _own(self, ids: Iterable[str]) -> list[str]:
        """Return those of these ids that are of its memories."""
        identifiers = list(ids)
        if not self._knows_all and not self._id_there:
            # A command that shows a past turn has fetched no candidates.
            for (id_there,) in self._connection.execute("SELECT id FROM memory").fetchall():
                self._id_there[self._id_here(id_there)] = id_there
            self._knows_all = True
        return [id_ for id_ in identifiers if id_ in self._id_there]

    def _id_here(self, id_there: str) -> str:
        return f"m_{digest('other repository', self.name, id_there)[:_ID_CHARS]}"

    def _end_here(self, end: str) -> str:
        """Return the end of an edge, which may be a file, as it is called here."""
        if end.startswith("f_"):
            return f"f_{self._path_here(end.removeprefix('f_'))}"
        return self._id_here(end)

    def _path_here(self, path: str) -> str:
        if path:
            return f"{self.name}{NAME_END}{path}"
        return ""

    def _label_here(self, label: str) -> str:
        if label:
            return f"{self.name}{NAME_END}{label}"
        return self.name

    def _candidate_here(self, candidate: Candidate) -> Candidate:
        id_here = self._id_here(candidate.id)
        self._id_there[id_here] = candidate.id
        for duplicate in candidate.duplicates:
            self._id_there[self._id_here(duplicate)] = duplicate
        entity = candidate.entity
        if not candidate.path:
            # What was stated has no path that would say where it holds.
            entity = self._label_here(entity)
        return candidate._replace(
            id=id_here,
            path=self._path_here(candidate.path),
            entity=entity,
            duplicates=tuple(map(self._id_here, candidate.duplicates)),
        )

    def _memory_here(self, memory: Memory) -> Memory:
        key = memory.key
        title = memory.title
        entity = memory.entity
        if not memory.path:
            title = self._label_here(title)
            entity = self._label_here(entity)
            # The same key of two repositories is no contradiction.
            key = self._label_here(key) if key else ""
        return replace(
            memory,
            id=self._id_here(memory.id),
            path=self._path_here(memory.path),
            title=title,
            entity=entity,
            key=key,
        )


def _is_lent(candidate: Candidate) -> bool:
    if candidate.layer not in _LENT_LAYERS or candidate.is_inferred:
        return False
    return candidate.kind not in (Kind.DOCUMENT, Kind.EXCHANGE, Kind.SUMMARY, Kind.COMMIT)
