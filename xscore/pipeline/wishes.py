"""What the caller wants of a turn beside the selection: an answer, a bundle in some form, a list of all scores."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the caller wants of a turn beside the selection."""

    answer: bool
    """One call to the answering model, where there is one."""
    bundle: str = ""
    """`xml`, `markdown`, `json` or `memory`: give the bundle in this form even when there is an answer."""
    max_tokens: int | None = None
    all_scores: Path | None = None
    """One JSON line a candidate goes here."""
    started: float | None = None
    """`time.monotonic()` from which the deadline counts; None: now."""
