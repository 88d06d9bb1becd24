"""The event log of the memories: rows that are only appended (triggers refuse updates and deletes).

No code depends on events. Trade-off: one row per operation, not per memory, so indexing ten
thousand memories adds one.
"""

import json
import sqlite3
from collections.abc import Mapping
from enum import StrEnum


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
