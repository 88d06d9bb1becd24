"""Format numbers for people: dollars, tokens, seconds, shares, times and bytes.

They look the same everywhere, rounded to two or three digits; the JSON has the exact values.
"""

from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite

ABOUT_A_DOLLAR, ABOUT_A_CENT = Decimal("0.9995"), Decimal("0.00995")
"""Least amounts that are shown with two, and with three decimals."""
LONGEST_WAIT_SHOWN_S = 86_400.0
DASH = "–"
"""Shown for an unknown number."""


def format_dollars(amount: Decimal | None, *, estimated: bool = False) -> str:
    """`$0.0042`, `$1.26`; `~` before an estimate, `unpriced` where no price is known, `$0` where
    nothing is charged.

    Below a cent it keeps two significant digits.
    """
    if amount is None:
        return "unpriced"
    if amount == 0:
        return "$0"
    sign = "~$" if estimated else "$"
    if amount >= ABOUT_A_DOLLAR:
        return f"{sign}{amount:,.2f}"
    if amount >= ABOUT_A_CENT:
        return f"{sign}{amount:.3f}"
    return f"{sign}{round(amount, 1 - amount.adjusted()):f}"


def format_wait(seconds: float) -> str:
    """`900 s`, or words where a host asks for more than a day: its number may have 300 digits."""
    if seconds <= LONGEST_WAIT_SHOWN_S:
        return f"{seconds:.0f} s"
    return "unreasonably long"


def format_tokens(count: int) -> str:
    """`812`, `1.2k`, `98k`, `1.2M`, `3.4G`."""
    if count < 1_000:
        return str(count)
    thousands = round(count / 1_000, 1 if count < 9_950 else None)
    if thousands < 1_000:
        return f"{thousands:g}k"
    if count < 999_950_000:
        return f"{count / 1e6:.1f}M"
    return f"{count / 1e9:.1f}G"


def format_mean(amount: float) -> str:
    """`0.3`, `12.5`, `98k`: like tokens, with one decimal below 100."""
    if amount < 99.95:
        return f"{amount:.1f}".removesuffix(".0")
    return format_tokens(round(amount))


def format_seconds(duration: float) -> str:
    """`0.2 s`, `41 s`, `3 min 20 s`, `2 h 5 min`."""
    if duration < 10:
        return f"{duration:.1f} s"
    seconds = round(duration)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3_600:
        if seconds % 60:
            return f"{seconds // 60} min {seconds % 60} s"
        return f"{seconds // 60} min"
    return f"{seconds // 3_600} h {seconds % 3_600 // 60} min"


def format_duration(duration: float) -> str:
    """`3 ms`, `240 ms`, `4.1 s`, `3 min 20 s`; a dash if not finite."""
    if not isfinite(duration):
        return DASH
    if duration < 0.9995:
        return f"{duration * 1_000:.0f} ms"
    return format_seconds(duration)


def format_share(part: float, whole: float) -> str:
    """`97 %`, `0.4 %`; a dash if `whole` is 0. Never rounded to 0 % or 100 %."""
    if whole <= 0:
        return DASH
    percent = part / whole * 100
    if 0 < percent < 1 or 99 < percent < 100:
        return f"{min(max(percent, 0.1), 99.9):.1f} %"
    return f"{percent:.0f} %"


def format_fraction(amount: float) -> str:
    """`0.7`, `0.025`, `0.731`: a threshold, a weight or a confidence, with at most three digits."""
    return f"{amount:.3g}"


def format_difference(actual: float, expected: float) -> str:
    """`+4 %`, `−12 %` against `expected`; a dash if that is 0."""
    if expected <= 0:
        return DASH
    percent = round((actual / expected - 1) * 100)
    if not percent:
        return "0 %"
    sign = "−" if percent < 0 else "+"
    return f"{sign}{abs(percent):,} %"


def format_time(at: float, form: str = "%Y-%m-%d %H:%M") -> str:
    """Unix seconds as UTC; a dash if outside the calendar."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime(form)
    except (OverflowError, ValueError, OSError):
        return DASH


def format_bytes(count: int) -> str:
    """`812 B`, `4.1 kB`, `38 MB`."""
    if count < 1_000:
        return f"{count} B"
    amount = count / 1_000
    for unit in ("kB", "MB"):
        if amount < 1_000:
            if amount >= 10:
                return f"{amount:.0f} {unit}"
            return f"{amount:.1f} {unit}"
        amount /= 1_000
    return f"{amount:.1f} GB"
