"""The figures of a finished turn, which the store keeps for reports, forecasts and `calibrate`.

Trade-off: scores are kept as counts of bins, so that a turn over many memories takes no more room.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.turn_stages import TurnStages
from xscore.records.estimates import JudgeEstimate
from xscore.records.judgment import SCORE_TOLERANCE
from xscore.records.receipt import (
    BY_WORDS,
    NEAR_THRESHOLD,
    SCORE_BINS,
    Answer,
    Expected,
    TurnFigures,
)

_EDGES = tuple((at - SCORE_TOLERANCE) / SCORE_BINS for at in range(1, SCORE_BINS))
"""Lower bounds of all bins but the first, less float error."""


def figures_of_stages(
    judge: JudgeDescription, stages: TurnStages, answer: Answer, *, command: str
) -> TurnFigures:
    """Return what reports count of the turn: scores of its own judge alone."""
    ranking = stages.ranking
    scores: list[float] = []
    threshold = None
    if ranking.ranked_by:
        # Words ranked in the judge's place: it has no score of its own, but its threshold stands.
        threshold = judge.thresholds.default
    else:
        by_fallback = stages.judged.by_fallback
        judged_here = [
            entry for entry in ranking.ranked if entry.candidate.content_hash not in by_fallback
        ]
        scores = [entry.score for entry in judged_here]
    return turn_figures(
        answer,
        scores,
        command=command,
        forecast=stages.opened.forecast if judge.paid else None,
        threshold=threshold,
    )


def turn_figures(
    answer: Answer,
    scores: Iterable[float],
    *,
    command: str,
    forecast: JudgeEstimate | None = None,
    threshold: float | None = None,
) -> TurnFigures:
    """Return the figures of a finished turn.

    scores: final scores, 0..1, of every judged candidate.
    forecast: made before judging; None: none was made.
    threshold: of the judge, where words ranked by one of their own in its place; None: the
        answer's.
    """
    ascending = sorted(scores)  # sorted and bisected: a third of the time of a check per score
    judge = answer.judge
    if threshold is None:
        threshold = answer.threshold
    # Scores by words are probabilities, so what is near is a share of their threshold.
    width = NEAR_THRESHOLD if judge.by_model else NEAR_THRESHOLD * threshold
    near_from = threshold - width + SCORE_TOLERANCE
    near_to = threshold + width - SCORE_TOLERANCE
    return TurnFigures(
        command=command,
        judge=f"{judge.provider}:{judge.model}" if judge.by_model else BY_WORDS,
        coverage=answer.coverage,
        unjudged_by_cause=dict(answer.unjudged.by_cause),
        kept=len(answer.selected),
        threshold=threshold,
        near=bisect_left(ascending, near_to) - bisect_left(ascending, near_from),
        scores=_bins(ascending),
        latency=answer.latency,
        expected=msgspec.convert(forecast, Expected, from_attributes=True) if forecast else None,
    )


def _bins(ascending: Sequence[float]) -> tuple[int, ...]:
    ends = [bisect_left(ascending, edge) for edge in _EDGES]
    bounds = [0, *ends, len(ascending)]
    return tuple(end - begin for begin, end in pairwise(bounds))
