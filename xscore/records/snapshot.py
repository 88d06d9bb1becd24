"""A snapshot: what was said, learned and looked up, as one value that can be put back. No judgment is in it."""

from dataclasses import dataclass

from xscore.records.memory import Citation, Edge, Memory
from xscore.records.said import RepositoryMapId, RetrievalId


@dataclass(frozen=True, slots=True)
class KeptMemory:
    """A memory that is not from the index, with what hangs on it."""

    memory: Memory
    thread: str = ""
    """The working session it belongs to, of an exchange."""
    citations: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True)
class RetrievalTrace:
    """Which memories one turn kept."""

    id: RetrievalId
    at: float
    """Unix seconds."""
    turn: str
    memories: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MappedFile:
    """An indexed file."""

    path: str
    language: str
    file_hash: str
    memories: int
    """How many entities were found in it."""


@dataclass(frozen=True, slots=True)
class RepositoryMap:
    """What the index held at a time."""

    id: RepositoryMapId
    indexed_at: float
    """Unix seconds of the index run that changed it last; 0: unknown."""
    files: tuple[MappedFile, ...]
    edges: tuple[tuple[str, int], ...]
    """Relation -> how many, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All of it, each part sorted, so that equal stores give equal snapshots."""

    memories: tuple[KeptMemory, ...] = ()
    edges: tuple[Edge, ...] = ()
    """That touch one of the memories."""
    retrievals: tuple[RetrievalTrace, ...] = ()
    repository_maps: tuple[RepositoryMap, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What putting a snapshot back did."""

    added: int
    changed: int
    """Memories that were there and are again as the snapshot has them."""
    unchanged: int
    edges: int
    retrievals: int
    """Added to the record of events."""
    repository_maps: int
    redacted: int
    """Secrets that were taken out on the way in."""
    forgotten: int = 0
    """Were erased here to be forgotten, and stay so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of importing memories."""

    added: tuple[str, ...] = ()
    """Ids."""
    known: int = 0
    """Were there already, word for word."""
    kept: tuple[str, ...] = ()
    """Ids of memories here that the file has otherwise, or whose key it claims: they stay as they are."""
    forgotten: int = 0
    """Were erased here to be forgotten, and stay so."""
    refused: int = 0
    """Lines of the user's own layer, which was not named."""
    redacted: int = 0
