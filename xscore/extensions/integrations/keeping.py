"""Which of a framework's passages to keep: the best at or above the threshold, and those that could
not be judged.

An unjudged passage stays, last and marked with its cause: a host that failed must not look like a
judgment. Trade-off: more than `top_k` may stay.
"""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

import xscore
from xscore.pipeline.options import load_with_options
from xscore.records.judgment import Thresholds

if TYPE_CHECKING:
    from xscore.extensions.lists.results import JudgedItem, ListReceipt
    from xscore.records.receipt import Answer


class KeepsPassages(BaseModel):
    """The options of an integration that keeps a framework's passages."""

    threshold: float | None = None
    """The lowest score that stays. Default: `selection.threshold`, or `selection.lexical_threshold`
    without a model."""
    top_k: int | None = None
    """Most items that stay. Default: `selection.top_k`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Passed to `xscore.judge`: judge, rubric, max_usd, deadline, store."""

    def kept_passages(
        self, question: str, texts: Sequence[str]
    ) -> list[tuple[int, "JudgedItem"]]:
        """Judge the texts; return position and row of the kept ones, best first.

        Raises what `xscore.judge` raises.
        """
        if not texts:
            return []
        judged = xscore.judge(question, list(texts), **self.options)
        usual_threshold, usual_top_k = _selection(judged.receipt, self.options.get("settings"))
        least = usual_threshold if self.threshold is None else self.threshold
        rows = list(enumerate(judged))
        passing = []
        for place, row in rows:
            if row.score is not None and row.score >= least:
                passing.append((place, row))
        passing.sort(key=lambda placed: -(placed[1].score or 0.0))
        top_k = usual_top_k if self.top_k is None else self.top_k
        return passing[:top_k] + [(place, row) for place, row in rows if row.score is None]


def warn_of_unjudged(answer: "Answer") -> None:
    """Warn of memories that were not judged; they are missing from the context."""
    if answer.coverage.unjudged:
        message = (
            f"{answer.coverage.unjudged:,} memories are unjudged: {answer.unjudged.by_cause}"
        )
        warnings.warn(message, stacklevel=3)


def _selection(receipt: "ListReceipt", settings: xscore.Settings | None) -> tuple[float, int]:
    """Return threshold and top-K of the settings by which the list was judged."""
    selection = (settings or load_with_options({}, None).settings).selection
    if not receipt.by_model:
        return selection.lexical_threshold, selection.top_k
    provider = receipt.judge.partition(":")[0]
    return Thresholds.of_table(selection.threshold, judge=provider).default, selection.top_k


def row_metadata(row: "JudgedItem") -> dict[str, Any]:
    """Return the judge's output for a passage, as plain values."""
    return {
        "xscore": {
            "score": row.score,
            "outcome": row.outcome,
            "cause": row.cause,
            "reason": row.reason,
        }
    }
