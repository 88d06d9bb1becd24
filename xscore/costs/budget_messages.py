"""What a cap on dollars leaves, in words: exact where a call is refused, since it is held to; elsewhere rounded."""

from decimal import Decimal

from xscore.platform.text import format_dollars, one_line
from xscore.records import CapLeft

CAP_PERIOD_NAMES = {"turn": "a turn", "run": "this run", "day": "a day", "repository": "this repository"}
CAP_SETTINGS = {
    "turn": "--max-usd",
    "run": "--max-usd",
    "day": "budget.max_usd_day",
    "repository": "budget.max_usd_repository",
}


def cap_left_exact(cap: CapLeft, *, day: str = "") -> str:
    """`$0.4 of the day's $5 are left`, or how far beyond it went. day: the one (UTC) that a day's cap is of."""
    whose = f"the {one_line(cap.of)}'s ${cap.cap_usd:f}" + (f" ({day}, UTC)" if day and cap.of == "day" else "")
    if cap.left_usd < 0:
        return f"{whose} are spent, and ${-cap.left_usd:f} beyond"
    return f"${cap.left_usd:f} of {whose} are left"


def cap_left_rounded(cap: CapLeft) -> str:
    """`$4.93 of the day's $5 are left`: the same as a reader wants it, where nothing is refused."""
    whose = f"the {one_line(cap.of)}'s ${cap.cap_usd:f}"
    if cap.left_usd < 0:
        return f"{whose} are spent, and {format_dollars(-cap.left_usd)} beyond"
    return f"{format_dollars(cap.left_usd)} of {whose} are left"


def describe_cap(cap: CapLeft) -> str:
    """`the cap of $5 on a day (budget.max_usd_day), of which $0.40 are left`."""
    left = "" if cap.left_usd == cap.cap_usd else f", of which {format_dollars(max(cap.left_usd, Decimal(0)))} are left"
    return f"the cap of ${cap.cap_usd:f} on {CAP_PERIOD_NAMES[cap.of]} ({CAP_SETTINGS[cap.of]}){left}"
