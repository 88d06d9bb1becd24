"""Figures in words, for terminal and page."""

import math
from decimal import Decimal

import pytest

from xscore.platform.text import (
    DASH,
    counted,
    format_bytes,
    format_difference,
    format_dollars,
    format_duration,
    format_mean,
    format_place,
    format_seconds,
    format_share,
    format_time,
    format_tokens,
)


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        ("0", "$0"),
        ("0.00000004", "$0.000000040"),
        ("0.0004", "$0.00040"),
        ("0.0042", "$0.0042"),
        ("0.00996", "$0.010"),
        ("0.0114", "$0.011"),
        ("0.9996", "$1.00"),
        ("1.255", "$1.26"),
        ("12345.6", "$12,345.60"),
    ],
)
def test_dollars(amount: str, words: str) -> None:
    """Nothing charged is $0; a small price is never rounded to nothing, nor told as less than something."""
    assert format_dollars(Decimal(amount)) == words


def test_only_an_estimate_is_marked_as_one() -> None:
    """`~` is for what nobody counted; nothing charged and no known price are neither."""
    assert format_dollars(Decimal("0.0114"), estimated=True) == "~$0.011"
    assert (format_dollars(Decimal(0), estimated=True), format_dollars(None, estimated=True), format_dollars(None)) == (
        "$0",
        "unpriced",
        "unpriced",
    )


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0"),
        (812, "812"),
        (1_240, "1.2k"),
        (4_000, "4k"),
        (9_960, "10k"),
        (999_600, "1.0M"),
        (98_400, "98k"),
        (1_234_567, "1.2M"),
        (999_949_999, "999.9M"),
        (999_950_000, "1.0G"),
        (3_410_000_000, "3.4G"),
    ],
)
def test_tokens(count: int, words: str) -> None:
    """Tokens keep two or three figures."""
    assert format_tokens(count) == words


@pytest.mark.parametrize(
    ("duration", "words"), [(0.21, "0.2 s"), (41.4, "41 s"), (200, "3 min 20 s"), (120, "2 min"), (7_500, "2 h 5 min")]
)
def test_seconds(duration: float, words: str) -> None:
    """Durations are said in the unit one would say them in."""
    assert format_seconds(duration) == words


def test_counts_sizes_and_places() -> None:
    """Plural, units and line ranges; a path cannot drive the terminal."""
    assert (counted(1, "call"), counted(1_024, "call"), counted(0, "memory", "memories")) == (
        "1 call",
        "1,024 calls",
        "0 memories",
    )
    assert (format_bytes(812), format_bytes(4_096), format_bytes(38_000_000), format_bytes(2_500_000_000)) == (
        "812 B",
        "4.1 kB",
        "38 MB",
        "2.5 GB",
    )
    assert (format_place("a.py", 3, 9), format_place("a.py", 3, 3), format_place("a\x1b.md")) == (
        "a.py:3-9",
        "a.py:3",
        "a\\x1b.md",
    )


@pytest.mark.parametrize(
    ("amount", "words"), [(0, "0"), (0.25, "0.2"), (12.5, "12.5"), (99.94, "99.9"), (99.96, "100"), (98_400.2, "98k")]
)
def test_means_have_a_decimal_where_it_tells(amount: float, words: str) -> None:
    """A mean below 100 keeps one decimal, a larger one is said as a count is."""
    assert format_mean(amount) == words


@pytest.mark.parametrize(
    ("duration", "words"),
    [(0.0, "0 ms"), (0.0031, "3 ms"), (0.9994, "999 ms"), (0.9996, "1.0 s"), (41.4, "41 s"), (math.inf, DASH)],
)
def test_short_durations_are_told_in_milliseconds(duration: float, words: str) -> None:
    """Below a second milliseconds tell more; what is no duration is a dash."""
    assert format_duration(duration) == words


@pytest.mark.parametrize(
    ("part", "words"), [(0, "0 %"), (1, "0.1 %"), (50_000, "50 %"), (99_999, "99.9 %"), (100_000, "100 %")]
)
def test_a_share_is_all_only_where_it_is(part: int, words: str) -> None:
    """99,999 of 100,000 are not shown as all, nor 1 as none."""
    assert format_share(part, 100_000) == words


def test_a_share_of_nothing_is_not_known() -> None:
    """Nothing has no share, and no difference to what was not expected."""
    assert (format_share(0, 0), format_difference(3, 0)) == (DASH, DASH)


@pytest.mark.parametrize(("actual", "words"), [(104, "+4 %"), (88, "−12 %"), (100.2, "0 %"), (9_100, "+9,000 %")])
def test_a_difference_has_its_sign(actual: float, words: str) -> None:
    """More than expected is +, less is −, and what rounds to nothing has none."""
    assert format_difference(actual, 100) == words


def test_moments_are_utc() -> None:
    """A moment is said alike wherever the clock stands; one that no calendar has makes nothing fail."""
    assert format_time(1_795_348_800.0) == "2026-11-22 12:00"
    assert format_time(1e30) == format_time(math.nan) == DASH
