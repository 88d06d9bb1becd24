"""The UTC day of a timestamp: one rule for the caps, the report, the page and the price tables.

Days have 86,400 s: Unix time has no leap seconds. Nothing here reads a clock.
Trade-off: a timestamp outside the calendar is clamped to its first or last day, so that a wrong
clock stops nothing.
"""

from datetime import date

DAY_S = 86_400
LATEST_TIMESTAMP = 10**11
"""Unix seconds, about 3,000 years from now; a later timestamp is damaged."""
_EPOCH = date(1970, 1, 1).toordinal()


def day_of(at: float) -> str:
    """Return the UTC day of a timestamp (Unix seconds), such as 2026-11-22; the store totals days
    by it."""
    ordinal = _EPOCH + int(at // DAY_S)
    return date.fromordinal(min(max(ordinal, 1), date.max.toordinal())).isoformat()
