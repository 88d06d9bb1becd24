"""Snapshots of a repository's store: its memories with citations, edges, use, retrievals and file maps, out and back.

A snapshot is JSON lines: a header with everything but the memories, then a memory a line, as `memory export` writes it
plus hashes, thread and use counts. A file with this store's MAC is restored exactly; any other is foreign: its memories
get the source `import`, its counts are bounded, and it ties nothing to code. Judgments and the user's own store are
never in it. Trade-off: restoring adds and changes but erases nothing; the index is made again from the files.
"""

import hmac
import json
import sqlite3
from collections.abc import Iterator
from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from xscore.extensions.exchange.memory_lines import (
    MEMORY_SCHEMA,
    BoundedLine,
    BoundedText,
    Count,
    HashText,
    SavedMemory,
    UnixTime,
    as_imported,
    check_path,
    memory_to_json,
    read_lines,
    without_values,
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
    MemorySource,
    MemoryStatus,
    Relation,
    RepositoryMap,
    RetrievalId,
    RetrievalTrace,
    Snapshot,
    SnapshotRestored,
)
from xscore.store import evidence, memory_rows, memory_writer
from xscore.store.events import EventName, emit_event, needs_linking, write_memory
from xscore.store.mention_links import link_mentions
from xscore.store.store import Store

MAX_SNAPSHOT_BYTES = 256_000_000
_FOREIGN_RELATIONS = frozenset({Relation.REFERENCES, Relation.BELONGS_TO})
"""Allowed in a foreign snapshot; calls, imports and tests are for the index to find."""
_OWN = "source <> 'index'"
_EDGES = f"""
    SELECT source, target, relation, weight FROM edge
    WHERE source IN (SELECT id FROM memory WHERE {_OWN}) OR target IN (SELECT id FROM memory WHERE {_OWN})
    ORDER BY 1, 3, 2
"""
_RETRIEVED = "SELECT at, subject, payload FROM event WHERE name = ? AND payload <> '{}' ORDER BY at, subject, id"
_USE = "UPDATE memory SET importance = ?, created_at = ?, accessed_at = ?, access_count = ? WHERE id = ?"
_HINT = "`xscore memory export --snapshot` makes one; handwritten lines can be imported: `xscore memory import`."
_EdgeEnd = Annotated[str, Meta(pattern=r"^(m_[0-9a-f]{20}|f_[^\x00-\x1f]{1,4000})$")]
_TurnId = Annotated[str, Meta(pattern=r"^t_[0-9a-zA-Z_-]{1,64}$")]
_RetrievedId = Annotated[str, Meta(pattern=r"^m_[0-9a-zA-Z_]{1,64}$")]


