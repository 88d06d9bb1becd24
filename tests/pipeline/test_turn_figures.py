"""The figures of a finished turn, from its receipt and scores."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import receipts
from xscore.pipeline.receipt import turn_figures
from xscore.records.receipt import NEAR_THRESHOLD, SCORE_BINS, Coverage, Latency, PrimaryInfo, UnjudgedAccount

CHOSEN = receipts.CHOSEN
JUDGE = replace(receipts.ANSWER.judge, model="small")
ANSWER = replace(
    receipts.ANSWER,
    judge=JUDGE,
    primary=PrimaryInfo("openai", "strong"),
    partial=True,
    coverage=Coverage(9, 4, 2, 1, 2),
    unjudged=UnjudgedAccount(by_cause={"timeout": 2}, sample=()),
    selected=(CHOSEN, replace(CHOSEN, id="m_2"), replace(CHOSEN, id="m_3")),
    near_misses=(CHOSEN,),
    answer="Done.",
    latency=Latency(index=0.1, judge=2.0, total=2.5),
    exit_code=1,
)
STEPS = [at / SCORE_BINS for at in range(SCORE_BINS + 1)]


def test_what_the_receipt_says_is_in_the_figures() -> None:
    """The judge, the outcomes of the candidates, the number chosen, and the duration."""
    found = turn_figures(ANSWER, (), command="continue")
    assert (found.command, found.judge, found.is_model) == ("continue", "openai:small", True)
    assert (found.coverage, found.unjudged_by_cause) == (ANSWER.coverage, {"timeout": 2})
    assert (found.kept, found.threshold, found.latency) == (3, 0.7, ANSWER.latency)
    assert found.expected is None


@given(st.lists(st.floats(0, 1)), st.floats(0, 1))
def test_every_score_is_counted_once(scores: list[float], threshold: float) -> None:
    """The bins hold all scores in any order; only scores within the margin count as near."""
    found = turn_figures(replace(ANSWER, threshold=threshold), iter(scores), command="ask")
    assert sum(found.scores) == len(scores) and len(found.scores) == SCORE_BINS
    assert found.near is not None
    sure = sum(abs(score - threshold) < NEAR_THRESHOLD - 1e-6 for score in scores)
    assert sure <= found.near <= sum(abs(score - threshold) < NEAR_THRESHOLD + 1e-6 for score in scores)
    for at, count in enumerate(found.scores):
        within = [score for score in scores if at <= score * SCORE_BINS < at + 1 or (at, score) == (SCORE_BINS - 1, 1)]
        assert abs(count - len(within)) <= sum(
            abs(score * SCORE_BINS - round(score * SCORE_BINS)) < 1e-8 for score in scores
        )
