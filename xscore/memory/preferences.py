"""A preference and its evidence: how observations for and against it move its confidence, which stays in 0..1.

A preference that was said begins at 1, one that was inferred at `memory.inferred_confidence` (0.6). Each observation
for it adds `memory.feedback.adoption` (0.05), each against it `memory.feedback.reject` (−0.20). An inferred value for a
key that has another one speaks against that: it takes the place of an inferred value whose confidence falls below where
it began, and never that of one that was said. Call it inside a transaction of the user's store.
Trade-off: one value is kept for a key, so a person who is of two minds is taken to hold the better founded one.
"""

import sqlite3
from dataclasses import replace

from xscore.errors import UsageError
from xscore.memory import rows
from xscore.memory.remembering import remember_within
from xscore.memory.spoken import clean, readable, words_of
from xscore.memory.writing import write
from xscore.records import Became, Kind, Layer, Memory, Remembered, Source, Statement
from xscore.settings import MemorySettings

_OF_KEY = "layer = 'user' AND kind = 'preference' AND status = 'active' AND key = ?"


def weighed(
    connection: sqlite3.Connection,
    key: str,
    value: str,
    *,
    delta_evidence: int,
    source: Source,
    now: float,
    settings: MemorySettings,
) -> Remembered:
    """Keep a preference, or weigh the evidence for or against the one that is there. Raises UsageError."""
    if not delta_evidence:
        raise UsageError("no evidence moves nothing", hint="Give delta_evidence as a number above or below zero.")
    key, value = readable(key), clean(readable(value), allow_pii=settings.allow_pii)
    statement = Statement(
        text=value,
        kind=Kind.PREFERENCE,
        layer=Layer.USER,
        key=key,
        confidence=_beginning(source, delta_evidence, settings),
        source=source,
        allow_pii=settings.allow_pii,
        evidence_count=delta_evidence,
    )
    known = _known(connection, key)
    if delta_evidence < 0 and (known is None or words_of(known) != value):
        raise UsageError(
            f"nothing can speak against a preference that is not held: {key}",
            hint="`xscore memory list --layer user` shows what is.",
        )
    if known is None or (source is not Source.INFERRED and words_of(known) != value):
        return remember_within(connection, statement, now=now)
    if words_of(known) == value:
        base = replace(known, source=Source.EXPLICIT, confidence=1.0) if source is Source.EXPLICIT else known
        after = _moved(base, max(0, known.evidence_count + delta_evidence), delta_evidence, settings)
        return Remembered(memory=_kept(connection, known, after, now), became=Became.UPDATED)
    doubted = _moved(known, known.evidence_count, -delta_evidence, settings)
    _kept(connection, known, doubted, now)
    if known.source is not Source.INFERRED or doubted.confidence >= settings.inferred_confidence:
        return Remembered(memory=replace(doubted, updated_at=now), became=Became.UPDATED)
    return remember_within(connection, statement, now=now)


def _beginning(source: Source, evidence: int, settings: MemorySettings) -> float:
    if source is not Source.INFERRED:
        return 1.0
    return min(1.0, settings.inferred_confidence + max(0, evidence - 1) * settings.feedback["adoption"])


def _known(connection: sqlite3.Connection, key: str) -> Memory | None:
    found = rows.memories(connection, _OF_KEY, (key,))
    return found[0] if found else None


def _moved(memory: Memory, evidence: int, delta: int, settings: MemorySettings) -> Memory:
    step = settings.feedback["adoption"] if delta > 0 else -settings.feedback["reject"]
    confidence = min(1.0, max(0.0, memory.confidence + delta * step))
    return replace(memory, confidence=confidence, evidence_count=evidence)


def _kept(connection: sqlite3.Connection, before: Memory, after: Memory, now: float) -> Memory:
    """Write what changed, and return it."""
    if after == before:
        return before
    after = replace(after, updated_at=now)
    write(connection, after, before=before, now=now)
    return after
