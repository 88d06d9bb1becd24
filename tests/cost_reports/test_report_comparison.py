"""Comparisons in a report: the same judgments paid in other ways, and estimates against actual
costs."""

from decimal import Decimal
from sqlite3 import Connection

import pytest

from tests.cost_reports.ledger_rows import (
    ADOLLAR,
    DAY,
    add_call,
    add_figures,
    add_judged_turn,
    add_turn,
    reported,
)


def test_what_it_would_have_cost(reader: Connection) -> None:
    """Without our cache at the judge's average, the other ways as each call noted them, by batch
    the judging alone."""
    add_judged_turn(reader, "t_1", DAY)
    add_call(
        reader,
        "a",
        "t_1",
        cost=3 * ADOLLAR,
        packless=9 * ADOLLAR,
        plain=4 * ADOLLAR,
        batch=ADOLLAR,
    )
    add_call(
        reader,
        "b",
        "t_1",
        stage="primary",
        model="strong",
        plain=None,
        packless=None,
        batch=None,
    )
    comparison = reported(reader).comparison
    assert comparison.actual_usd == 4
    assert comparison.without_cache_usd == 4 + 8 * (Decimal(3) / 30)
    assert comparison.without_packs_usd == 10
    assert comparison.without_prefix_cache_usd == 5
    assert comparison.by_batch_usd == 2


def test_a_cached_period_asks_the_whole_ledger_what_a_judgment_costs(
    reader: Connection,
) -> None:
    """If the period judged nothing, the judge's all-time average is used; if none is known,
    none."""
    add_judged_turn(reader, "t_1", DAY)
    add_call(reader, "a", "t_1", cost=3 * ADOLLAR)
    add_judged_turn(
        reader, "t_2", DAY + 5_000, judged=0, cached=40, unjudged=0, unjudged_by_cause="{}"
    )
    assert reported(reader, since=DAY + 1_000).comparison.without_cache_usd == 4
    add_figures_of_another = {"judge": "openai:other", "judged": 0, "cached": 40, "unjudged": 0}
    add_judged_turn(reader, "t_3", DAY + 9_000, **add_figures_of_another)
    assert reported(reader, since=DAY + 8_000).comparison.without_cache_usd is None


@pytest.mark.parametrize("cost", ["free", 2**62, 2**63 - 1, -1])
def test_judgments_whose_calls_are_damaged_are_in_no_average(
    reader: Connection, cost: object
) -> None:
    """Unreadable calls were not free: the average is over turns with all their calls, and unknown
    without one."""
    add_judged_turn(reader, "t_1", DAY)
    for number in range(3):
        add_call(reader, f"a_{number}", "t_1", cost=cost)
    assert reported(reader).comparison.without_cache_usd is None
    add_judged_turn(reader, "t_2", DAY + 5_000, judged=10, cached=28)
    add_call(reader, "b", "t_2", cost=5 * ADOLLAR)
    expected = 5 + (8 + 28) * Decimal(5) / 10
    assert reported(reader).comparison.without_cache_usd == expected
    add_judged_turn(reader, "t_3", DAY + 9_000, judged=0, cached=40, unjudged=0)
    assert (
        reported(reader, since=DAY + 9_000).comparison.without_cache_usd == 40 * Decimal(5) / 10
    )


def test_judgments_without_a_price_are_in_no_average(reader: Connection) -> None:
    """If some judging has no price, the cost of a judgment is unknown, in the period and
    overall."""
    add_judged_turn(reader, "t_1", DAY)
    add_call(reader, "a", "t_1")
    add_call(reader, "b", "t_1", cost=None)
    add_judged_turn(reader, "t_2", DAY + 5_000, judged=0, cached=40, unjudged=0)
    assert reported(reader).comparison.without_cache_usd is None
    assert reported(reader, since=DAY + 5_000).comparison.without_cache_usd is None
    add_judged_turn(reader, "t_3", DAY - 5_000, judged=10, cached=28)
    add_call(reader, "c", "t_3", DAY - 5_000)
    assert reported(reader, since=DAY).comparison.without_cache_usd is None, (
        "an average over the others is a guess"
    )


def test_calls_that_do_not_know_leave_other_ways_unknown(reader: Connection) -> None:
    """Rows older than these figures make the comparison unknown, not equal."""
    add_call(reader, "a", "t_1", plain=None, packless=None, batch=None)
    comparison = reported(reader).comparison
    assert comparison.without_packs_usd is None
    assert comparison.without_prefix_cache_usd is None
    assert comparison.by_batch_usd is None


def test_estimates_are_held_against_turns_judged_to_their_end(reader: Connection) -> None:
    """A turn with unjudged candidates, or without an estimate, says nothing about how good
    estimates are."""
    expected = {
        "expected_calls": 2,
        "expected_input_tokens": 1_800,
        "expected_output_tokens": 150,
    }
    for number, unjudged in ((1, 0), (2, 2)):
        add_turn(reader, f"t_{number}", DAY + number)
        causes = '{"budget": 2}' if unjudged else "{}"
        rest = {"judged": 32 - unjudged, "unjudged": unjudged, "unjudged_by_cause": causes}
        add_figures(reader, f"t_{number}", expected_cost=ADOLLAR, **expected, **rest)
        add_call(reader, f"a_{number}", f"t_{number}")
        add_call(reader, f"b_{number}", f"t_{number}")
    accuracy = reported(reader).accuracy
    assert accuracy and accuracy.turns == 1
    assert accuracy.expected.calls == 2
    assert accuracy.expected.input_tokens == 1_800
    assert accuracy.expected.cost_usd == Decimal(1)
    assert accuracy.actual.calls == 2
    assert accuracy.actual.input_tokens == 2_000
    assert accuracy.actual.cost_usd == Decimal(4)


def test_estimated_dollars_are_held_against_those_without_a_prefix_cache(
    reader: Connection,
) -> None:
    """No estimate assumes that discount, so its savings are no error; the unknown is not
    compared."""
    add_turn(reader, "t_1", DAY)
    rest = {
        "judged": 32,
        "unjudged": 0,
        "unjudged_by_cause": "{}",
        "expected_input_tokens": 1,
        "expected_calls": 1,
    }
    add_figures(reader, "t_1", expected_cost=3 * ADOLLAR, expected_output_tokens=1, **rest)
    add_call(reader, "a", "t_1", cost=ADOLLAR, plain=3 * ADOLLAR)
    accuracy = reported(reader).accuracy
    assert accuracy and accuracy.expected.cost_usd == accuracy.actual.cost_usd == Decimal(3)
    reader.execute("UPDATE call SET cost_without_prefix_cache = NULL")
    accuracy = reported(reader).accuracy
    assert accuracy and accuracy.expected.cost_usd is accuracy.actual.cost_usd is None
