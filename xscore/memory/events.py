"""What happened to the memories, as rows that are only ever appended (triggers refuse the rest).

It records; nobody steers by it. Trade-off: one row a happening, not one a memory, so that indexing ten thousand
memories writes one line.
"""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class Event:
    """One happening."""

    at: float
    """Unix seconds."""
    name: EventName
    subject: str
    """What it is about: a turn, a memory; empty: the whole store."""
    payload: Mapping[str, object]


def emit(
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


def events(connection: sqlite3.Connection, *, subject: str | None = None) -> list[Event]:
    """Return what happened, oldest first, of one subject or of all."""
    rows = connection.execute(
        "SELECT at, name, subject, payload FROM event WHERE ? IS NULL OR subject = ? ORDER BY id", (subject, subject)
    )
    return [Event(at, EventName(name), about, json.loads(payload)) for at, name, about, payload in rows.fetchall()]
