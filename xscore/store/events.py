"""The event log of the memories: rows that are only appended (triggers refuse updates and deletes).

Nothing that is kept or removed depends on events; `memory stats` shows what consolidation brought.
Trade-off: one row per operation, not per memory, so indexing ten
thousand memories adds one.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum

from msgspec import Struct

from xscore.platform.clock import DAY_S
from xscore.store.index_rows import read_meta

TIDIED_AT = "tidied_at"
"""Key in `meta` of the time when consolidation last began by itself, in Unix seconds."""
REPORTED_DAYS = 30
_CONSOLIDATED = """
    SELECT payload FROM event WHERE name = 'memory.updated' AND at > ?
    AND json_type(payload, '$.consolidated') = 'object'
"""


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


class ConsolidationHistory(Struct, frozen=True):
    """What consolidation brought lately, by hand and by itself."""

    tidied_at: float | None
    """When consolidation last began by itself, in Unix seconds; None: never."""
    counts: dict[str, int]
    """Kind of action -> how many in the last `REPORTED_DAYS` days."""


def consolidation_history(
    connection: sqlite3.Connection, *, now: float
) -> ConsolidationHistory:
    """Return what the stages of consolidation brought. now: Unix seconds."""
    counts: Counter[str] = Counter()
    since = now - REPORTED_DAYS * DAY_S
    for (payload,) in connection.execute(_CONSOLIDATED, (since,)).fetchall():
        counts.update(json.loads(payload)["consolidated"])
    return ConsolidationHistory(tidied_at_of(connection), dict(sorted(counts.items())))


def tidied_at_of(connection: sqlite3.Connection) -> float | None:
    """Return when consolidation last began by itself, in Unix seconds; None: never."""
    with suppress(ValueError):
        return float(read_meta(connection, TIDIED_AT))
    return None
