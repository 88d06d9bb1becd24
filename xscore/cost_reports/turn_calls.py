"""Every attempt of one turn, as the ledger has it, in the order they began. It adds nothing up."""

import sqlite3

from xscore import database
from xscore.memory.call_figures import TOKENS, count, dollars_of, moment_of, seconds_of, usage_of
from xscore.records import CallRecord, Stage

_CALLS = f"""
    SELECT id, turn_id, stage, provider, host, model, started_at, duration_s, outcome, candidates,
        cost, estimated, {", ".join(TOKENS)}
    FROM call WHERE turn_id = ? ORDER BY started_at, id
"""  # noqa: S608  names are ours


def calls_of(connection: sqlite3.Connection, turn_id: str) -> list[CallRecord]:
    """Return the calls of a turn. Raises StoreDamaged for a row that makes no sense."""
    rows = connection.execute(_CALLS, (turn_id,)).fetchall()
    with database.making_sense("a call"):
        return [_call(row) for row in rows]


def _call(row: tuple[object, ...]) -> CallRecord:
    identifier, turn_id, stage, provider, host, model, started_at, duration_s, outcome, candidates = row[:10]
    cost, estimated, *tokens = row[10:]
    return CallRecord(
        id=str(identifier),
        turn_id=str(turn_id),
        stage=Stage(str(stage)),
        provider=str(provider),
        host=str(host),
        model=str(model),
        started_at=moment_of(started_at),
        duration_s=seconds_of(duration_s),
        outcome=str(outcome),
        candidates=count(candidates),
        usage=usage_of(tokens),
        cost_usd=dollars_of(cost),
        estimated=bool(estimated),
    )
