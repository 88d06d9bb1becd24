"""A receipt and the scores behind it to the figures that reports add up. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

from xscore.records import Answer, Expected, JudgeEstimate, TurnFigures
from xscore.records.selection import DUST
from xscore.records.turn_figures import NEAR, SCORE_BINS

_EDGES = tuple((at - DUST) / SCORE_BINS for at in range(1, SCORE_BINS))
"""Where each bin but the first begins; a score that is a bin's lower end but for dust is in it."""


def figures(
    answer: Answer, scores: Iterable[float], *, command: str, forecast: JudgeEstimate | None = None
) -> TurnFigures:
    """Return the figures of a finished turn.

    scores: final ones, 0..1, of every judged candidate. forecast: of the judging, before it began; None: none was made.
    """
    ascending = sorted(scores)  # and looked into: a third of the time that a look at each score takes
    judge = answer.judge
    return TurnFigures(
        command=command,
        judge=f"{judge.provider}:{judge.model}" if judge.is_model else "lexical",
        is_model=judge.is_model,
        coverage=answer.coverage,
        unjudged_by_cause=dict(answer.unjudged.by_cause),
        kept=len(answer.selected),
        threshold=answer.threshold,
        near=_near(ascending, answer.threshold),
        scores=_bins(ascending),
        latency=answer.latency,
        expected=_expected(forecast) if forecast else None,
    )


def _bins(ascending: Sequence[float]) -> tuple[int, ...]:
    begins = [0, *(bisect_left(ascending, edge) for edge in _EDGES), len(ascending)]
    return tuple(end - begin for begin, end in pairwise(begins))


def _near(ascending: Sequence[float], threshold: float) -> int:
    """Count the scores less than NEAR away."""
    above, below = threshold + NEAR - DUST, threshold - NEAR + DUST
    return bisect_left(ascending, above) - bisect_left(ascending, below)


def _expected(forecast: JudgeEstimate) -> Expected:
    return Expected(
        calls=forecast.calls,
        input_tokens=forecast.input_tokens,
        output_tokens=forecast.output_tokens,
        cost_usd=forecast.cost_usd,
    )
