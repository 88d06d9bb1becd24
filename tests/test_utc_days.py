"""Days by one rule, whatever the clock shows."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscore.platform.clock import DAY_S, day_of

MIDNIGHT = 1_760_054_400.0
"""2025-10-10."""


def test_a_day_ends_before_midnight() -> None:
    """Midnight is the first moment of a day."""
    assert day_of(MIDNIGHT) == day_of(MIDNIGHT + DAY_S - 0.001) == "2025-10-10"
    assert day_of(MIDNIGHT - 0.001) == "2025-10-09"


@pytest.mark.parametrize(
    ("at", "day"), [(-1e15, "0001-01-01"), (1e15, "9999-12-31"), (0, "1970-01-01")]
)
def test_every_moment_has_a_day(at: float, day: str) -> None:
    """Times outside the calendar fall on the first or the last day."""
    assert day_of(at) == day


@given(st.integers(-(10**10), 10**11))
def test_days_are_those_of_the_calendar(at: int) -> None:
    """Before 1970 as after it."""
    assert day_of(at) == datetime.fromtimestamp(at, UTC).date().isoformat()
