"""Minutes at the limits in force, and which limit binds."""

import pytest

from xscore.cost_reports.duration import Work, duration
from xscore.records import RateLimits

REPOSITORY = Work(calls=150, input_tokens=450_000, output_tokens=30_000)
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
    took = duration(REPOSITORY, limits, latency_s=2.0, concurrency=32)
    assert took.binding_limit == binding
    assert took.seconds == pytest.approx(seconds)


def test_nothing_to_judge_takes_no_time() -> None:
    """Without calls nothing binds, whatever the limits."""
    took = duration(Work(0, 0, 0), RateLimits(1, 1), latency_s=2.0, concurrency=1)
    assert (took.seconds, took.binding_limit) == (0.0, "none")
