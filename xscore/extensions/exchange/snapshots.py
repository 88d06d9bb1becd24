"""Take what was said, learned and looked up as one value, and put it back (A12).

In a snapshot are the memories of a repository's store that are not from the index, with their citations and edges, the
turns' looks at the memories, and what the index held. Not in it are judgments, which nobody may plant, and the user's
own store, which is no repository's. Putting back adds and changes, and erases nothing; a snapshot put into an empty
store gives that very snapshot again. Trade-off: the index itself is not put back but made anew from the files; of
another time's, only the map stays.

A snapshot as JSON, and the gate through which one comes back.

Beside what `saved_form` writes of a memory, it holds the hashes, the thread and the counts of use, so that it is put
back to equality where the file bears the seal of this very store. Any other is a stranger's: what it holds is quoted
(source `import`), ties code to nothing, and its counts are bounded. The gate takes nothing that it does not know.
Trade-off: a snapshot is one object, read whole; and one taken of another store comes back as a stranger's.
"""

import hmac
import json
import sqlite3
from hashlib import sha256
from typing import Annotated, Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace
from pydantic import Field, ValidationError, field_validator

from xscore.extensions.exchange.memory_lines import (
    HASH_PATTERN,
    MAX_TRUSTED_COUNT,
    MEMORY_SCHEMA,
    BoundedLine,
    BoundedText,
    Count,
    SavedMemory,
    StrictForm,
    UnixTime,
    checked_path,
    memory_to_json,
    validation_message,
)
from xscore.extensions.exchange.repository_map import make_repository_map, repository_maps, save_repository_map
from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.platform.hashing import digest
from xscore.records import (
    Edge,
    KeptMemory,
    Kind,
    Layer,
    MappedFile,
    Memory,
    MemoryDetails,
    MemorySource,
    MemoryStatus,
    Relation,
    RepositoryMap,
    RetrievalId,
    RetrievalTrace,
    Snapshot,
    SnapshotRestored,
)
from xscore.records import Memory as MemoryRecord
from xscore.store import evidence, memory_rows, memory_writer
from xscore.store.events import EventName, emit_event, needs_linking, write_memory
from xscore.store.mention_links import link_mentions
from xscore.store.opening import Databases

_OWN = "source <> 'index'"
_EDGES = f"""
    SELECT source, target, relation, weight FROM edge
    WHERE source IN (SELECT id FROM memory WHERE {_OWN}) OR target IN (SELECT id FROM memory WHERE {_OWN})
    ORDER BY 1, 3, 2
"""
_RETRIEVED = "SELECT at, subject, payload FROM event WHERE name = ? AND payload <> '{}' ORDER BY at, subject, id"
_TIE = "INSERT INTO edge (source, target, relation, weight) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_USE = "UPDATE memory SET importance = ?, created_at = ?, accessed_at = ?, access_count = ? WHERE id = ?"


def take_snapshot(store: Databases) -> Snapshot:
    """Read all parts at one moment."""
    connection = store.connection
    with database.read_snapshot(connection):
        memories = sorted(memory_rows.select_memories(connection, _OWN, ()), key=lambda memory: memory.id)
        threads = dict(connection.execute(f"SELECT id, thread FROM memory WHERE {_OWN}").fetchall())
        cited = evidence.citations_of(connection, [memory.id for memory in memories])
        return Snapshot(
            memories=tuple(KeptMemory(one, threads[one.id], cited.get(one.id, ())) for one in memories),
            edges=tuple(map(memory_rows.edge_from_row, connection.execute(_EDGES).fetchall())),
            retrievals=_retrievals(connection),
            repository_maps=repository_maps(connection),
        )


