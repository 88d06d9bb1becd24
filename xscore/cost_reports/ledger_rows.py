"""What the jobs of a stretch came to: lists of questions judged offline, by batch or live, and what the cache had.

The replayed hit rate is the share of candidates that the cache had when a list was planned, and nothing more is
claimed. A row that makes no sense is left out and counted. It knows nothing of turns. Trade-off: a job belongs, with
all its calls, to the stretch in which it was planned, though a batch answers a day later.

The turns of a store as reports see them: when, what, how it ended, and its figures; each row is checked at the door.

A turn that was killed has no figures and is a turn all the same. What makes no sense is left out and counted, never
read as zero. It knows nothing of calls; `tables` brings the two together.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Annotated, NamedTuple

from msgspec import Struct, convert, field
from pydantic import Field, Json, TypeAdapter, ValidationError

from xscore.cost_reports.ledger_sums import MOST_COST_BITS
from xscore.costs.ledger import MOST_SECONDS
from xscore.platform import money
from xscore.platform.database import lenient_text
from xscore.platform.errors import BrokenReceipt
from xscore.records import Coverage, Expected, Latency, TurnFigures
from xscore.records.cost_report import LATEST_TIMESTAMP, EvaluationLine, OfflineTotals, ReportQuery
from xscore.records.receipt import SCORE_BINS
from xscore.store.turns import TurnState

BATCH, RESCORE = "batch", "rescore"
"""What a job's calls stand under in `--by command`."""
_MOST = 10**12
"""Candidates that no list has."""
_JOBS = """
    SELECT id, created_at, command, candidates, cached, (SELECT count(*) FROM job_question WHERE job = job.id) FROM job
"""
_IS_AMOUNT = f"typeof({{0}}) = 'integer' AND {{0}} >= 0 AND {{0}} >> {MOST_COST_BITS} = 0"
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
    """Add up the jobs of the asked stretch, or the one that is asked for."""
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
    candidates, cached = one.candidates + other.candidates, one.cached + other.cached
    return OfflineTotals(
        jobs=one.jobs + other.jobs,
        questions=one.questions + other.questions,
        candidates=candidates,
        cached=cached,
        hit_rate=cached / candidates if candidates else None,
        batch_calls=one.batch_calls + other.batch_calls,
        cost_usd=one.cost_usd + other.cost_usd,
        unpriced=one.unpriced + other.unpriced,
        saved_by_batch_usd=one.saved_by_batch_usd + other.saved_by_batch_usd,
    )


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


_Count = Annotated[int, Field(ge=0, strict=True)]
_Share = Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]
_Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS, strict=True, allow_inf_nan=False)]
_Moment = Annotated[float, Field(ge=0, le=LATEST_TIMESTAMP, strict=True, allow_inf_nan=False)]
_Text = Annotated[str, Field(strict=True)]


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
    """The evaluations of the asked stretch, in no order."""

    evaluations: list[EvaluationLine]
    left_out: int
    """Rows that make no sense."""


def read_turns(connection: sqlite3.Connection, asked: ReportQuery) -> TurnRows:
    """Read the turns that began in the asked stretch, or the one that was asked for."""
    where, values = _where(asked, "started_at", "turn.id")
    query = f"SELECT {', '.join(_COLUMNS.values())} FROM turn LEFT JOIN turn_figures ON turn_id = turn.id WHERE {where}"
    found, left_out = [], 0
    with lenient_text(connection):
        for row in connection.execute(query, values).fetchall():
            named = dict(zip(_COLUMNS, row, strict=True))
            try:
                turn = _turn_row().validate_python(named)
            except ValidationError:
                left_out += 1
                continue
            figures = None
            if named["command"] is not None:
                try:
                    figures = _figures(_figures_row().validate_python(named))
                except (ValidationError, BrokenReceipt):
                    left_out += 1
            found.append(TurnRow(turn.id, turn.started_at, turn.task, str(turn.state), figures))
    return TurnRows(found, left_out)


def read_evaluations(connection: sqlite3.Connection, asked: ReportQuery) -> EvaluationRows:
    """Read the evaluations of the asked stretch."""
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
    # what is no moment at all belongs to no stretch; asked for everything, it is counted as damaged
    return ("1", ()) if asked.since is None and asked.until is None else (f"{at} >= ? AND {at} < ?", (since, until))


_COLUMNS: Mapping[str, str] = {name: name for name in ("id", "started_at", "task", "state", "command")} | {
    "judge": "turn_figures.judge",
    **{name: name for name in ("is_model", "candidates", "judged", "cached", "carried", "unjudged")},
    **{name: name for name in ("unjudged_by_cause", "kept", "near", "threshold", "scores")},
    **{name: name for name in ("index_s", "pool_s", "cache_s", "judge_s", "select_s", "primary_s", "total_s")},
    **{name: name for name in ("expected_calls", "expected_input_tokens", "expected_output_tokens", "expected_cost")},
}
"""Field -> column; the turn has a judge of its own."""


@dataclass(frozen=True, slots=True)
class _TurnRow:
    id: _Text
    started_at: _Moment
    task: _Text
    state: TurnState


@dataclass(frozen=True, slots=True)
class _FiguresRow:
    command: _Text
    judge: _Text
    is_model: _Count
    candidates: _Count
    judged: _Count
    cached: _Count
    carried: _Count
    unjudged: _Count
    unjudged_by_cause: Json[dict[str, _Count]]
    kept: _Count
    near: _Count | None
    threshold: _Share
    scores: Annotated[Json[list[_Count]], Field(max_length=SCORE_BINS)]
    index_s: _Seconds
    pool_s: _Seconds
    cache_s: _Seconds
    judge_s: _Seconds
    select_s: _Seconds
    primary_s: _Seconds
    total_s: _Seconds
    expected_calls: _Count | None
    expected_input_tokens: _Count | None
    expected_output_tokens: _Count | None
    expected_cost: _Count | None


def _figures(row: _FiguresRow) -> TurnFigures:
    expected = None
    if None not in (row.expected_calls, row.expected_input_tokens, row.expected_output_tokens):
        expected = Expected(
            calls=row.expected_calls or 0,
            input_tokens=row.expected_input_tokens or 0,
            output_tokens=row.expected_output_tokens or 0,
            cost_usd=None if row.expected_cost is None else money.dollars_of_picodollars(row.expected_cost),
        )
    return TurnFigures(
        command=row.command,
        judge=row.judge,
        is_model=bool(row.is_model),
        coverage=Coverage(row.candidates, row.judged, row.cached, row.carried, row.unjudged),
        unjudged_by_cause=row.unjudged_by_cause,
        kept=row.kept,
        threshold=row.threshold,
        near=row.near,
        scores=tuple(row.scores) if len(row.scores) == SCORE_BINS else (),
        latency=Latency(
            index=row.index_s,
            pool=row.pool_s,
            cache=row.cache_s,
            judge=row.judge_s,
            select=row.select_s,
            primary=row.primary_s,
            total=row.total_s,
        ),
        expected=expected,
    )


@cache
def _turn_row() -> TypeAdapter[_TurnRow]:
    return TypeAdapter(_TurnRow)


@cache
def _figures_row() -> TypeAdapter[_FiguresRow]:
    return TypeAdapter(_FiguresRow)
