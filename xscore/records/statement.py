"""Statements to the store, their effect, and what layers hold besides the index."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from xscore.records.memory import Kind, Layer, Memory, MemoryScope, MemorySource

LAYERS_BY_KIND: Mapping[Kind, tuple[Layer, ...]] = {
    Kind.DECISION: (Layer.GOVERNANCE,),
    **dict.fromkeys(
        (Kind.FAILURE, Kind.ARCHITECTURE, Kind.TODO, Kind.ENTITY, Kind.ARTIFACT),
        (Layer.PROJECT,),
    ),
    **dict.fromkeys(
        (Kind.CONVENTION, Kind.PATTERN, Kind.TECH_STACK, Kind.CONTEXT),
        (Layer.PROJECT, Layer.USER),
    ),
    Kind.PREFERENCE: (Layer.USER,),
}
"""Kinds that can be stated, and the layers for each; the first is the default."""
DEFAULT_IMPORTANCE = 0.5
IMPORTANCE_BY_KIND: Mapping[Kind, float] = {Kind.DECISION: 0.7, Kind.FAILURE: 0.6}
"""Default importance of kinds that matter more than the rest."""
MOST_ALIASES, ALIAS_CHARS = 20, 100
"""How many other names a memory may have, and how long each may be: every one of them counts as a
name does."""


class Statement(Struct, frozen=True, kw_only=True):
    """Something to remember, before it is redacted and written."""

    text: str
    kind: Kind = Kind.CONTEXT
    layer: Layer | None = None
    """Layer of the memory; None: the first of `LAYERS_BY_KIND`."""
    scope: MemoryScope | None = None
    """Where it holds; None: everywhere for your own memories, otherwise the repository."""
    title: str = ""
    key: str = ""
    """Its subject; the statement replaces the active memory of its layer with the same key."""
    because: str = ""
    alternatives: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    """Other names of its subject."""
    links: tuple[str, ...] = ()
    author: str = ""
    """Who decided it; empty on a decision: git's `user.name`."""
    importance: float | None = None
    """Importance, 0..1; None: the default of its kind (see `weight`)."""
    confidence: float = 1.0
    source: MemorySource = MemorySource.EXPLICIT
    allow_pii: bool = False
    evidence_count: int = 1
    at: float | None = None
    """Its own time in Unix seconds; None: the time of storing."""

    @property
    def weight(self) -> float:
        """Its importance, 0..1."""
        return (
            IMPORTANCE_BY_KIND.get(self.kind, DEFAULT_IMPORTANCE)
            if self.importance is None
            else self.importance
        )


class StatementEffect(StrEnum):
    """What a statement, or a change, did to the store."""

    STORED = "stored"
    REPEATED = "repeated"
    """The memory existed, and has one more piece of evidence."""
    UPDATED = "updated"


class StoredStatement(Struct, frozen=True, kw_only=True):
    """A memory after something was stated."""

    memory: Memory
    became: StatementEffect
    superseded: tuple[str, ...] = ()
    redacted: int = 0


class RecordedFailure(Struct, frozen=True, kw_only=True):
    """A failure after it occurred or was fixed."""

    memory: Memory
    signature: str
    """Digest of the error without the parts that vary between runs."""
    is_counted: bool
    pattern: Memory | None = None
    is_new_pattern: bool = False


class LayerStats(Struct, frozen=True, kw_only=True):
    """What a layer holds besides indexed memories."""

    layer: Layer
    rows: int
    bytes: int
    max_rows: int
    max_bytes: int
    by_status: Mapping[str, int]
    oldest_at: float
    newest_at: float
    uses: int
    never_used: int


class Observation(Struct, frozen=True):
    """What one project states about a key."""

    project: str
    key: str
    kind: str
    value: str
    seen_at: float
