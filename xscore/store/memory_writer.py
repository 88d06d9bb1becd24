"""The single place where memories are written; everything stored is redacted here.

`make_memory` redacts the raw parts before it derives ids and hashes, so that neither depends on a
secret, and truncates text that does not come from files, so that every memory can be exported and
imported. `put_memories` upserts memories with their term vectors; use counts, `created_at` and
`importance` survive. `write_memory` writes one with its events, so every statement, failure, import
or restore emits them once. It removes nothing. Trade-off: a row is written even if nothing changed.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Required, TypedDict, Unpack, cast

from msgspec.structs import replace

from xscore.platform import tokens
from xscore.platform.errors import UsageError
from xscore.platform.hashing import content_hash, memory_id
from xscore.records.memory import (
    NOTHING_STATED,
    WITHIN,
    CodeFacts,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemoryOrigin,
    MemoryScope,
    MemorySource,
    MemoryStatus,
    View,
)
from xscore.store import memory_rows, written_rows
from xscore.store.events import EventName, emit_event
from xscore.store.memory_views import (
    ViewRow,
    judge_text,
    view_rows,
    write_views,
    write_views_here,
)
from xscore.store.personal_data import redact_said
from xscore.store.secret_screen import FoundLiterals
from xscore.store.worktrees import HERE

STATEMENT_CHARS = 100_000
"""Limit of one statement; a judge reads it whole, so longer text belongs in a file of the
repository."""
DETAIL_CHARS = 80_000
"""Limit of all details together: reasons, alternatives, resolution."""
TEXT_CHARS = 200_000
"""Limit of one text of a memory."""
LINE_CHARS = 4_000
"""Limit of a title, key, name, link or path."""
MAX_PARTS = 1_000
"""Limit of alternatives, links, paths or citations."""
_MARK_CHARS = 40


def check_statement_length(words: str, details: Sequence[str] = ()) -> None:
    """Raise UsageError for words or details that are too long."""
    if len(words) > STATEMENT_CHARS:
        raise UsageError(
            f"{len(words):,} characters are too many for a memory",
            hint=(
                f"At most {STATEMENT_CHARS:,}: put the whole into a file of the repository and"
                " remember its gist."
            ),
        )
    if sum(map(len, details)) > DETAIL_CHARS or len(details) > MAX_PARTS:
        raise UsageError(
            "the details (reasons, alternatives) are too long",
            hint=(
                f"Reasons and alternatives are at most {DETAIL_CHARS:,} characters and"
                f" {MAX_PARTS:,} parts."
            ),
        )


def truncate(text: str, limit: int) -> str:
    """Return the text, cut to `limit` characters with a mark at the end."""
    if len(text) <= limit:
        return text
    kept = limit - _MARK_CHARS
    return f"{text[:kept]}… [{len(text) - kept:,} characters left out]"


_QUOTES_CODE = frozenset({Kind.EXCHANGE, Kind.SUMMARY})
"""Kinds said by people and by models, whose text contains code. What a person asked is redacted
as prose before."""
SETTINGS_FILES = (".ini", ".cfg", ".conf", ".properties", ".env")
"""Endings of files that are redacted as prose, whatever their memories are."""
_LASTING = ("id", "superseded_by", "created_at", "accessed_at", "access_count")
"""Fields that are kept when a memory is rebuilt."""
_OF_KEY = """
    SELECT id FROM memory_row WHERE layer = ? AND scope = ? AND key = ? AND key <> ''
      AND version = 0 AND id <> ?
    AND status = '{status}'
"""
"""SQL of the active memory with a key. `key <> ''` is redundant, but lets SQLite use the
partial index by key, as does the status in the text."""
_FORGET_STALENESS = f"DELETE FROM stale_memory WHERE memory_id = ? AND worktree = {HERE}"
_NOTE_STALENESS = f"""
    INSERT INTO stale_memory (memory_id, worktree) VALUES (?, {HERE}) ON CONFLICT DO NOTHING
