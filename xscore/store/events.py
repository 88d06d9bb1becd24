"""The event log of the memories: rows that are only appended (triggers refuse updates and deletes).

`write_memory` writes one memory with its events, so every statement, failure, import or restore emits them once. No
code depends on events. Trade-off: one row per operation, not per memory, so indexing ten thousand memories adds one.
"""

import json
import sqlite3
from collections.abc import Mapping
from enum import StrEnum

from xscore.records.memory import Kind, Layer, Memory


class EventName(StrEnum):
    """The eight events."""

    STORED = "memory.stored"
    RETRIEVED = "memory.retrieved"
    UPDATED = "memory.updated"
    REMOVED = "memory.removed"
    INDEXED = "repository.indexed"
    DECISION = "decision.recorded"
    FAILURE = "failure.recorded"
    PATTERN = "failure.pattern.detected"


def emit_event(
    connection: sqlite3.Connection,
    name: EventName,
    *,
    at: float,
    subject: str = "",
    payload: Mapping[str, object] | None = None,
) -> None:
    """Append one event."""
    connection.execute(
        "INSERT INTO event (at, name, subject, payload) VALUES (?, ?, ?, ?)",
        (at, name, subject, json.dumps(payload or {}, ensure_ascii=False)),
    )


def write_memory(
    connection: sqlite3.Connection,
    memory: Memory,
    *,
    before: Memory | None,
    now: float,
    thread: str | None = None,
    link: bool = True,
) -> tuple[str, ...]:
    """Write a memory with its events; return the ids it supersedes. Call it inside a transaction.

    before: the memory as it was; None: it is new. thread: its working session; None: unchanged.
    link: link it to the code it names; bulk writers link later, all at once (those for which `needs_linking`).
    """
    if thread is None:
        row = connection.execute("SELECT thread FROM memory WHERE id = ?", (memory.id,)).fetchone()
        thread = str(row[0]) if row else ""
    from xscore.store.memory_writer import put_memories  # a turn without an answer writes none

    superseded = put_memories(connection, [memory], thread=thread)
    payload = {"layer": memory.layer, "kind": memory.kind, "source": memory.source}
    name = EventName.STORED if before is None else EventName.UPDATED
    emit_event(connection, name, at=now, subject=memory.id, payload=payload)
    for identifier in superseded:
        emit_event(connection, EventName.UPDATED, at=now, subject=identifier, payload={"superseded_by": memory.id})
    if before is None and memory.kind is Kind.DECISION:
        emit_event(connection, EventName.DECISION, at=now, subject=memory.id)
    if link and needs_linking(memory, before):
        from xscore.store.mention_links import link_mentions  # most events link nothing

        link_mentions(connection, [memory.id])
    return superseded


def needs_linking(memory: Memory, before: Memory | None) -> bool:
    """Whether a memory's mentions must be linked again. The user's own memories name no repository's code."""
    return memory.layer is not Layer.USER and (before is None or before.text != memory.text)
