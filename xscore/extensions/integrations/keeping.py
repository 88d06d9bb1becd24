"""Which of a framework's passages to keep: the best at or above the threshold, and those that could not be judged.

An unjudged passage stays, last and marked with its cause: a host that failed must not look like a judgment. Trade-off:
more than `top_k` may stay.
"""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import xscore
from xscore.pipeline.options import load_with_options
from xscore.records.judgment import Thresholds

if TYPE_CHECKING:
    from xscore.extensions.lists.results import JudgedItem, ListReceipt
    from xscore.records.receipt import Answer


def kept_passages(
    question: str, texts: Sequence[str], *, threshold: float | None, top_k: int | None, options: dict[str, Any]
) -> list[tuple[int, "JudgedItem"]]:
    """Judge the texts; return position and row of the kept ones, best first. Raises what `xscore.judge` raises.

    threshold, top_k: None takes `selection.threshold` (`lexical_threshold` without a model) and `selection.top_k`.
    """
    if not texts:
        return []
    judged = xscore.judge(question, list(texts), **options)
    usual_threshold, usual_top_k = _selection(judged.receipt, options.get("settings"))
    least = usual_threshold if threshold is None else threshold
    rows = list(enumerate(judged))
    passing = [(place, row) for place, row in rows if row.score is not None and row.score >= least]
    passing.sort(key=lambda one: -(one[1].score or 0.0))
    most = usual_top_k if top_k is None else top_k
    return passing[:most] + [(place, row) for place, row in rows if row.score is None]


def warn_of_unjudged(answer: "Answer") -> None:
    """Warn of memories that were not judged; they are missing from the context."""
    if answer.coverage.unjudged:
        said = f"{answer.coverage.unjudged:,} memories are unjudged: {answer.unjudged.by_cause}"
        warnings.warn(said, stacklevel=3)


def _selection(receipt: "ListReceipt", settings: xscore.Settings | None) -> tuple[float, int]:
    """Return threshold and top-K of the settings by which the list was judged."""
    selection = (settings or load_with_options({}, None).settings).selection
    if not receipt.is_model:
        return selection.lexical_threshold, selection.top_k
    provider = receipt.judge.partition(":")[0]
    return Thresholds.of_table(selection.threshold, judge=provider).default, selection.top_k


def row_metadata(row: "JudgedItem") -> dict[str, Any]:
    """Return the judge's output for a passage, as plain values."""
    return {"xscore": {"score": row.score, "outcome": row.outcome, "cause": row.cause, "reason": row.reason}}