"""


class MemoryFields(TypedDict, total=False):
    """Raw parts of a memory; missing ones have the default of `Memory`."""

    layer: Required[Layer]
    kind: Required[Kind]
    title: Required[str]
    text: Required[str]
    origin: MemoryOrigin
    place: str
    path: str
    entity: str
    card: str
    start_line: int
    end_line: int
    language: str
    facts: CodeFacts
    details: MemoryDetails
    key: str
    scope: MemoryScope
    importance: float
    confidence: float
    evidence_count: int
    source: MemorySource
    status: MemoryStatus
    created_at: float
    updated_at: float


def make_memory(
    *,
    ordinal: int = 0,
    allow_pii: bool = False,
    literals: FoundLiterals | None = None,
    **parts: Unpack[MemoryFields],
) -> tuple[Memory, int]:
    """Redact, name and hash one memory; also return how many secrets and personal data were
    redacted.

    ordinal: distinguishes memories of one file with equal kind and entity; it must not depend on
        line numbers.
    allow_pii: keep personal data, which are otherwise redacted in configuration and in text not
        from files.
    literals: what `redaction.find_literals` found in all these parts; None if they are
        searched.
    """
    is_code = parts.get("source") is MemorySource.INDEX
    is_code = is_code and parts["kind"] not in (Kind.CONFIG, Kind.COMMIT)
    # Nearly always; the rest would take twice as long.
    if is_code and literals is not None and literals.is_clean:
        return _named(parts, ordinal), 0
    raw = Memory(id="-", **parts)
    redactor = _redactor_of(raw, literals, allow_pii=allow_pii)
    # Redacted before it is named and hashed: neither may depend on a secret.
    entity = redactor.redact_name(raw.entity)
    # Two headings that differ only in their secrets must not become one memory.
    if entity != raw.entity:
        ordinal += (raw.start_line + 1) << 20
    place = redactor.redact_name(raw.place)
    card = redactor.redact(raw.card)
    text = redactor.redact(raw.text)
    memory = replace(
        raw,
        id=memory_id(raw.layer, raw.path or place, raw.kind, entity, ordinal),
        origin=origin_of(raw),
        place=place,
        entity=entity,
        card=card,
        text=text,
        title=redactor.redact_name(raw.title, is_repeated=raw.title in raw.text),
        facts=redactor.redact_facts(raw.facts),
        details=redactor.redact_details(raw.details),
        key=redactor.redact_name(raw.key, is_repeated=raw.key in raw.entity),
        created_at=raw.created_at or raw.updated_at,
    )
    return _with_views(memory), redactor.count


def origin_of(memory: Memory) -> MemoryOrigin:
    """Return what a memory was made from; a file without a path means that nothing is stated about
    it."""
    is_file = bool(memory.path) or memory.source is MemorySource.INDEX
    if memory.origin is not MemoryOrigin.FILE or is_file:
        return memory.origin
    if memory.kind in (Kind.EXCHANGE, Kind.SUMMARY):
        return MemoryOrigin.EXCHANGE
    return MemoryOrigin.STATED


def _redactor_of(
    raw: Memory, literals: FoundLiterals | None, *, allow_pii: bool
) -> "_Redactor":
    """Return what redacts the parts of a memory, by where they come from."""
    facts = raw.facts
    details = raw.details
    from_file = raw.source is MemorySource.INDEX and not raw.is_commit
    is_config = raw.kind is Kind.CONFIG
    names = [raw.entity, raw.title, raw.key, raw.place]
    names += [facts.signature, *facts.imports, *facts.dependencies, *facts.defines]
    names += [details.imported_from, details.session, details.author]
    if from_file:
        prose = is_config or raw.path.endswith(SETTINGS_FILES)
    else:
        prose = is_config or raw.kind not in _QUOTES_CODE
    return _Redactor(
        names,
        literals=literals,
        screens=not allow_pii and (is_config or not from_file),
        cuts=not from_file,
        prose=prose,
    )


def _named(parts: MemoryFields, ordinal: int) -> Memory:
    """Name and hash an indexed memory in which nothing is to be redacted."""
    path = parts.get("path", "")
    entity = parts.get("entity", "")
    parts["created_at"] = parts.get("created_at", 0.0) or parts.get("updated_at", 0.0)
    identifier = memory_id(parts["layer"], path, parts["kind"], entity, ordinal)
    return _with_views(Memory(id=identifier, **parts))


def remake_memory(memory: Memory, *, allow_pii: bool, **changes: object) -> tuple[Memory, int]:
    """Make a memory again with these changes, redacted by today's rules; its id and use counts
    stay.

    Also return how many secrets and personal data were redacted.
    """
    remade, redacted = make_memory(**fields_of(memory, **changes), allow_pii=allow_pii)
    return replace(remade, **{name: getattr(memory, name) for name in _LASTING}), redacted


def fields_of(memory: Memory, **changes: object) -> MemoryFields:
    """Return the raw parts of a memory, with these changes."""
    values = {name: getattr(memory, name) for name in MemoryFields.__annotations__}
    return cast("MemoryFields", values | changes)


def with_status(memory: Memory, status: MemoryStatus) -> Memory:
    """Return the memory with another status and new views, since they identify what the judge is
    shown."""
    return _with_views(replace(memory, status=status))


def _with_views(memory: Memory) -> Memory:
    """Return the memory with a view of each of its texts."""
    views: list[View] = []
    for name, text in memory.texts.items():
        shown = judge_text(text, status=memory.status)
        count = tokens.estimate(len(text), kind=memory.kind, language=memory.language)
        views.append(View(name, content_hash(memory.path, memory.entity, shown), count))
    return replace(memory, views=tuple(views))


def put_memories(
    connection: sqlite3.Connection, memories: Sequence[Memory], *, thread: str = ""
) -> tuple[str, ...]:
    """Upsert memories; return the ids they supersede. Call it inside `database.transaction`.

    An active or stale memory with the same layer, scope and key is superseded. `thread` marks
    exchanges.
    """
    superseded: list[str] = []
    # First: a key has one active memory at any time.
    for memory in memories:
        if memory.key and memory.status is MemoryStatus.ACTIVE:
            superseded += _supersede(connection, memory)
    stored = for_all_worktrees(connection, memories)
    rows = [written_rows.memory_row(memory, thread) for memory in stored]
    written_rows.upsert_rows(connection, rows)
    write_views(connection, _view_rows(stored), version=0)
    note_staleness(connection, memories, stored)
    return tuple(superseded)


def for_all_worktrees(
    connection: sqlite3.Connection, memories: Sequence[Memory]
) -> list[Memory]:
    """Return memories as their rows hold them: one that cites code is stale in some worktrees, so
    its row is active."""
    stale = [memory.id for memory in memories if memory.status is MemoryStatus.STALE]
    if not stale:
        return list(memories)
    query = (
        f"SELECT DISTINCT memory_id FROM evidence WHERE memory_id {memory_rows.IN_JSON_LIST}"
    )
    citing = {id_ for (id_,) in connection.execute(query, (json.dumps(stale),)).fetchall()}
    stored: list[Memory] = []
    for memory in memories:
        is_citing = memory.id in citing
        stored.append(with_status(memory, MemoryStatus.ACTIVE) if is_citing else memory)
    return stored


def note_staleness(
    connection: sqlite3.Connection, memories: Iterable[Memory], stored: Iterable[Memory]
) -> None:
    """Note which of these memories are stale in this worktree alone, and which no more. stored: as
    they were written.

    Call it after they were written: a new text is stale nowhere.
    """
    stale: list[Memory] = []
    written = list(stored)
    connection.executemany(_FORGET_STALENESS, [(memory.id,) for memory in written])
    for memory, row in zip(memories, written, strict=True):
        if memory.status is not row.status:
            stale.append(memory)
    note_stale(connection, stale)


def note_stale(connection: sqlite3.Connection, memories: Iterable[Memory]) -> None:
    """Note that these stale memories are stale in this worktree."""
    noted = list(memories)
    connection.executemany(_NOTE_STALENESS, [(memory.id,) for memory in noted])
    write_views_here(connection, _view_rows(noted), worktree=HERE)


def _view_rows(memories: Iterable[Memory]) -> list[ViewRow]:
    rows: list[ViewRow] = []
    for memory in memories:
        rows += view_rows(memory.id, memory.views)
    return rows


class _Redactor:
    """Redacts and counts. Short names are checked together, and one by one only if that finds a
    secret."""

    def __init__(
        self,
        names: Iterable[str],
        *,
        literals: FoundLiterals | None,
        screens: bool,
        cuts: bool,
        prose: bool,
    ) -> None:
        self.count = 0
        self._literals = literals
        self._screens = screens
        self._cuts = cuts
        self._prose = prose
        self._clean("\n".join(names).replace(WITHIN, "\n"))
        self._names_are_clean = not self.count
        self.count = 0

    def redact(self, text: str, limit: int = TEXT_CHARS) -> str:
        """Redact a text, and truncate it unless it comes from a file."""
        clean = self._clean(text) if text else text
        if not self._cuts or len(clean) <= limit:
            return clean
        # A cut may expose a new secret.
        return truncate(self._clean(truncate(clean, limit)), limit)

    def redact_name(self, name: str, *, is_repeated: bool = False) -> str:
        """Redact each heading separately, so that rules anchored to the start of a line apply to
        each.

        is_repeated: the name is part of a text already redacted, so its secrets count once.
        """
        count = self.count
        clean = name
        if not self._names_are_clean:
            clean = WITHIN.join(map(self._clean, name.split(WITHIN)))
        if self._cuts and len(clean) > LINE_CHARS:
            clean = self.redact(clean, LINE_CHARS)
        if is_repeated:
            self.count = count
        return clean

    def redact_facts(self, facts: CodeFacts) -> CodeFacts:
        """Redact the facts of the parser."""
        return replace(
            facts,
            signature=self.redact_name(facts.signature),
            docstring=self.redact(facts.docstring),
            imports=tuple(map(self.redact_name, facts.imports)),
            dependencies=tuple(map(self.redact_name, facts.dependencies)),
            defines=tuple(map(self.redact_name, facts.defines)),
        )

    def redact_details(self, details: MemoryDetails) -> MemoryDetails:
        """Redact the stated details."""
        if details == NOTHING_STATED:
            return details
        return replace(
            details,
            rationale=self.redact(details.rationale),
            alternatives=self._redact_all(details.alternatives, TEXT_CHARS),
            aliases=self._redact_all(details.aliases, LINE_CHARS),
            links=self._redact_all(details.links, LINE_CHARS),
            resolution=self.redact(details.resolution),
            imported_from=self.redact_name(details.imported_from),
            session=self.redact_name(details.session),
            paths=self._redact_all(details.paths, LINE_CHARS),
            author=self.redact_name(details.author),
            quote=self.redact(details.quote, LINE_CHARS),
        )

    def _redact_all(self, texts: Iterable[str], limit: int) -> tuple[str, ...]:
        """Redact each, and drop those beyond the limits of a memory."""
        clean = [self.redact(text, limit) for text in texts]
        if not self._cuts:
            return tuple(clean)
        ends = accumulate(map(len, clean))
        parts = zip(clean[:MAX_PARTS], ends, strict=False)
        return tuple(text for text, end in parts if end <= TEXT_CHARS)

    def _clean(self, text: str) -> str:
        redacted = redact_said(
            text, prose=self._prose, allow_pii=not self._screens, literals=self._literals
        )
        self.count += redacted.count
        return redacted.text


def _supersede(connection: sqlite3.Connection, memory: Memory) -> list[str]:
    """Mark the live memories under its key superseded, without the stale mark; return their ids."""
    of_key = (memory.layer, memory.scope, memory.key, memory.id)
    ids: list[str] = []
    for status in (MemoryStatus.ACTIVE, MemoryStatus.STALE):
        rows = connection.execute(_OF_KEY.format(status=status), of_key).fetchall()
        ids += [id_ for (id_,) in rows]
    superseded: list[Memory] = []
    for former in memory_rows.memories_with_ids(connection, ids):
        superseded.append(with_status(former, MemoryStatus.SUPERSEDED))
        connection.execute(
            "UPDATE memory_row SET status = 'superseded', superseded_by = ? WHERE id = ?"
            " AND version = 0",
            (memory.id, former.id),
        )
    write_views(connection, _view_rows(superseded), version=0)
    return [former.id for former in superseded]


def write_memory(
    connection: sqlite3.Connection,
    memory: Memory,
    *,
    before: Memory | None,
    now: float,
    thread: str | None = None,
    link: bool = True,
) -> tuple[str, ...]:
    """Write a memory with its events; return the ids it supersedes. Call it inside a transaction.

    before: the memory as it was; None if it is new.
    thread: its working session; None: unchanged.
    link: link it to the code it names; bulk writers link later, all at once (those for which
        `needs_linking`).
    """
    if thread is None:
        row = connection.execute(
            "SELECT thread FROM memory_row WHERE id = ?", (memory.id,)
        ).fetchone()
        thread = str(row[0]) if row else ""
    superseded = put_memories(connection, [memory], thread=thread)
    payload = {"layer": memory.layer, "kind": memory.kind, "source": memory.source}
    name = EventName.STORED if before is None else EventName.UPDATED
    emit_event(connection, name, at=now, subject=memory.id, payload=payload)
    for identifier in superseded:
        emit_event(
            connection,
            EventName.UPDATED,
            at=now,
            subject=identifier,
            payload={"superseded_by": memory.id},
        )
    if before is None and memory.kind is Kind.DECISION:
        emit_event(connection, EventName.DECISION, at=now, subject=memory.id)
    if link and needs_linking(memory, before):
        from xscore.store.mention_links import link_mentions  # most events link nothing

        link_mentions(connection, [memory.id])
    return superseded


def needs_linking(memory: Memory, before: Memory | None) -> bool:
    """Whether a memory's mentions must be linked again.

    The user's own memories name no repository's code.
    """
    return memory.layer is not Layer.USER and (before is None or before.text != memory.text)
