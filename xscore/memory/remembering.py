"""Keep what is said: the same words twice are one memory, the same key is one active memory, an edit keeps the id.

Every change goes through the door and leaves its events, in one transaction. It does not erase (`memory.erasure`) and
does not touch what comes from files. Trade-off: words are compared as they were written, so the same thing in other
words is another memory, until consolidation merges them.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace

from xscore import database
from xscore.errors import UsageError
from xscore.memory import door, evidence, limits
from xscore.memory.databases import Databases
from xscore.memory.lookup import exactly, saying
from xscore.memory.spoken import entity_of, in_words, layer_of, readable, said_beside, spoken, title_of, words_of
from xscore.memory.writing import write
from xscore.records import Became, Citation, Kind, Layer, Memory, Particulars, Remembered, Source, Statement, Status

_ATTEMPTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
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
        return all(getattr(self, name) is None for name in self.__slots__)


def remember(
    store: Databases, statement: Statement, *, citations: Iterable[Citation] = (), now: float | None = None
) -> Remembered:
    """Keep a statement in the database of its layer. now: Unix seconds; None: by the store's clock.

    Raises UsageError for what cannot be kept: no words, a layer that is off, a citation in the user's own store.
    """
    cited = tuple(citations)
    layer = layer_of(statement)
    _refuse_citing(layer, cited)
    connection = store.home_of(layer)
    statement = replace(statement, allow_pii=store.settings.allow_pii)
    with database.transaction(connection):
        return remember_within(connection, statement, citations=cited, now=store.moment(now))


def remember_within(
    connection: sqlite3.Connection,
    statement: Statement,
    *,
    now: float,
    citations: tuple[Citation, ...] = (),
    known: Particulars | None = None,
) -> Remembered:
    """Keep a statement; call it inside a transaction of its layer's database.

    known: particulars that are not a statement's to say, such as an origin.
    """
    made, _ = spoken(statement, said_beside(statement, known), now=now)
    before = _same(connection, made)
    if before is not None:
        said = said_beside(statement, _merged(before.particulars, known))
        made, redacted = spoken(statement, said, now=now)
        memory = _again(before, made, renewed=bool(citations))
        if statement.title:
            memory = replace(memory, title=made.title)
    else:
        made, redacted = _free(connection, statement, said_beside(statement, known), now=now)
        memory = made
    superseded = write(connection, memory, before=before, now=now)
    if citations:
        evidence.attach(connection, memory.id, citations)
    became = Became.REPEATED if before is not None else Became.STORED
    return Remembered(memory=memory, became=became, superseded=superseded, redacted=redacted)


def change(
    store: Databases,
    memory_id: str,
    wanted: Change,
    *,
    citations: Iterable[Citation] | None = None,
    now: float | None = None,
) -> Remembered:
    """Change a memory; it keeps its id and history, and where its text changes it is judged anew.

    citations: in place of all that it cited; None leaves them, none at all takes them away.
    Another key makes it speak of another thing: that is a new memory, which supersedes the old one; without its key it
    is the same memory still, but for a preference, which needs one.
    Raises NothingMatched, and UsageError for memories of the index.
    """
    there = exactly(store, memory_id)
    if there.source is Source.INDEX:
        raise UsageError(
            f"{memory_id} is what {there.path} says", hint="Edit the file; the next run has it as it is then."
        )
    cited = None if citations is None else tuple(citations)
    _refuse_citing(there.layer, cited)
    connection, moment = store.home_of(there.layer), store.moment(now)
    with database.transaction(connection):
        before = exactly(store, memory_id)  # again: another may have changed it, or erased it, meanwhile
        pii = store.settings.allow_pii
        after, redacted = _changed(before, wanted, now=moment, renewed=cited is not None, allow_pii=pii)
        if before.key and after.key and after.key != before.key:
            return _moved(connection, before, after, redacted, citations=cited, now=moment)
        superseded = write(connection, after, before=before, now=moment)
        _set_weight(connection, after)
        if cited is not None:
            evidence.attach(connection, after.id, cited)
    return Remembered(memory=after, became=Became.UPDATED, superseded=superseded, redacted=redacted)


def _refuse_citing(layer: Layer, citations: tuple[Citation, ...] | None) -> None:
    if layer is Layer.USER and citations:
        raise UsageError(
            "a memory of yours cannot cite a repository's code",
            hint="Say it of this project: `--layer project`, or without --cite.",
        )


def _same(connection: sqlite3.Connection, made: Memory) -> Memory | None:
    """Find the memory that has these very words, whatever its state; active ones first."""
    words = words_of(made)
    found = saying(connection, made.layer, made.kind, words)
    same = [memory for memory in found if words_of(memory) == words and made.key in ("", memory.key)]
    return min(same, key=lambda memory: (memory.status is not Status.ACTIVE, memory.id), default=None)


def _again(before: Memory, made: Memory, *, renewed: bool) -> Memory:
    """Return the memory after the same was said once more: it is active again, and better founded."""
    status = Status.STALE if before.status is Status.STALE and not renewed else Status.ACTIVE
    explicit = Source.EXPLICIT in (before.source, made.source)
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
        source=Source.EXPLICIT if explicit else before.source,
        created_at=before.created_at,
        accessed_at=before.accessed_at,
        access_count=before.access_count,
    )
    return door.with_status(merged, status)


def _free(connection: sqlite3.Connection, statement: Statement, said: Particulars, *, now: float) -> tuple[Memory, int]:
    """Make the memory under an id that no other words have."""
    for attempt in range(_ATTEMPTS):
        made, redacted = spoken(statement, said, now=now, attempt=attempt)
        if not connection.execute("SELECT 1 FROM memory WHERE id = ?", (made.id,)).fetchone():
            return made, redacted
    raise UsageError(
        "these words were remembered and rewritten too often", hint="Update the memory that you mean, by its id."
    )


def _merged(before: Particulars, known: Particulars | None) -> Particulars:
    """Return what was known, and where it was silent what is known now."""
    if known is None:
        return before
    names = Particulars.__slots__
    return Particulars(**{name: getattr(before, name) or getattr(known, name) for name in names})


def _changed(before: Memory, wanted: Change, *, now: float, renewed: bool, allow_pii: bool) -> tuple[Memory, int]:
    """Return the memory as it is wanted, through the door again, with the id it had; and the secrets taken out."""
    said = _said_anew(before.particulars, wanted)
    words = words_of(before) if wanted.text is None else readable(wanted.text)
    if not words:
        raise UsageError("a memory cannot be without words", hint="To be rid of it: `xscore memory delete ID`.")
    key = before.key if wanted.key is None else limits.line("key", readable(wanted.key))
    was_first_line = before.title == title_of(words_of(before))
    title = title_of(words) if was_first_line else before.title
    if before.kind is Kind.PREFERENCE and not key:
        raise UsageError("a preference needs a key", hint="Say what it is about, e.g. `--key test_runner`.")
    named_by_key = before.entity == entity_of(before.layer, before.key)
    worded = in_words(words, said, allow_pii=allow_pii)
    made, redacted = door.make(
        layer=before.layer,
        kind=before.kind,
        title=title if wanted.title is None else limits.line("title", readable(wanted.title)) or title_of(words),
        text=worded.text,
        path=before.path,
        entity=entity_of(before.layer, key) if named_by_key else before.entity,
        particulars=worded.particulars,
        key=key,
        scope=before.scope,
        importance=before.importance if wanted.importance is None else wanted.importance,
        confidence=before.confidence if wanted.confidence is None else wanted.confidence,
        evidence_count=before.evidence_count,
        source=before.source,
        status=Status.ACTIVE if renewed and before.status is Status.STALE else before.status,
        updated_at=now,
        allow_pii=allow_pii,
    )
    kept = ("id", "superseded_by", "created_at", "accessed_at", "access_count", "facts", "start_line", "end_line")
    return replace(made, **{name: getattr(before, name) for name in kept}), redacted + worded.redacted


def _said_anew(known: Particulars, wanted: Change) -> Particulars:
    def one(new: str | None, old: str) -> str:
        return old if new is None else readable(new)

    def several(new: tuple[str, ...] | None, old: tuple[str, ...]) -> tuple[str, ...]:
        return old if new is None else tuple(filter(None, map(readable, new)))

    return replace(
        known,
        rationale=one(wanted.because, known.rationale),
        resolution=one(wanted.resolution, known.resolution),
        alternatives=several(wanted.alternatives, known.alternatives),
        links=tuple(limits.line("link", link) for link in several(wanted.links, known.links)),
    )


def _moved(
    connection: sqlite3.Connection,
    before: Memory,
    after: Memory,
    redacted: int,
    *,
    citations: tuple[Citation, ...] | None,
    now: float,
) -> Remembered:
    """Keep a memory under its new key as a new one, and let the old one step back."""
    statement = Statement(
        text=words_of(after),
        kind=after.kind,
        layer=after.layer,
        title=after.title,
        key=after.key,
        importance=after.importance,
        confidence=after.confidence,
        source=after.source,
        allow_pii=True,  # it came through the door just now
    )
    cited = evidence.citations(connection, [before.id]).get(before.id, ()) if citations is None else citations
    told = remember_within(connection, statement, now=now, citations=cited, known=after.particulars)
    stepped_back = replace(door.with_status(before, Status.SUPERSEDED), superseded_by=told.memory.id)
    write(connection, stepped_back, before=before, now=now)
    return replace(told, superseded=(*told.superseded, before.id), redacted=redacted)


def _set_weight(connection: sqlite3.Connection, memory: Memory) -> None:
    """Set what the door keeps as it was."""
    connection.execute("UPDATE memory SET importance = ? WHERE id = ?", (memory.importance, memory.id))
