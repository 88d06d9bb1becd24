"""The figures of one finished turn that reports add up: what the receipt says in words and lists, in numbers."""

from dataclasses import dataclass
from decimal import Decimal

from xscore.records.receipt import Coverage, Latency

SCORE_BINS = 20
"""Final scores are counted in bins of 0.05; 1.0 falls in the last."""
NEAR = 0.1
"""A score less than this from the threshold is near it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What judging was expected to take before it began."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    """None: unpriced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFigures:
    """One finished turn in numbers."""

    command: str
    """`ask`, `context`, `continue`, `eval`; empty: not known."""
    judge: str
    """`provider:model`, or `lexical`."""
    is_model: bool
    coverage: Coverage
    unjudged_by_cause: dict[str, int]
    kept: int
    threshold: float
    near: int | None
    """Scores near the threshold; None: not known, of a turn from before they were counted."""
    scores: tuple[int, ...]
    """Final scores by bin; empty: not known."""
    latency: Latency
    expected: Expected | None
    """None: nothing was judged by a model."""
