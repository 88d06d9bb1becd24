"""A preference and its evidence: how observations for and against it move its confidence, which stays in 0..1.

A preference that was said begins at 1, one that was inferred at `memory.inferred_confidence` (0.6). Each observation
for it adds `memory.feedback.adoption` (0.05), each against it `memory.feedback.reject` (−0.20). An inferred value for a
key that has another one speaks against that: it takes the place of an inferred value whose confidence falls below where
it began, and never that of one that was said. Call it inside a transaction of the user's store.
Trade-off: one value is kept for a key, so a person who is of two minds is taken to hold the better founded one.

The layers that people and programs speak to: the project's facts, the user's preferences, the decisions.

`store.project`, `store.user` and `store.governance` are these; each says in its own words what `remembering` does with
all of them. No rows are read or written here but through it. Trade-off: three small classes in one file, since what
they do alike is more than what sets them apart.
"""

import sqlite3
from collections.abc import Iterable

from msgspec.structs import replace

from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.records import Citation, Kind, Layer, Memory, MemorySource, Statement, StatementEffect, StoredStatement
from xscore.settings import MemorySettings
from xscore.store import memory_rows
from xscore.store.events import write_memory
from xscore.store.lookup import MemoryFilter, filter_memories
from xscore.store.opening import Databases
from xscore.store.remembering import normalise_text, redact_statement, remember, remember_within, statement_text

_OF_KEY = "layer = 'user' AND kind = 'preference' AND status = 'active' AND key = ?"


def weigh_preference(
    connection: sqlite3.Connection,
    key: str,
    value: str,
    *,
    delta_evidence: int,
    source: MemorySource,
    now: float,
    settings: MemorySettings,
) -> StoredStatement:
    """Keep a preference, or weigh the evidence for or against the one that is there. Raises UsageError."""
    if not delta_evidence:
        raise UsageError("no evidence moves nothing", hint="Give delta_evidence as a number above or below zero.")
    key, value = normalise_text(key), redact_statement(normalise_text(value), allow_pii=settings.allow_pii)
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
    if delta_evidence < 0 and (known is None or statement_text(known) != value):
        raise UsageError(
            f"nothing can speak against a preference that is not held: {key}",
            hint="`xscore memory list --layer user` shows what is.",
        )
    if known is None or (source is not MemorySource.INFERRED and statement_text(known) != value):
        return remember_within(connection, statement, now=now)
    if statement_text(known) == value:
        base = (
            replace(known, source=MemorySource.EXPLICIT, confidence=1.0) if source is MemorySource.EXPLICIT else known
        )
        after = _moved(base, max(0, known.evidence_count + delta_evidence), delta_evidence, settings)
        return StoredStatement(memory=_write_if_changed(connection, known, after, now), became=StatementEffect.UPDATED)
    doubted = _moved(known, known.evidence_count, -delta_evidence, settings)
    _write_if_changed(connection, known, doubted, now)
    if known.source is not MemorySource.INFERRED or doubted.confidence >= settings.inferred_confidence:
        return StoredStatement(memory=replace(doubted, updated_at=now), became=StatementEffect.UPDATED)
    return remember_within(connection, statement, now=now)


def _beginning(source: MemorySource, evidence: int, settings: MemorySettings) -> float:
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


