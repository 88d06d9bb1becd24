"""Take what was said, learned and looked up as one value, and put it back (A12).

In a snapshot are the memories of a repository's store that are not from the index, with their citations and edges, the
turns' looks at the memories, and what the index held. Not in it are judgments, which nobody may plant, and the user's
own store, which is no repository's. Putting back adds and changes, and erases nothing; a snapshot put into an empty
store gives that very snapshot again. Trade-off: the index itself is not put back but made anew from the files; of
another time's, only the map stays.
"""

import json
import sqlite3
from dataclasses import dataclass, field, replace

from xscore import database
from xscore.errors import UsageError
from xscore.hashing import digest
from xscore.memory import door, evidence, rows
from xscore.memory.databases import Databases
from xscore.memory.events import EventName, emit
from xscore.memory.links.mention_links import link_mentions
from xscore.memory.repository_map import keep_map, repository_maps
from xscore.memory.writing import is_linked, write
from xscore.records import (
    Edge,
    KeptMemory,
    Kind,
    Memory,
    Restored,
    RetrievalId,
    RetrievalTrace,
    Snapshot,
    Source,
    Status,
)

_OWN = "source <> 'index'"
_EDGES = f"""
    SELECT source, target, relation, weight FROM edge
    WHERE source IN (SELECT id FROM memory WHERE {_OWN}) OR target IN (SELECT id FROM memory WHERE {_OWN})
    ORDER BY 1, 3, 2
"""  # noqa: S608  the condition is ours
_RETRIEVED = "SELECT at, subject, payload FROM event WHERE name = ? AND payload <> '{}' ORDER BY at, subject, id"
_TIE = "INSERT INTO edge (source, target, relation, weight) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_USE = "UPDATE memory SET importance = ?, created_at = ?, accessed_at = ?, access_count = ? WHERE id = ?"


def take_snapshot(store: Databases) -> Snapshot:
    """Read all parts at one moment."""
    connection = store.connection
    with database.snapshot(connection):
        memories = sorted(rows.memories(connection, _OWN, ()), key=lambda memory: memory.id)
        threads = dict(connection.execute(f"SELECT id, thread FROM memory WHERE {_OWN}").fetchall())  # noqa: S608  the condition is ours
        cited = evidence.citations(connection, [memory.id for memory in memories])
        return Snapshot(
            memories=tuple(KeptMemory(one, threads[one.id], cited.get(one.id, ())) for one in memories),
            edges=tuple(map(rows.edge, connection.execute(_EDGES).fetchall())),
            retrievals=_retrievals(connection),
            repository_maps=repository_maps(connection),
        )


def restore(store: Databases, snapshot: Snapshot, *, now: float | None = None) -> Restored:
    """Put a snapshot back: all of it, or nothing. now: Unix seconds, of the events that tell of it.

    Everything passes the door again. Raises UsageError for a memory whose hashes do not fit its text, that claims to
    come from the index or has the id of one that does, and for edges and looks that belong to none. What was
    erased to be forgotten is left out, and counted.
    """
    connection, moment = store.connection, store.moment(now)
    put = _Put(connection, moment, store.settings.allow_pii)
    with database.transaction(connection):
        snapshot, forgotten = _without_forgotten(connection, snapshot)
        for kept in sorted(snapshot.memories, key=lambda kept: kept.memory.status is Status.ACTIVE):
            put.memory(kept)
        link_mentions(connection, put.named)
        _settle(connection, snapshot)
        edges = _tie(connection, snapshot)
        known = {trace.id for trace in _retrievals(connection)}
        fresh = [trace for trace in snapshot.retrievals if trace.id not in known]
        for trace in fresh:
            payload = {"memories": list(trace.memories)}
            emit(connection, EventName.RETRIEVED, at=trace.at, subject=trace.turn, payload=payload)
        maps = sum(keep_map(connection, one) for one in snapshot.repository_maps)
    return Restored(
        added=put.added,
        changed=put.changed,
        unchanged=put.unchanged,
        edges=edges,
        retrievals=len(fresh),
        repository_maps=maps,
        redacted=put.redacted,
        forgotten=forgotten,
    )


def retrieval_id(at: float, turn: str, memories: tuple[str, ...]) -> RetrievalId:
    """Name a turn's look at the memories."""
    return RetrievalId("r_" + digest("retrieval", repr(at), turn, *memories)[:20])


