"""The figures of a finished turn, out of its receipt and scores."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import receipts
from xscore.pipeline.receipt import turn_figures
from xscore.records import Coverage, Expected, JudgeEstimate, Latency, PrimaryInfo
from xscore.records.receipt import NEAR_THRESHOLD, SCORE_BINS, UnjudgedAccount

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
FORECAST = JudgeEstimate(
    candidates=9,
    cached=2,
    to_judge=7,
    calls=3,
    input_tokens=900,
    output_tokens=60,
    cost_usd=Decimal("0.0012"),
    seconds=4.0,
    binding_limit="latency",
    host="h",
)
STEPS = [at / SCORE_BINS for at in range(SCORE_BINS + 1)]


def test_what_the_receipt_says_is_in_the_figures() -> None:
    """Who judged, what came of the candidates, how many were chosen, and how long it took."""
    found = turn_figures(ANSWER, (), command="continue")
    assert (found.command, found.judge, found.is_model) == ("continue", "openai:small", True)
    assert (found.coverage, found.unjudged_by_cause) == (ANSWER.coverage, {"timeout": 2})
    assert (found.kept, found.threshold, found.latency) == (3, 0.7, ANSWER.latency)
    assert found.expected is None


def test_a_judge_that_is_no_model_is_lexical() -> None:
    """Whatever it calls itself."""
    found = turn_figures(replace(ANSWER, judge=replace(JUDGE, is_model=False)), (), command="ask")
    assert (found.judge, found.is_model) == ("lexical", False)


@pytest.mark.parametrize("cost", [Decimal("0.0012"), Decimal(0), None])
def test_what_was_expected_is_kept_beside_what_came(cost: Decimal | None) -> None:
    """Calls, tokens in and out, dollars; an unpriced forecast stays unpriced."""
    found = turn_figures(ANSWER, (), command="ask", forecast=replace(FORECAST, cost_usd=cost))
    assert found.expected == Expected(calls=3, input_tokens=900, output_tokens=60, cost_usd=cost)


def test_each_step_of_the_scale_is_the_lower_end_of_its_bin() -> None:
    """0.15 is in the fourth bin, 1.0 in the last with 0.95, though neither is exact in binary."""
    counts = turn_figures(ANSWER, STEPS, command="ask").scores
    assert counts == (1,) * (SCORE_BINS - 1) + (2,)


@pytest.mark.parametrize(
    ("score", "at"),
    [(0.7 + 0.1, 16), (0.1 + 0.2, 6), (0.35 + 0.2, 11), (1.0 - 0.05, 19), (0.0499, 0), (0.7999, 15), (0.05 - 1e-8, 0)],
)
def test_a_sum_of_shares_falls_where_it_would_on_paper(score: float, at: int) -> None:
    """A score made of a raw one and boosts is in the bin of its decimal value."""
    assert turn_figures(ANSWER, [score], command="ask").scores.index(1) == at


@pytest.mark.parametrize(
    ("score", "is_near"),
    [(0.6, False), (0.8, False), (0.7 + 0.1, False), (0.60001, True), (0.79999, True), (0.7, True), (0.65, True)],
)
def test_near_is_less_than_a_tenth_on_either_side(score: float, is_near: bool) -> None:
    """Exactly a tenth below is as far as exactly a tenth above: not near."""
    assert turn_figures(ANSWER, [score], command="ask").near == is_near


@pytest.mark.parametrize(
    ("threshold", "score"), [(0.2, 0.3), (0.3, 0.2), (0.7, 0.8), (0.8, 0.7), (0.1, 0.0), (0.9, 1.0)]
)
def test_dust_brings_no_score_near(threshold: float, score: float) -> None:
    """0.2 + 0.1 is a little more than 0.3 in binary; it is a tenth all the same."""
    assert turn_figures(replace(ANSWER, threshold=threshold), [score], command="ask").near == 0


@given(st.lists(st.floats(0, 1)), st.floats(0, 1))
def test_every_score_is_counted_once(scores: list[float], threshold: float) -> None:
    """The bins hold all scores, in any order; those far off are not near, those well within are."""
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
