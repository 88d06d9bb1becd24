"""How trust fades unseen: base · exp(−λ · days) (L05). Pure."""

from math import exp

from xscore.records import Memory

SECONDS_PER_DAY = 86_400.0


def decay(base: float, days: float, per_day: float) -> float:
    """Return base · exp(−per_day · days); what lies in the future has not begun to fade."""
    return base * exp(-per_day * max(days, 0.0))


def days_since(moment: float, now: float) -> float:
    """Return the days between two moments in unix seconds; none, where the first lies in the future."""
    return max(now - moment, 0.0) / SECONDS_PER_DAY


def last_seen(memory: Memory) -> float:
    """Return when a memory was last said, changed or used (unix seconds)."""
    return max(memory.created_at, memory.updated_at, memory.accessed_at)
