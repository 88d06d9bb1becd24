"""The page of `xscore estimate`, and the question before a turn: what is expected, and what is a maximum."""

from collections.abc import Mapping
from decimal import Decimal

import pytest

from xscore.cli.explain import render_estimate
from xscore.cli.phrases import format_maximum, format_total
from xscore.records import CapLeft, Estimate, JudgeEstimate, PrimaryEstimate
from xscore.settings import BudgetSettings, JudgeSettings, Settings

JUDGE: Mapping[str, object] = {
    "candidates": 40,
    "cached": 10,
    "to_judge": 30,
    "calls": 2,
    "input_tokens": 9_000,
    "output_tokens": 400,
    "seconds": 2.0,
    "binding_limit": "latency",
    "host": "api.openai.com",
}
TURN_CAP = CapLeft(of="turn", cap_usd=Decimal(1), left_usd=Decimal(1))


def estimate(judging: str | None = "0.13", answering: str | None = "0.099") -> Estimate:
    """Two calls that judge, and one that answers; None: without a price."""
    usd = [None if one is None else Decimal(one) for one in (judging, answering)]
    return Estimate(
        judge=JudgeEstimate(cost_usd=usd[0], **JUDGE),  # type: ignore[arg-type]  # each is what its name says
        primary=PrimaryEstimate(input_tokens=9_500, output_tokens=8_000, cost_usd=usd[1], host="api.openai.com"),
        by_kind={"function": 5_000, "test": 1_000},
        by_folder={"src": 6_000},
        caps=(TURN_CAP,),
    )


def test_the_answer_is_a_maximum_and_the_sum_no_more_certain() -> None:
    """The answer costs at most so much, and the total is up to that."""
    lines = render_estimate(estimate(), Settings()).splitlines()
    assert "at most 9.5k in / 8k out · at most $0.099" in lines[2]
    assert lines[3] == "total    up to ~$0.229"


def test_judging_alone_is_about_so_much() -> None:
    """Where there is no answer, or it costs nothing, the total is an expectation."""
    free = estimate(answering="0")
    assert format_total(free) == "~$0.13" or format_total(free) == "~$0.130"
    assert format_maximum(Decimal(0)) == "$0" and format_maximum(None) == "unpriced"


def test_kinds_and_folders_are_said_to_be_memories_alone() -> None:
    """They add up to less than what is sent; the rest is named."""
    lines = render_estimate(estimate(), Settings()).splitlines()
    assert "6k tokens in are memories, by kind and folder below; the rest is prompt text" in lines[4]
    assert lines[5].startswith("kinds    function 5k · test 1k")


def test_a_replay_says_that_nothing_is_sent() -> None:
    """First what is in the cache and what would stay unjudged; then what the turn would take without it."""
    said = render_estimate(estimate(), Settings(judge=JudgeSettings(replay=True)))
    first, then = said.splitlines()[:2]
    assert first.startswith("replay   nothing is sent, $0: 10 of 40 judgments are in the cache; 30 would stay unjudged")
    assert then.strip() == "Without --replay judging would take:"
    assert "replay" not in render_estimate(estimate(), Settings())


@pytest.mark.parametrize(("judging", "answering"), [(None, "0.1"), ("0.1", None)])
def test_a_cap_that_cannot_hold_is_said(judging: str | None, answering: str | None) -> None:
    """Without a price of one model no cap holds the turn, and the page says so."""
    said = render_estimate(estimate(judging, answering), Settings(budget=BudgetSettings(max_usd=Decimal(1))))
    assert "total    unpriced" in said
    assert "a model has no known price, so it is not limited by" in said
