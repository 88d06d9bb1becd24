"""How long a fan-out will take at the limits in force, and which limit binds. Pure but for one look into the ledger."""

import sqlite3
from dataclasses import dataclass
from statistics import median

ASSUMED_LATENCY_S = 2.0
"""Seconds of a judging call at a host that the ledger knows nothing of."""
LATEST_CALLS = 200


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds, and what they are waited for."""

    seconds: float
    binding_limit: str
    """`none`, `latency`, `requests_per_minute` or `tokens_per_minute`."""


def duration(
    *, calls: int, tokens: int, latency_s: float, concurrency: int, rpm: int | None, tpm: int | None
) -> Duration:
    """Take the slowest of three clocks: calls in flight, requests a minute, tokens a minute (input and output)."""
    if not calls:
        return Duration(0.0, "none")
    waves = -(-calls // max(1, concurrency))
    clocks = {
        "latency": waves * latency_s,
        "requests_per_minute": calls / rpm * 60 if rpm else 0.0,
        "tokens_per_minute": tokens / tpm * 60 if tpm else 0.0,
    }
    binding = max(clocks, key=lambda name: clocks[name])
    return Duration(clocks[binding], binding)


def typical_latency_s(connection: sqlite3.Connection, *, host: str, model: str) -> float:
    """Return the median of the latest answered judging calls of this model here, or an assumption."""
    rows = connection.execute(
        "SELECT duration_s FROM call WHERE host = ? AND model = ? AND stage = 'judge' AND outcome = 'ok'"
        " ORDER BY started_at DESC LIMIT ?",
        (host, model, LATEST_CALLS),
    ).fetchall()
    return median(row[0] for row in rows) if rows else ASSUMED_LATENCY_S
