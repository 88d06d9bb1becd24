"""Short ways to store a statement and read it back."""

import json
import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

from xscore.records.memory import Citation, Kind, Layer, Memory, MemorySource
from xscore.records.statement import Statement, StoredStatement
from xscore.store.events import EventName
from xscore.store.lookup import LIVE_STATUSES, MemoryFilter, filter_memories
from xscore.store.remembering import remember
from xscore.store.store import Store


def say(
    store: Store,
    text: str,
    *,
    citations: Iterable[Citation] = (),
    now: float | None = None,
    **fields: Any,
) -> StoredStatement:
    """Store a project fact."""
    inferred = fields.get("source") is MemorySource.INFERRED
    usual: dict[str, Any] = {
        "confidence": store.settings.inferred_confidence if inferred else 1.0,
        "kind": Kind.CONTEXT,
    }
    statement = Statement(text=text, **(usual | {"layer": Layer.PROJECT} | fields))
    return remember(store, statement, citations=citations, now=now)


def decide(store: Store, text: str, **fields: Any) -> StoredStatement:
    """Store a decision."""
    return say(store, text, kind=Kind.DECISION, layer=Layer.GOVERNANCE, **fields)


def prefer(store: Store, key: str, text: str, **fields: Any) -> StoredStatement:
    """Store a user preference."""
    return say(store, text, kind=Kind.PREFERENCE, layer=Layer.USER, key=key, **fields)


def facts(store: Store, *kinds: Kind) -> list[Memory]:
    """Return the live memories of the project layer, newest first."""
    return filter_memories(store, MemoryFilter(layers=(Layer.PROJECT,), kinds=kinds))


def preferences(store: Store) -> list[Memory]:
    """Return the user's preferences, by key."""
    memories = filter_memories(
        store, MemoryFilter(layers=(Layer.USER,), kinds=(Kind.PREFERENCE,))
    )
    return sorted(memories, key=lambda memory: memory.key)


def list_decisions(store: Store, *, superseded: bool = False) -> list[Memory]:
    """Return the decisions in force, newest first; superseded: include replaced ones."""
    statuses = () if superseded else LIVE_STATUSES
    memories = filter_memories(store, MemoryFilter(kinds=(Kind.DECISION,), statuses=statuses))
    return sorted(memories, key=lambda memory: (-memory.created_at, memory.id))


class Event(NamedTuple):
    """One event."""

    name: EventName
    subject: str
    payload: dict[str, Any]


def list_events(connection: sqlite3.Connection, *, subject: str | None = None) -> list[Event]:
    """Return events, oldest first, of one subject or all."""
    rows = connection.execute(
        "SELECT name, subject, payload FROM event WHERE ? IS NULL OR subject = ? ORDER BY id",
        (subject, subject),
    )
    return [
        Event(EventName(name), about, json.loads(payload))
        for name, about, payload in rows.fetchall()
    ]
