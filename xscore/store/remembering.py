"""Keep statements: equal words are one memory, a key has one active memory, an edit keeps the id.

Every change is written with its events in one transaction. Nothing is erased here, and memories of files are left
alone. Trade-off: words are compared as written; consolidation merges the same thing said otherwise.
"""

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.records import (
    Citation,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemorySource,
    MemoryStatus,
    Statement,
    StatementEffect,
    StoredStatement,
)
from xscore.store import evidence, memory_writer
from xscore.store.events import write_memory
from xscore.store.lookup import memories_starting_with, memory_by_id

if TYPE_CHECKING:
    from xscore.store.store import Store

from xscore.store.statement_text import (
    compose_text,
    entity_for_key,
    first_line_title,
    layer_of_statement,
    memory_from_statement,
    merge_particulars,
    normalise_text,
    statement_text,
)

_ATTEMPTS = 100


class MemoryChange(Struct, frozen=True, kw_only=True):
    """What is to be different about a memory; None leaves a thing as it is."""

    text: str | None = None
    """Its words, without reasons and alternatives."""
    title: str | None = None
    key: str | None = None
    because: str | None = None
    alternatives: tuple[str, ...] | None = None
    links: tuple[str, ...] | None = None
    resolution: str | None = None
    importance: float | None = None
    confidence: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be different."""
        return all(getattr(self, name) is None for name in self.__struct_fields__)


def remember(
    store: "Store", statement: Statement, *, citations: Iterable[Citation] = (), now: float | None = None
) -> StoredStatement:
    """Keep a statement in the database of its layer. now: Unix seconds; None: by the store's clock.

    Raises UsageError for what cannot be kept: no words, a layer that is off, a citation in the user's own store.
    """
    cited = tuple(citations)
    layer = layer_of_statement(statement)
    _refuse_citing(layer, cited)
    connection = store.home_of(layer)
    statement = replace(statement, allow_pii=store.settings.allow_pii)
    with database.transaction(connection):
        return remember_within(connection, statement, citations=cited, now=store.now_or_clock(now))


def remember_within(
    connection: sqlite3.Connection,
    statement: Statement,
    *,
    now: float,
    citations: tuple[Citation, ...] = (),
    known: MemoryDetails | None = None,
) -> StoredStatement:
    """Keep a statement; call it inside a transaction of its layer's database.

    known: particulars that are not a statement's to say, such as an origin.
    """
    made, _ = memory_from_statement(statement, merge_particulars(statement, known), now=now)
    before = _find_same_statement(connection, made)
    if before is not None:
        said = merge_particulars(statement, _merged(before.particulars, known))
        made, redacted = memory_from_statement(statement, said, now=now)
        memory = _restated(before, made, renewed=bool(citations))
        if statement.title:
            memory = replace(memory, title=made.title)
    else:
        made, redacted = _with_unused_id(connection, statement, merge_particulars(statement, known), now=now)
        memory = made
    superseded = write_memory(connection, memory, before=before, now=now)
    if citations:
        evidence.attach_citations(connection, memory.id, citations)
    became = StatementEffect.REPEATED if before is not None else StatementEffect.STORED
    return StoredStatement(memory=memory, became=became, superseded=superseded, redacted=redacted)


def update_memory(
    store: "Store",
    memory_id: str,
    wanted: MemoryChange,
    *,
    citations: Iterable[Citation] | None = None,
    now: float | None = None,
) -> StoredStatement:
    """Change a memory; it keeps its id and history, and where its text changes it is judged anew.

    citations: in place of all that it cited; None leaves them, none at all takes them away.
    Another key makes it speak of another thing: that is a new memory, which supersedes the old one; without its key it
    is the same memory still, but for a preference, which needs one.
    Raises NothingMatched, and UsageError for memories of the index.
    """
    there = memory_by_id(store, memory_id)
    if there.source is MemorySource.INDEX:
        raise UsageError(
            f"{memory_id} is what {there.path} says", hint="Edit the file; the next run has it as it is then."
        )
    cited = None if citations is None else tuple(citations)
    _refuse_citing(there.layer, cited)
    connection, moment = store.home_of(there.layer), store.now_or_clock(now)
    with database.transaction(connection):
        before = memory_by_id(store, memory_id)  # again: another may have changed it, or erased it, meanwhile
        pii = store.settings.allow_pii
        after, redacted = _changed(before, wanted, now=moment, renewed=cited is not None, allow_pii=pii)
        if before.key and after.key and after.key != before.key:
            return _move_to_key(connection, before, after, redacted, citations=cited, now=moment)
        superseded = write_memory(connection, after, before=before, now=moment)
        _set_weight(connection, after)
        if cited is not None:
            evidence.attach_citations(connection, after.id, cited)
    return StoredStatement(memory=after, became=StatementEffect.UPDATED, superseded=superseded, redacted=redacted)


def _refuse_citing(layer: Layer, citations: tuple[Citation, ...] | None) -> None:
    if layer is Layer.USER and citations:
        raise UsageError(
            "a memory of yours cannot cite a repository's code",
            hint="Say it of this project: `--layer project`, or without --cite.",
        )


def _find_same_statement(connection: sqlite3.Connection, made: Memory) -> Memory | None:
    """Find the memory that has these very words, whatever its state; active ones first."""
    words = statement_text(made)
    found = memories_starting_with(connection, made.layer, made.kind, words)
    same = [memory for memory in found if statement_text(memory) == words and made.key in ("", memory.key)]
    return min(same, key=lambda memory: (memory.status is not MemoryStatus.ACTIVE, memory.id), default=None)


def _restated(before: Memory, made: Memory, *, renewed: bool) -> Memory:
    """Return the memory after the same was said once more: it is active again, and better founded."""
    status = MemoryStatus.STALE if before.status is MemoryStatus.STALE and not renewed else MemoryStatus.ACTIVE
    explicit = MemorySource.EXPLICIT in (before.source, made.source)
    entity = before.entity
    merged = replace(
        made,
        id=before.id,
        key=before.key,
        entity=entity,
        title=before.title,
        importance=before.importance,
        confidence=max(before.confidence, made.confidence),
        evidence_count=before.evidence_count + made.evidence_count,
        source=MemorySource.EXPLICIT if explicit else before.source,
        created_at=before.created_at,
        accessed_at=before.accessed_at,
        access_count=before.access_count,
    )
    return memory_writer.with_status(merged, status)


def _with_unused_id(
    connection: sqlite3.Connection, statement: Statement, said: MemoryDetails, *, now: float
) -> tuple[Memory, int]:
    """Make the memory under an id that no other words have."""
    for attempt in range(_ATTEMPTS):
        made, redacted = memory_from_statement(statement, said, now=now, attempt=attempt)
        if not connection.execute("SELECT 1 FROM memory WHERE id = ?", (made.id,)).fetchone():
            return made, redacted
    raise UsageError(
        "these words were remembered and rewritten too often", hint="Update the memory that you mean, by its id."
    )


def _merged(before: MemoryDetails, known: MemoryDetails | None) -> MemoryDetails:
    """Return what was known, and where it was silent what is known now."""
    if known is None:
        return before
    names = MemoryDetails.__struct_fields__
    return MemoryDetails(**{name: getattr(before, name) or getattr(known, name) for name in names})


def _changed(before: Memory, wanted: MemoryChange, *, now: float, renewed: bool, allow_pii: bool) -> tuple[Memory, int]:
    """Return the memory as it is wanted, through the door again, with the id it had; and the secrets taken out."""
    said = _changed_particulars(before.particulars, wanted)
    words = statement_text(before) if wanted.text is None else normalise_text(wanted.text)
    if not words:
        raise UsageError("a memory cannot be without words", hint="To be rid of it: `xscore memory delete ID`.")
    key = before.key if wanted.key is None else memory_writer.check_line_length("key", normalise_text(wanted.key))
    was_first_line = before.title == first_line_title(statement_text(before))
    title = first_line_title(words) if was_first_line else before.title
    if before.kind is Kind.PREFERENCE and not key:
        raise UsageError("a preference needs a key", hint="Say what it is about, e.g. `--key test_runner`.")
    named_by_key = before.entity == entity_for_key(before.layer, before.key)
    worded = compose_text(words, said, allow_pii=allow_pii)
    made, redacted = memory_writer.make_memory(
        layer=before.layer,
        kind=before.kind,
        title=title
        if wanted.title is None
        else memory_writer.check_line_length("title", normalise_text(wanted.title)) or first_line_title(words),
        text=worded.text,
        path=before.path,
        entity=entity_for_key(before.layer, key) if named_by_key else before.entity,
        particulars=worded.particulars,
        key=key,
        scope=before.scope,
        importance=before.importance if wanted.importance is None else wanted.importance,
        confidence=before.confidence if wanted.confidence is None else wanted.confidence,
        evidence_count=before.evidence_count,
        source=before.source,
        status=MemoryStatus.ACTIVE if renewed and before.status is MemoryStatus.STALE else before.status,
        updated_at=now,
        allow_pii=allow_pii,
    )
    kept = ("id", "superseded_by", "created_at", "accessed_at", "access_count", "facts", "start_line", "end_line")
    return replace(made, **{name: getattr(before, name) for name in kept}), redacted + worded.redacted


def _changed_particulars(known: MemoryDetails, wanted: MemoryChange) -> MemoryDetails:
    def one(new: str | None, old: str) -> str:
        return old if new is None else normalise_text(new)

    def several(new: tuple[str, ...] | None, old: tuple[str, ...]) -> tuple[str, ...]:
        return old if new is None else tuple(filter(None, map(normalise_text, new)))

    return replace(
        known,
        rationale=one(wanted.because, known.rationale),
        resolution=one(wanted.resolution, known.resolution),
        alternatives=several(wanted.alternatives, known.alternatives),
        links=tuple(memory_writer.check_line_length("link", link) for link in several(wanted.links, known.links)),
    )


def _move_to_key(
    connection: sqlite3.Connection,
    before: Memory,
    after: Memory,
    redacted: int,
    *,
    citations: tuple[Citation, ...] | None,
    now: float,
) -> StoredStatement:
    """Keep a memory under its new key as a new one, and let the old one step back."""
    statement = Statement(
        text=statement_text(after),
        kind=after.kind,
        layer=after.layer,
        title=after.title,
        key=after.key,
        importance=after.importance,
        confidence=after.confidence,
        source=after.source,
        allow_pii=True,  # it came through the door just now
    )
    cited = evidence.citations_of(connection, [before.id]).get(before.id, ()) if citations is None else citations
    told = remember_within(connection, statement, now=now, citations=cited, known=after.particulars)
    stepped_back = replace(memory_writer.with_status(before, MemoryStatus.SUPERSEDED), superseded_by=told.memory.id)
    write_memory(connection, stepped_back, before=before, now=now)
    return replace(told, superseded=(*told.superseded, before.id), redacted=redacted)


def _set_weight(connection: sqlite3.Connection, memory: Memory) -> None:
    """Set what the door keeps as it was."""
    connection.execute("UPDATE memory SET importance = ? WHERE id = ?", (memory.importance, memory.id))
