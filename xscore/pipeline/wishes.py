"""What the caller wants of a turn beside the selection: an answer, a bundle in some form, a list of all scores."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from xscore.pipeline.ranking import Ranking
    from xscore.records import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the caller wants of a turn beside the selection."""

    answer: bool
    """One call to the answering model, where there is one."""
    command: str = "ask"
    """What the turn is entered as in the ledger: `ask`, `context`, `continue`, `eval`."""
    apart: bool = False
    """It is no work of the user's: it belongs to no working session, nothing counts as used by it or is remembered."""
    bundle: str = ""
    """`xml`, `markdown`, `json` or `memory`: give the bundle in this form even when there is an answer."""
    max_tokens: int | None = None
    all_scores: Path | None = None
    """One JSON line a candidate goes here."""
    ranked: "Callable[[Turn, Ranking], None] | None" = None
    """Told of the completed turn and of every candidate's place, before the receipt is made."""
    judged: "AbstractSet[str]" = frozenset()
    """Contents that were judged for it just before, in prompts that it shared: they count as judged, not as cached."""
    started: float | None = None
    """`time.monotonic()` from which the deadline counts; None: now."""
