"""Put back what was stated: the memories that the user's folder has a copy of and the store lacks.

They are written as any statement is: redacted by today's rules, hashed and linked; ids, times,
authors, citations and use stay. What was erased in the meantime stays erased, and what was stated
in the meantime is not replaced: an older memory with its key comes back as superseded by it.
Trade-off: links to code are rebuilt from the text.
"""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform import database, sqlite_drivers
from xscore.platform.errors import StoreError
from xscore.records.memory import Memory, MemoryStatus
from xscore.store import copied_stores, memory_writer, stated_copy
from xscore.store.copied_stores import CopiedStore
from xscore.store.evidence import attach_citations
from xscore.store.memory_queries import latest_of_key, unindexed_threads
from xscore.store.mention_links import link_mentions
from xscore.store.stated_rows import StatedMemory

_LIVE = (MemoryStatus.ACTIVE, MemoryStatus.STALE)
_ADD_OCCURRENCE = (
    "INSERT INTO occurrence (id, memory_id, source_exchange) VALUES (?, ?, ?) ON CONFLICT DO"
    " NOTHING"
)
_ADD_ERASED = "INSERT INTO erased_memory (memory_id, at) VALUES (?, ?) ON CONFLICT DO NOTHING"


class RestorableMemories(Struct, frozen=True):
    """What the copies of the stores at one path have and the store lacks."""

    copies: tuple[Path, ...]
    """The copies that were read, the latest first."""
    memories: tuple[StatedMemory, ...]
    """Stated memories, by id."""
    erased: dict[str, float]
    """Ids that no import brings back -> when they were erased."""
    problems: tuple[str, ...]
    """The reason for each copy that could not be read."""

    @property
    def is_encrypted(self) -> bool:
        """Whether one of the copies is."""
        return any(map(sqlite_drivers.read_note, self.copies))


def find_restorable(source: CopiedStore) -> RestorableMemories:
    """Read the copies of the stores that are or were at the path of this one."""
    latest: dict[str, StatedMemory] = {}
    erased = dict(
        source.connection.execute("SELECT memory_id, at FROM erased_memory").fetchall()
    )
    copies = list[Path]()
    problems = list[str]()
    for copy in copied_stores.copies_at(source.path, source.user_data_dir):
        try:
            contents = stated_copy.read_copy(copy, source.keys)
        except StoreError as error:
            problems.append(error.message)
            continue
        copies.append(copy)
        erased |= contents.erased
        for stated in contents.memories:
            newest = latest.get(stated.memory.id)
            if newest is None or newest.memory.updated_at < stated.memory.updated_at:
                latest[stated.memory.id] = stated
    present = unindexed_threads(source.connection).keys()
    removed = stated_copy.removed_ids(source.connection, latest.keys() - present)
    missing = [
        latest[id_]
        for id_ in sorted(latest.keys() - present - removed)
        # Stated again after it was erased: that is in the copy, and not what was erased.
        if erased.get(id_, 0.0) < latest[id_].memory.updated_at
    ]
    return RestorableMemories(tuple(copies), tuple(missing), erased, tuple(problems))


def restore(
    source: CopiedStore, restorable: RestorableMemories, *, allow_pii: bool, now: float
) -> int:
    """Write the memories in one transaction; return how many. now: Unix seconds. Raises StoreError.

    Copies of earlier stores are removed afterwards, since this store's own copy then has all of it.
    """
    connection = source.connection
    with database.transaction(connection):
        to_link = []
        for stated in _oldest_first(restorable.memories):
            memory, _ = memory_writer.remake_memory(stated.memory, allow_pii=allow_pii)
            memory = _behind_newer(source, memory)
            memory_writer.write_memory(
                connection, memory, before=None, now=now, thread=stated.thread, link=False
            )
            attach_citations(connection, memory.id, stated.citations)
            connection.executemany(
                _ADD_OCCURRENCE,
                [
                    (occurrence.id, memory.id, occurrence.source_exchange)
                    for occurrence in stated.occurrences
                ],
            )
            if memory_writer.needs_linking(memory, None):
                to_link.append(memory.id)
        link_mentions(connection, to_link)
        connection.executemany(_ADD_ERASED, restorable.erased.items())
    stated_copy.update_copy(source)
    for copy in restorable.copies:
        if copy != source.copy_path:
            stated_copy.remove_copy(copy)
    return len(restorable.memories)


def _oldest_first(memories: Iterable[StatedMemory]) -> list[StatedMemory]:
    """Order them so that of two with one key the latest is written last, and the active one after
    its predecessors."""
    return sorted(
        memories,
        key=lambda stated: (
            stated.memory.status in _LIVE,
            stated.memory.updated_at,
            stated.memory.id,
        ),
    )


def _behind_newer(source: CopiedStore, memory: Memory) -> Memory:
    """Return the memory, superseded where a newer one with its key is in the store."""
    if memory.status not in _LIVE:
        return memory
    newer = latest_of_key(source.connection, memory)
    if not newer:
        return memory
    return replace(
        memory_writer.with_status(memory, MemoryStatus.SUPERSEDED), superseded_by=newer
    )