@dataclass(slots=True)
class _Put:
    connection: sqlite3.Connection
    now: float
    allow_pii: bool
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    redacted: int = 0
    named: list[str] = field(default_factory=list)
    """Ids of those to be tied to what they name."""

    def memory(self, kept: KeptMemory) -> None:
        """Put one memory back, where it is not as it is to be."""
        memory, redacted = _through_the_door(kept.memory, allow_pii=self.allow_pii)
        self.redacted += redacted
        before = self._there(memory.id)
        thread = self._thread(memory.id)
        cited = evidence.citations(self.connection, [memory.id]).get(memory.id, ())
        if before == memory and thread == kept.thread and cited == kept.citations:
            self.unchanged += 1
            return
        write(self.connection, memory, before=before, now=self.now, thread=kept.thread, link=False)
        if is_linked(memory, before):
            self.named.append(memory.id)
        evidence.attach(self.connection, memory.id, kept.citations)
        self.added += before is None
        self.changed += before is not None

    def _there(self, identifier: str) -> Memory | None:
        found = rows.memories(self.connection, "id = ?", (identifier,))
        if found and found[0].source is Source.INDEX:
            raise UsageError(
                f"nothing was restored: {identifier} is the id of code that is indexed here",
                hint="The snapshot was altered, or is of another kind of store.",
            )
        return found[0] if found else None

    def _thread(self, identifier: str) -> str | None:
        row = self.connection.execute("SELECT thread FROM memory WHERE id = ?", (identifier,)).fetchone()
        return None if row is None else str(row[0])


def _through_the_door(memory: Memory, *, allow_pii: bool) -> tuple[Memory, int]:
    """Make the memory anew of its parts, redacted and hashed. Raises UsageError for one that was altered."""
    refused = "Take the snapshot anew; what was written by hand can be imported: `xscore memory import`."
    if memory.source is Source.INDEX:
        raise UsageError(f"nothing was restored: {memory.id} claims to come from the index", hint=refused)
    if door.with_status(memory, memory.status) != memory:
        raise UsageError(f"nothing was restored: the text of {memory.id} does not fit its hashes", hint=refused)
    names = ("layer", "kind", "title", "text", "path", "entity", "card", "start_line", "end_line", "language", "facts")
    more = ("particulars", "key", "scope", "importance", "confidence", "evidence_count", "source", "status")
    own_words = memory.kind is Kind.EXCHANGE and memory.source is Source.EXPLICIT  # as `memory.turns` keeps them
    made, redacted = door.make(
        **{name: getattr(memory, name) for name in (*names, *more)},
        updated_at=memory.updated_at,
        allow_pii=allow_pii or own_words,
    )
    own = ("id", "superseded_by", "created_at", "accessed_at", "access_count")
    return replace(made, **{name: getattr(memory, name) for name in own}), redacted


def _without_forgotten(connection: sqlite3.Connection, snapshot: Snapshot) -> tuple[Snapshot, int]:
    """Leave out memories that were erased to be forgotten, with their edges; also return how many."""
    names = {name for (name,) in connection.execute("SELECT memory_id FROM forgotten").fetchall()}
    gone = names & {kept.memory.id for kept in snapshot.memories}
    if not gone:
        return snapshot, 0
    memories = tuple(kept for kept in snapshot.memories if kept.memory.id not in gone)
    edges = tuple(edge for edge in snapshot.edges if edge.source not in gone and edge.target not in gone)
    return replace(snapshot, memories=memories, edges=edges), len(gone)


def _settle(connection: sqlite3.Connection, snapshot: Snapshot) -> None:
    """Set what the door keeps of a memory that was there, and counts anew of one that was not."""
    connection.executemany(
        _USE,
        [
            (one.importance, one.created_at, one.accessed_at, one.access_count, one.id)
            for one in (kept.memory for kept in snapshot.memories)
        ],
    )


def _tie(connection: sqlite3.Connection, snapshot: Snapshot) -> int:
    """Put the edges back; each has to touch a memory of the snapshot."""
    ids = {kept.memory.id for kept in snapshot.memories}
    astray = [edge for edge in snapshot.edges if edge.source not in ids and edge.target not in ids]
    if astray:
        raise UsageError(
            f"nothing was restored: the edge {astray[0].source} → {astray[0].target} belongs to no memory of it",
            hint="The snapshot was altered; take it anew.",
        )
    before = connection.total_changes
    connection.executemany(_TIE, [_row(edge) for edge in snapshot.edges])
    return connection.total_changes - before


def _row(edge: Edge) -> tuple[str, str, str, float]:
    return edge.source, edge.target, edge.relation, edge.weight


def _retrievals(connection: sqlite3.Connection) -> tuple[RetrievalTrace, ...]:
    found = []
    for at, turn, payload in connection.execute(_RETRIEVED, (EventName.RETRIEVED,)).fetchall():
        with database.making_sense("an event"):
            memories = tuple(map(str, json.loads(payload)["memories"]))
        found.append(RetrievalTrace(retrieval_id(at, turn, memories), at, turn, memories))
    return tuple(sorted(found, key=lambda trace: (trace.at, trace.turn, trace.id)))
