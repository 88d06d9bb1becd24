"""Memories as JSON lines, out and back in: one memory a line, sorted, so that two exports can be
compared with `diff`.

Memories of the index, judgments, vectors and use counts are never written. What comes in is checked
line by line before the first is stored, gets the source `import`, so that no prompt takes it for
the user's word, and changes nothing that is here; what a person stated where it was exported stays
a statement, and says that it was imported. Trade-offs: unknown fields are refused, and so is a line
of a newer `schema`; edges are left out, since they are found again from the text; the file is held
in memory, so its size is limited.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import asdict, replace

from xscore.platform.clock import LATEST_TIMESTAMP
from xscore.platform.errors import UsageError
from xscore.platform.json_lines import parse_lines
from xscore.records.memory import (
    STATED_ELSEWHERE,
    Citation,
    CodeFacts,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemoryOrigin,
    MemorySource,
    MemoryStatus,
)
from xscore.store import evidence, memory_rows, memory_writer
from xscore.store.lookup import LIVE_STATUSES, MemoryFilter, filter_memories, memories_starting_with
from xscore.store.memory_writer import write_memory
from xscore.store.mention_links import link_mentions
from xscore.store.redaction import is_safe_name
from xscore.store.store import Store

MEMORY_SCHEMA = 1
MAX_IMPORT_BYTES = 256_000_000
MAX_TRUSTED_COUNT = 1_000
"""Higher counts in a foreign file are reduced to this."""
_MAX_LINE_NUMBER = 1 << 31
INDEX_ONLY_KINDS = frozenset(
    {
        Kind.FUNCTION,
        Kind.METHOD,
        Kind.CLASS,
        Kind.TEST,
        Kind.BLOCK,
        Kind.DOC,
        Kind.CONFIG,
        Kind.TEXT,
    }
)
_EVENTS = frozenset({Kind.EXCHANGE, Kind.SUMMARY, Kind.FAILURE, Kind.TODO})
"""Kinds that tell what happened, and state nothing."""
_HINT = "Import what `xscore memory export` wrote, or correct this line."
_CLOCK_SKEW_S = 86_400.0
_HASH = re.compile(r"[0-9a-f]{32}")
_SNAPSHOT_ONLY = frozenset(
    {
        "content_hash",
        "text_hash",
        "card",
        "start_line",
        "end_line",
        "language",
        "accessed_at",
        "access_count",
    }
)


_OptionalId = Annotated[str, Meta(pattern=r"^(m_[0-9a-f]{20})?$")]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Count = Annotated[int, Meta(ge=0, le=1 << 53)]
_LineNumber = Annotated[int, Meta(ge=0, le=_MAX_LINE_NUMBER)]
_Time = Annotated[float, Meta(ge=0, le=LATEST_TIMESTAMP)]


class SavedParticulars(
    MemoryDetails, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What was said beside the text; only what is not empty is written."""

    occurrences: _Count = 0
    polarity: Annotated[str, Meta(pattern="^(|pattern|antipattern)$")] = ""
    exception_of: _OptionalId = ""


_NO_FACTS, _NO_PARTICULARS = CodeFacts(), SavedParticulars()
"""Fields with these values are not written."""


