"""Mark the memories whose cited code has changed as stale, and those where it is back as active.

Which these are is decided in `evidence`, before each turn. Trade-off: a memory is written again
whole for one word of its status, so that its history shows it.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from operator import attrgetter

from xscore.records.memory import MemoryStatus
from xscore.store import memory_rows
from xscore.store.memory_writer import note_stale, put_memories, with_status
from xscore.store.worktrees import HERE


def mark_as_stale(connection: sqlite3.Connection, ids: Iterable[str]) -> None:
    """Note these memories as they are when the code that they cite has changed."""
    memories = memory_rows.memories_with_ids(connection, sorted(ids))
    note_stale(connection, [with_status(memory, MemoryStatus.STALE) for memory in memories])


def unmark(connection: sqlite3.Connection, ids: Iterable[str]) -> None:
    """Drop these memories from those that are stale in this worktree."""
    drop = f"DELETE FROM stale_memory WHERE memory_id = ? AND worktree = {HERE}"
    connection.executemany(drop, [(id_,) for id_ in sorted(ids)])


def make_active(connection: sqlite3.Connection, ids: Sequence[str]) -> None:
    """Rewrite memories as active, the latest last: if two have one key, the latest survives."""
    if not ids:
        return
    threads = (
        f"SELECT id, thread FROM memory_row WHERE version = 0 AND id {memory_rows.IN_JSON_LIST}"
    )
    thread_of = dict(connection.execute(threads, (json.dumps(ids),)).fetchall())
    memories = memory_rows.memories_with_ids(connection, ids)
    for memory in sorted(memories, key=attrgetter("updated_at", "id")):
        active = with_status(memory, MemoryStatus.ACTIVE)
        put_memories(connection, [active], thread=thread_of[memory.id])
