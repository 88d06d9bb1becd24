"""One past turn in a line: what `xscore turns` lists. Its receipt tells the rest."""

from dataclasses import dataclass, field
from enum import StrEnum

from xscore.records.receipt import Coverage, StageUsage


class AnswerIs(StrEnum):
    """What became of a turn's answer."""

    KEPT = "kept"
    NONE = "none"
    """No answer was wanted, or none came."""
    ERASED = "erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTurn:
    """A turn as a list shows it."""

    id: str
    at: float
    """Unix seconds."""
    thread: str
    state: str
    """`running`, `unfinished` (its process is gone), `done`, `partial`, `failed`, `interrupted`."""
    command: str
    """`ask`, `context`, `continue`, `eval`; empty: not known."""
    judge: str
    """`provider:model`, or `lexical`; empty: it has no receipt."""
    task: str
    task_is_erased: bool
    answer: AnswerIs
    coverage: Coverage | None
    """None: it has no receipt."""
    kept: int
    threshold: float
    spent: StageUsage = field(default_factory=StageUsage)
    """All its calls, by the ledger."""
    total_s: float | None = None
    """None: it has no receipt."""
