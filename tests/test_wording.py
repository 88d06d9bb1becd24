"""Figures in words, for terminal and page."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from xscore.platform.figures import (
    DASH,
    format_bytes,
    format_difference,
    format_dollars,
    format_duration,
    format_mean,
    format_seconds,
    format_share,
    format_time,
    format_tokens,
)
from xscore.platform.text import counted, format_place

FIGURES: dict[Callable[..., str], dict[Any, str]] = {
    format_dollars: {
        None: "unpriced",
        Decimal(0): "$0",
        Decimal("0.00000004"): "$0.000000040",
        Decimal("0.0042"): "$0.0042",
        Decimal("0.00996"): "$0.010",
        Decimal("0.9996"): "$1.00",
        Decimal("12345.6"): "$12,345.60",
    },
    format_tokens: {
        812: "812",
        1_240: "1.2k",
        9_960: "10k",
        999_600: "1.0M",
        999_950_000: "1.0G",
    },
    format_mean: {0: "0", 0.25: "0.2", 99.96: "100", 98_400.2: "98k"},
    format_seconds: {
        0.21: "0.2 s",
        41.4: "41 s",
        200: "3 min 20 s",
        120: "2 min",
        7_500: "2 h 5 min",
    },
    format_duration: {0.0031: "3 ms", 0.9994: "999 ms", 0.9996: "1.0 s", math.inf: DASH},
    format_bytes: {812: "812 B", 4_096: "4.1 kB", 38_000_000: "38 MB", 2_500_000_000: "2.5 GB"},
    format_time: {1_795_348_800.0: "2026-11-22 12:00", 1e18: DASH},
}
"""Nothing charged is $0, and a small price is never rounded to zero; times are UTC."""


@pytest.mark.parametrize("write", FIGURES, ids=lambda write: write.__name__)
def test_figures(write: Callable[..., str]) -> None:
    """Each kind of figure keeps two or three digits, in its natural unit."""
    for figure, words in FIGURES[write].items():
        assert write(figure) == words


def test_only_an_estimate_is_marked_as_one() -> None:
    """`~` marks estimates; nothing charged and no known price have none."""
    amounts = (Decimal("0.0114"), Decimal(0), None)
    assert [format_dollars(amount, estimated=True) for amount in amounts] == [
        "~$0.011",
        "$0",
        "unpriced",
    ]


def test_shares_and_differences() -> None:
    """99,999 of 100,000 is not shown as all, nor 1 as none; zero of zero has no percentage."""
    shares = [format_share(part, 100_000) for part in (0, 1, 50_000, 99_999, 100_000)]
    assert shares == ["0 %", "0.1 %", "50 %", "99.9 %", "100 %"]
    assert [format_difference(actual, 100) for actual in (104, 88, 100.2)] == [
        "+4 %",
        "−12 %",
        "0 %",
    ]
    assert (format_share(0, 0), format_difference(3, 0)) == (DASH, DASH)


def test_counts_and_places() -> None:
    """Plurals and line ranges; a path cannot control the terminal."""
    assert counted(1, "call") == "1 call"
    assert counted(1_024, "call") == "1,024 calls"
    assert counted(0, "memory", "memories") == "0 memories"
    places = [format_place("a.py", 3, 9), format_place("a.py", 3, 3), format_place("a\x1b.md")]
    assert places == ["a.py:3-9", "a.py:3", "a\\x1b.md"]
