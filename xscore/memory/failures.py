"""Failures: met, counted by signature, mended; from the third on (`memory.pattern_at`) a pattern to be avoided.

A failure's memory is named by its signature, so it is one memory however often it is met; its text is that of the first
time. How often is in `particulars.occurrences` and not in the text, so that counting re-judges nothing. Trade-off: an
occurrence without a name of its own is counted whenever it is told.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace

from xscore import database
from xscore.errors import NothingMatched, UsageError
from xscore.hashing import digest, memory_id, ordinal
from xscore.memory import door, limits, rows
from xscore.memory.databases import Databases
from xscore.memory.events import EventName, emit
from xscore.memory.failure_signature import signature
from xscore.memory.lookup import exactly
from xscore.memory.spoken import clean, in_words, readable, title_of, words_of
from xscore.memory.writing import write
from xscore.records import IMPORTANCE_OF, Failure, Kind, Layer, Memory, Particulars, Source, Status

HEAD_CHARS, TAIL_CHARS = 1_000, 3_000
"""Of a long output, what a failure keeps of its beginning and end."""
BESIDE_CHARS = 20_000
"""Of what caused it, and of what mended it."""
_KEY, _PATTERN_KEY = "failure:", "failure_pattern:"
_COUNT_ONCE = "INSERT INTO occurrence (id, memory_id, told_by) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING"


@dataclass(frozen=True, slots=True)
class _Told:
    """What is told of one occurrence."""

    text: str
    because: str
    resolution: str
    origin: str
    session: str
    paths: tuple[str, ...]
    seen_at: float


def record(
    store: Databases,
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
        return record_within(
            store.connection,
            text=text,
            because=because,
            resolution=resolution,
            origin=origin,
            session=session,
            paths=paths,
            seen_at=store.moment(seen_at),
            occurrence=occurrence,
            pattern_at=store.settings.pattern_at,
            allow_pii=store.settings.allow_pii,
        )


def record_within(
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
    told_by: str = "",
) -> Failure:
    """Count one occurrence of a failure. Call it inside `database.transaction` of a repository's store.

    text: the error as it was shown. because: why it happened. resolution: what mended it.
    origin, session: where it was read; empty: it is said here. seen_at: Unix seconds.
    occurrence: any name of this very happening; one that was counted is not counted again, but what mended it is taken.
    Empty: it is counted. told_by: id of the exchange it was read in, with which the count goes.
    link: tie it to the code it names; whoever records many links them all at once.
    Raises UsageError for a text without words.
    """
    words = clean(readable(text), allow_pii=allow_pii)
    if not words:
        raise UsageError("there is no failure to record: the text is empty", hint="Give the error as it was shown.")
    name = signature(words)
    why, mended = (
        limits.cut(clean(readable(said), allow_pii=allow_pii), BESIDE_CHARS) for said in (because, resolution)
    )
    touched = tuple(clean(path, allow_pii=allow_pii) for path in paths)
    told = _Told(_shortened(words), why, mended, origin, session, touched, seen_at)
    before = _by_key(connection, Kind.FAILURE, _KEY + name)
    made = _made(told, name)
    identifier = before.id if before else made.id
    seen = bool(occurrence) and _was_counted(connection, occurrence, identifier)
    if seen and (before is None or not told.resolution or before.particulars.resolution):
        return Failure(memory=before or made, signature=name, is_counted=False, pattern=_pattern_of(connection, name))
    memory = made if before is None else _met_again(before, told, counted=not seen)
    write(connection, memory, before=before, now=seen_at, link=link)
    if occurrence and not seen:
        connection.execute(_COUNT_ONCE, (_occurrence_id(occurrence, identifier), identifier, told_by))
    if not seen:
        emit(connection, EventName.FAILURE, at=seen_at, subject=memory.id)
    pattern, is_new = _pattern(connection, memory, name, pattern_at=pattern_at, now=seen_at)
    return Failure(memory=memory, signature=name, is_counted=not seen, pattern=pattern, is_new_pattern=is_new)


def resolve(store: Databases, identifier: str, resolution: str, *, now: float | None = None) -> Failure:
    """Say what mended a failure; its pattern is told too. Raises NothingMatched, UsageError."""
    mended = limits.cut(clean(readable(resolution), allow_pii=store.settings.allow_pii), BESIDE_CHARS)
    with database.transaction(store.connection):  # what is read here, nobody changes before it is written
        return _resolved(store.connection, exactly(store, identifier), mended, now=store.moment(now))


def _resolved(connection: sqlite3.Connection, before: Memory, mended: str, *, now: float) -> Failure:
    if before.kind is not Kind.FAILURE or not before.key.startswith(_KEY):
        raise NothingMatched(f"{before.id} is a {before.kind}, not a failure", hint="`xscore failure list` shows them.")
    if not mended:
        raise UsageError("the resolution is empty", hint="Say what mended it.")
    name = before.key.removeprefix(_KEY)
    memory = _with(before, replace(before.particulars, resolution=mended), now=now)
    write(connection, memory, before=before, now=now)
    pattern = _pattern_of(connection, name)
    if pattern is not None:
        pattern = _follow(connection, pattern, memory, now=now)
    return Failure(memory=memory, signature=name, is_counted=False, pattern=pattern)


def failures(store: Databases) -> list[Memory]:
    """Return the live failures, those met most often first."""
    where = f"layer = 'project' AND kind = 'failure' AND {rows.LIVE}"
    found = rows.memories(store.connection, where, ())
    return sorted(found, key=lambda memory: (-memory.particulars.occurrences, -memory.updated_at, memory.id))


def _made(told: _Told, name: str) -> Memory:
    said = Particulars(
        rationale=told.because,
        resolution=told.resolution,
        occurrences=1,
        origin=told.origin,
        session=told.session,
        paths=told.paths,
    )
    return _through_the_door(told.text, Kind.FAILURE, _KEY + name, said, now=told.seen_at)


def _through_the_door(words: str, kind: Kind, key: str, said: Particulars, *, now: float) -> Memory:
    worded = in_words(words, said, allow_pii=True)  # what may not be kept is gone from its parts already
    memory, _ = door.make(
        layer=Layer.PROJECT,
        kind=kind,
        title=title_of(_last_line(words)),
        text=worded.text,
        ordinal=_ordinal(key),
        particulars=worded.particulars,
        key=key,
        importance=IMPORTANCE_OF[Kind.FAILURE],
        source=Source.IMPORT if said.origin else Source.EXPLICIT,
        updated_at=now,
        allow_pii=True,
    )
    return memory


def _met_again(before: Memory, told: _Told, *, counted: bool) -> Memory:
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


def _with(before: Memory, said: Particulars, *, now: float) -> Memory:
    """Return the failure with other particulars; an archived or superseded one is active again."""
    made = _through_the_door(words_of(before), before.kind, before.key, said, now=now)
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
    return door.with_status(kept, Status.STALE if before.status is Status.STALE else Status.ACTIVE)


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
    write(connection, pattern, before=None, now=now)
    emit(connection, EventName.PATTERN, at=now, subject=pattern.id, payload={"failure": failure.id})
    return pattern, True


def _as_pattern(failure: Memory, name: str, *, now: float) -> Memory:
    known = failure.particulars
    said = replace(known, polarity="antipattern", links=(failure.id,))
    return _through_the_door(
        f"This keeps failing here: {words_of(failure)}", Kind.PATTERN, _PATTERN_KEY + name, said, now=now
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
    write(connection, after, before=pattern, now=now)
    return after


def _by_key(connection: sqlite3.Connection, kind: Kind, key: str) -> Memory | None:
    """Find the memory of a failure or pattern, whatever its state."""
    found = rows.memories(connection, "id = ?", (memory_id(Layer.PROJECT, "", kind, "", _ordinal(key)),))
    return found[0] if found else None


def _ordinal(key: str) -> int:
    return ordinal("failure", key)


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
