"""Turns, evaluations and jobs of a store as reports read them; each row is checked.

A damaged row is left out and counted, never read as zero. A killed turn has no figures but still
counts as a turn, an `unfinished` one. Calls are read elsewhere (`tables`). Trade-off: a job counts,
with all its calls, in the period in which it was planned.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from msgspec import convert
from msgspec.structs import replace

from xscore.cost_reports.records import LedgerTurn, OfflineTotals, ReportQuery, TurnKey
from xscore.platform.database import lenient_text
from xscore.platform.errors import BrokenReceipt
from xscore.platform.money import PER_DOLLAR
from xscore.records.receipt import SCORE_BINS, Coverage, Expected, Latency, TurnFigures
from xscore.records.reports import EvaluationLine
from xscore.store.call_rows import (
    AMOUNT_SQL,
    dollars_from_row,
    parse_count,
    parse_number,
    parse_seconds,
    parse_timestamp,
)
from xscore.store.turn_history import shown_state
from xscore.store.turns import TurnState

T = TypeVar("T")
_MOST_CANDIDATES = 10**12
_JOBS = f"""
    SELECT id, created_at, command, candidates, cached,
        (SELECT count(*) FROM job_question WHERE job = id) AS questions,
        count(turn_id) FILTER (WHERE batch <> '') AS batch_calls,
        count(turn_id) FILTER (WHERE cost IS NULL) AS unpriced,
        coalesce(sum(cost) FILTER (WHERE {AMOUNT_SQL.format("cost")}), 0) AS cost,
        coalesce(sum(cost_live - cost) FILTER (WHERE batch <> '' AND {AMOUNT_SQL.format("cost")}
            AND {AMOUNT_SQL.format("cost_live")}), 0) AS saved
    FROM (SELECT id, created_at, command, candidates AS candidates, cached FROM job)
        LEFT JOIN (SELECT turn_id, batch, cost, cost_live FROM call) ON turn_id = id GROUP BY id
"""
_PROCESS = """
    coalesce(CASE WHEN state = 'running' AND json_valid(context)
      THEN json_extract(context, '$.process') END, '')
    AS process
"""
"""Who began a turn that has not ended."""
_COVERAGE = ("candidates", "judged", "cached", "carried", "unjudged")
_STAGES = Latency.__struct_fields__


def read_turns(
    connection: sqlite3.Connection, query: ReportQuery, *, repository: str, now: float
) -> tuple[list[LedgerTurn], int]:
    """Read the turns that began in the period, or the one asked for; count the damaged rows.

    A turn whose figures are damaged is there without them, and counted.
    now: Unix seconds.
    """
    where, values = _where(query, "started_at", "id")
    with lenient_text(connection):
        turns = _rows(
            connection,
            f"SELECT id, started_at, task, state, branch, {_PROCESS} FROM turn WHERE {where}",
            values,
        )
        ids = f"SELECT id FROM turn WHERE {where}"
        figures = _rows(
            connection, f"SELECT * FROM turn_figures WHERE turn_id IN ({ids})", values
        )

    valid_figures, damaged = _valid(figures, lambda row: (_text(row["turn_id"]), _figures(row)))
    figures_by_turn = dict(valid_figures)

    def turn(row: Mapping[str, Any]) -> LedgerTurn:
        key = TurnKey(repository, _text(row["id"]))
        at = parse_timestamp(row["started_at"])
        state = shown_state(TurnState(row["state"]), str(row["process"]), age_s=now - at)
        task = _text(row["task"])
        branch = _text(row["branch"])
        return LedgerTurn(key, at, task, state, figures_by_turn.get(key.turn), branch)

    ledger_turns, left_out = _valid(turns, turn)
    return ledger_turns, left_out + damaged


def read_evaluations(
    connection: sqlite3.Connection, query: ReportQuery
) -> tuple[list[EvaluationLine], int]:
    """Read the period's evaluations, unordered; also return how many rows are damaged."""
    where, values = ("0", ()) if query.turn_id else _where(query, "at", "id")
    with lenient_text(connection):
        rows = _rows(connection, f"SELECT * FROM evaluation WHERE {where}", values)
    return _valid(rows, lambda row: convert(row, EvaluationLine))


