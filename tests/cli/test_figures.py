"""Figures for people."""

from decimal import Decimal

import pytest

from xscore.cli.figures import counted, dollars, place, seconds, size, tokens


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (None, "unpriced"),
        (Decimal(0), "$0"),
        (Decimal("0.0004"), "<$0.001"),
        (Decimal("0.0114"), "~$0.011"),
        (Decimal("1.255"), "~$1.26"),
    ],
)
def test_dollars(amount: Decimal | None, words: str) -> None:
    """Nothing charged is $0, no known price is unpriced, and a small price is never rounded to nothing."""
    assert dollars(amount) == words


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
    ],
)
def test_tokens(count: int, words: str) -> None:
    """Tokens keep two or three figures."""
    assert tokens(count) == words


@pytest.mark.parametrize(
    ("duration", "words"), [(0.21, "0.2 s"), (41.4, "41 s"), (200, "3 min 20 s"), (120, "2 min"), (7_500, "2 h 5 min")]
)
def test_seconds(duration: float, words: str) -> None:
    """Durations are said in the unit one would say them in."""
    assert seconds(duration) == words


def test_counts_sizes_and_places() -> None:
    """Plural, units and line ranges; a path cannot drive the terminal."""
    assert (counted(1, "call"), counted(1_024, "call"), counted(0, "memory", "memories")) == (
        "1 call",
        "1,024 calls",
        "0 memories",
    )
    assert (size(812), size(4_096), size(38_000_000), size(2_500_000_000)) == ("812 B", "4.1 kB", "38 MB", "2.5 GB")
    assert (place("a.py", 3, 9), place("a.py", 3, 3), place("a\x1b.md")) == ("a.py:3-9", "a.py:3", "a\\x1b.md")
