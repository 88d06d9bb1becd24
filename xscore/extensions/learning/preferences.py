"""A preference of the user and its evidence: how observations for and against it move its confidence, in 0..1.

A stated preference begins at 1, an inferred one at `memory.inferred_confidence` (0.6). Each observation for it adds
`memory.feedback.adoption`, each against it subtracts `memory.feedback.reject`. An inferred value for a key that has
another value speaks against that one: it replaces an inferred value whose confidence falls below the initial one, and
never a stated value. Trade-off: one value per key, so a user of two minds is taken to hold the better supported one.
"""

import sqlite3

from msgspec.structs import replace

from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.records import Kind, Layer, Memory, MemorySource, Statement, StatementEffect, StoredStatement
from xscore.settings import MemorySettings
from xscore.store import memory_rows
from xscore.store.events import write_memory
from xscore.store.remembering import remember_within
from xscore.store.statement_text import normalise_text, redact_statement, statement_text
from xscore.store.store import Store

_OF_KEY = "layer = 'user' AND kind = 'preference' AND status = 'active' AND key = ?"


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

    delta_evidence: how many observations speak for it; negative: against it.
    now: Unix seconds.
    Raises UsageError if `memory.user_learning` is off, and for evidence of zero.
    """
    if not delta_evidence:
        raise UsageError("no evidence moves nothing", hint="Give delta_evidence as a number above or below zero.")
    connection, settings = store.home_of(Layer.USER), store.settings
    key, value = normalise_text(key), redact_statement(normalise_text(value), allow_pii=settings.allow_pii)
    statement = Statement(
        text=value,
        kind=Kind.PREFERENCE,
        layer=Layer.USER,
        key=key,
        confidence=_initial_confidence(source, delta_evidence, settings),
        source=source,
        allow_pii=settings.allow_pii,
        evidence_count=delta_evidence,
    )
    with database.transaction(connection):
        return _weigh(connection, statement, settings, now=store.now_or_clock(now))


def _weigh(
    connection: sqlite3.Connection, statement: Statement, settings: MemorySettings, *, now: float
) -> StoredStatement:
    delta, source = statement.evidence_count, statement.source
    known = _known(connection, statement.key)
    is_same = known is not None and statement_text(known) == statement.text
    if delta < 0 and not is_same:
        raise UsageError(
            f"there is no such preference to weigh evidence against: {statement.key}",
            hint="`xscore memory list --layer user` shows your preferences.",
        )
    if known is None or (source is not MemorySource.INFERRED and not is_same):
        return remember_within(connection, statement, now=now)
    if is_same:
        is_stated = source is MemorySource.EXPLICIT
        base = replace(known, source=MemorySource.EXPLICIT, confidence=1.0) if is_stated else known
        after = _moved(base, max(0, known.evidence_count + delta), delta, settings)
        return StoredStatement(memory=_write_if_changed(connection, known, after, now), became=StatementEffect.UPDATED)
    doubted = _moved(known, known.evidence_count, -delta, settings)
    doubted = _write_if_changed(connection, known, doubted, now)
    if known.source is not MemorySource.INFERRED or doubted.confidence >= settings.inferred_confidence:
        return StoredStatement(memory=replace(doubted, updated_at=now), became=StatementEffect.UPDATED)
    return remember_within(connection, statement, now=now)


def _initial_confidence(source: MemorySource, evidence: int, settings: MemorySettings) -> float:
    if source is not MemorySource.INFERRED:
        return 1.0
    return min(1.0, settings.inferred_confidence + max(0, evidence - 1) * settings.feedback["adoption"])


def _known(connection: sqlite3.Connection, key: str) -> Memory | None:
    found = memory_rows.select_memories(connection, _OF_KEY, (key,))
    return found[0] if found else None


def _moved(memory: Memory, evidence: int, delta: int, settings: MemorySettings) -> Memory:
    step = settings.feedback["adoption"] if delta > 0 else -settings.feedback["reject"]
    confidence = min(1.0, max(0.0, memory.confidence + delta * step))
    return replace(memory, confidence=confidence, evidence_count=evidence)


def _write_if_changed(connection: sqlite3.Connection, before: Memory, after: Memory, now: float) -> Memory:
    """Write what changed, and return it."""
    if after == before:
        return before
    after = replace(after, updated_at=now)
    write_memory(connection, after, before=before, now=now)
    return after
