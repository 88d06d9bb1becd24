"""What makes two errors the same failure: their text without what differs from run to run.

Gone are colours, addresses, paths up to the file's name, times, durations, ids and numbers; what is left is hashed.
Trade-off: two failures that differ in a number alone count as one, and one whose message quotes other data each time
counts as many.

Failures: met, counted by signature, mended; from the third on (`memory.pattern_at`) a pattern to be avoided.

A failure's memory is named by its signature, so it is one memory however often it is met; its text is that of the first
time. How often is in `particulars.occurrences` and not in the text, so that counting re-judges nothing. Trade-off: an
occurrence without a name of its own is counted whenever it is told.
"""

import re
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.hashing import digest, integer_id, memory_id
from xscore.records import IMPORTANCE_BY_KIND, Failure, Kind, Layer, Memory, MemoryDetails, MemorySource, MemoryStatus
from xscore.store import memory_rows, memory_writer
from xscore.store.events import EventName, emit_event, write_memory
from xscore.store.lookup import memory_by_id
from xscore.store.statement_text import compose_text, first_line_title, normalise_text, redact_statement, statement_text

if TYPE_CHECKING:
    from xscore.store.store import Store

MAX_CHARS = 4_000
"""Of a long output its end counts, where tools print what failed."""

_NOISE = (
    (re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]"), ""),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"(?:[A-Za-z]:)?(?:[\w.@~+-]*[/\\])+(?=[\w.@+-])"), ""),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "<id>"),
    (re.compile(r"\d+(?:\.\d+)?"), "<n>"),
    (re.compile(r"\s+"), " "),
)


def normalise_error(text: str) -> str:
    """Return the text without what differs from run to run. Linear in its length."""
    text = text.strip()[-MAX_CHARS:]
    for pattern, mark in _NOISE:
        text = pattern.sub(mark, text)
    return text.strip().lower()


def failure_signature(text: str) -> str:
    """Name the failure that this text tells of: 20 hex characters."""
    return digest("failure", normalise_error(text))[:20]


HEAD_CHARS, TAIL_CHARS = 1_000, 3_000
"""Of a long output, what a failure keeps of its beginning and end."""
FAILURE_DETAIL_CHARS = 20_000
"""Of what caused it, and of what mended it."""
_KEY, _PATTERN_KEY = "failure:", "failure_pattern:"
_COUNT_ONCE = "INSERT INTO occurrence (id, memory_id, source_exchange) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING"


class _Occurrence(Struct, frozen=True):
    """What is told of one occurrence."""

    text: str
    because: str
    resolution: str
    origin: str
    session: str
    paths: tuple[str, ...]
    seen_at: float


def record_failure(
    store: "Store",
    *,
    text: str,
    because: str = "",
    resolution: str = "",
    origin: str = "",
    session: str = "",
    paths: Iterable[str] = (),
    seen_at: float | None = None,
    occurrence: str = "",
) -> Failure:
    """Count one occurrence of a failure, in a transaction of its own. See `record_within`."""
    with database.transaction(store.connection):
        return record_failure_within(
            store.connection,
            text=text,
            because=because,
            resolution=resolution,
            origin=origin,
            session=session,
            paths=paths,
            seen_at=store.now_or_clock(seen_at),
            occurrence=occurrence,
            pattern_at=store.settings.pattern_at,
            allow_pii=store.settings.allow_pii,
        )


