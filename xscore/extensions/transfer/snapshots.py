"""Snapshots of a repository's store: its memories with citations, edges, use, retrievals and file
maps, out and back.

A snapshot is a saved file: a memory a line, as `memory export` writes it plus hashes, thread and
use counts, then the other records. A file that this store signed is restored exactly; of any other
the memories alone come in, as `memory import` takes them. Judgments and the user's own store are
never in it. Trade-off: restoring adds and changes but erases nothing; the index is rebuilt from
the files.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from xscore.extensions.transfer.memory_lines import import_memories
from xscore.extensions.transfer.older_files import upgrade_file
from xscore.extensions.transfer.saved_files import (
    Contents,
    decode_file,
    encode_file,
    is_signed_with,
    read_records,
)
from xscore.extensions.transfer.saved_records import (
    MappedFile,
    RetrievalTrace,
    SavedEdge,
    SavedMap,
    SavedMapFile,
    SavedMemory,
    SavedRecord,
    map_records,
    saved_memory,
)
from xscore.extensions.transfer.transfer_keys import TransferKey
from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.platform.hashing import digest
from xscore.platform.json_lines import unique_lines
from xscore.records.memory import Kind, MemoryDetails, MemorySource, MemoryStatus, Relation
from xscore.store import evidence, memory_queries, memory_rows, memory_writer
from xscore.store.events import EventName, emit_event
from xscore.store.link_rows import state_edges
from xscore.store.memory_updates import set_use
from xscore.store.memory_writer import needs_linking, write_memory
from xscore.store.mention_links import link_mentions
from xscore.store.store import Store

_OWN = "source <> 'index'"
_COUNT_EDGES = "SELECT count(*) FROM edge_row"
_RETRIEVED = (
    "SELECT at, subject, payload FROM event WHERE name = ? AND payload <> '{}' ORDER BY at,"
    " subject, id"
)
_INDEXED = "SELECT coalesce(max(at), 0.0) FROM event WHERE name = ?"
_HINT = (
    "`xscore memory export --snapshot` makes one; handwritten lines can be imported: `xscore memory"
    " import`."
)


class RepositoryMap(Struct, frozen=True, forbid_unknown_fields=True):
    """What the index held at a time: files and link counts, no entities, since the index finds them
    again."""

    indexed_at: float = 0.0
    files: tuple[MappedFile, ...] = ()
    edges: dict[Relation, int] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Names it by what it holds."""
        return "g_" + digest("map", msgspec.json.encode(self).decode())[:20]


class Snapshot(Struct, frozen=True, kw_only=True):
    """Everything restorable, sorted, so that equal stores give equal snapshots."""

    memories: tuple[SavedMemory, ...] = ()
    edges: tuple[SavedEdge, ...] = ()
    retrievals: tuple[RetrievalTrace, ...] = ()
    repository_maps: tuple[RepositoryMap, ...] = ()


