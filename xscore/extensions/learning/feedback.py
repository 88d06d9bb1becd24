"""Feedback and evidence move the confidence of a memory within 0..1.

The amounts are in `memory.feedback`: accept +0.10, adoption +0.05, reject −0.20, override
−0.30. The first two count as evidence and as use. Trade-off: a plain sum, so that anybody can
work out the confidence of a memory.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.records.memory import Kind, Memory, MemorySource
from xscore.settings.values import SignalName
from xscore.store import memory_rows
from xscore.store.events import EventName, emit_event
from xscore.store.memory_rows import IN_JSON_LIST
from xscore.store.memory_updates import set_trust
from xscore.store.store import Store

ADOPTABLE = frozenset({Kind.PREFERENCE, Kind.PATTERN, Kind.CONVENTION})


class Signal(StrEnum):
    """What happened to a memory."""

    ACCEPT = "accept"
    """A person says that it is right."""
    REJECT = "reject"
    """A person says that it is wrong."""
    ADOPTION = "adoption"
    """The answer to a new task cited it, or another project was seen to do so."""
    OVERRIDE = "override"
    """The memory was known, and the opposite was done."""


class ConfidenceChange(Struct, frozen=True):
    """The effect of a signal on a memory."""

    id: str
    title: str
    signal: Signal
    before: float
    """Confidence before the feedback."""
    after: float
    evidence_count: int


def changed_confidence(
    confidence: float, signal: Signal, amounts: Mapping[SignalName, float]
) -> float:
    """Return the confidence after a signal, bounded 0..1. amounts: `settings.memory.feedback`."""
    return min(1.0, max(0.0, confidence + amounts[signal.value]))


def give_feedback(
    store: Store, memory_id: str, signal: Signal, *, now: float
) -> ConfidenceChange:
    """Move one memory of the repository's store, or of the user's. now: Unix seconds.

    Raises NothingMatched, and UsageError for memories of the index, which are what their file says.
    """
    for connection in store.connections():
        with database.transaction(connection):
            memory = memory_rows.memory_with_id(connection, memory_id)
            if memory:
                return _change_confidence(
                    connection, memory, signal, store.settings.feedback, now
                )
    raise NothingMatched(
        f"no memory has the id {memory_id}", hint="`xscore memory list` shows the ids."
    )


def record_adoptions(
    connection: sqlite3.Connection,
    ids: Iterable[str],
    *,
    amounts: Mapping[SignalName, float],
    now: float,
) -> int:
    """Count preferences, patterns and conventions among these as adopted, in a transaction that is
    open.

    amounts: `settings.memory.feedback`. Returns how many; others are left alone.
    """
    among = f"source <> 'index' AND kind {IN_JSON_LIST} AND id {IN_JSON_LIST}"
    memories = memory_rows.select_memories(
        connection, among, (json.dumps(sorted(ADOPTABLE)), json.dumps(sorted(set(ids))))
    )
    for memory in memories:
        _change_confidence(connection, memory, Signal.ADOPTION, amounts, now)
    return len(memories)


def _change_confidence(
    connection: sqlite3.Connection,
    memory: Memory,
    signal: Signal,
    amounts: Mapping[SignalName, float],
    now: float,
) -> ConfidenceChange:
    if memory.source is MemorySource.INDEX:
        raise UsageError(
            f"{memory.id} comes from {memory.path}, so there is nothing to accept or reject",
            hint="Edit the file, or state your own choice with `xscore memory add`.",
        )
    after = changed_confidence(memory.confidence, signal, amounts)
    agrees = signal in (Signal.ACCEPT, Signal.ADOPTION)
    evidence = memory.evidence_count + agrees
    set_trust(
        connection,
        memory.id,
        confidence=after,
        evidence_count=evidence,
        used_at=now if agrees else 0.0,
    )
    payload = {"feedback": str(signal), "confidence": round(after, 6)}
    emit_event(connection, EventName.UPDATED, at=now, subject=memory.id, payload=payload)
    return ConfidenceChange(memory.id, memory.title, signal, memory.confidence, after, evidence)