def record_failure_within(
    connection: sqlite3.Connection,
    *,
    text: str,
    because: str = "",
    resolution: str = "",
    origin: str = "",
    session: str = "",
    paths: Iterable[str] = (),
    seen_at: float,
    occurrence: str = "",
    pattern_at: int = 3,
    link: bool = True,
    allow_pii: bool = False,
    source_exchange: str = "",
) -> Failure:
    """Count one occurrence of a failure. Call it inside `database.transaction` of a repository's store.

    text: the error as it was shown. because: why it happened. resolution: what mended it.
    origin, session: where it was read; empty: it is said here. seen_at: Unix seconds.
    occurrence: any name of this very happening; one that was counted is not counted again, but what mended it is taken.
    Empty: it is counted. source_exchange: id of the exchange it was read in, with which the count goes.
    link: tie it to the code it names; whoever records many links them all at once.
    Raises UsageError for a text without words.
    """
    words = redact_statement(normalise_text(text), allow_pii=allow_pii)
    if not words:
        raise UsageError("there is no failure to record: the text is empty", hint="Give the error as it was shown.")
    name = failure_signature(words)
    why, mended = (
        memory_writer.truncate(redact_statement(normalise_text(said), allow_pii=allow_pii), FAILURE_DETAIL_CHARS)
        for said in (because, resolution)
    )
    touched = tuple(redact_statement(path, allow_pii=allow_pii) for path in paths)
    told = _Occurrence(_shortened(words), why, mended, origin, session, touched, seen_at)
    before = _by_key(connection, Kind.FAILURE, _KEY + name)
    made = _made(told, name)
    identifier = before.id if before else made.id
    seen = bool(occurrence) and _was_counted(connection, occurrence, identifier)
    if seen and (before is None or not told.resolution or before.particulars.resolution):
        return Failure(memory=before or made, signature=name, is_counted=False, pattern=_pattern_of(connection, name))
    memory = made if before is None else _met_again(before, told, counted=not seen)
    write_memory(connection, memory, before=before, now=seen_at, link=link)
    if occurrence and not seen:
        connection.execute(_COUNT_ONCE, (_occurrence_id(occurrence, identifier), identifier, source_exchange))
    if not seen:
        emit_event(connection, EventName.FAILURE, at=seen_at, subject=memory.id)
    pattern, is_new = _pattern(connection, memory, name, pattern_at=pattern_at, now=seen_at)
    return Failure(memory=memory, signature=name, is_counted=not seen, pattern=pattern, is_new_pattern=is_new)


def resolve_failure(store: "Store", identifier: str, resolution: str, *, now: float | None = None) -> Failure:
    """Say what mended a failure; its pattern is told too. Raises NothingMatched, UsageError."""
    mended = memory_writer.truncate(
        redact_statement(normalise_text(resolution), allow_pii=store.settings.allow_pii), FAILURE_DETAIL_CHARS
    )
    with database.transaction(store.connection):  # what is read here, nobody changes before it is written
        return _resolved(store.connection, memory_by_id(store, identifier), mended, now=store.now_or_clock(now))


def _resolved(connection: sqlite3.Connection, before: Memory, mended: str, *, now: float) -> Failure:
    if before.kind is not Kind.FAILURE or not before.key.startswith(_KEY):
        raise NothingMatched(
            f"{before.id} is a {before.kind}, not a failure", hint="`xscore memory list --kind failure` shows them."
        )
    if not mended:
        raise UsageError("the resolution is empty", hint="Say what mended it.")
    name = before.key.removeprefix(_KEY)
    memory = _with(before, replace(before.particulars, resolution=mended), now=now)
    write_memory(connection, memory, before=before, now=now)
    pattern = _pattern_of(connection, name)
    if pattern is not None:
        pattern = _follow(connection, pattern, memory, now=now)
    return Failure(memory=memory, signature=name, is_counted=False, pattern=pattern)


def live_failures(store: "Store") -> list[Memory]:
    """Return the live failures, those met most often first."""
    where = f"layer = 'project' AND kind = 'failure' AND {memory_rows.LIVE_CONDITION}"
    found = memory_rows.select_memories(store.connection, where, ())
    return sorted(found, key=lambda memory: (-memory.particulars.occurrences, -memory.updated_at, memory.id))


def _made(told: _Occurrence, name: str) -> Memory:
    said = MemoryDetails(
        rationale=told.because,
        resolution=told.resolution,
        occurrences=1,
        origin=told.origin,
        session=told.session,
        paths=told.paths,
    )
    return _make_failure_memory(told.text, Kind.FAILURE, _KEY + name, said, now=told.seen_at)


def _make_failure_memory(words: str, kind: Kind, key: str, said: MemoryDetails, *, now: float) -> Memory:
    worded = compose_text(words, said, allow_pii=True)  # what may not be kept is gone from its parts already
    memory, _ = memory_writer.make_memory(
        layer=Layer.PROJECT,
        kind=kind,
        title=first_line_title(_last_line(words)),
        text=worded.text,
        ordinal=_ordinal(key),
        particulars=worded.particulars,
        key=key,
        importance=IMPORTANCE_BY_KIND[Kind.FAILURE],
        source=MemorySource.IMPORT if said.origin else MemorySource.EXPLICIT,
        updated_at=now,
        allow_pii=True,
    )
    return memory


