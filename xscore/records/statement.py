"""What people or programs state to the store, what became of it, and snapshots of all that was stated and learned.

Ids are types of their own, so that a memory's id is never used for a map's.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NewType

from msgspec import Struct

from xscore.records.memory import Citation, Edge, Kind, Layer, Memory, MemorySource

MemoryId = NewType("MemoryId", str)
"""`m_` and 20 hex characters."""
RetrievalId = NewType("RetrievalId", str)
"""`r_` and 20 hex characters: one retrieval by a turn."""
RepositoryMapId = NewType("RepositoryMapId", str)
"""`g_` and 20 hex characters: the index at one time."""

LAYERS_BY_KIND: Mapping[Kind, tuple[Layer, ...]] = {
    Kind.DECISION: (Layer.GOVERNANCE,),
    Kind.FAILURE: (Layer.PROJECT,),
    Kind.ARCHITECTURE: (Layer.PROJECT,),
    Kind.TODO: (Layer.PROJECT,),
    Kind.CONVENTION: (Layer.PROJECT, Layer.USER),
    Kind.PATTERN: (Layer.PROJECT, Layer.USER),
    Kind.TECH_STACK: (Layer.PROJECT, Layer.USER),
    Kind.CONTEXT: (Layer.PROJECT, Layer.USER),
    Kind.PREFERENCE: (Layer.USER,),
}
"""Kinds that can be stated, and the layers for each; the first is the default."""
DEFAULT_IMPORTANCE = 0.5
IMPORTANCE_BY_KIND: Mapping[Kind, float] = {Kind.DECISION: 0.7, Kind.FAILURE: 0.6}
"""Default importance of kinds that matter more than the rest."""


class Statement(Struct, frozen=True, kw_only=True):
    """Something to remember, before it is redacted and written."""

    text: str
    kind: Kind = Kind.CONTEXT
    layer: Layer | None = None
    """None: the first of `LAYERS_BY_KIND`."""
    title: str = ""
    """Empty: the first line of the text."""
    key: str = ""
    """What it is about; it replaces the active memory of its layer with the same key."""
    because: str = ""
    alternatives: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    importance: float | None = None
    """0..1; None: as its kind weighs, which is `weight`."""
    confidence: float = 1.0
    source: MemorySource = MemorySource.EXPLICIT
    allow_pii: bool = False
    """Keep e-mail addresses, phone numbers and postal addresses in it."""
    evidence_count: int = 1
    """Observations behind it."""

    @property
    def weight(self) -> float:
        """Its importance, 0..1."""
        return IMPORTANCE_BY_KIND.get(self.kind, DEFAULT_IMPORTANCE) if self.importance is None else self.importance


class StatementEffect(StrEnum):
    """What a statement, or a change, did to the store."""

    STORED = "stored"
    """A new memory."""
    REPEATED = "repeated"
    """The memory was there: one more piece of evidence."""
    UPDATED = "updated"
    """A memory changed and kept its id."""


class StoredStatement(Struct, frozen=True, kw_only=True):
    """A memory after something was stated."""

    memory: Memory
    became: StatementEffect
    superseded: tuple[str, ...] = ()
    """Ids of the memories it replaced."""
    redacted: int = 0
    """Secrets removed from it."""


class Failure(Struct, frozen=True, kw_only=True):
    """A failure after it occurred or was fixed."""

    memory: Memory
    signature: str
    """Digest of the error without what differs from run to run."""
    is_counted: bool
    """False: this occurrence was counted before."""
    pattern: Memory | None = None
    """The pattern it became, now or earlier."""
    is_new_pattern: bool = False


class LayerStats(Struct, frozen=True, kw_only=True):
    """What a layer holds beside the memories of the index."""

    layer: Layer
    rows: int
    bytes: int
    """Of titles, texts and particulars, as UTF-8."""
    max_rows: int
    """0: no cap."""
    max_bytes: int
    by_status: Mapping[str, int]
    oldest_at: float
    """Unix seconds; 0 where there are no rows."""
    newest_at: float
    uses: int
    """How often its memories were kept for an answer."""
    never_used: int
    """Rows that were never kept."""


class Observation(Struct, frozen=True):
    """What one project states about a key."""

    project: str
    """Hashed id of its store (`memory.observations.project_name`)."""
    key: str
    kind: str
    """Kind of the memory that says so."""
    value: str
    """The choice, in one sentence."""
    seen_at: float
    """Unix seconds."""


class KeptMemory(Struct, frozen=True):
    """A memory that is not from the index, with its citations."""

    memory: Memory
    thread: str = ""
    """The working session it belongs to, of an exchange."""
    citations: tuple[Citation, ...] = ()


class RetrievalTrace(Struct, frozen=True):
    """Which memories one turn kept."""

    id: RetrievalId
    at: float
    """Unix seconds."""
    turn: str
    memories: tuple[str, ...]


class MappedFile(Struct, frozen=True):
    """An indexed file."""

    path: str
    language: str
    file_hash: str
    memories: int
    """How many entities were found in it."""


class RepositoryMap(Struct, frozen=True):
    """What the index held at a time."""

    id: RepositoryMapId
    indexed_at: float
    """Unix seconds of the index run that changed it last; 0: unknown."""
    files: tuple[MappedFile, ...]
    edges: tuple[tuple[str, int], ...]
    """Relation -> how many, sorted."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """Everything that can be restored, sorted, so that equal stores give equal snapshots."""

    memories: tuple[KeptMemory, ...] = ()
    edges: tuple[Edge, ...] = ()
    """That touch one of the memories."""
    retrievals: tuple[RetrievalTrace, ...] = ()
    repository_maps: tuple[RepositoryMap, ...] = ()


class SnapshotRestored(Struct, frozen=True, kw_only=True):
    """Result of restoring a snapshot."""

    added: int
    changed: int
    """Existing memories set back to the snapshot's version."""
    unchanged: int
    edges: int
    retrievals: int
    """Added to the record of events."""
    repository_maps: int
    redacted: int
    """Secrets that were taken out on the way in."""
    forgotten: int = 0
    """Erased here before, and not restored."""


class MemoryImport(Struct, frozen=True, kw_only=True):
    """Result of importing memories."""

    added: tuple[str, ...] = ()
    """Ids."""
    known: int = 0
    """Were there already, word for word."""
    kept: tuple[str, ...] = ()
    """Ids of memories here that the file has otherwise, or whose key it claims: they stay as they are."""
    forgotten: int = 0
    """Erased here before, and not restored."""
    refused: int = 0
    """Lines of the user's own layer, which was not named."""
    redacted: int = 0
