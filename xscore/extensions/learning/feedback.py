"""Feedback and evidence move the confidence of a memory within 0..1 (L08, H24).

The amounts are in `memory.feedback`: accept +0.10, adoption +0.05, reject −0.20, override −0.30. The first two count as
evidence and as use. Trade-off: a plain sum, so that anybody can work out where a memory stands.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.records.memory import Kind, Layer, Memory, MemorySource
from xscore.records.statement import Statement, StatementEffect, StoredStatement
from xscore.settings import MemorySettings
from xscore.settings.values import SignalName
from xscore.store import memory_rows
from xscore.store.events import EventName, emit_event, write_memory
from xscore.store.remembering import normalise_text, redact_statement, remember_within, statement_text
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
    """It was known, and the opposite was done."""


class ConfidenceChange(Struct, frozen=True):
    """How a signal moved a memory."""

    id: str
    title: str
    signal: Signal
    before: float
    """Confidence."""
    after: float
    evidence_count: int


_OF_KEY = "layer = 'user' AND kind = 'preference' AND status = 'active' AND key = ?"


def changed_confidence(confidence: float, signal: Signal, amounts: Mapping[SignalName, float]) -> float:
    """Return the confidence after a signal, bounded 0..1. amounts: `settings.memory.feedback`."""
    return min(1.0, max(0.0, confidence + amounts[signal.value]))


def give_feedback(store: Store, memory_id: str, signal: Signal, *, now: float) -> ConfidenceChange:
    """Move one memory of the repository's store, or of the user's. now: Unix seconds.

    Raises NothingMatched, and UsageError for memories of the index, which are what their file says.
    """
    for connection in store.connections():
        with database.transaction(connection):
            found = memory_rows.select_memories(connection, "id = ?", (memory_id,))
            if found:
                return _change_confidence(connection, found[0], signal, store.settings.feedback, now)
    raise NothingMatched(f"no memory is {memory_id}", hint="`xscore memory list` shows the ids.")


def record_adoptions(
    connection: sqlite3.Connection, ids: Iterable[str], *, amounts: Mapping[SignalName, float], now: float
) -> int:
    """Count preferences, patterns and conventions among these as adopted, in a transaction that is open.

    amounts: `settings.memory.feedback`. Returns how many; others are left alone.
    """
    among = "source <> 'index' AND kind IN (SELECT value FROM json_each(?)) AND id IN (SELECT value FROM json_each(?))"
    found = memory_rows.select_memories(
        connection, among, (json.dumps(sorted(ADOPTABLE)), json.dumps(sorted(set(ids))))
    )
    for memory in found:
        _change_confidence(connection, memory, Signal.ADOPTION, amounts, now)
    return len(found)


def _change_confidence(
    connection: sqlite3.Connection, memory: Memory, signal: Signal, amounts: Mapping[SignalName, float], now: float
) -> ConfidenceChange:
    if memory.source is MemorySource.INDEX:
        raise UsageError(
            f"{memory.id} is what {memory.path} says: there is nothing to accept or reject",
            hint="Edit the file; for a choice of yours, `xscore memory add` it.",
        )
    after = changed_confidence(memory.confidence, signal, amounts)
    agrees = signal in (Signal.ACCEPT, Signal.ADOPTION)
    evidence = memory.evidence_count + agrees
    connection.execute(
        "UPDATE memory SET confidence = ?, evidence_count = ?, accessed_at = max(accessed_at, ?) WHERE id = ?",
        (after, evidence, now if agrees else 0.0, memory.id),
    )
    payload = {"feedback": str(signal), "confidence": round(after, 6)}
    emit_event(connection, EventName.UPDATED, at=now, subject=memory.id, payload=payload)
    return ConfidenceChange(memory.id, memory.title, signal, memory.confidence, after, evidence)


def update_preference(
    store: Store,
    key: str,
    value: str,
    *,
    delta_evidence: int = 1,
    source: MemorySource = MemorySource.INFERRED,
    now: float | None = None,
) -> StoredStatement:
    """Store a preference, or weigh evidence for or against the stored one.

    An inferred value for a key that has another value speaks against that one: it replaces an inferred value whose
    confidence falls below the initial one, and never a stated value. delta_evidence: how many observations speak for
    it; negative: against it. now: Unix seconds.
    Raises UsageError if `memory.user_learning` is off, and for evidence of zero.
    """
    if not delta_evidence:
        raise UsageError("no evidence moves nothing", hint="Give delta_evidence as a number above or below zero.")
    connection, settings, moment = store.home_of(Layer.USER), store.settings, store.now_or_clock(now)
    is_inferred, initial = source is MemorySource.INFERRED, settings.inferred_confidence
    more = max(0, delta_evidence - 1) * settings.feedback["adoption"]
    statement = Statement(
        text=redact_statement(normalise_text(value), allow_pii=settings.allow_pii),
        kind=Kind.PREFERENCE,
        layer=Layer.USER,
        key=normalise_text(key),
        confidence=min(1.0, initial + more) if is_inferred else 1.0,
        source=source,
        allow_pii=settings.allow_pii,
        evidence_count=delta_evidence,
    )
    with database.transaction(connection):
        known = next(iter(memory_rows.select_memories(connection, _OF_KEY, (statement.key,))), None)
        is_same = known is not None and statement_text(known) == statement.text
        if delta_evidence < 0 and not is_same:
            raise UsageError(
                f"there is no such preference to weigh evidence against: {statement.key}",
                hint="`xscore memory list --layer user` shows your preferences.",
            )
        if known is None or not (is_inferred or is_same):
            return remember_within(connection, statement, now=moment)
        after = _weighed(known, delta_evidence if is_same else -delta_evidence, settings, agrees=is_same, source=source)
        if after != known:
            after = replace(after, updated_at=moment)
            write_memory(connection, after, before=known, now=moment)
        if is_same or known.source is not MemorySource.INFERRED or after.confidence >= initial:
            return StoredStatement(memory=after, became=StatementEffect.UPDATED)
        return remember_within(connection, statement, now=moment)


def _weighed(known: Memory, delta: int, settings: MemorySettings, *, agrees: bool, source: MemorySource) -> Memory:
    """Return the preference after so many observations for it, or, below zero, against it."""
    if agrees and source is MemorySource.EXPLICIT:
        known = replace(known, source=MemorySource.EXPLICIT, confidence=1.0)
    step = settings.feedback["adoption"] if delta > 0 else -settings.feedback["reject"]
    confidence = min(1.0, max(0.0, known.confidence + delta * step))
    return replace(known, confidence=confidence, evidence_count=max(0, known.evidence_count + delta * agrees))