class SnapshotRestored(Struct, kw_only=True):
    """Result of restoring a snapshot."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    edges: int = 0
    retrievals: int = 0
    repository_maps: int = 0
    redacted: int = 0
    forgotten: int = 0
    refused: int = 0
    """Number of memories of a user layer, which no snapshot of ours contains."""


def take_snapshot(store: Store) -> Snapshot:
    """Read all parts in one transaction."""
    connection = store.connection
    with database.read_snapshot(connection):
        memories = memory_rows.select_memories(connection, _OWN, ())
        threads = memory_queries.unindexed_threads(connection)
        cited = evidence.citations_of(connection, [memory.id for memory in memories])
        saved = []
        for memory in sorted(memories, key=lambda memory: memory.id):
            citations = cited.get(memory.id, ())
            saved.append(saved_memory(memory, citations, thread=threads[memory.id]))
        edges = []
        for edge in memory_queries.edges_of_stated(connection):
            edges.append(SavedEdge(edge.source, edge.target, edge.relation, edge.weight))
        return Snapshot(
            memories=tuple(saved),
            edges=tuple(edges),
            retrievals=_retrievals(connection),
            repository_maps=_repository_maps(connection),
        )


def snapshot_file(snapshot: Snapshot, *, secret: bytes) -> bytes:
    """Return a snapshot as a file. secret: that of the store, so that it recognises its own
    file."""
    return encode_file(Contents.SNAPSHOT, _records_of(snapshot), TransferKey(secret))


def _records_of(snapshot: Snapshot) -> Iterator[SavedRecord]:
    yield from snapshot.memories
    yield from snapshot.edges
    yield from snapshot.retrievals
    for map_ in snapshot.repository_maps:
        yield from map_records(map_.indexed_at, map_.files, map_.edges)


def _snapshot_of(records: Iterable[tuple[int, SavedRecord]], name: str) -> Snapshot:
    memories = []
    edges = []
    retrievals = []
    maps: list[tuple[SavedMap, list[MappedFile]]] = []
    for number, record in records:
        match record:
            case SavedMemory():
                memories.append((number, record))
            case SavedEdge():
                edges.append(record)
            case RetrievalTrace():
                retrievals.append(record)
            case SavedMap():
                maps.append((record, []))
            case SavedMapFile() if maps:
                # A file belongs to the map above it; the stored map has no names of records.
                _, files = maps[-1]
                files.append(
                    MappedFile(record.path, record.file_hash, record.language, record.memories)
                )
    repository_maps = []
    for map_, files in maps:
        repository_maps.append(RepositoryMap(map_.indexed_at, tuple(files), map_.edges))
    return Snapshot(
        memories=unique_lines(memories, name),
        edges=tuple(edges),
        retrievals=tuple(retrievals),
        repository_maps=tuple(repository_maps),
    )


def import_snapshot(store: Store, data: bytes, *, name: str = "snapshot") -> SnapshotRestored:
    """Restore a snapshot file written by this store; from any other import the memories.

    Raises UsageError naming what does not fit, and then changes nothing.
    """
    key = TransferKey(store.secret)
    upgraded = upgrade_file(data, name, key, hint=_HINT, max_judgments=0)
    file = decode_file(upgraded, name, Contents.SNAPSHOT, hint=_HINT)
    is_ours = is_signed_with(file, key)
    snapshot = _snapshot_of(read_records(file, hint=_HINT, checks_keys=not is_ours), name)
    if is_ours:
        return restore_snapshot(store, snapshot)
    done = import_memories(store, snapshot.memories)
    return SnapshotRestored(
        added=len(done.added),
        unchanged=done.known + len(done.kept),
        redacted=done.redacted,
        forgotten=done.forgotten,
        refused=done.refused,
    )


def restore_snapshot(store: Store, snapshot: Snapshot) -> SnapshotRestored:
    """Restore a snapshot that this store took, all or nothing.

    Raises UsageError for a memory that has the id of one that comes from the index. Erased memories
    that must stay forgotten are left out and counted.
    """
    connection = store.connection
    done = SnapshotRestored()
    with database.transaction(connection):
        erased = _erased_ids(connection)
        memories = [memory for memory in snapshot.memories if memory.id not in erased]
        done.forgotten = len(snapshot.memories) - len(memories)
        _restore_memories(store, memories, done)
        done.retrievals = _keep_retrievals(connection, snapshot.retrievals)
        done.edges = _keep_edges(connection, snapshot.edges, without=erased)
        done.repository_maps = _keep_maps(connection, snapshot.repository_maps)
    return done


def _erased_ids(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT memory_id FROM erased_memory").fetchall()
    return {id_ for (id_,) in rows}


def _restore_memories(
    store: Store, memories: Sequence[SavedMemory], done: SnapshotRestored
) -> None:
    to_link = list[str]()
    # The active one with a key comes after those that it superseded, and displaces none.
    for memory in sorted(memories, key=lambda saved: saved.status is MemoryStatus.ACTIVE):
        if _restore_memory(store, memory, done):
            to_link.append(memory.id)
    link_mentions(store.connection, to_link)
    # Last, since writing a memory sets its age and use.
    set_use(store.connection, memories)


def _restore_memory(store: Store, saved: SavedMemory, done: SnapshotRestored) -> bool:
    """Write a memory if it differs from the stored one; return whether to link it."""
    connection = store.connection
    # A user's own exchange was stored with personal data, so it comes back with them.
    is_own_exchange = saved.kind is Kind.EXCHANGE and saved.source is MemorySource.EXPLICIT
    details = MemoryDetails(**asdict(saved.details))
    memory, redacted = memory_writer.remake_memory(
        saved, details=details, allow_pii=store.settings.allow_pii or is_own_exchange
    )
    done.redacted += redacted
    before = memory_rows.memory_with_id(connection, memory.id)
    if before and before.source is MemorySource.INDEX:
        raise UsageError(
            f"nothing was restored: {memory.id} is the id of code that is indexed here",
            hint=_HINT,
        )
    thread = connection.execute(
        "SELECT thread FROM memory_row WHERE id = ?", (memory.id,)
    ).fetchone()
    cited = evidence.citations_of(connection, [memory.id]).get(memory.id, ())
    if before == memory and thread == (saved.thread,) and cited == saved.citations:
        done.unchanged += 1
        return False
    write_memory(
        connection, memory, before=before, now=store.clock(), thread=saved.thread, link=False
    )
    evidence.attach_citations(connection, memory.id, saved.citations)
    done.added += before is None
    done.changed += before is not None
    return needs_linking(memory, before)


def _retrievals(connection: sqlite3.Connection) -> tuple[RetrievalTrace, ...]:
    retrievals = []
    for at, turn, payload in connection.execute(_RETRIEVED, (EventName.RETRIEVED,)).fetchall():
        with database.damage_if_invalid("an event"):
            memory_ids = tuple(map(str, json.loads(payload)["memories"]))
            retrievals.append(RetrievalTrace(at, turn, memory_ids))
    return tuple(retrievals)


def _keep_retrievals(
    connection: sqlite3.Connection, retrievals: Sequence[RetrievalTrace]
) -> int:
    """Keep the retrievals that are new; return how many."""
    existing = set(_retrievals(connection))
    count = 0
    for trace in retrievals:
        if trace not in existing:
            payload = {"memories": list(trace.memories)}
            event = EventName.RETRIEVED
            emit_event(connection, event, at=trace.at, subject=trace.turn, payload=payload)
            count += 1
    return count


def _keep_edges(
    connection: sqlite3.Connection, edges: Sequence[SavedEdge], *, without: Collection[str]
) -> int:
    """Keep the edges that are new; return how many. without: memories that stay erased."""
    rows = []
    for edge in edges:
        if edge.source not in without and edge.target not in without:
            rows.append((edge.source, edge.target, edge.relation, edge.weight))
    (before,) = connection.execute(_COUNT_EDGES).fetchone()
    state_edges(connection, rows)
    (after,) = connection.execute(_COUNT_EDGES).fetchone()
    return int(after - before)


def _repository_maps(connection: sqlite3.Connection) -> tuple[RepositoryMap, ...]:
    """Return the index's map, if any, and those of stored snapshots, sorted by time."""
    by_id: dict[str, RepositoryMap] = {}
    with database.damage_if_invalid("a repository map"):
        for (body,) in connection.execute("SELECT body FROM repository_map").fetchall():
            map_ = msgspec.json.decode(body, type=RepositoryMap)
            by_id[map_.id] = map_
    current = _map_of_index(connection)
    if current is not None:
        by_id[current.id] = current
    return tuple(sorted(by_id.values(), key=lambda map_: (map_.indexed_at, map_.id)))


def _map_of_index(connection: sqlite3.Connection) -> RepositoryMap | None:
    """Return what the index holds now; None: no file."""
    files = tuple(MappedFile(*file) for file in memory_queries.indexed_files(connection))
    if not files:
        return None
    (indexed_at,) = connection.execute(_INDEXED, (EventName.INDEXED,)).fetchone()
    return RepositoryMap(indexed_at, files, memory_queries.count_links_of_code(connection))


def _keep_maps(connection: sqlite3.Connection, maps: Sequence[RepositoryMap]) -> int:
    """Keep the maps that are new; return how many."""
    kept_ids = {map_.id for map_ in _repository_maps(connection)}
    count = 0
    for map_ in maps:
        if map_.id in kept_ids:
            continue
        kept_ids.add(map_.id)
        connection.execute(
            "INSERT INTO repository_map (id, body) VALUES (?, ?)",
            (map_.id, msgspec.json.encode(map_).decode()),
        )
        count += 1
    return count
