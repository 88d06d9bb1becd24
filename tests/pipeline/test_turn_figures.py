"""The scores in a finished turn's figures; what they take over from receipts, reports prove."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import receipts
from xscore.pipeline.save_turn import turn_figures
from xscore.records.receipt import NEAR_THRESHOLD, SCORE_BINS


@given(st.lists(st.floats(0, 1)), st.floats(0, 1))
def test_every_score_is_counted_once(scores: list[float], threshold: float) -> None:
    """The bins hold all scores in any order; only scores within the margin count as near."""
    figures = turn_figures(
        replace(receipts.ANSWER, threshold=threshold), iter(scores), command="ask"
    )
    assert sum(figures.scores) == len(scores) and len(figures.scores) == SCORE_BINS
    assert figures.near is not None
    sure = sum(abs(score - threshold) < NEAR_THRESHOLD - 1e-6 for score in scores)
    assert (
        sure
        <= figures.near
        <= sum(abs(score - threshold) < NEAR_THRESHOLD + 1e-6 for score in scores)
    )
    for at, count in enumerate(figures.scores):
        within = [
            score
            for score in scores
            if at <= score * SCORE_BINS < at + 1 or (at, score) == (SCORE_BINS - 1, 1)
        ]
        assert abs(count - len(within)) <= sum(
            abs(score * SCORE_BINS - round(score * SCORE_BINS)) < 1e-8 for score in scores
        )
