"""A change as it is checked, and what the check says about it.

Paths are portable names relative to the root. Nothing here reads or decides anything.
"""

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum

from msgspec import Struct

LineSpan = tuple[int, int]
"""First and last line, counted from 1."""


class ChangeStatus(StrEnum):
    """What a change does to a file."""

    ADDED = "added"
    DELETED = "deleted"
    MODIFIED = "modified"
    RENAMED = "renamed"


class FileChange(Struct, frozen=True, kw_only=True):
    """One file of a change."""

    path: str
    """Path after the change; for a deleted file, the one before."""
    status: ChangeStatus = ChangeStatus.MODIFIED
    before: str = ""
    """The old name of a renamed file."""
    added: tuple[str, ...] = ()
    """New lines, as far as they are read."""
    removed: tuple[str, ...] = ()
    spans: tuple[LineSpan, ...] = ()
    """Changed lines as they are numbered after the change."""


class Change(Struct, frozen=True, kw_only=True):
    """A whole change."""

    files: tuple[FileChange, ...]
    base: str = ""
    """The commit that it is made upon, from which history is read; empty if there is no git."""
    messages: tuple[str, ...] = ()
    """Messages of the commits that it consists of."""
    left_out: int = 0
    """Files of the diff whose names lead out of the root, or cannot be read."""
    patch: str = ""
    """The diff as it was read, for a model judge; shortened, and not redacted yet."""

    @property
    def paths(self) -> frozenset[str]:
        """Every name that it touches, old and new."""
        names: set[str] = set()
        for file in self.files:
            names.update({file.path, file.before} - {""})
        return frozenset(names)


class FindingKind(StrEnum):
    """What is wrong, most urgent first."""

    DOCUMENT = "stale-document"
    """A document names something that the change removes."""
    DECISION = "stale-decision"
    """A stated memory whose cited code the change alters, or that names what it removes."""
    CONTRADICTED = "contradicted"
    """A model says that the change contradicts it."""
    TEST = "missing-test"
    """A test that would have changed."""
    FILE = "missing-file"
    """Another file that would have changed."""
    DUPLICATED = "duplicated"
    """A model says that existing code already does what the change adds."""


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that the change leaves undone, or untrue."""

    kind: FindingKind
    path: str = ""
    """Path of a file; empty for a stated memory."""
    line: int = 0
    """Line of the file; 0 for the file as a whole."""
    memory_id: str = ""
    title: str = ""
    """Title of a stated memory."""
    score: float
    """How likely it is that it must change, 0..1."""
    reasons: tuple[str, ...] = ()


class ModelVerdict(Struct, frozen=True, kw_only=True):
    """What a model judge says about a change; by default none was asked."""

    sure: tuple[Finding, ...] = ()
    """What is contradicted, and stated memories that no longer hold."""
    likely: tuple[Finding, ...] = ()
    """What is missing, best first."""
    judge: str = ""
    """The model that judged; empty if nothing was judged."""
    shown: frozenset[str] = frozenset()
    """The files whose memories the judge was shown."""
    turn_id: str = ""
    cost_usd: Decimal | None = Decimal(0)
    is_interrupted: bool = False
    warnings: tuple[str, ...] = ()

    def missing(self, learned: Sequence[Finding]) -> list[Finding]:
        """Return what is missing: the judge's word if it has judged, or what was learned."""
        if not self.judge:
            return list(learned)
        unseen = [finding for finding in learned if finding.path not in self.shown]
        return [*self.likely, *unseen]


class NearFile(Struct, frozen=True):
    """A file in the learned order, whether or not it is reported as missing."""

    path: str
    score: float


class CheckReport(Struct, frozen=True, kw_only=True):
    """The result of a check."""

    findings: tuple[Finding, ...]
    """Stale decisions and documents first, then by score."""
    nearest: tuple[NearFile, ...] = ()
    """The files that would most likely have changed too, even where nothing seems missing."""
    changed_files: int
    left_out: int = 0
    silenced: str = ""
    """The reason that a commit message gives for not being checked."""
    commits_read: int = 0
    """Past commits that were learned from."""
    judge: str = ""
    """The model that judged; empty if none did."""
    turn_id: str = ""
    """Id of the turn in the history and the ledger; empty if nothing was judged."""
    cost_usd: Decimal | None = Decimal(0)
    """Dollars spent; None: unpriced."""
    is_interrupted: bool = False
    """Whether Ctrl-C came while the model judged."""
    warnings: tuple[str, ...] = ()
