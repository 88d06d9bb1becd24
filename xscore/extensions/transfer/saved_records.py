"""The records of a saved file, one a line: each names its kind in `record`, and holds its own
checks.

What a stranger may write is decided here, field by field: no code, no path outside a repository, no
score beyond its range, and no field that is not listed. Trade-off: a field that a later xscore adds
makes a file that this one refuses, which is why the first line of a file has a number.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import asdict

from xscore.platform.clock import LATEST_TIMESTAMP
from xscore.records.memory import (
    Citation,
    CodeFacts,
    Edge,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemoryOrigin,
    MemorySource,
    Relation,
)
from xscore.records.statement import ALIAS_CHARS, MOST_ALIASES
from xscore.store import memory_writer
from xscore.store.redaction import is_safe_name

MEMORY_SCHEMA = 1
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
        Kind.COMMIT,
    }
)
_MAX_LINE_NUMBER = 1 << 31
_SPAN_HASH = re.compile(r"[0-9a-f]{32}")
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

_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
_OptionalId = Annotated[str, Meta(pattern=r"^(m_[0-9a-f]{20})?\Z")]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Count = Annotated[int, Meta(ge=0, le=1 << 53)]
_LineNumber = Annotated[int, Meta(ge=0, le=_MAX_LINE_NUMBER)]
_Alias = Annotated[str, Meta(max_length=4 * ALIAS_CHARS)]
"""An alias. It may be longer than a stated one: what redaction puts into it takes room."""
_Time = Annotated[float, Meta(ge=0, le=LATEST_TIMESTAMP)]


class SavedDetails(
    MemoryDetails, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What was said in addition to the text; only what is not empty is written."""

    aliases: Annotated[tuple[_Alias, ...], Meta(max_length=MOST_ALIASES)] = ()
    occurrences: _Count = 0
    polarity: Annotated[str, Meta(pattern=r"^(|pattern|antipattern)\Z")] = ""
    exception_of: _OptionalId = ""
    quote: Annotated[str, Meta(max_length=memory_writer.LINE_CHARS)] = ""
    quoted_in: _OptionalId = ""
    extracted: Annotated[int, Meta(ge=0, le=1_000)] = 0


NO_FACTS, _NO_DETAILS = CodeFacts(), SavedDetails()
"""Default values, which are not written."""


class SavedMemory(
    Memory,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="record",
    tag="memory",
):
    """One memory of a file: an export's, or with hashes, thread and use counts a snapshot's."""

    schema: Annotated[int, Meta(ge=MEMORY_SCHEMA, le=MEMORY_SCHEMA)]
    id: Annotated[str, Meta(pattern=r"^m_[0-9a-f]{20}\Z")]
    content_hash: str = ""
    text_hash: str = ""
    start_line: _LineNumber = 0
    end_line: _LineNumber = 0
    facts: CodeFacts = NO_FACTS
    details: SavedDetails = field(default=_NO_DETAILS, name="particulars")
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
            raise ValueError(f"kind: a {self.kind} comes only from the index of a repository")
        _check_layer(self)
        if self.source is MemorySource.INDEX:
            raise ValueError("source: memories of the index cannot be imported")
        if self.views:
            raise ValueError("views: they are made of the texts")
        if len(self.place) > memory_writer.LINE_CHARS:
            raise ValueError("place: it is too long")
        if self.facts != NO_FACTS:
            raise ValueError("facts: only code in the files of a repository has any")
        if self.path:
            _check_path(self.path)
        for citation in self.citations:
            _check_path(citation.path)
            has_lines = 0 <= citation.start_line <= citation.end_line < _MAX_LINE_NUMBER
            if not (has_lines and _SPAN_HASH.fullmatch(citation.span_hash)):
                raise ValueError("citations: lines or hash are not those of a span")


