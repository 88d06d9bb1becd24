"""What is left of a cap, in words: exact if a call is refused, rounded elsewhere."""

from collections.abc import Callable
from decimal import ROUND_UP, Decimal

from xscore.platform.errors import BudgetExhausted
from xscore.platform.text import format_dollars, one_line
from xscore.records.reports import CapLeft

CAP_PERIOD_NAMES = {"turn": "a turn", "run": "this run", "day": "a day", "repository": "this repository"}
CAP_SETTINGS = {
    "turn": "--max-usd",
    "run": "--max-usd",
    "day": "budget.max_usd_day",
    "repository": "budget.max_usd_repository",
}


def cap_left_rounded(cap: CapLeft) -> str:
    """Say what is left: `$4.93 of the day's $5 are left`, or by how much the cap was exceeded."""
    return _cap_left(cap, format_dollars)


def _cap_left(cap: CapLeft, written: Callable[[Decimal], str], *, day: str = "") -> str:
    whose = f"the {one_line(cap.of)}'s ${cap.cap_usd:f}" + (f" ({day}, UTC)" if day and cap.of == "day" else "")
    if cap.left_usd < 0:
        return f"{whose} are spent, and {written(-cap.left_usd)} beyond"
    return f"{written(cap.left_usd)} of {whose} are left"


def describe_cap(cap: CapLeft) -> str:
    """`the cap of $5 on a day (budget.max_usd_day), of which $0.40 are left`."""
    left = "" if cap.left_usd == cap.cap_usd else f", of which {format_dollars(max(cap.left_usd, Decimal(0)))} are left"
    return f"the cap of ${cap.cap_usd:f} on {CAP_PERIOD_NAMES[cap.of]} ({CAP_SETTINGS[cap.of]}){left}"


def budget_exhausted(usd: Decimal, cap: CapLeft, *, day: str) -> BudgetExhausted:
    """Return the refusal of a call that may cost `usd`: what is left of the cap, and how to go on."""
    message = f"the next call may cost ${usd:f}, and {_cap_left(cap, '${:f}'.format, day=day)}"
    return BudgetExhausted(message, hint=_how_to_continue(cap, usd))


def _how_to_continue(cap: CapLeft, usd: Decimal) -> str:
    match cap.of:
        case "turn":
            higher = max(2 * cap.cap_usd, 2 * usd).quantize(Decimal("0.01"), ROUND_UP)
            return f"What was judged is kept; go on with `xscore continue --max-usd {higher:f}`, or narrow the task."
        case "day":
            return "Raise budget.max_usd_day, or wait for the next day (UTC); then go on with `xscore continue`."
    return "Raise budget.max_usd_repository; then go on with `xscore continue`."
