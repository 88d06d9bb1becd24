"""What a list of questions says of its costs: the figures of sharing, also where it saved
nothing."""

from decimal import Decimal

import pytest
from msgspec.structs import replace

from xscore.extensions.batch.shared_account import (
    AskListReport,
    JudgingTotals,
    render_shared_account,
)
from xscore.records.receipt import StageUsage

NOTHING = JudgingTotals(calls=0, input_tokens=0, output_tokens=0, cost_usd=Decimal(0))


def totals(calls: int, input_tokens: int, usd: str) -> JudgingTotals:
    """Return figures with an output of no weight."""
    return JudgingTotals(
        calls=calls, input_tokens=input_tokens, output_tokens=0, cost_usd=Decimal(usd)
    )


REPORT = AskListReport(
    id="a_1",
    questions=4,
    asked=4,
    questions_a_call=4,
    ended="",
    judged_together=288,
    shared=StageUsage(calls=2),
    took=totals(2, 3_000, "0.002"),
    alone=totals(8, 12_000, "0.005"),
    alone_at_best_usd=Decimal("0.003"),
    saved=totals(6, 9_000, "0.001"),
)


def test_what_sharing_saved_is_said_in_calls_tokens_and_dollars() -> None:
    """With the dollars of a host that serves prefixes from its cache, and of one that does not."""
    last = render_shared_account(REPORT).split("\n")[-1]
    assert "6 of 8 calls" in last and "75 %" in last
    assert "$0.0010 to $0.0030" in last


@pytest.mark.parametrize("saved", [totals(-3, 100, "0"), totals(1, -2_400, "-0.001")])
def test_sharing_that_took_more_is_said_as_more(saved: JudgingTotals) -> None:
    """No figure is negative: what failed and was sent again is more than one question a call."""
    last = render_shared_account(replace(REPORT, saved=saved)).split("\n")[-1]
    assert "-" not in last and "−" not in last
    assert ("3 calls" in last) is (saved.calls < 0)
    assert ("20 %" in last) is (saved.input_tokens < 0)


def test_a_list_that_shared_no_call_speaks_of_none() -> None:
    """One question, or a judge that takes one question a call."""
    alone = replace(REPORT, shared=StageUsage(), saved=NOTHING)
    account = render_shared_account(alone)
    assert "2 calls" in account and "shared" not in account and "saved" not in account
