"""How long a fan-out will take at the limits in force, and which limit binds. Pure but for one look into the ledger.

Trade-off: only the latest calls of any kind are looked at, so that the look takes about a millisecond in a ledger of
any size, and a model that was not asked lately takes the time that is assumed of any.
"""

import sqlite3
from dataclasses import dataclass
from statistics import median

from xscore.cost_reports.ledger_sums import MOST_SECONDS
from xscore.records import RateLimits, Stage

ASSUMED_LATENCY_S = {Stage.JUDGE: 2.0, Stage.PRIMARY: 15.0, Stage.PROBE: 2.0, Stage.EMBED: 1.0}
"""Seconds of a call at a host that the ledger knows nothing of."""
LATEST_CALLS = 1_000
"""Of any kind, among which those of a model are sought,"""
SAMPLES = 200
"""and so many of them make the median."""
_LATEST = f"""
    SELECT duration_s FROM (
        SELECT host, model, stage, outcome, duration_s, batch FROM call ORDER BY started_at DESC LIMIT {LATEST_CALLS}
    ) WHERE host = ? AND model = ? AND stage = ? AND outcome = 'ok' AND batch = ''
    AND duration_s BETWEEN 0 AND {MOST_SECONDS} LIMIT {SAMPLES}
"""  # noqa: S608  figures are ours
"""A row that makes no sense is passed over; text is more than any number to SQLite."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be sent."""

    calls: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds, and what they are waited for."""

    seconds: float
    binding_limit: str
    """`none`, `latency`, or the field of `RateLimits` that takes longest."""


def duration(work: Work, limits: RateLimits, *, latency_s: float, concurrency: int) -> Duration:
    """Take the slowest of several clocks: calls in flight, and each limit a minute.

    Starting up counts nothing: within five calls' time the rate is there.
    """
    if not work.calls:
        return Duration(0.0, "none")
    waves = -(-work.calls // max(1, concurrency))
    taken = {
        "requests_per_minute": work.calls,
        "tokens_per_minute": work.input_tokens + work.output_tokens,
        "input_tokens_per_minute": work.input_tokens,
        "output_tokens_per_minute": work.output_tokens,
    }
    clocks = {"latency": waves * latency_s}
    for name, count in taken.items():
        per_minute = getattr(limits, name)
        if per_minute:
            clocks[name] = count / per_minute * 60
    binding = max(clocks, key=lambda name: clocks[name])
    return Duration(clocks[binding], binding)


def typical_latency_s(connection: sqlite3.Connection, *, host: str, model: str, stage: Stage = Stage.JUDGE) -> float:
    """Return the median of the latest answered calls of this stage to this model here, or an assumption."""
    rows = connection.execute(_LATEST, (host, model, stage)).fetchall()
    return median(row[0] for row in rows) if rows else ASSUMED_LATENCY_S[stage]
