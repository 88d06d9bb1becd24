"""Jobs, turns and evaluations of a store as reports read them; each row is checked.

A row that makes no sense is left out and counted, never read as zero. A killed turn has no figures and is a turn all
the same. It knows nothing of calls (`ledger_sums`). The replayed hit rate is the share of candidates that the cache had
when a list was planned. Trade-off: a job counts, with all its calls, in the period in which it was planned.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct, convert, field
from msgspec.structs import replace

from xscore.platform import money
from xscore.platform.clock import LATEST_TIMESTAMP
from xscore.platform.database import lenient_text
from xscore.platform.errors import BrokenReceipt
from xscore.records import Coverage, Expected, Latency, TurnFigures
from xscore.records.cost_report import EvaluationLine, OfflineTotals, ReportQuery
from xscore.records.receipt import SCORE_BINS
from xscore.store.turn_history import (
    MOST_PICODOLLARS,
    dollars_from_row,
    parse_count,
    parse_number,
    parse_seconds,
    parse_timestamp,
)
from xscore.store.turns import TurnState

T = TypeVar("T")
BATCH, RESCORE = "batch", "rescore"
"""What a job's calls stand under in `--by command`."""
_MOST = 10**12
"""Candidates that no list has."""
_JOBS = """
    SELECT id, created_at, command, candidates, cached, (SELECT count(*) FROM job_question WHERE job = job.id) FROM job
"""
_IS_AMOUNT = f"typeof({{0}}) = 'integer' AND {{0}} BETWEEN 0 AND {MOST_PICODOLLARS - 1}"
_SPENT_BY_JOB = f"""
    SELECT turn_id, count(*) FILTER (WHERE batch <> ''), count(*) FILTER (WHERE cost IS NULL),
        sum(cost) FILTER (WHERE {_IS_AMOUNT.format("cost")}),
        sum(cost_live - cost) FILTER (WHERE batch <> '' AND {_IS_AMOUNT.format("cost")}
            AND {_IS_AMOUNT.format("cost_live")})
    FROM call WHERE turn_id IN (SELECT id FROM job) GROUP BY turn_id
"""


class JobSums(Struct):
    """What one store holds of the asked jobs."""

    found: OfflineTotals = field(default_factory=OfflineTotals)
    commands: dict[str, str] = field(default_factory=dict)
    """Job -> what its calls stand under; of all jobs of the store."""
    left_out: int = 0


def read_jobs(connection: sqlite3.Connection, asked: ReportQuery) -> JobSums:
    """Add up the jobs of the asked period, or the one that is asked for."""
    with lenient_text(connection):
        rows = connection.execute(_JOBS).fetchall()
        spent: Mapping[str, Sequence[int | None]] = {}
        if rows:
            spent = {job: sums for job, *sums in connection.execute(_SPENT_BY_JOB)}
    whole = JobSums()
    for job, at, command, candidates, cached, questions in rows:
        whole.commands[str(job)] = RESCORE if command == RESCORE else BATCH
        if not (isinstance(at, float) and 0 <= at <= LATEST_TIMESTAMP and _are_counts(candidates, cached)):
            whole.left_out += 1
        elif _is_asked(str(job), at, asked):
            whole.found = add_offline(
                whole.found, _offline_of_job(questions, candidates, cached, spent.get(job, (0, 0, None, None)))
            )
    return whole


def add_offline(one: OfflineTotals, other: OfflineTotals) -> OfflineTotals:
    """Add two up."""
    names = (name for name in OfflineTotals.__struct_fields__ if name != "hit_rate")
    total = OfflineTotals(**{name: getattr(one, name) + getattr(other, name) for name in names})
    return replace(total, hit_rate=total.cached / total.candidates if total.candidates else None)


def _offline_of_job(questions: int, candidates: int, cached: int, sums: Sequence[int | None]) -> OfflineTotals:
    batch_calls, unpriced, cost, saved = sums
    return OfflineTotals(
        jobs=1,
        questions=questions,
        candidates=candidates,
        cached=cached,
        batch_calls=batch_calls or 0,
        cost_usd=money.dollars_of_picodollars(cost or 0),
        unpriced=unpriced or 0,
        saved_by_batch_usd=_signed(saved or 0),
    )


def _signed(picodollars: int) -> Decimal:
    """Money is never below zero, what was saved may be."""
    return (
        money.dollars_of_picodollars(picodollars) if picodollars >= 0 else -money.dollars_of_picodollars(-picodollars)
    )


def _are_counts(candidates: object, cached: object) -> bool:
    return isinstance(candidates, int) and isinstance(cached, int) and 0 <= cached <= candidates < _MOST


def _is_asked(job: str, at: float, asked: ReportQuery) -> bool:
    if asked.turn_id:
        return job == asked.turn_id
    return (asked.since is None or at >= asked.since) and (asked.until is None or at < asked.until)


