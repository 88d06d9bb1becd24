"""What an index run saw, and what it hands to the store."""

from dataclasses import dataclass

from xscore.records.memory import Memory, Relation


@dataclass(frozen=True, slots=True)
class FileStamp:
    """How a file looked when it was indexed; equal size and mtime spare the read, an equal hash spares the parse."""

    path: str
    size: int
    mtime_ns: int
    file_hash: str
    language: str = ""
    excluded: str = ""
    """Why the file has no memories although its name would let it in (`binary`, `long_lines`, …)."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A name that a memory or file uses and that may resolve to an entity of the repository."""

    source: str
    """Memory id or file id of the user."""
    relation: Relation
    name: str
    """Its last part: `write` of `store.write`, `cache` of `xscore.cache`."""
    hint: str = ""
    """What the file says of where the name comes from, in the words of `indexer.links`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedFile:
    """A file as parsed this time: replaces all memories, mentions and edges that its path had."""

    stamp: FileStamp
    memories: tuple[Memory, ...]
    mentions: tuple[Mention, ...]
    secrets_redacted: int = 0


@dataclass(frozen=True, slots=True)
class Excluded:
    """A file kept out of the index, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExcludedCounts:
    """Files kept out of the index, counted by reason."""

    by_reason: dict[str, int]
    sample: tuple[Excluded, ...]
    """At most 20."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """Files of one index run. seen = indexed + unchanged + excluded."""

    seen: int
    indexed: int
    unchanged: int
    removed: int
    excluded: ExcludedCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCounts:
    """Memories after one index run, and what it did to them."""

    total: int
    added: int
    changed: int
    removed: int
    by_kind: dict[str, int]
    by_language: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """One index run."""

    files: FileCounts
    memories: MemoryCounts
    edges: dict[str, int]
    """Edges in the store by relation."""
    secrets_redacted: int
    """Secrets redacted in the files parsed this time."""
    duration_s: float
    notes: tuple[str, ...] = ()
    """What a user should know of this run: git could not be asked, a grammar gave up on a file."""
