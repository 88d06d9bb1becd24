"""Store statements: equal words are one memory, a key has one active memory, an edit keeps the id.

`composing` defines what a statement's memory consists of. Every change and its events are one
transaction. Nothing is erased here, and indexed memories are not touched. Trade-off: words are
compared literally; consolidation merges paraphrases.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform import database
from xscore.platform.clock import LATEST_TIMESTAMP
from xscore.platform.errors import UsageError
from xscore.platform.git import git_user
from xscore.platform.git_folder import working_branch
from xscore.platform.text import one_line
from xscore.records.memory import (
    NOTHING_STATED,
    Citation,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemoryScope,
    MemorySource,
    MemoryStatus,
)
from xscore.records.statement import Statement, StatementEffect, StoredStatement
from xscore.store import evidence, memory_writer
from xscore.store.composing import (
    checked_aliases,
    checked_key,
    checked_line,
    checked_links,
    compose_text,
    entity_for_key,
    first_line_title,
    layer_of_statement,
    memory_from_statement,
    merge_details,
    normalise_text,
    statement_text,
)
from xscore.store.lookup import memories_starting_with, memory_by_id
from xscore.store.memory_updates import set_importance
from xscore.store.memory_writer import write_memory
from xscore.store.working_session import resume_session

if TYPE_CHECKING:
    from xscore.store.store import Store

_KEPT = ("id", "created_at", "accessed_at", "access_count")


class MemoryChange(Struct, frozen=True, kw_only=True):
    """Changes to a memory; None leaves a field unchanged."""

    text: str | None = None
    """Words of the memory, without reasons and alternatives."""
    title: str | None = None
    key: str | None = None
    because: str | None = None
    alternatives: tuple[str, ...] | None = None
    aliases: tuple[str, ...] | None = None
    links: tuple[str, ...] | None = None
    author: str | None = None
    resolution: str | None = None
    importance: float | None = None
    confidence: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return all(getattr(self, name) is None for name in self.__struct_fields__)


def remember(
    store: "Store",
    statement: Statement,
    *,
    citations: Iterable[Citation] = (),
    now: float | None = None,
) -> StoredStatement:
    """Store a statement in the database of its layer. now: Unix seconds; None: by the store's
    clock.

    A decision that a person states without naming its author is by git's `user.name`.
    Raises UsageError for an empty text, a layer that is off, or a citation in the user's own store.
    """
    cited = tuple(citations)
    layer = layer_of_statement(statement)
    _refuse_citing(layer, cited)
    connection = store.home_of(layer)
    author = statement.author
    if (
        not author
        and statement.kind is Kind.DECISION
        and statement.source is MemorySource.EXPLICIT
    ):
        author = git_user(store.root.path)
    statement = replace(statement, allow_pii=store.settings.allow_pii, author=author)
    if statement.kind is Kind.ARTIFACT:
        statement = _of_file(statement, cited)
    moment = store.now_or_clock(now)
    thread = None
    if statement.scope is MemoryScope.SESSION:
        thread = _thread_of_branch(store, now=moment)
    with database.transaction(connection):
        return remember_within(
            connection, statement, citations=cited, now=moment, thread=thread
        )


def _of_file(statement: Statement, citations: tuple[Citation, ...]) -> Statement:
    """Return the statement of an artifact with the file that it is, which is its key: a file has
    one. Raises UsageError where it cites none."""
    if not citations:
        raise UsageError(
            "an artifact is a file, and none is named",
            hint="Add --cite PATH, as in docs/logo.svg.",
        )
    path = citations[0].path
    words = statement.text.rstrip()
    return replace(
        statement,
        text=f"{words}\nFile: {path}",
        key=statement.key or path,
        links=tuple(dict.fromkeys((*statement.links, path))),
    )


def _thread_of_branch(store: "Store", *, now: float) -> str:
    """Return the working session of the current branch, for which something is stated."""
    branch = working_branch(store.root.git_dir)
    return resume_session(store.connection, branch=branch, now=now).thread


def entry_statement(
    text: str, metadata: Mapping[str, object], when: datetime | float | None
) -> Statement:
    """Return the statement of an entry of any kind: below its text one line for its time and for
    each of its facts.

    when: Unix seconds or a time; None: it has no time of its own.
    Raises UsageError for an impossible time.
    """
    is_entry = isinstance(text, str) and isinstance(metadata, Mapping)
    if not (is_entry and isinstance(when, datetime | float | int | None)):
        raise UsageError(
            "this is not an entry",
            hint="Give a text, a mapping of metadata, a datetime or Unix seconds.",
        )
    at = when.timestamp() if isinstance(when, datetime) else when
    facts = {name: " ".join(str(value).split()) for name, value in metadata.items()}
    if at is not None:
        if not 0 < at <= LATEST_TIMESTAMP:
            raise UsageError(
                f"{when} is not a time", hint="Give Unix seconds, or a datetime from 1970 on."
            )
        facts = {"when": datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"), **facts}
    lines = "\n".join(f"{name}: {value}" for name, value in facts.items())
    return Statement(text=f"{text}\n\n{lines}" if text.strip() and lines else text, at=at)


def remember_within(
    connection: sqlite3.Connection,
    statement: Statement,
    *,
    now: float,
    citations: tuple[Citation, ...] = (),
    unstated: MemoryDetails = NOTHING_STATED,
    thread: str | None = None,
) -> StoredStatement:
    """Store a statement; call it inside a transaction of its layer's database.

    unstated: details that a statement cannot set, such as an origin.
    thread: the working session for which it is stated; None: unchanged.
    """
    details = merge_details(statement, unstated)
    stated_memory, redacted = memory_from_statement(statement, details, now=now)
    before = _find_same_statement(connection, stated_memory)
    if before is None:
        attempt = 0
        while _is_taken(connection, stated_memory.id):
            attempt += 1
            stated_memory, redacted = memory_from_statement(
                statement, details, now=now, attempt=attempt
            )
        memory = stated_memory
    else:
        details = merge_details(statement, before.details, unstated)
        # Who states what waits for review has reviewed it.
        details = replace(details, review="")
        stated_memory, redacted = memory_from_statement(statement, details, now=now)
        memory = _restated(before, stated_memory, statement, renewed=bool(citations))
    superseded = write_memory(connection, memory, before=before, now=now, thread=thread)
    if citations:
        evidence.attach_citations(connection, memory.id, citations)
    effect = StatementEffect.STORED if before is None else StatementEffect.REPEATED
    return StoredStatement(
        memory=memory, became=effect, superseded=superseded, redacted=redacted
    )


def _is_taken(connection: sqlite3.Connection, memory_id: str) -> bool:
    query = "SELECT 1 FROM memory_row WHERE id = ?"
    return connection.execute(query, (memory_id,)).fetchone() is not None


def update_memory(
    store: "Store",
    memory_id: str,
    change: MemoryChange,
    *,
    citations: Iterable[Citation] | None = None,
    now: float | None = None,
) -> StoredStatement:
    """Change a memory; it keeps its id and history, and is judged again if its text changes.

    citations: replace its citations; None leaves them, an empty list removes them.
    A different key makes a new memory that supersedes the old one; removing the key keeps the
    memory, but a preference needs one.
    Raises NothingMatched, and UsageError for indexed memories and those of colleagues.
    """
    stored = memory_by_id(store, memory_id)
    if stored.source is MemorySource.INDEX:
        raise UsageError(
            f"{memory_id} comes from {stored.path}",
            hint="Edit the file; the next index run updates it.",
        )
    if stored.is_from_team:
        # It would say in the colleague's name what they never said, until their next change.
        author = one_line(stored.details.author) or "a member"
        raise UsageError(
            f"{memory_id} was stated by {author} of the team",
            hint="State your own with `xscore memory add`, or erase it here.",
        )
    cited = None if citations is None else tuple(citations)
    _refuse_citing(stored.layer, cited)
    connection = store.home_of(stored.layer)
    moment = store.now_or_clock(now)
    with database.transaction(connection):
        # again, under the lock: it may have changed meanwhile.
        before = memory_by_id(store, memory_id)
        pii = store.settings.allow_pii
        after, redacted = _changed(
            before, change, now=moment, renewed=cited is not None, allow_pii=pii
        )
        if before.key and after.key and after.key != before.key:
            return _move_to_key(
                connection, before, after, redacted, citations=cited, now=moment
            )
        superseded = write_memory(connection, after, before=before, now=moment)
        set_importance(connection, after.id, after.importance)
        if cited is not None:
            evidence.attach_citations(connection, after.id, cited)
    return StoredStatement(
        memory=after, became=StatementEffect.UPDATED, superseded=superseded, redacted=redacted
    )


def _refuse_citing(layer: Layer, citations: tuple[Citation, ...] | None) -> None:
    if layer is Layer.USER and citations:
        raise UsageError(
            "a memory of yours cannot cite a repository's code",
            hint="State it for this project: `--layer project`, or without --cite.",
        )


def _find_same_statement(connection: sqlite3.Connection, stated: Memory) -> Memory | None:
    """Return the memory with exactly these words, in any status; active ones first."""
    words = statement_text(stated)
    same: list[Memory] = []
    for memory in memories_starting_with(connection, stated.layer, stated.kind, words):
        # What a colleague said in the same words stays theirs, and goes when they take it back.
        if memory.is_from_team:
            continue
        if statement_text(memory) == words and stated.key in ("", memory.key):
            same.append(memory)
    return min(
        same,
        key=lambda memory: (memory.status is not MemoryStatus.ACTIVE, memory.id),
        default=None,
    )


def _restated(
    before: Memory, restated: Memory, statement: Statement, *, renewed: bool
) -> Memory:
    """Return a memory that was stated again: active, with more evidence."""
    is_stale = before.status is MemoryStatus.STALE and not renewed
    source = before.source
    if restated.source is MemorySource.EXPLICIT:
        source = MemorySource.EXPLICIT
    merged = replace(
        restated,
        title=restated.title if statement.title else before.title,
        scope=restated.scope if statement.scope else before.scope,
        confidence=max(before.confidence, restated.confidence),
        evidence_count=before.evidence_count + restated.evidence_count,
        source=source,
        **{name: getattr(before, name) for name in (*_KEPT, "key", "entity", "importance")},
    )
    return memory_writer.with_status(
        merged, MemoryStatus.STALE if is_stale else MemoryStatus.ACTIVE
    )


def _changed(
    before: Memory, change: MemoryChange, *, now: float, renewed: bool, allow_pii: bool
) -> tuple[Memory, int]:
    """Return the changed memory, redacted again, with its old id; and how many secrets were
    redacted."""
    if change.text is None:
        words = statement_text(before)
    else:
        words = normalise_text(change.text)
    if not words:
        raise UsageError("a memory needs text", hint="To remove it: `xscore memory delete ID`.")
    key = checked_key(before.kind, before.key if change.key is None else change.key)
    was_first_line = before.title == first_line_title(statement_text(before))
    title = before.title
    if change.title is not None or was_first_line:
        title = checked_line("title", change.title or "")
    status = before.status
    if renewed and status is MemoryStatus.STALE:
        status = MemoryStatus.ACTIVE
    named_by_key = before.entity == entity_for_key(before.layer, before.key)
    worded = compose_text(words, _changed_details(before.details, change), allow_pii=allow_pii)
    remade, redacted = memory_writer.remake_memory(
        before,
        title=title or first_line_title(words),
        text=worded.text,
        entity=entity_for_key(before.layer, key) if named_by_key else before.entity,
        details=worded.details,
        key=key,
        importance=before.importance if change.importance is None else change.importance,
        confidence=before.confidence if change.confidence is None else change.confidence,
        status=status,
        updated_at=now,
        allow_pii=allow_pii,
    )
    return remade, redacted + worded.redacted


def _changed_details(details: MemoryDetails, change: MemoryChange) -> MemoryDetails:
    texts = {"rationale": change.because, "resolution": change.resolution}
    changes: dict[str, object] = {}
    for name, text in texts.items():
        if text is not None:
            changes[name] = normalise_text(text)
    if change.alternatives is not None:
        changes["alternatives"] = tuple(filter(None, map(normalise_text, change.alternatives)))
    if change.aliases is not None:
        changes["aliases"] = checked_aliases(change.aliases)
    if change.links is not None:
        changes["links"] = tuple(checked_links(change.links))
    if change.author is not None:
        changes["author"] = checked_line("name", change.author)
    return replace(details, **changes)


def _move_to_key(
    connection: sqlite3.Connection,
    before: Memory,
    after: Memory,
    redacted: int,
    *,
    citations: tuple[Citation, ...] | None,
    now: float,
) -> StoredStatement:
    """Store a memory under its new key as a new memory that supersedes the old one."""
    names = ("kind", "layer", "title", "key", "importance", "confidence", "source")
    parts = {name: getattr(after, name) for name in names}
    # It was redacted just now.
    statement = Statement(text=statement_text(after), allow_pii=True, **parts)
    cited = (
        evidence.citations_of(connection, [before.id]).get(before.id, ())
        if citations is None
        else citations
    )
    stored = remember_within(
        connection, statement, now=now, citations=cited, unstated=after.details
    )
    old = replace(
        memory_writer.with_status(before, MemoryStatus.SUPERSEDED),
        superseded_by=stored.memory.id,
    )
    write_memory(connection, old, before=before, now=now)
    return replace(stored, superseded=(*stored.superseded, before.id), redacted=redacted)