def _met_again(before: Memory, told: _Occurrence, *, counted: bool) -> Memory:
    """Return the failure with this occurrence counted; what it was silent about is taken over."""
    known = before.particulars
    said = replace(
        known,
        occurrences=known.occurrences + counted,
        rationale=known.rationale or told.because,
        resolution=told.resolution or known.resolution,
        paths=tuple(dict.fromkeys([*known.paths, *told.paths])),
    )
    again = _with(before, said, now=max(before.updated_at, told.seen_at))
    return replace(again, evidence_count=before.evidence_count + counted)


def _with(before: Memory, said: MemoryDetails, *, now: float) -> Memory:
    """Return the failure with other particulars; an archived or superseded one is active again."""
    made = _make_failure_memory(statement_text(before), before.kind, before.key, said, now=now)
    weights = (
        "id",
        "importance",
        "confidence",
        "evidence_count",
        "source",
        "created_at",
        "accessed_at",
        "access_count",
    )
    kept = replace(made, title=before.title, **{name: getattr(before, name) for name in weights})
    return memory_writer.with_status(
        kept, MemoryStatus.STALE if before.status is MemoryStatus.STALE else MemoryStatus.ACTIVE
    )


def _pattern(
    connection: sqlite3.Connection, failure: Memory, name: str, *, pattern_at: int, now: float
) -> tuple[Memory | None, bool]:
    """Return the pattern of a failure, made now if it was met often enough; and whether it was."""
    known = _pattern_of(connection, name)
    if known is not None:
        return _follow(connection, known, failure, now=now), False
    if failure.particulars.occurrences < pattern_at:
        return None, False
    pattern = _as_pattern(failure, name, now=now)
    write_memory(connection, pattern, before=None, now=now)
    emit_event(connection, EventName.PATTERN, at=now, subject=pattern.id, payload={"failure": failure.id})
    return pattern, True


def _as_pattern(failure: Memory, name: str, *, now: float) -> Memory:
    known = failure.particulars
    said = replace(known, polarity="antipattern", links=(failure.id,))
    return _make_failure_memory(
        f"This keeps failing here: {statement_text(failure)}", Kind.PATTERN, _PATTERN_KEY + name, said, now=now
    )


def _follow(connection: sqlite3.Connection, pattern: Memory, failure: Memory, *, now: float) -> Memory:
    """Tell a pattern what its failure came to since."""
    known = failure.particulars
    said = replace(
        pattern.particulars,
        occurrences=known.occurrences,
        rationale=known.rationale,
        resolution=known.resolution,
        paths=known.paths,
    )
    if said == pattern.particulars:
        return pattern
    after = _with(pattern, said, now=now)
    write_memory(connection, after, before=pattern, now=now)
    return after


def _by_key(connection: sqlite3.Connection, kind: Kind, key: str) -> Memory | None:
    """Find the memory of a failure or pattern, whatever its state."""
    found = memory_rows.select_memories(connection, "id = ?", (memory_id(Layer.PROJECT, "", kind, "", _ordinal(key)),))
    return found[0] if found else None


def _ordinal(key: str) -> int:
    return integer_id("failure", key)


def _pattern_of(connection: sqlite3.Connection, name: str) -> Memory | None:
    return _by_key(connection, Kind.PATTERN, _PATTERN_KEY + name)


def _was_counted(connection: sqlite3.Connection, occurrence: str, identifier: str) -> bool:
    found = connection.execute("SELECT 1 FROM occurrence WHERE id = ?", (_occurrence_id(occurrence, identifier),))
    return found.fetchone() is not None


def _occurrence_id(occurrence: str, identifier: str) -> str:
    return digest("occurrence", identifier, occurrence)


def _shortened(words: str) -> str:
    left_out = len(words) - HEAD_CHARS - TAIL_CHARS
    if left_out <= 100:
        return words
    return f"{words[:HEAD_CHARS]}\n[{left_out:,} characters left out]\n{words[-TAIL_CHARS:]}"


def _last_line(words: str) -> str:
    """Return the line that says what went wrong: the last one of a traceback."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1] if lines[0].startswith("Traceback ") else lines[0]