def read_jobs(
    connection: sqlite3.Connection, query: ReportQuery
) -> tuple[OfflineTotals, dict[str, str], int]:
    """Add up the period's jobs, or the one asked for.

    Also the name that the calls of a job have in `--by command`, and how many rows are damaged.
    """
    with lenient_text(connection):
        rows = _rows(connection, _JOBS, ())
    jobs, left_out = _valid(
        rows, lambda row: (row["id"], parse_timestamp(row["created_at"]), _offline(row))
    )
    commands: dict[str, str] = {}
    for row in rows:
        commands[str(row["id"])] = "rescore" if row["command"] == "rescore" else "batch"
    asked_for = [totals for job, at, totals in jobs if _is_asked(job, at, query)]
    return sum_offline(asked_for), commands, left_out


def sum_offline(parts: Iterable[OfflineTotals]) -> OfflineTotals:
    """Add up the totals of jobs."""
    summed = [name for name in OfflineTotals.__struct_fields__ if name != "hit_rate"]
    total = OfflineTotals()
    for part in parts:
        sums = {name: getattr(total, name) + getattr(part, name) for name in summed}
        total = OfflineTotals(**sums)
    if not total.candidates:
        return total
    return replace(total, hit_rate=total.cached / total.candidates)


def _offline(row: Mapping[str, Any]) -> OfflineTotals:
    candidates = parse_count(row["candidates"])
    cached = parse_count(row["cached"])
    if not cached <= candidates < _MOST_CANDIDATES:
        raise ValueError("more was cached than there were candidates")
    return OfflineTotals(
        jobs=1,
        questions=row["questions"],
        candidates=candidates,
        cached=cached,
        batch_calls=row["batch_calls"],
        cost_usd=Decimal(row["cost"]) / PER_DOLLAR,
        unpriced=row["unpriced"],
        saved_by_batch_usd=Decimal(row["saved"]) / PER_DOLLAR,
    )


def _is_asked(job: str, at: float, query: ReportQuery) -> bool:
    if query.turn_id:
        return job == query.turn_id
    return query.period is None or query.period[0] <= at < query.period[1]


def _where(query: ReportQuery, at: str, identifier: str) -> tuple[str, tuple[object, ...]]:
    if query.turn_id:
        return f"{identifier} = ?", (query.turn_id,)
    if query.period is None:
        # A row without a valid time belongs to no period; a report on everything counts it as
        # damaged.
        return "1", ()
    return f"{at} >= ? AND {at} < ?", query.period


def _rows(
    connection: sqlite3.Connection, query: str, values: Sequence[object]
) -> list[dict[str, Any]]:
    cursor = connection.execute(query, values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _valid(
    rows: Sequence[Mapping[str, Any]], make: Callable[[Mapping[str, Any]], T]
) -> tuple[list[T], int]:
    """Make records from rows; leave the damaged ones out, and count them."""
    records = []
    for row in rows:
        try:
            records.append(make(row))
        except (TypeError, ValueError, BrokenReceipt):
            continue
    return records, len(rows) - len(records)


def _figures(row: Mapping[str, Any]) -> TurnFigures:
    """Raises TypeError, ValueError or BrokenReceipt for damaged figures."""
    stored_scores = convert(json.loads(_text(row["scores"])), list)
    scores = tuple(map(parse_count, stored_scores))
    causes = convert(json.loads(_text(row["unjudged_by_cause"])), dict)
    near = row["near"]
    return TurnFigures(
        command=_text(row["command"]),
        judge=_text(row["judge"]),
        coverage=Coverage(*(parse_count(row[name]) for name in _COVERAGE)),
        unjudged_by_cause={cause: parse_count(count) for cause, count in causes.items()},
        kept=parse_count(row["kept"]),
        threshold=parse_number(row["threshold"], most=1),
        near=None if near is None else parse_count(near),
        scores=scores if len(scores) == SCORE_BINS else (),
        latency=Latency(**{stage: parse_seconds(row[f"{stage}_s"]) for stage in _STAGES}),
        expected=_expected(row),
    )


def _expected(row: Mapping[str, Any]) -> Expected | None:
    """Return the estimate of a turn; None if any of its counts is missing."""
    columns = ("expected_calls", "expected_input_tokens", "expected_output_tokens")
    counts = [parse_count(row[column]) for column in columns if row[column] is not None]
    if len(counts) < len(columns):
        return None
    calls, input_tokens, output_tokens = counts
    cost = dollars_from_row(row["expected_cost"])
    return Expected(
        calls=calls, input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
