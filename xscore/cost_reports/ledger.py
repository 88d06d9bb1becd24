"""The ledger: one row an attempt, and what the rows of a turn add up to.

Rows go through the same writing thread as judgments and in front of them, so that a committed judgment never lacks the
record of the call that paid for it; `record` itself only queues. Money is added as exact decimals. Trade-off: sums are
made row by row in Python (SQLite has no decimals), some milliseconds for the thousands of calls of a turn.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from decimal import Decimal

from xscore.cache.group_commit import GroupCommit
from xscore.database import making_sense
from xscore.errors import StoreError
from xscore.records import CallRecord, Stage, StageUsage, Usage

_OK = "ok"
_FADE = 0.98
"""What a learned ratio keeps of its past at each call: about the last fifty calls count."""
MIN_CHARS_PER_TOKEN = 1.5
MAX_CHARS_PER_TOKEN = 8.0
"""Whole judging prompts in any language lie within (their mix takes 3.7): beyond, a host has misreported its usage."""
_INSERT = """
    INSERT INTO call (id, turn_id, stage, provider, host, model, started_at, duration_s, outcome, candidates,
        input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_usd, estimated)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_LEARN = """
    INSERT INTO chars_per_token (provider, host, model, chars, tokens) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (provider, host, model) DO UPDATE
    SET chars = chars * ? + excluded.chars, tokens = tokens * ? + excluded.tokens
"""
_RATIO = "SELECT chars / tokens FROM chars_per_token WHERE provider = ? AND host = ? AND model = ?"
_ROWS = """
    SELECT outcome, cost_usd, estimated,
        input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, reasoning_tokens
    FROM call WHERE turn_id = ? AND stage = ?
"""


class Ledger:
    """Writes call records behind the caller's back, in order."""

    def __init__(self, commits: GroupCommit) -> None:
        self._commits = commits

    def record(self, call: CallRecord) -> None:
        """Queue one attempt. Raises StoreError when an earlier commit failed: what cannot be recorded is not spent.

        Not for a call that was answered: its reply is worth having, and whoever writes or reserves next is told.
        """
        try:
            self._commits.add(_insert, call)
        except (StoreError, sqlite3.Error):
            if call.outcome != _OK:
                raise


def stage_usage(connection: sqlite3.Connection, turn_id: str, stage: Stage) -> StageUsage:
    """Add up one stage of a turn. A call is an attempt that was answered; the others count as attempts alone."""
    rows = connection.execute(_ROWS, (turn_id, stage)).fetchall()
    return StageUsage(
        calls=sum(outcome == _OK for outcome, *_ in rows),
        attempts=len(rows),
        usage=sum((Usage(**dict(zip(_USAGE, row[3:], strict=True))) for row in rows), Usage()),
        cost_usd=total(row[1] for row in rows),
        estimated=any(row[2] for row in rows),
    )


def spent(connection: sqlite3.Connection) -> Decimal | None:
    """Add up every call in the store; None as soon as one is unpriced."""
    return total(row[0] for row in connection.execute("SELECT cost_usd FROM call").fetchall())


def total(costs: Iterable[str | None]) -> Decimal | None:
    """Add decimal strings exactly; None as soon as one is unpriced."""
    whole = Decimal(0)
    with making_sense("a cost"):
        for cost in costs:
            if cost is None:
                return None
            whole += dollars(cost)
    return whole


def dollars(stored: str) -> Decimal:
    """Read an amount that only we write, within `making_sense`. Raises ValueError or ArithmeticError otherwise."""
    amount = Decimal(stored)
    if not amount.is_finite() or amount < 0:
        raise ValueError(stored)
    return amount


def chars_per_token(connection: sqlite3.Connection, *, provider: str, host: str, model: str) -> float | None:
    """Return the characters a token this model has shown so far at this host; None: nothing yet that can be believed.

    What one host reports says nothing of another, though it serves a model of the same name.
    """
    row = connection.execute(_RATIO, (provider, host, model)).fetchone()
    return float(row[0]) if row and _is_believable(row[0]) else None


_USAGE = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


def _insert(calls: Sequence[CallRecord], connection: sqlite3.Connection) -> None:
    connection.executemany(_INSERT, map(_row, calls))
    connection.executemany(_LEARN, [_lesson(call) for call in calls if _teaches(call)])


def _teaches(call: CallRecord) -> bool:
    tokens = call.usage.input_tokens
    return not call.estimated and tokens > 0 and _is_believable(call.chars / tokens)


def _is_believable(ratio: float | None) -> bool:
    return ratio is not None and MIN_CHARS_PER_TOKEN <= ratio <= MAX_CHARS_PER_TOKEN


def _lesson(call: CallRecord) -> tuple[object, ...]:
    return call.provider, call.host, call.model, call.chars, call.usage.input_tokens, _FADE, _FADE


def _row(call: CallRecord) -> tuple[object, ...]:
    usage = call.usage
    return (
        *(call.id, call.turn_id, call.stage, call.provider, call.host, call.model, call.started_at),
        *(call.duration_s, call.outcome, call.candidates),
        *(usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens),
        *(usage.output_tokens, usage.reasoning_tokens),
        None if call.cost_usd is None else str(call.cost_usd),
        int(call.estimated),
    )