class SavedMemory(
    Memory, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One memory of a file: an export's line, or with hashes, thread and use counts a
    snapshot's."""

    schema: Annotated[int, Meta(ge=MEMORY_SCHEMA, le=MEMORY_SCHEMA)]
    id: Annotated[str, Meta(pattern=r"^m_[0-9a-f]{20}$")]
    content_hash: str = ""
    text_hash: str = ""
    start_line: _LineNumber = 0
    end_line: _LineNumber = 0
    facts: CodeFacts = _NO_FACTS
    particulars: SavedParticulars = _NO_PARTICULARS
    importance: _Share = 0.5
    confidence: _Share = 1.0
    evidence_count: _Count = 1
    superseded_by: _OptionalId = ""
    created_at: _Time = 0.0
    updated_at: _Time = 0.0
    accessed_at: _Time = 0.0
    access_count: _Count = 0
    thread: str = ""
    citations: Annotated[tuple[Citation, ...], Meta(max_length=memory_writer.MAX_PARTS)] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind in INDEX_ONLY_KINDS:
            raise ValueError(f"kind: a {self.kind} comes only from the files of a repository")
        if self.layer in (Layer.GRAPH, Layer.VECTOR):
            raise ValueError(f"layer: the {self.layer} layer holds only what comes from files")
        if self.source is MemorySource.INDEX:
            raise ValueError("source: memories of the index cannot be imported")
        if len(self.place) > memory_writer.LINE_CHARS:
            raise ValueError("place: it is too long")
        if self.views:
            raise ValueError("views: they are made of the texts")
        if self.facts != _NO_FACTS:
            raise ValueError("facts: only code in the files of a repository has any")
        for path in (
            *([self.path] if self.path else ()),
            *(cited.path for cited in self.citations),
        ):
            _check_path(path)
        for cited in self.citations:
            if not (
                0 <= cited.start_line <= cited.end_line < _MAX_LINE_NUMBER
                and _HASH.fullmatch(cited.span_hash)
            ):
                raise ValueError("citations: lines or hash are not those of a span")


class MemoryImport(Struct):
    """Result of importing memories."""

    added: list[str] = field(default_factory=list)
    known: int = 0
    kept: list[str] = field(default_factory=list)
    """Ids of local memories that differ from the file's, or whose key it claims: they are
    unchanged."""
    forgotten: int = 0
    refused: int = 0
    """Lines of the user's own layer, which was not requested."""
    redacted: int = 0


def saved_memory(
    memory: Memory, citations: Sequence[Citation], *, thread: str | None = None
) -> SavedMemory:
    """Return a memory in file form. thread: its working session, for a snapshot; None: a plain
    line."""
    left_out = {"facts", "views"} if thread is not None else _SNAPSHOT_ONLY | {"facts", "views"}
    values = {}
    for name in Memory.__struct_fields__:
        if name not in left_out:
            values[name] = getattr(memory, name)
    # What a line need not say is made again when it is read.
    if not memory.place:
        values["origin"] = MemoryOrigin.FILE
    details = SavedParticulars(**asdict(memory.particulars))
    values["particulars"] = _NO_PARTICULARS if details == _NO_PARTICULARS else details
    if thread is not None:
        values |= {"content_hash": memory.content_hash, "text_hash": memory.text_hash}
    return SavedMemory(
        schema=MEMORY_SCHEMA, thread=thread or "", citations=tuple(citations), **values
    )


def _check_path(path: str) -> None:
    """Check that a path is inside a repository and holds no secret. Raises ValueError."""
    parts = path.split("/")
    if (
        not path
        or path.startswith("/")
        or "\\" in path
        or any(part in ("", ".", "..") for part in parts)
    ):
        raise ValueError(f"path: {path[:80]!r} is not inside a repository")
    if (
        len(path) > memory_writer.LINE_CHARS
        or re.search(r"[\x00-\x1f\x7f]", path)
        or not is_safe_name(path)
    ):
        raise ValueError("path: it is too long, or holds a control character or a secret")


def exported_memories(store: Store, choice: MemoryFilter) -> Iterator[SavedMemory]:
    """Yield the chosen memories that are not from the index, sorted."""
    memories = [memory for memory in filter_memories(store, choice) if memory.source != "index"]
    cited = evidence.citations_of(store.connection, [memory.id for memory in memories])
    for memory in sorted(
        memories, key=lambda memory: (memory.layer, memory.kind, memory.key, memory.id)
    ):
        yield saved_memory(memory, cited.get(memory.id, ()))


def import_lines(
    store: Store, data: bytes, *, name: str = "lines", users: bool = False, first: int = 1
) -> MemoryImport:
    """Import exported lines. name: their source, for errors. first: number of the first line.

    users: also memories of the user layer, which hold in every repository; otherwise they are
        refused and counted.

    Raises UsageError, and changes nothing, if any line is not a valid memory.
    """
    moment = store.clock()
    lines = parse_lines(data, name, SavedMemory, hint=_HINT, first=first, schema=MEMORY_SCHEMA)
    if not lines:
        raise UsageError(
            f"{name} holds no line to import", hint="`xscore memory export` makes one."
        )
    _check_together(lines, latest=moment + _CLOCK_SKEW_S)
    chosen = [line for line in lines if users or line.layer is not Layer.USER]
    done = MemoryImport(refused=len(lines) - len(chosen))
    layers = {line.layer for line in chosen}
    homes = {layer: store.home_of(layer) for layer in layers}
    with store.transaction(layers) if layers else nullcontext():
        for line in chosen:
            _import_memory(
                homes[line.layer], line, done, now=moment, allow_pii=store.settings.allow_pii
            )
        if layers - {Layer.USER}:
            link_mentions(store.connection, done.added)
    return replace(done, kept=list(dict.fromkeys(done.kept)))


def _check_together(lines: Iterable[SavedMemory], *, latest: float) -> None:
    """Refuse times in the future, keys that two active memories have, and code cited by the user's
    own memories."""
    by_key: dict[tuple[str, ...], str] = {}
    for line in lines:
        key = (line.layer, line.scope, line.key)
        wrong = ""
        if max(line.created_at, line.updated_at) > latest:
            wrong = "its time is in the future"
        elif line.layer is Layer.USER and line.citations:
            wrong = "a memory of the user layer cannot cite a repository's code"
        elif (
            line.key
            and line.status is MemoryStatus.ACTIVE
            and by_key.setdefault(key, line.id) != line.id
        ):
            wrong = f"it has the key of {by_key[key]}"
        if wrong:
            raise UsageError(f"nothing was imported: {line.id}: {wrong}", hint=_HINT)


def _import_memory(
    connection: sqlite3.Connection,
    line: SavedMemory,
    done: MemoryImport,
    *,
    now: float,
    allow_pii: bool,
) -> None:
    if connection.execute("SELECT 1 FROM erased_memory WHERE memory_id = ?", (line.id,)).fetchone():
        done.forgotten += 1
        return
    details = MemoryDetails(**asdict(line.particulars))
    if line.source is MemorySource.EXPLICIT and not details.origin and line.kind not in _EVENTS:
        details = replace(details, origin=STATED_ELSEWHERE)
    remade, redacted = memory_writer.remake_memory(
        line,
        allow_pii=allow_pii,
        card="",
        facts=_NO_FACTS,
        language="",
        start_line=0,
        end_line=0,
        particulars=replace(details, occurrences=min(details.occurrences, MAX_TRUSTED_COUNT)),
        evidence_count=min(line.evidence_count, MAX_TRUSTED_COUNT),
        source=MemorySource.IMPORT,
    )
    memory = replace(remade, accessed_at=now, access_count=0)
    conflicting = _conflicting(connection, memory)
    if any(_says_the_same(stored, memory) for stored in conflicting):
        done.known += 1
    elif conflicting:
        done.kept += [stored.id for stored in conflicting]
    else:
        write_memory(connection, memory, before=None, now=now, link=False)
        if line.citations:
            evidence.attach_citations(connection, memory.id, line.citations)
        done.added.append(memory.id)
        done.redacted += redacted


def _conflicting(connection: sqlite3.Connection, memory: Memory) -> list[Memory]:
    """Find memories with its id, its words, or its key if both are live."""
    conflicting = memory_rows.select_memories(connection, "id = ?", (memory.id,))
    same_start = memories_starting_with(connection, memory.layer, memory.kind, memory.text)
    conflicting += [stored for stored in same_start if _says_the_same(stored, memory)]
    if memory.key and memory.status in LIVE_STATUSES:
        for status in LIVE_STATUSES:
            where = f"layer = ? AND scope = ? AND key = ? AND key <> '' AND status = '{status}'"
            conflicting += memory_rows.select_memories(
                connection, where, (memory.layer, memory.scope, memory.key)
            )
    return conflicting


def _says_the_same(first: Memory, second: Memory) -> bool:
    return (first.layer, first.kind, first.text, first.key) == (
        second.layer,
        second.kind,
        second.text,
        second.key,
    )
