"""The turns of a store as reports see them: when, what, how it ended, and its figures; each row is checked at the door.

A turn that was killed has no figures and is a turn all the same. What makes no sense is left out and counted, never
read as zero. It knows nothing of calls; `tables` brings the two together.
"""

import dataclasses
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, NamedTuple

from pydantic import Field, Json, TypeAdapter, ValidationError

from xscore import money
from xscore.cost_reports.ledger_sums import MOST_SECONDS
from xscore.database import as_it_can_be_read
from xscore.errors import BrokenReceipt
from xscore.memory.turns import TurnState
from xscore.records import Coverage, Expected, Latency, TurnFigures
from xscore.records.cost_report import LAST_MOMENT, Asked, EvaluationLine
from xscore.records.turn_figures import SCORE_BINS

Count = Annotated[int, Field(ge=0, strict=True)]
Share = Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS, strict=True, allow_inf_nan=False)]
Moment = Annotated[float, Field(ge=0, le=LAST_MOMENT, strict=True, allow_inf_nan=False)]
Text = Annotated[str, Field(strict=True)]


@dataclass(frozen=True, slots=True)
class TurnRow:
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


def read_turns(connection: sqlite3.Connection, asked: Asked) -> TurnRows:
    """Read the turns that began in the asked stretch, or the one that was asked for."""
    where, values = _where(asked, "started_at", "turn.id")
    query = f"SELECT {', '.join(_COLUMNS.values())} FROM turn LEFT JOIN turn_figures ON turn_id = turn.id WHERE {where}"  # noqa: S608  words are ours
    found, left_out = [], 0
    with as_it_can_be_read(connection):
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


def read_evaluations(connection: sqlite3.Connection, asked: Asked) -> EvaluationRows:
    """Read the evaluations of the asked stretch."""
    where, values = _where(asked, "at", "")
    known = fields(EvaluationLine)
    found, left_out = [], 0
    with as_it_can_be_read(connection):
        names = ", ".join(field.name for field in known)
        rows = connection.execute(f"SELECT {names} FROM evaluation WHERE {where}", values).fetchall()  # noqa: S608  words are ours
    for row in rows:
        try:
            found.append(_evaluation(dict(zip(known, row, strict=True))))
        except ValueError:
            left_out += 1
    return EvaluationRows(found, left_out)


def _where(asked: Asked, at: str, identifier: str) -> tuple[str, tuple[object, ...]]:
    if asked.turn_id:
        return (f"{identifier} = ?", (asked.turn_id,)) if identifier else ("0", ())
    since, until = asked.since or 0.0, LAST_MOMENT if asked.until is None else asked.until
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
    id: Text
    started_at: Moment
    task: Text
    state: TurnState


@dataclass(frozen=True, slots=True)
class _FiguresRow:
    command: Text
    judge: Text
    is_model: Count
    candidates: Count
    judged: Count
    cached: Count
    carried: Count
    unjudged: Count
    unjudged_by_cause: Json[dict[str, Count]]
    kept: Count
    near: Count | None
    threshold: Share
    scores: Annotated[Json[list[Count]], Field(max_length=SCORE_BINS)]
    index_s: Seconds
    pool_s: Seconds
    cache_s: Seconds
    judge_s: Seconds
    select_s: Seconds
    primary_s: Seconds
    total_s: Seconds
    expected_calls: Count | None
    expected_input_tokens: Count | None
    expected_output_tokens: Count | None
    expected_cost: Count | None


def _figures(row: _FiguresRow) -> TurnFigures:
    expected = None
    if None not in (row.expected_calls, row.expected_input_tokens, row.expected_output_tokens):
        expected = Expected(
            calls=row.expected_calls or 0,
            input_tokens=row.expected_input_tokens or 0,
            output_tokens=row.expected_output_tokens or 0,
            cost_usd=None if row.expected_cost is None else money.dollars(row.expected_cost),
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


def _evaluation(values: "Mapping[dataclasses.Field[object], object]") -> EvaluationLine:
    """Make the record; its bounds are its own. Raises ValueError for a value of another type than its field's."""
    if any(type(value) is not field.type for field, value in values.items()):
        raise ValueError("text stands where a number should, or the other way round")
    return EvaluationLine(**{field.name: value for field, value in values.items()})  # type: ignore[arg-type]  # checked
