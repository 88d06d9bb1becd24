"""What happened to the memories, as rows that are only ever appended (triggers refuse the rest).

It records; nobody steers by it. Trade-off: one row a happening, not one a memory, so that indexing ten thousand
memories writes one line.

Put one memory and tell what happened: its events, whose place it took, what it is tied to.

Whatever is said, counted, imported or put back is written here, so that each happening leaves its events once. It
decides nothing about the memory. Trade-off: one memory at a time; whoever writes thousands ties them together at the
end (`link`).
"""

import json
import sqlite3
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from xscore.records import Kind, Layer, Memory
from xscore.store import memory_writer
from xscore.store.mention_links import link_mentions


class EventName(StrEnum):
    """The eight happenings."""

    STORED = "memory.stored"
    RETRIEVED = "memory.retrieved"
    UPDATED = "memory.updated"
    REMOVED = "memory.removed"
    INDEXED = "repository.indexed"
    DECISION = "decision.recorded"
    FAILURE = "failure.recorded"
    PATTERN = "failure.pattern.detected"


class Event(Struct, frozen=True):
    """One happening."""

    at: float
    """Unix seconds."""
    name: EventName
    subject: str
    """What it is about: a turn, a memory; empty: the whole store."""
    payload: Mapping[str, object]


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


def list_events(connection: sqlite3.Connection, *, subject: str | None = None) -> list[Event]:
    """Return what happened, oldest first, of one subject or of all."""
    rows = connection.execute(
        "SELECT at, name, subject, payload FROM event WHERE ? IS NULL OR subject = ? ORDER BY id", (subject, subject)
    )
    return [Event(at, EventName(name), about, json.loads(payload)) for at, name, about, payload in rows.fetchall()]


def write_memory(
    connection: sqlite3.Connection,
    memory: Memory,
    *,
    before: Memory | None,
    now: float,
    thread: str | None = None,
    link: bool = True,
) -> tuple[str, ...]:
    """Put a memory and tell what happened; return the ids of those whose place it took. Call it inside a transaction.

    before: the memory as it was; None: it is new. thread: its working session; None: the one it had.
    link: tie it to the code it names; whoever writes many links them all at once (those that `is_linked` names).
    """
    if thread is None:
        thread = "" if before is None else _thread(connection, memory.id)
    superseded = memory_writer.put_memories(connection, [memory], thread=thread)
    payload = {"layer": memory.layer, "kind": memory.kind, "source": memory.source}
    name = EventName.STORED if before is None else EventName.UPDATED
    emit_event(connection, name, at=now, subject=memory.id, payload=payload)
    for identifier in superseded:
        emit_event(connection, EventName.UPDATED, at=now, subject=identifier, payload={"superseded_by": memory.id})
    if before is None and memory.kind is Kind.DECISION:
        emit_event(connection, EventName.DECISION, at=now, subject=memory.id)
    if link and needs_linking(memory, before):
        link_mentions(connection, [memory.id])
    return superseded


def needs_linking(memory: Memory, before: Memory | None) -> bool:
    """Whether a memory is to be tied anew to what it names. The user's own name no repository's code."""
    return memory.layer is not Layer.USER and (before is None or before.text != memory.text)


def _thread(connection: sqlite3.Connection, identifier: str) -> str:
    (thread,) = connection.execute("SELECT thread FROM memory WHERE id = ?", (identifier,)).fetchone()
    return str(thread)