def restore_snapshot(store: Databases, snapshot: Snapshot, *, now: float | None = None) -> SnapshotRestored:
    """Put a snapshot back: all of it, or nothing. now: Unix seconds, of the events that tell of it.

    Everything passes the door again. Raises UsageError for a memory whose hashes do not fit its text, that claims to
    come from the index or has the id of one that does, and for edges and looks that belong to none. What was
    erased to be forgotten is left out, and counted.
    """
    connection, moment = store.connection, store.moment(now)
    put = _Restore(connection, moment, store.settings.allow_pii)
    with database.transaction(connection):
        snapshot, forgotten = _without_forgotten(connection, snapshot)
        for kept in sorted(snapshot.memories, key=lambda kept: kept.memory.status is MemoryStatus.ACTIVE):
            put.memory(kept)
        link_mentions(connection, put.named)
        _settle(connection, snapshot)
        edges = _restore_edges(connection, snapshot)
        known = {trace.id for trace in _retrievals(connection)}
        fresh = [trace for trace in snapshot.retrievals if trace.id not in known]
        for trace in fresh:
            payload = {"memories": list(trace.memories)}
            emit_event(connection, EventName.RETRIEVED, at=trace.at, subject=trace.turn, payload=payload)
        maps = sum(save_repository_map(connection, one) for one in snapshot.repository_maps)
    return SnapshotRestored(
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


class _Restore(Struct):
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
        memory, redacted = _remade(kept.memory, allow_pii=self.allow_pii)
        self.redacted += redacted
        before = self._there(memory.id)
        thread = self._thread(memory.id)
        cited = evidence.citations_of(self.connection, [memory.id]).get(memory.id, ())
        if before == memory and thread == kept.thread and cited == kept.citations:
            self.unchanged += 1
            return
        write_memory(self.connection, memory, before=before, now=self.now, thread=kept.thread, link=False)
        if needs_linking(memory, before):
            self.named.append(memory.id)
        evidence.attach_citations(self.connection, memory.id, kept.citations)
        self.added += before is None
        self.changed += before is not None

    def _there(self, identifier: str) -> Memory | None:
        found = memory_rows.select_memories(self.connection, "id = ?", (identifier,))
        if found and found[0].source is MemorySource.INDEX:
            raise UsageError(
                f"nothing was restored: {identifier} is the id of code that is indexed here",
                hint="The snapshot was altered, or is of another kind of store.",
            )
        return found[0] if found else None

    def _thread(self, identifier: str) -> str | None:
        row = self.connection.execute("SELECT thread FROM memory WHERE id = ?", (identifier,)).fetchone()
        return None if row is None else str(row[0])


def _remade(memory: Memory, *, allow_pii: bool) -> tuple[Memory, int]:
    """Make the memory anew of its parts, redacted and hashed. Raises UsageError for one that was altered."""
    refused = "Take the snapshot anew; what was written by hand can be imported: `xscore memory import`."
    if memory.source is MemorySource.INDEX:
        raise UsageError(f"nothing was restored: {memory.id} claims to come from the index", hint=refused)
    if memory_writer.with_status(memory, memory.status) != memory:
        raise UsageError(f"nothing was restored: the text of {memory.id} does not fit its hashes", hint=refused)
    names = ("layer", "kind", "title", "text", "path", "entity", "card", "start_line", "end_line", "language", "facts")
    more = ("particulars", "key", "scope", "importance", "confidence", "evidence_count", "source", "status")
    own_words = memory.kind is Kind.EXCHANGE and memory.source is MemorySource.EXPLICIT  # as `memory.turns` keeps them
    made, redacted = memory_writer.make_memory(
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


def _restore_edges(connection: sqlite3.Connection, snapshot: Snapshot) -> int:
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
        with database.damage_if_invalid("an event"):
            memories = tuple(map(str, json.loads(payload)["memories"]))
        found.append(RetrievalTrace(retrieval_id(at, turn, memories), at, turn, memories))
    return tuple(sorted(found, key=lambda trace: (trace.at, trace.turn, trace.id)))


MAX_SNAPSHOT_BYTES = 256_000_000
_FOREIGN_RELATIONS = frozenset({Relation.REFERENCES, Relation.BELONGS_TO})
"""What a stranger's memory may be to another; calls, imports and tests are for the index to find."""
_END = r"^(m_[0-9a-f]{20}|f_[^\x00-\x1f]{1,4000})$"


class _Memory(SavedMemory):
    content_hash: Annotated[str, Field(pattern=HASH_PATTERN)]
    text_hash: Annotated[str, Field(pattern=HASH_PATTERN)]
    card: BoundedText = ""
    start_line: Count = 0
    end_line: Count = 0
    language: BoundedLine = ""
    accessed_at: UnixTime = 0.0
    access_count: Count = 0
    thread: BoundedLine = ""

    @field_validator("layer")
    @classmethod
    def _of_the_repository(cls, layer: Layer) -> Layer:
        if layer is Layer.USER:
            raise ValueError("what is the user's own is in no snapshot of a repository")
        return layer

    def kept(self) -> KeptMemory:
        """Return the record, hashes as they are stated."""
        beside = ("schema_", "particulars", "citations", "thread")
        values = {name: getattr(self, name) for name in type(self).model_fields if name not in beside}
        said = MemoryDetails(**self.particulars.model_dump())
        return KeptMemory(MemoryRecord(**values, particulars=said), self.thread, self.cited())


class _Edge(StrictForm):
    source: Annotated[str, Field(pattern=_END)]
    target: Annotated[str, Field(pattern=_END)]
    relation: Relation
    weight: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 1.0


class _Retrieval(StrictForm):
    at: UnixTime
    turn: Annotated[str, Field(pattern=r"^t_[0-9a-zA-Z_-]{1,64}$")]
    memories: Annotated[
        tuple[Annotated[str, Field(pattern=r"^m_[0-9a-zA-Z_]{1,64}$")], ...], Field(max_length=100_000)
    ] = ()


class _File(StrictForm):
    path: BoundedLine
    language: BoundedLine = ""
    file_hash: BoundedLine
    memories: Count = 0

    @field_validator("path")
    @classmethod
    def _inside(cls, path: str) -> str:
        return checked_path(path)


class _Map(StrictForm):
    indexed_at: UnixTime = 0.0
    files: tuple[_File, ...] = ()
    edges: dict[Relation, Count] = Field(default_factory=dict)


class _Snapshot(StrictForm):
    schema_: Annotated[int, Field(alias="schema", ge=MEMORY_SCHEMA, le=MEMORY_SCHEMA)]
    memories: tuple[_Memory, ...] = ()
    edges: tuple[_Edge, ...] = ()
    retrievals: tuple[_Retrieval, ...] = ()
    repository_maps: tuple[_Map, ...] = ()
    seal: Annotated[str, Field(pattern="^([0-9a-f]{64}|)$")] = ""


def snapshot_to_json(snapshot: Snapshot, *, secret: bytes | None = None) -> dict[str, Any]:
    """Return a snapshot as plain JSON values; secret: of the store, which will know its own file again."""
    whole = {
        "schema": MEMORY_SCHEMA,
        "memories": [_memory(kept) for kept in snapshot.memories],
        "edges": [asdict(edge) for edge in snapshot.edges],
        "retrievals": [{"at": one.at, "turn": one.turn, "memories": list(one.memories)} for one in snapshot.retrievals],
        "repository_maps": [_map(one) for one in snapshot.repository_maps],
    }
    return whole if secret is None else whole | {"seal": _signature(whole, secret)}


def snapshot_from_json(data: str | bytes, *, secret: bytes | None = None, now: float = 0.0) -> Snapshot:
    """Read a snapshot. Raises UsageError for what is none, with the place; nothing of it is mended.

    secret: of the store that it is for; a file without that store's seal is read as a stranger's, whose
    memories are seen now (Unix seconds), so that their age begins anew.
    """
    if len(data) > MAX_SNAPSHOT_BYTES:
        raise UsageError(f"{len(data):,} bytes are too many for a snapshot", hint=f"At most {MAX_SNAPSHOT_BYTES:,}.")
    try:
        form = _Snapshot.model_validate_json(data)
    except ValidationError as error:
        raise UsageError(
            f"this is no snapshot: {validation_message(error)}", hint="`xscore memory export --snapshot` makes one."
        ) from error
    found = _snapshot(form)
    is_own = (
        secret is not None and bool(form.seal) and hmac.compare_digest(_signature(json.loads(data), secret), form.seal)
    )
    return found if is_own else _as_foreign(found, now)


def _signature(whole: dict[str, Any], secret: bytes) -> str:
    said = {name: value for name, value in whole.items() if name != "seal"}
    return hmac.new(secret, b"snapshot\0" + json.dumps(said, sort_keys=True).encode(), sha256).hexdigest()


def _as_foreign(snapshot: Snapshot, now: float) -> Snapshot:
    """Believe of a snapshot what is believed of imported lines."""
    return replace(
        snapshot,
        memories=tuple(replace(kept, memory=_as_foreign_memory(kept.memory, now)) for kept in snapshot.memories),
        edges=tuple(replace(edge, weight=1.0) for edge in snapshot.edges if edge.relation in _FOREIGN_RELATIONS),
    )


def _as_foreign_memory(memory: MemoryRecord, now: float) -> MemoryRecord:
    said = memory.particulars
    return replace(
        memory,
        source=MemorySource.IMPORT,
        accessed_at=max(memory.accessed_at, now),
        access_count=min(memory.access_count, MAX_TRUSTED_COUNT),
        evidence_count=min(memory.evidence_count, MAX_TRUSTED_COUNT),
        particulars=replace(said, occurrences=min(said.occurrences, MAX_TRUSTED_COUNT)),
    )


def _snapshot(form: _Snapshot) -> Snapshot:
    return Snapshot(
        memories=tuple(one.kept() for one in form.memories),
        edges=tuple(Edge(one.source, one.target, one.relation, one.weight) for one in form.edges),
        retrievals=tuple(
            RetrievalTrace(retrieval_id(one.at, one.turn, one.memories), one.at, one.turn, one.memories)
            for one in form.retrievals
        ),
        repository_maps=tuple(_mapped(one) for one in form.repository_maps),
    )


def _memory(kept: KeptMemory) -> dict[str, Any]:
    own = _Memory.model_fields.keys() - SavedMemory.model_fields.keys() - {"thread"}
    values = {name: getattr(kept.memory, name) for name in sorted(own)}
    more = {name: value for name, value in values.items() if value != _Memory.model_fields[name].default}
    return {**memory_to_json(kept.memory, kept.citations), **more, **({"thread": kept.thread} if kept.thread else {})}


def _map(one: RepositoryMap) -> dict[str, Any]:
    return {
        "indexed_at": one.indexed_at,
        "files": [asdict(each) for each in one.files],
        "edges": dict(one.edges),
    }


def _mapped(one: _Map) -> RepositoryMap:
    files = [MappedFile(each.path, each.language, each.file_hash, each.memories) for each in one.files]
    return make_repository_map(
        one.indexed_at, files, sorted((str(name.value), count) for name, count in one.edges.items())
    )
