"""The UTC day of a moment, by one rule for the caps, the report, the page and the price tables.

Days have 86,400 s: Unix time knows no leap seconds. It reads no clock and knows no other calendar.
Trade-off: a moment that no calendar has falls on the first or the last day that there is, so that a clock set wrong
stops nothing.
"""

from datetime import date

DAY_S = 86_400
LATEST_TIMESTAMP = 10**11
"""Unix seconds, some three thousand years from now; beyond, a stamp is damaged."""
_EPOCH = date(1970, 1, 1).toordinal()


def day_of(at: float) -> str:
    """Return the UTC day of a moment in Unix seconds as 2026-11-22; it is the span of a day in the store."""
    ordinal = _EPOCH + int(at // DAY_S)
    return date.fromordinal(min(max(ordinal, 1), date.max.toordinal())).isoformat()
