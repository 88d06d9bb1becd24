"""Remove memories from one store, with their vectors, evidence, edges and judgments; an event
stays.

Answers, receipts and exchanges made with a memory stay: erasing those is an extension. Judgments of
a content that another memory has stay too. Indexed memories are refused: the index removes them.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.records.memory import Kind, Memory, MemorySource, MemoryStatus
from xscore.store import memory_writer
from xscore.store.document_rows import drop_unheld_records
from xscore.store.events import EventName, emit_event
from xscore.store.index_rows import read_meta, write_meta
from xscore.store.link_rows import drop_unused_file_ends
from xscore.store.memory_rows import IN_JSON_LIST, memories_with_ids
from xscore.store.purposes import described_contents
from xscore.store.store import Store

_SHARED_WITH = "shared_with"
"""Key in `meta` of the names of the shared servers that judgments of this store went to, as a
JSON list."""
_TEAM_SERVER = "team_server"
"""Key in `meta` of the name of the server that has the team's memories of this repository."""
_UNSHOWN = f"content_id IN (SELECT id FROM content WHERE memories = 0 AND hash {IN_JSON_LIST})"
_ENDS = f"IN (SELECT number FROM edge_end WHERE id {IN_JSON_LIST})"
_ROWS = (
    ("evidence", "evidence", f"memory_id {IN_JSON_LIST}"),
    ("edges", "edge_row", f"source {_ENDS}"),
    ("edges", "edge_row", f"target {_ENDS}"),
    ("", "pack_slot", f"memory_id {IN_JSON_LIST}"),
    ("", "mention", f"source {IN_JSON_LIST}"),
    ("memories", "memory_row", f"version = 0 AND id {IN_JSON_LIST}"),
)
"""Name of a count of the rows (empty: not counted), their table, and which of them are a
memory's."""
_VECTORS = "SELECT count(*) FROM vec"
_OCCURRENCES_IN = (
    f"SELECT memory_id, count(*) FROM occurrence WHERE source_exchange {IN_JSON_LIST} GROUP BY"
    " memory_id"
)
_COUNT_LESS = """
    UPDATE memory_row
      SET attrs = json_set(attrs, '$.occurrences',
      max(1, json_extract(attrs, '$.occurrences') - :n)),
        evidence_count = CASE WHEN id = :id THEN max(1, evidence_count - :n) ELSE evidence_count END
    WHERE version = 0 AND (id = :id
        OR kind = 'pattern' AND EXISTS (SELECT 1 FROM json_each(attrs, '$.links')
          WHERE value = :id))
"""
"""SQL for a failure and its pattern, which count one occurrence less."""