class SnapshotMemory(SavedMemory, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A memory line of a snapshot."""

    content_hash: HashText
    text_hash: HashText
    card: BoundedText = ""
    start_line: Count = 0
    end_line: Count = 0
    language: BoundedLine = ""
    accessed_at: UnixTime = 0.0
    access_count: Count = 0
    thread: BoundedLine = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer is Layer.USER:
            raise ValueError("layer: memories of the user layer are in no snapshot")

    def kept(self) -> KeptMemory:
        """Return the record, with the hashes as stated."""
        return KeptMemory(msgspec.convert(self, Memory, from_attributes=True), self.thread, self.cited())


class SavedEdge(Struct, frozen=True, forbid_unknown_fields=True):
    """An edge that touches a memory of the snapshot."""

    source: _EdgeEnd
    target: _EdgeEnd
    relation: Relation
    weight: Annotated[float, Meta(ge=0, le=1e6)] = 1.0


class SavedRetrieval(Struct, frozen=True, forbid_unknown_fields=True):
    """The memories that a turn used."""

    at: UnixTime
    turn: _TurnId
    memories: Annotated[tuple[_RetrievedId, ...], Meta(max_length=100_000)] = ()


class SavedFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a map."""

    path: BoundedLine
    file_hash: BoundedLine
    language: BoundedLine = ""
    memories: Count = 0

    def __post_init__(self) -> None:
        check_path(self.path)


class SavedMap(Struct, frozen=True, forbid_unknown_fields=True):
    """What the index held."""

    indexed_at: UnixTime = 0.0
    files: tuple[SavedFile, ...] = ()
    edges: dict[Relation, Count] = field(default_factory=dict)


class SnapshotHeader(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The first line of a snapshot."""

    schema: Annotated[int, Meta(ge=MEMORY_SCHEMA, le=MEMORY_SCHEMA)] = MEMORY_SCHEMA
    kind: Annotated[str, Meta(pattern="^snapshot$")]
    mac: Annotated[str, Meta(pattern="^([0-9a-f]{64}|)$")] = ""
    edges: tuple[SavedEdge, ...] = ()
    retrievals: tuple[SavedRetrieval, ...] = ()
    repository_maps: tuple[SavedMap, ...] = ()


def take_snapshot(store: Store) -> Snapshot:
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


def snapshot_lines(snapshot: Snapshot, *, secret: bytes | None = None) -> Iterator[str]:
    """Yield a snapshot as lines with their line ends. secret: of the store, so that it recognises its own file."""
    body = [
        msgspec.json.encode(memory_to_json(one.memory, one.citations, SnapshotMemory, thread=one.thread)) + b"\n"
        for one in snapshot.memories
    ]
    maps = [
        {"indexed_at": one.indexed_at, "files": one.files, "edges": dict(one.edges)} for one in snapshot.repository_maps
    ]
    header = SnapshotHeader(
        kind="snapshot",
        edges=msgspec.convert(snapshot.edges, tuple[SavedEdge, ...], from_attributes=True),
        retrievals=msgspec.convert(snapshot.retrievals, tuple[SavedRetrieval, ...], from_attributes=True),
        repository_maps=msgspec.convert(maps, tuple[SavedMap, ...], from_attributes=True),
    )
    if secret is not None:
        header = replace(header, mac=_mac(header, b"".join(body), secret))
    yield msgspec.json.encode(header).decode() + "\n"
    yield from (line.decode() for line in body)


def parse_snapshot(data: bytes, *, secret: bytes | None = None, now: float = 0.0) -> Snapshot:
    """Read a snapshot file. Raises UsageError naming what does not fit.

    secret: of the store to restore into. A file without its MAC is foreign; its memories count as seen at `now` (unix
    seconds), so that their age begins again.
    """
    if len(data) > MAX_SNAPSHOT_BYTES:
        raise UsageError(f"{len(data):,} bytes are too many for a snapshot", hint=f"At most {MAX_SNAPSHOT_BYTES:,}.")
    first, _, body = data.partition(b"\n")
    try:
        header = msgspec.json.decode(first, type=SnapshotHeader)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is not a snapshot: line 1: {without_values(error)}", hint=_HINT) from error
    numbered = ((number, line) for number, line in enumerate(body.split(b"\n"), 2) if line.strip())
    found = Snapshot(
        memories=tuple(one.kept() for one in read_lines(numbered, SnapshotMemory, lambda *_: None, hint=_HINT)),
        edges=msgspec.convert(header.edges, tuple[Edge, ...], from_attributes=True),
        retrievals=tuple(
            RetrievalTrace(retrieval_id(one.at, one.turn, one.memories), one.at, one.turn, one.memories)
            for one in header.retrievals
        ),
        repository_maps=tuple(map(_map_of, header.repository_maps)),
    )
    if secret is not None and hmac.compare_digest(_mac(header, body, secret), header.mac):
        return found
    memories = [replace(one, memory=as_imported(one.memory)) for one in found.memories]
    return replace(
        found,
        memories=tuple(
            replace(one, memory=replace(one.memory, accessed_at=max(one.memory.accessed_at, now))) for one in memories
        ),
        edges=tuple(replace(edge, weight=1.0) for edge in found.edges if edge.relation in _FOREIGN_RELATIONS),
    )


def _mac(header: SnapshotHeader, body: bytes, secret: bytes) -> str:
    signed = msgspec.json.encode(replace(header, mac=""))
    return hmac.new(secret, b"snapshot\0" + signed + b"\n" + body, sha256).hexdigest()


def _map_of(saved: SavedMap) -> RepositoryMap:
    files = msgspec.convert(saved.files, list[MappedFile], from_attributes=True)
    return make_repository_map(saved.indexed_at, files, sorted((str(name), n) for name, n in saved.edges.items()))


def restore_snapshot(store: Store, snapshot: Snapshot, *, now: float | None = None) -> SnapshotRestored:
    """Restore a snapshot, all or nothing. now: unix seconds of the events.

    Raises UsageError for a memory whose hashes do not fit its text, that claims to come from the index or has the id of
    one that does, and for edges that touch no memory of the snapshot. Erased memories that must stay forgotten are left
    out and counted.
    """
    connection = store.connection
    run = _Restore(connection, store.now_or_clock(now), store.settings.allow_pii)
    with database.transaction(connection):
        snapshot, forgotten = _without_forgotten(connection, snapshot)
        memories = [kept.memory for kept in snapshot.memories]
        for kept in sorted(snapshot.memories, key=lambda kept: kept.memory.status is MemoryStatus.ACTIVE):
            run.restore_memory(kept)
        link_mentions(connection, run.to_link)
        connection.executemany(
            _USE, [(one.importance, one.created_at, one.accessed_at, one.access_count, one.id) for one in memories]
        )
        edges = _restore_edges(connection, snapshot)
        known = {trace.id for trace in _retrievals(connection)}
        fresh = [trace for trace in snapshot.retrievals if trace.id not in known]
        for trace in fresh:
            payload = {"memories": list(trace.memories)}
            emit_event(connection, EventName.RETRIEVED, at=trace.at, subject=trace.turn, payload=payload)
        maps = sum(save_repository_map(connection, one) for one in snapshot.repository_maps)
    return SnapshotRestored(
        added=run.added,
        changed=run.changed,
        unchanged=run.unchanged,
        edges=edges,
        retrievals=len(fresh),
        repository_maps=maps,
        redacted=run.redacted,
        forgotten=forgotten,
    )


def retrieval_id(at: float, turn: str, memories: tuple[str, ...]) -> RetrievalId:
    """Name the memories that a turn used."""
    return RetrievalId("r_" + digest("retrieval", repr(at), turn, *memories)[:20])


class _Restore(Struct):
    connection: sqlite3.Connection
    now: float
    allow_pii: bool
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    redacted: int = 0
    to_link: list[str] = field(default_factory=list)

    def restore_memory(self, kept: KeptMemory) -> None:
        """Write one memory where it differs from what is stored."""
        memory, redacted = _checked(kept.memory, allow_pii=self.allow_pii)
        self.redacted += redacted
        found = memory_rows.select_memories(self.connection, "id = ?", (memory.id,))
        before = found[0] if found else None
        if before and before.source is MemorySource.INDEX:
            raise UsageError(f"nothing was restored: {memory.id} is the id of code that is indexed here", hint=_HINT)
        threads = self.connection.execute("SELECT thread FROM memory WHERE id = ?", (memory.id,)).fetchall()
        cited = evidence.citations_of(self.connection, [memory.id]).get(memory.id, ())
        if before == memory and threads == [(kept.thread,)] and cited == kept.citations:
            self.unchanged += 1
            return
        write_memory(self.connection, memory, before=before, now=self.now, thread=kept.thread, link=False)
        if needs_linking(memory, before):
            self.to_link.append(memory.id)
        evidence.attach_citations(self.connection, memory.id, kept.citations)
        self.added += before is None
        self.changed += before is not None


def _checked(memory: Memory, *, allow_pii: bool) -> tuple[Memory, int]:
    """Make the memory again from its parts, redacted and hashed. Raises UsageError for one that was altered."""
    if memory.source is MemorySource.INDEX:
        raise UsageError(f"nothing was restored: {memory.id} claims to come from the index", hint=_HINT)
    if memory_writer.with_status(memory, memory.status) != memory:
        raise UsageError(f"nothing was restored: the text of {memory.id} does not fit its hashes", hint=_HINT)
    names = ("layer", "kind", "title", "text", "path", "entity", "card", "start_line", "end_line", "language", "facts")
    more = ("particulars", "key", "scope", "importance", "confidence", "evidence_count", "source", "status")
    is_own_exchange = memory.kind is Kind.EXCHANGE and memory.source is MemorySource.EXPLICIT  # stored with its PII
    made, redacted = memory_writer.make_memory(
        **{name: getattr(memory, name) for name in (*names, *more)},
        updated_at=memory.updated_at,
        allow_pii=allow_pii or is_own_exchange,
    )
    own = ("id", "superseded_by", "created_at", "accessed_at", "access_count")
    return replace(made, **{name: getattr(memory, name) for name in own}), redacted


def _without_forgotten(connection: sqlite3.Connection, snapshot: Snapshot) -> tuple[Snapshot, int]:
    """Leave out memories that must stay forgotten, with their edges; also return their number."""
    names = {name for (name,) in connection.execute("SELECT memory_id FROM erased_memory").fetchall()}
    memories = tuple(kept for kept in snapshot.memories if kept.memory.id not in names)
    gone = {kept.memory.id for kept in snapshot.memories} & names
    edges = tuple(edge for edge in snapshot.edges if gone.isdisjoint((edge.source, edge.target)))
    return replace(snapshot, memories=memories, edges=edges), len(gone)


def _restore_edges(connection: sqlite3.Connection, snapshot: Snapshot) -> int:
    ids = {kept.memory.id for kept in snapshot.memories}
    for edge in snapshot.edges:
        if ids.isdisjoint((edge.source, edge.target)):
            ends = f"{edge.source} → {edge.target}"
            raise UsageError(f"nothing was restored: the edge {ends} belongs to no memory of it", hint=_HINT)
    before = connection.total_changes
    connection.executemany(
        "INSERT INTO edge (source, target, relation, weight) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(edge.source, edge.target, edge.relation, edge.weight) for edge in snapshot.edges],
    )
    return connection.total_changes - before


def _retrievals(connection: sqlite3.Connection) -> tuple[RetrievalTrace, ...]:
    found = []
    for at, turn, payload in connection.execute(_RETRIEVED, (EventName.RETRIEVED,)).fetchall():
        with database.damage_if_invalid("an event"):
            memories = tuple(map(str, json.loads(payload)["memories"]))
        found.append(RetrievalTrace(retrieval_id(at, turn, memories), at, turn, memories))
    return tuple(sorted(found, key=lambda trace: (trace.at, trace.turn, trace.id)))