class ProjectLayer:
    """What holds in this repository: facts, conventions, patterns, todos; and the decisions that made it so."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    def remember(
        self,
        text: str,
        *,
        kind: Kind = Kind.CONTEXT,
        title: str = "",
        key: str = "",
        because: str = "",
        alternatives: Iterable[str] = (),
        links: Iterable[str] = (),
        citations: Iterable[Citation] = (),
        importance: float | None = None,
        confidence: float | None = None,
        source: MemorySource = MemorySource.EXPLICIT,
        now: float | None = None,
    ) -> StoredStatement:
        """Keep a fact of this project; a decision goes to the governance layer, and is a fact of the project too.

        key: what it is about; it takes the place of the active fact with the same key. importance: 0..1; None: as its
        kind weighs. confidence: 0..1; None: 1 for what is said, `memory.inferred_confidence` for what is inferred.
        now: Unix seconds. Raises UsageError.
        """
        statement = Statement(
            text=text,
            kind=kind,
            layer=Layer.GOVERNANCE if kind is Kind.DECISION else Layer.PROJECT,
            title=title,
            key=key,
            because=because,
            alternatives=tuple(alternatives),
            links=tuple(links),
            importance=importance,
            confidence=starting_confidence(self._databases, source) if confidence is None else confidence,
            source=source,
        )
        return remember(self._databases, statement, citations=citations, now=now)

    def remember_decision(
        self,
        text: str,
        *,
        because: str = "",
        alternatives: Iterable[str] = (),
        title: str = "",
        key: str = "",
        links: Iterable[str] = (),
        citations: Iterable[Citation] = (),
        importance: float | None = None,
        confidence: float | None = None,
        source: MemorySource = MemorySource.EXPLICIT,
        now: float | None = None,
    ) -> StoredStatement:
        """Keep a decision with its reason and what was not taken; the views `decisions` and `project_facts` show it."""
        return self.remember(
            text,
            kind=Kind.DECISION,
            title=title,
            key=key,
            because=because,
            alternatives=alternatives,
            links=links,
            citations=citations,
            importance=importance,
            confidence=confidence,
            source=source,
            now=now,
        )

    def facts(self, *kinds: Kind) -> list[Memory]:
        """Return the live memories of the project layer of these kinds, or of all, newest first."""
        return filter_memories(self._databases, MemoryFilter(layers=(Layer.PROJECT,), kinds=kinds))

    def patterns(self) -> list[Memory]:
        """Return what is done, and what is not to be done, again and again."""
        return self.facts(Kind.PATTERN)

    def tech_stack(self) -> list[Memory]:
        """Return what this project is built with."""
        return self.facts(Kind.TECH_STACK)

    def conventions(self) -> list[Memory]:
        """Return how things are done here."""
        return self.facts(Kind.CONVENTION)

    def todos(self) -> list[Memory]:
        """Return what is left to be done."""
        return self.facts(Kind.TODO)


class GovernanceLayer:
    """The decisions."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    def decisions(self, *, superseded: bool = False) -> list[Memory]:
        """Return the decisions in force, newest first; superseded: with those that others took the place of."""
        statuses = () if superseded else MemoryFilter().statuses
        found = filter_memories(self._databases, MemoryFilter(kinds=(Kind.DECISION,), statuses=statuses))
        return sorted(found, key=lambda memory: (-memory.created_at, memory.id))


class UserLayer:
    """What is yours in every repository: preferences, by key. Kept in your own store and nowhere else."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    def update_preference(
        self,
        key: str,
        value: str,
        *,
        delta_evidence: int = 1,
        source: MemorySource = MemorySource.INFERRED,
        now: float | None = None,
    ) -> StoredStatement:
        """Keep a preference, or weigh what speaks for or against the one that is there. See `preferences.weighed`.

        delta_evidence: how many observations speak for it; negative: against it. now: Unix seconds.
        Raises UsageError where `memory.user_learning` is off, and for evidence of zero.
        """
        connection = self._databases.home_of(Layer.USER)
        with database.transaction(connection):
            return weigh_preference(
                connection,
                key,
                value,
                delta_evidence=delta_evidence,
                source=source,
                now=self._databases.moment(now),
                settings=self._databases.settings,
            )

    def preferences(self) -> list[Memory]:
        """Return the preferences in force, by key. Raises UsageError where `memory.user_learning` is off."""
        return sorted(self._live(Kind.PREFERENCE), key=lambda memory: memory.key)

    def patterns(self) -> list[Memory]:
        """Return what you do again and again, in all your projects."""
        return self._live(Kind.PATTERN)

    def _live(self, kind: Kind) -> list[Memory]:
        if self._databases.user_data_dir is None:
            self._databases.home_of(Layer.USER)
        return filter_memories(self._databases, MemoryFilter(layers=(Layer.USER,), kinds=(kind,)))


def starting_confidence(databases: Databases, source: MemorySource) -> float:
    """Return the confidence with which a memory of this source begins."""
    return databases.settings.inferred_confidence if source is MemorySource.INFERRED else 1.0