def shared_servers(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the names of the shared servers that judgments of this store went to."""
    with database.damage_if_invalid("a list of shared servers"):
        return tuple(map(str, json.loads(read_meta(connection, _SHARED_WITH) or "[]")))


def note_shared_server(connection: sqlite3.Connection, name: str) -> None:
    """Remember that judgments go to this server, so that an erasure reaches it, or says that it did
    not."""
    if name not in shared_servers(connection):
        with database.transaction(connection):
            write_meta(
                connection, _SHARED_WITH, json.dumps([*shared_servers(connection), name])
            )


def team_server(connection: sqlite3.Connection) -> str:
    """Return the name of the server that memories of this store were sent to; empty if none
    were."""
    return read_meta(connection, _TEAM_SERVER)


def note_team_server(connection: sqlite3.Connection, name: str) -> None:
    """Remember that memories go to this server, so that an erasure reaches it; call it inside a
    transaction."""
    write_meta(connection, _TEAM_SERVER, name)


def read_removable(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, Memory]:
    """Return the memories with these ids. Raises UsageError if one comes from a file."""
    memories = memories_with_ids(connection, ids)
    # A commit stays in git, but no index run makes a memory of it again once its id is erased.
    of_files = [memory for memory in memories if memory.source is MemorySource.INDEX]
    indexed = next((memory for memory in of_files if not memory.is_commit), None)
    if indexed:
        raise UsageError(
            f"{indexed.id} comes from the file {indexed.path} and would be back with the next"
            " index",
            hint=(
                "Exclude the file (`index.exclude`), then run `xscore index`: its memories go then."
            ),
        )
    return {memory.id: memory for memory in memories}


def all_hashes(memories: Iterable[Memory]) -> frozenset[str]:
    """Return the content hashes of these memories, active and stale."""
    hashes: set[str] = set()
    for memory in memories:
        for status in (MemoryStatus.ACTIVE, MemoryStatus.STALE):
            shown = memory_writer.with_status(memory, status)
            hashes.update((shown.content_hash, shown.text_hash))
    return frozenset(hashes)


def remove_memory_rows(
    connection: sqlite3.Connection, memories: Mapping[str, Memory], *, now: float
) -> Counter[str]:
    """Remove rows in the open transaction, with an event each; return the counts by kind of row."""
    ids = json.dumps(sorted(memories))
    removed = Counter[str]()
    (vectors,) = connection.execute(_VECTORS).fetchone()
    for counted_as, table, of_memory in _ROWS:
        removed[counted_as] += connection.execute(
            f"DELETE FROM {table} WHERE {of_memory}", (ids,)
        ).rowcount
    # Those of texts that no other memory has went with them; each also has the vector of its words
    # in its row.
    removed["vectors"] += (
        vectors - connection.execute(_VECTORS).fetchone()[0] + removed["memories"]
    )
    drop_unused_file_ends(connection)
    if any(memory.kind is Kind.DOCUMENT for memory in memories.values()):
        drop_unheld_records(connection)
    del removed[""]
    occurrences = connection.execute(_OCCURRENCES_IN, (ids,)).fetchall()
    connection.executemany(_COUNT_LESS, [{"id": id_, "n": count} for id_, count in occurrences])
    connection.execute(f"DELETE FROM occurrence WHERE source_exchange {IN_JSON_LIST}", (ids,))
    for id_ in sorted(memories):
        emit_event(connection, EventName.REMOVED, at=now, subject=id_)
    return removed + _remove_judgments(connection, all_hashes(memories.values()))


def _remove_judgments(connection: sqlite3.Connection, hashes: Collection[str]) -> Counter[str]:
    """Remove the judgments of contents that no memory has any more."""
    among = (json.dumps(sorted(hashes)),)
    (shared,) = connection.execute(
        f"SELECT count(*) FROM content WHERE memories > 0 AND hash {IN_JSON_LIST}", among
    ).fetchone()
    # A content that is shown with the purpose of its file is no row of a memory, and stays.
    reasons = connection.execute(
        "DELETE FROM reason WHERE content_id IN (SELECT id FROM content WHERE memories = 0"
        f" AND NOT hash {IN_JSON_LIST})",
        (json.dumps(described_contents(connection)),),
    ).rowcount
    by_key = "query_id IN (SELECT id FROM query)"  # lets SQLite use the primary key
    judgments = connection.execute(
        f"DELETE FROM judgment WHERE {by_key} AND {_UNSHOWN}", among
    ).rowcount
    connection.execute(f"DELETE FROM claim WHERE content {IN_JSON_LIST}", among)
    connection.execute(
        f"DELETE FROM untrusted_score WHERE hash {IN_JSON_LIST}"
        " AND hash NOT IN (SELECT hash FROM content WHERE memories > 0)",
        among,
    )
    connection.execute(f"DELETE FROM content WHERE memories = 0 AND hash {IN_JSON_LIST}", among)
    return Counter(shared=shared, judgments=judgments, reasons=reasons)


def remove_expired(store: Store, ids: Collection[str], *, now: float) -> int:
    """Remove expired memories; return how many. now: Unix seconds. Raises UsageError, StoreError.

    Their age bars no import: the session files they came from are read again by the next one.
    """
    count = 0
    for connection in store.connections():
        with database.transaction(connection):
            memories = read_removable(connection, ids)
            remove_memory_rows(connection, memories, now=now)
            sources = {memory.details.imported_from for memory in memories.values()} - {""}
            connection.execute(
                f"DELETE FROM session_file WHERE origin {IN_JSON_LIST}",
                (json.dumps(sorted(sources)),),
            )
            count += len(memories)
    return count
