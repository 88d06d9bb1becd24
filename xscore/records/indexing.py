"""What the index knows of files and the names that they use, and what one run of it did."""

from msgspec import Struct

from xscore.records.memory import Relation


class FileStamp(Struct, frozen=True):
    """A file as it was indexed; equal size and time of change skip the read, an equal hash skips
    the parse."""

    path: str
    size: int
    mtime_ns: int
    """When its content or attributes last changed, whichever is later; 0: the next run reads
    it."""
    file_hash: str
    language: str = ""
    excluded: str = ""
    """Why the file has no memories although its name is admitted (`binary`, `long_lines`, …)."""


class Mention(Struct, frozen=True):
    """A name that a memory or file uses and that may resolve to an entity of the repository."""

    source: str
    """Id of the memory or file that uses the name."""
    relation: Relation
    name: str
    """Last part of the name: `write` of `store.write`, `cache` of `xscore.cache`."""
    hint: str = ""
    """Where the name comes from, in the form that `indexer.links` documents."""


class Excluded(Struct, frozen=True):
    """A file excluded from the index, and why."""

    path: str
    reason: str


class ExcludedCounts(Struct, frozen=True):
    """Excluded files, by reason."""

    by_reason: dict[str, int]
    sample: tuple[Excluded, ...]
    """Some of the excluded files, at most 1,000."""


class FileCounts(Struct, frozen=True, kw_only=True):
    """Files of one index run. seen = indexed + unchanged + excluded."""

    seen: int
    indexed: int
    unchanged: int
    removed: int
    excluded: ExcludedCounts


class MemoryCounts(Struct, frozen=True, kw_only=True):
    """Memories after one index run, and what it did to them."""

    total: int
    added: int
    changed: int
    removed: int
    by_kind: dict[str, int]
    by_language: dict[str, int]


class CommitCounts(Struct, frozen=True, kw_only=True):
    """Commits of the repository after one index run."""

    memories: int = 0
    """How many of the commits are memories."""
    added: int = 0
    removed: int = 0
    left_out: dict[str, int] = {}
    """How many have a message that says nothing of its own, by reason: `merge`, `version`,
    `format`, `generated`, `short`."""
    is_shallow: bool = False
    """Whether the clone has only the newest part of the history."""
    is_complete: bool = True
    """Whether all commits were read; if not, a deadline left some to the next run."""


class IndexReport(Struct, frozen=True, kw_only=True):
    """One index run."""

    files: FileCounts
    memories: MemoryCounts
    edges: dict[str, int]
    secrets_redacted: int
    duration_s: float
    notes: tuple[str, ...] = ()
    files_left: int = 0
    """Files that a deadline left to the next run; 0: the index is complete."""
    is_unchanged: bool = False
    """Whether all files were listed, and each is as it was at the run before."""
    commits: CommitCounts = CommitCounts()