def _check_layer(memory: Memory) -> None:
    """Check that a layer of the index holds nothing but fetched documents. Raises ValueError."""
    if memory.kind is Kind.DOCUMENT:
        if memory.layer is not Layer.VECTOR or memory.origin is not MemoryOrigin.DOCUMENT:
            raise ValueError("kind: a document is of the vector layer and of that origin")
        if not memory.place:
            raise ValueError("place: a document needs an address")
    elif memory.layer in (Layer.GRAPH, Layer.VECTOR):
        raise ValueError(f"layer: the {memory.layer} layer holds only what comes from files")


def _check_path(path: str) -> None:
    """Check that a path is inside a repository and holds no secret. Raises ValueError."""
    parts = path.split("/")
    has_odd_part = any(part in ("", ".", "..") for part in parts)
    if not path or path.startswith("/") or "\\" in path or has_odd_part:
        raise ValueError(f"path: {path[:80]!r} is not inside a repository")
    is_short = len(path) <= memory_writer.LINE_CHARS
    if not is_short or re.search(r"[\x00-\x1f\x7f]", path) or not is_safe_name(path):
        raise ValueError("path: it is too long, or holds a control character or a secret")


def saved_memory(
    memory: Memory, citations: Sequence[Citation], *, thread: str | None = None
) -> SavedMemory:
    """Return a memory in file form. thread: its working session, for a snapshot; None: a plain
    line."""
    left_out = {"facts", "views"}
    if thread is None:
        left_out |= _SNAPSHOT_ONLY
    values = {}
    for name in Memory.__struct_fields__:
        if name not in left_out:
            values[name] = getattr(memory, name)
    if thread is not None:
        values |= {"content_hash": memory.content_hash, "text_hash": memory.text_hash}
    # Without a place the reader derives the origin from the other fields.
    if not memory.place:
        values["origin"] = MemoryOrigin.FILE
    details = SavedDetails(**asdict(memory.details))
    # The very object that is the field's default, so that `omit_defaults` leaves it out.
    values["details"] = _NO_DETAILS if details == _NO_DETAILS else details
    return SavedMemory(
        schema=MEMORY_SCHEMA, thread=thread or "", citations=tuple(citations), **values
    )


class SavedEdge(Edge, frozen=True, forbid_unknown_fields=True, tag_field="record", tag="edge"):
    """A link from or to a memory of the file."""


class RetrievalTrace(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="record", tag="retrieval"
):
    """The memories that a turn used."""

    at: float
    turn: str
    memories: tuple[str, ...] = ()


class MappedFile(Struct, frozen=True, forbid_unknown_fields=True):
    """An indexed file."""

    path: str
    file_hash: str
    language: str = ""
    memories: int = 0


class SavedMapFile(
    MappedFile, frozen=True, forbid_unknown_fields=True, tag_field="record", tag="map_file"
):
    """A file of the map above it."""


class SavedMap(Struct, frozen=True, forbid_unknown_fields=True, tag_field="record", tag="map"):
    """What the index held at a time; the lines after it name its files."""

    indexed_at: float = 0.0
    edges: dict[Relation, int] = field(default_factory=dict)


def map_records(
    indexed_at: float, files: Iterable[MappedFile], edges: Mapping[Relation, int]
) -> Iterator[SavedMap | SavedMapFile]:
    """Yield the lines of one map: its own, then one for each of its files."""
    yield SavedMap(indexed_at, dict(edges))
    for file in files:
        yield SavedMapFile(file.path, file.file_hash, file.language, file.memories)


class SavedJudgment(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="record", tag="judgment"
):
    """One judgment."""

    turn_key: _Hash
    judge: _Hash
    """Judge key."""
    judge_name: Annotated[str, Meta(max_length=400)]
    """The judge as `provider:model`, where it is known."""
    draw: Annotated[int, Meta(ge=0, le=1_000)] = field(name="sample")
    hash: _Hash
    """Hash of the content."""
    score: _Share
    prior: _Share
    pack: Annotated[str, Meta(max_length=64)]
    position: Annotated[int, Meta(ge=0, le=10_000)]
    reason: Annotated[str, Meta(max_length=4_000)]


SnapshotRecord = SavedMemory | SavedEdge | RetrievalTrace | SavedMap | SavedMapFile
SavedRecord = SnapshotRecord | SavedJudgment
