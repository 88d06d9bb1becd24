"""What caps leave, in words: exact where a call was refused by it, rounded where a reader is told."""

from decimal import Decimal

from xscore.costs.budget_messages import cap_left_exact, cap_left_rounded, describe_cap
from xscore.records import CapLeft

LEFT = CapLeft(of="day", cap_usd=Decimal(5), left_usd=Decimal("4.931954415"))
BEYOND = CapLeft(of="run", cap_usd=Decimal("0.20"), left_usd=Decimal("-0.001234567"))


def test_what_is_told_is_rounded() -> None:
    """A sentence that refuses nothing says dollars as every other does; the cap stands as it was set."""
    assert cap_left_rounded(LEFT) == "$4.93 of the day's $5 are left"
    assert cap_left_rounded(BEYOND) == "the run's $0.20 are spent, and $0.0012 beyond"
    assert describe_cap(LEFT) == "the cap of $5 on a day (budget.max_usd_day), of which $4.93 are left"


def test_what_refuses_is_exact() -> None:
    """Who is refused can reckon with what the sentence says."""
    assert cap_left_exact(LEFT, day="2026-11-22") == "$4.931954415 of the day's $5 (2026-11-22, UTC) are left"
    assert cap_left_exact(BEYOND) == "the run's $0.20 are spent, and $0.001234567 beyond"
