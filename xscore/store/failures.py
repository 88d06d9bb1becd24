"""Failures: recorded, counted by signature, resolved; the third occurrence (`memory.pattern_at`)
makes a pattern.

The signature hashes the error without the parts that vary between runs: colors, addresses, folders,
times, ids, numbers. It names the failure's memory, so a repeated failure is one memory. The count
is in `details.occurrences`, not in the text, so counting re-judges nothing. Trade-offs:
failures that differ only in a number count as one; an occurrence without a name is counted every
time it is reported.
"""

import re
import sqlite3
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.hashing import digest, integer_id, memory_id
from xscore.records.memory import (
    NOTHING_STATED,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemorySource,
    MemoryStatus,
)
from xscore.records.statement import IMPORTANCE_BY_KIND, RecordedFailure
from xscore.store import memory_rows, memory_writer
from xscore.store.composing import (
    compose_text,
    first_line_title,
    normalise_text,
    statement_text,
)
from xscore.store.events import EventName, emit_event
from xscore.store.lookup import memory_by_id
from xscore.store.memory_writer import write_memory
from xscore.store.personal_data import redact_said

if TYPE_CHECKING:
    from xscore.store.store import Store

_SIGNED_CHARS = 4_000
"""Characters hashed at the end of a long output, where tools print what failed."""
HEAD_CHARS, TAIL_CHARS = 1_000, 3_000
"""Characters kept from the beginning and end of a long output."""
_DETAIL_CHARS = 20_000
"""Longest cause or fix."""
_KEYS = {Kind.FAILURE: "failure:", Kind.PATTERN: "failure_pattern:"}
"""Prefixes of the keys of a failure and of its pattern; the signature follows."""
_NOISE = (
    (r"\x1b\[[0-9;?]*[ -/]*[@-~]", ""),
    (r"\b0x[0-9a-fA-F]+\b", "<address>"),
    (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<id>"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?", "<time>"),
    (r"\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
    (r"(?<![\w.@~+/\\-])(?:[A-Za-z]:)?(?:[\w.@~+-]*[/\\])+(?=[\w.@+-])", ""),
    (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b", "<id>"),
    (r"\d+(?:\.\d+)?", "<n>"),
    (r"\s+", " "),
)


def failure_signature(text: str) -> str:
    """Return the signature of the failure in this text: 20 hex characters. Linear time."""
    text = text.strip()[-_SIGNED_CHARS:]
    for pattern, mark in _NOISE:
        text = re.sub(pattern, mark, text)
    return digest("failure", text.strip().lower())[:20]


def failure_id(text: str) -> str:
    """Return the id that the memory of this failure has, or would have."""
    words = redact_said(normalise_text(text), allow_pii=False).text
    return _identifier(Kind.FAILURE, failure_signature(words))


class Occurrence(Struct, frozen=True, kw_only=True):
    """One occurrence of a failure."""

    text: str
    """The error as it was shown."""
    details: MemoryDetails = NOTHING_STATED
    """`rationale` says why it happened, `resolution` what fixed it."""
    seen_at: float
    """Unix seconds."""
    name: str = ""
    """Name of this occurrence, which is counted once; empty: always count it."""
    source_exchange: str = ""
    """Id of the exchange it was read in; erasing that reverts the count."""


def record_failure(
    store: "Store",
    *,
    text: str,
    details: MemoryDetails = NOTHING_STATED,
    seen_at: float | None = None,
    occurrence: str = "",
) -> RecordedFailure:
    """Count one occurrence of a failure, in a transaction of its own.

    See `record_failure_within`.
    """
    counted = Occurrence(
        text=text, details=details, seen_at=store.now_or_clock(seen_at), name=occurrence
    )
    limits = store.settings
    with database.transaction(store.connection) as connection:
        return record_failure_within(
            connection, counted, pattern_at=limits.pattern_at, allow_pii=limits.allow_pii
        )


_COUNT = "INSERT INTO occurrence (id, memory_id, source_exchange) VALUES (?, ?, ?)"


def record_failure_within(
    connection: sqlite3.Connection,
    occurrence: Occurrence,
    *,
    pattern_at: int = 3,
    allow_pii: bool = False,
    link: bool = True,
) -> RecordedFailure:
    """Count one occurrence of a failure, inside `database.transaction` of a repository's store.

    link: link it to the code it names; bulk writers link later, all at once.
    Raises UsageError for a text without words.
    """
    # The signature depends on no secret.
    words = redact_said(normalise_text(occurrence.text), allow_pii=allow_pii).text
    if not words:
        raise UsageError(
            "there is no failure to record: the text is empty",
            hint="Give the error as it was shown.",
        )
    now = occurrence.seen_at
    name = failure_signature(words)
    details = _clean_details(occurrence.details, allow_pii=allow_pii)
    before = _by_name(connection, Kind.FAILURE, name)
    memory = _make(Kind.FAILURE, name, words, details, now=now)
    identifier = before.id if before else memory.id
    counted_as = digest("occurrence", identifier, occurrence.name)
    # An occurrence with a name is counted once, however often it is reported.
    is_counted = not (occurrence.name and _is_counted(connection, counted_as))
    if before is not None:
        memory = _met_again(before, details, is_counted=is_counted, now=now)
        if not is_counted and memory.text == before.text:
            pattern = _by_name(connection, Kind.PATTERN, name)
            return RecordedFailure(
                memory=before, signature=name, is_counted=False, pattern=pattern
            )
    write_memory(connection, memory, before=before, now=now, link=link)
    if is_counted:
        emit_event(connection, EventName.FAILURE, at=now, subject=identifier)
        if occurrence.name:
            counted = (counted_as, identifier, occurrence.source_exchange)
            connection.execute(_COUNT, counted)
    pattern, is_new = _update_pattern(connection, memory, name, pattern_at=pattern_at, now=now)
    return RecordedFailure(
        memory=memory,
        signature=name,
        is_counted=is_counted,
        pattern=pattern,
        is_new_pattern=is_new,
    )


def _clean_details(details: MemoryDetails, *, allow_pii: bool) -> MemoryDetails:
    paths = [redact_said(path, allow_pii=allow_pii).text for path in details.paths]
    return replace(
        details,
        rationale=_clean_detail(details.rationale, allow_pii=allow_pii),
        resolution=_clean_detail(details.resolution, allow_pii=allow_pii),
        paths=tuple(paths),
        occurrences=1,
    )


def _is_counted(connection: sqlite3.Connection, counted_as: str) -> bool:
    query = "SELECT 1 FROM occurrence WHERE id = ?"
    return connection.execute(query, (counted_as,)).fetchone() is not None


def resolve_failure(
    store: "Store", identifier: str, resolution: str, *, now: float | None = None
) -> RecordedFailure:
    """Record what fixed a failure, also in its pattern. Raises NothingMatched, UsageError."""
    connection = store.connection
    moment = store.now_or_clock(now)
    fixed = _clean_detail(resolution, allow_pii=store.settings.allow_pii)
    with database.transaction(connection):  # read and write under one lock
        before = memory_by_id(store, identifier)
        if before.kind is not Kind.FAILURE or not before.key.startswith(_KEYS[Kind.FAILURE]):
            raise NothingMatched(
                f"{before.id} is a {before.kind}, not a failure",
                hint="`xscore memory list --kind failure` shows them.",
            )
        if not fixed:
            raise UsageError("the resolution is empty", hint="Say what fixed it.")
        memory = _with_details(before, replace(before.details, resolution=fixed), now=moment)
        write_memory(connection, memory, before=before, now=moment)
        name = before.key.removeprefix(_KEYS[Kind.FAILURE])
        pattern, _ = _update_pattern(connection, memory, name, pattern_at=inf, now=moment)
    return RecordedFailure(memory=memory, signature=name, is_counted=False, pattern=pattern)


def _make(kind: Kind, name: str, words: str, details: MemoryDetails, *, now: float) -> Memory:
    left_out = len(words) - HEAD_CHARS - TAIL_CHARS
    if left_out > 100:
        words = (
            f"{words[:HEAD_CHARS]}\n[{left_out:,} characters left out]\n{words[-TAIL_CHARS:]}"
        )
    worded = compose_text(words, details, allow_pii=True)  # its parts are already redacted
    key = _KEYS[kind] + name
    memory, _ = memory_writer.make_memory(
        layer=Layer.PROJECT,
        kind=kind,
        title=first_line_title(_last_line(words)),
        text=worded.text,
        ordinal=integer_id("failure", key),
        details=worded.details,
        key=key,
        importance=IMPORTANCE_BY_KIND[Kind.FAILURE],
        source=MemorySource.IMPORT if details.imported_from else MemorySource.EXPLICIT,
        updated_at=now,
        allow_pii=True,
    )
    return memory


def _met_again(
    before: Memory, details: MemoryDetails, *, is_counted: bool, now: float
) -> Memory:
    """Return the failure with this occurrence counted and its missing details filled in."""
    stored = before.details
    # What fixed it the last time counts; a report that is not counted fills only a gap.
    latest, fallback = (details, stored) if is_counted else (stored, details)
    merged = replace(
        stored,
        occurrences=stored.occurrences + is_counted,
        rationale=stored.rationale or details.rationale,
        resolution=latest.resolution or fallback.resolution,
        paths=tuple(dict.fromkeys([*stored.paths, *details.paths])),
    )
    counted = _with_details(before, merged, now=max(before.updated_at, now))
    return replace(counted, evidence_count=before.evidence_count + is_counted)


def _with_details(before: Memory, details: MemoryDetails, *, now: float) -> Memory:
    """Return the failure or pattern with other details; an archived or superseded one is active
    again."""
    # Its parts are already redacted.
    worded = compose_text(statement_text(before), details, allow_pii=True)
    is_stale = before.status is MemoryStatus.STALE
    memory, _ = memory_writer.remake_memory(
        before,
        text=worded.text,
        details=worded.details,
        status=MemoryStatus.STALE if is_stale else MemoryStatus.ACTIVE,
        updated_at=now,
        allow_pii=True,
    )
    return replace(memory, superseded_by="")


def _update_pattern(
    connection: sqlite3.Connection, failure: Memory, name: str, *, pattern_at: float, now: float
) -> tuple[Memory | None, bool]:
    """Return the updated pattern of a failure, created at `pattern_at` occurrences; and whether it
    is new."""
    before = _by_name(connection, Kind.PATTERN, name)
    details = failure.details
    if before is None:
        if details.occurrences < pattern_at:
            return None, False
        stated = replace(details, polarity="antipattern", links=(failure.id,))
        pattern = _make(
            Kind.PATTERN,
            name,
            f"This keeps failing here: {statement_text(failure)}",
            stated,
            now=now,
        )
    else:
        stated = replace(
            before.details,
            occurrences=details.occurrences,
            rationale=details.rationale,
            resolution=details.resolution,
            paths=details.paths,
        )
        if stated == before.details:
            return before, False
        pattern = _with_details(before, stated, now=now)
    write_memory(connection, pattern, before=before, now=now)
    if before is None:
        emit_event(
            connection,
            EventName.PATTERN,
            at=now,
            subject=pattern.id,
            payload={"failure": failure.id},
        )
    return pattern, before is None


def _by_name(connection: sqlite3.Connection, kind: Kind, name: str) -> Memory | None:
    """Return the memory of a failure or pattern, in any status."""
    return memory_rows.memory_with_id(connection, _identifier(kind, name))


def _identifier(kind: Kind, name: str) -> str:
    return memory_id(Layer.PROJECT, "", kind, "", integer_id("failure", _KEYS[kind] + name))


def _clean_detail(text: str, *, allow_pii: bool) -> str:
    return memory_writer.truncate(
        redact_said(normalise_text(text), allow_pii=allow_pii).text, _DETAIL_CHARS
    )


def _last_line(words: str) -> str:
    """Return the line that says what went wrong: the last of a traceback, otherwise the
    first."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    if lines[0].startswith("Traceback "):
        return lines[-1]
    return lines[0]
