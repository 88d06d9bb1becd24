"""Small changes of stored memories: their use, trust, importance and key.

What may change of a memory without being rewritten is one page: rooms above the store call
these functions and hold no such SQL. `written_rows` and `memory_writer` write whole memories.
Nothing here opens a transaction or tells anyone. Trade-off: each change names its columns, so a
change of a new kind is one function more.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence

from xscore.records.memory import Memory
from xscore.store.memory_rows import IN_JSON_LIST


def note_access(connection: sqlite3.Connection, ids: Sequence[str], *, now: float) -> None:
    """Let these memories count as used now, without counting a use."""
    connection.execute(
        f"UPDATE memory_row SET accessed_at = max(accessed_at, ?) WHERE id {IN_JSON_LIST}",
        (now, json.dumps(ids)),
    )


def set_use(connection: sqlite3.Connection, memories: Iterable[Memory]) -> None:
    """Write the age and use of these memories as the records have them."""
    connection.executemany(
        "UPDATE memory_row SET importance = ?, created_at = ?, accessed_at = ?, access_count = ?"
        " WHERE id = ?",
        [
            (
                memory.importance,
                memory.created_at,
                memory.accessed_at,
                memory.access_count,
                memory.id,
            )
            for memory in memories
        ],
    )


def set_trust(
    connection: sqlite3.Connection,
    identifier: str,
    *,
    confidence: float,
    evidence_count: int,
    used_at: float,
) -> None:
    """Write how far a memory is believed. used_at: when it was of use; 0 if it was not."""
    connection.execute(
        "UPDATE memory_row SET confidence = ?, evidence_count = ?, accessed_at = max(accessed_at,"
        " ?) WHERE id = ?",
        (confidence, evidence_count, used_at, identifier),
    )


def set_importance(connection: sqlite3.Connection, identifier: str, importance: float) -> None:
    """Write the importance of a memory."""
    connection.execute(
        "UPDATE memory_row SET importance = ? WHERE id = ?", (importance, identifier)
    )


def release_keys(connection: sqlite3.Connection, ids: Collection[str]) -> None:
    """Remove the keys of these memories, so that others can have them."""
    connection.execute(
        f"UPDATE memory_row SET key = '' WHERE key <> '' AND id {IN_JSON_LIST}",
        (json.dumps(sorted(ids)),),
    )