class TurnRow(Struct, frozen=True):
    """One turn, as far as its row and its figures can be believed."""

    id: str
    at: float
    """Unix seconds."""
    task: str
    state: str
    figures: TurnFigures | None
    """None: it has not finished, or its figures are damaged."""


class TurnRows(NamedTuple):
    """The asked turns of one store, in no order."""

    turns: list[TurnRow]
    left_out: int
    """Rows of turns, or of their figures, that make no sense."""


class EvaluationRows(NamedTuple):
    """The evaluations of the asked period, in no order."""

    evaluations: list[EvaluationLine]
    left_out: int
    """Rows that make no sense."""


def read_turns(connection: sqlite3.Connection, asked: ReportQuery) -> TurnRows:
    """Read the turns that began in the asked period, or the one that was asked for."""
    where, values = _where(asked, "started_at", "turn.id")
    query = (
        f"SELECT id, started_at, task, state, {', '.join(f'figures.{name}' for name in _FIGURES)}"
        f" FROM turn LEFT JOIN turn_figures AS figures ON turn_id = turn.id WHERE {where}"
    )
    found, left_out = [], 0
    with lenient_text(connection):
        rows = connection.execute(query, values).fetchall()
    for identifier, at, task, state, *figures in rows:
        try:
            turn = TurnRow(_text(identifier), parse_timestamp(at), _text(task), str(TurnState(state)), None)
        except (TypeError, ValueError):
            left_out += 1
            continue
        if figures[0] is not None:
            try:
                turn = replace(turn, figures=_figures_from_row(dict(zip(_FIGURES, figures, strict=True))))
            except (TypeError, ValueError, BrokenReceipt):
                left_out += 1
        found.append(turn)
    return TurnRows(found, left_out)


def read_evaluations(connection: sqlite3.Connection, asked: ReportQuery) -> EvaluationRows:
    """Read the evaluations of the asked period."""
    where, values = _where(asked, "at", "")
    found, left_out = [], 0
    with lenient_text(connection):
        names = ", ".join(EvaluationLine.__struct_fields__)
        rows = connection.execute(f"SELECT {names} FROM evaluation WHERE {where}", values).fetchall()
    for row in rows:
        try:
            found.append(convert(dict(zip(EvaluationLine.__struct_fields__, row, strict=True)), EvaluationLine))
        except ValueError:
            left_out += 1
    return EvaluationRows(found, left_out)


def _where(asked: ReportQuery, at: str, identifier: str) -> tuple[str, tuple[object, ...]]:
    if asked.turn_id:
        return (f"{identifier} = ?", (asked.turn_id,)) if identifier else ("0", ())
    since, until = asked.since or 0.0, LATEST_TIMESTAMP if asked.until is None else asked.until
    # what is no moment at all belongs to no period; asked for everything, it is counted as damaged
    return ("1", ()) if asked.since is None and asked.until is None else (f"{at} >= ? AND {at} < ?", (since, until))


_COVERAGE = ("candidates", "judged", "cached", "carried", "unjudged")
_EXPECTED = ("expected_calls", "expected_input_tokens", "expected_output_tokens")
_STAGES = Latency.__struct_fields__
_FIGURES = (
    *("command", "judge", "is_model", *_COVERAGE, "unjudged_by_cause", "kept", "near", "threshold", "scores"),
    *(f"{stage}_s" for stage in _STAGES),
    *(*_EXPECTED, "expected_cost"),
)


def _figures_from_row(row: Mapping[str, Any]) -> TurnFigures:
    """Raises TypeError, ValueError or BrokenReceipt for figures that make no sense."""
    counts = [None if row[name] is None else parse_count(row[name]) for name in _EXPECTED]
    expected = None
    if None not in counts:
        calls, input_tokens, output_tokens = (count or 0 for count in counts)
        cost = dollars_from_row(row["expected_cost"])
        expected = Expected(calls=calls, input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost)
    scores = tuple(map(parse_count, _decoded(row["scores"], list)))
    return TurnFigures(
        command=_text(row["command"]),
        judge=_text(row["judge"]),
        is_model=bool(parse_count(row["is_model"])),
        coverage=Coverage(*(parse_count(row[name]) for name in _COVERAGE)),
        unjudged_by_cause={
            cause: parse_count(count) for cause, count in _decoded(row["unjudged_by_cause"], dict).items()
        },
        kept=parse_count(row["kept"]),
        threshold=parse_number(row["threshold"], most=1),
        near=None if row["near"] is None else parse_count(row["near"]),
        scores=scores if len(scores) == SCORE_BINS else (),
        latency=Latency(**{stage: parse_seconds(row[f"{stage}_s"]) for stage in _STAGES}),
        expected=expected,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _decoded(text: object, kind: type[T]) -> T:
    found = json.loads(_text(text))
    if not isinstance(found, kind):
        raise TypeError(f"{text!r} is no {kind.__name__}")
    return found
