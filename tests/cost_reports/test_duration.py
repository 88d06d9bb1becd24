"""Minutes at the limits in force, and which limit binds."""

from sqlite3 import Connection

import pytest

from tests.cost_reports.ledger_rows import DAY, add_call
from xscore.costs.call_history import (
    ASSUMED_LATENCY_S,
    LATENCY_SAMPLES,
    LATEST_CALLS,
    Workload,
    expected_duration,
    typical_latency_s,
)
from xscore.records import RateLimits, Stage

REPOSITORY = Workload(calls=150, input_tokens=450_000, output_tokens=30_000)
"""About three thousand functions in packs of twenty."""


@pytest.mark.parametrize(
    ("limits", "seconds", "binding"),
    [
        (RateLimits(500, 200_000), 144.0, "tokens_per_minute"),
        (RateLimits(50, 50_000), 576.0, "tokens_per_minute"),
        (RateLimits(50, 2_000_000), 180.0, "requests_per_minute"),
        (RateLimits(5_000, 20_000_000), 10.0, "latency"),
        (RateLimits(), 10.0, "latency"),
        (RateLimits(1_000, None, 450_000, 10_000), 180.0, "output_tokens_per_minute"),
        (RateLimits(1_000, None, 225_000, 30_000), 120.0, "input_tokens_per_minute"),
    ],
)
def test_the_slowest_clock_binds(limits: RateLimits, seconds: float, binding: str) -> None:
    """Calls, tokens, input and output each have a clock; the slowest is the minutes, and is named."""
    took = expected_duration(REPOSITORY, limits, latency_s=2.0, concurrency=32)
    assert took.binding_limit == binding
    assert took.seconds == pytest.approx(seconds)


def test_nothing_to_judge_takes_no_time() -> None:
    """Without calls nothing binds, whatever the limits."""
    took = expected_duration(Workload(0, 0, 0), RateLimits(1, 1), latency_s=2.0, concurrency=1)
    assert (took.seconds, took.binding_limit) == (0.0, "none")


def test_the_median_of_the_latest_calls_of_this_model_here(reader: Connection) -> None:
    """Older calls, those that failed, other hosts, models and stages say nothing of how long one takes today."""
    for number in range(LATENCY_SAMPLES):
        add_call(reader, f"old{number}", "t", DAY - 1_000 + number, duration_s=99.0)
    for number in range(LATENCY_SAMPLES):
        add_call(reader, f"new{number}", "t", DAY + number, duration_s=(1.0, 3.0, 4.0)[number % 3])
    for name, changes in enumerate(({"host": "x"}, {"model": "x"}, {"stage": "primary"}, {"outcome": "timeout"})):
        add_call(reader, f"other{name}", "t", DAY + 999, duration_s=77.0, **changes)
    assert typical_latency_s(reader, host="h", model="small") == 3.0
    assert typical_latency_s(reader, host="h", model="small", stage=Stage.PRIMARY) == 77.0
    assert typical_latency_s(reader, host="h", model="new") == ASSUMED_LATENCY_S[Stage.JUDGE]


@pytest.mark.parametrize("value", ["abc", b"x", -1.0, float("inf"), 1e300])
def test_a_duration_that_makes_no_sense_is_passed_over(reader: Connection, value: object) -> None:
    """One damaged row of the ledger neither ends an estimate nor makes its minutes endless."""
    add_call(reader, "odd", "t", DAY + 1, duration_s=value)
    assert typical_latency_s(reader, host="h", model="small") == ASSUMED_LATENCY_S[Stage.JUDGE]
    add_call(reader, "sound", "t", DAY, duration_s=2.5)
    assert typical_latency_s(reader, host="h", model="small") == 2.5


def test_a_model_that_is_new_costs_no_walk_through_the_ledger(reader: Connection) -> None:
    """The look ends after the latest calls of any kind: twenty times the calls take it no further."""

    def steps() -> int:
        count = 0

        def one() -> None:
            nonlocal count
            count += 1

        reader.set_progress_handler(one, 100)
        typical_latency_s(reader, host="h", model="new")
        reader.set_progress_handler(None, 0)
        return count

    for number in range(LATEST_CALLS):
        add_call(reader, f"a{number}", "t", DAY + number)
    short = steps()
    reader.execute("BEGIN")
    for number in range(20 * LATEST_CALLS):
        add_call(reader, f"b{number}", "t", DAY + number)
    reader.execute("COMMIT")
    assert steps() < 1.5 * short
