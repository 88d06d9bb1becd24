"""What turns chose, and what came near, out of their stored receipts; each is read strictly, a torn one is named.

What a stretch of one or more ledgers comes to: money, tokens, time, coverage, as one `CostReport`.

SQLite adds up the calls, polars groups them, and this puts the parts side by side. What cannot be believed is left out
of every figure and said in `warnings`. It shows nothing and compares nothing with a baseline. Trade-off: everything is
read anew each time; a million calls take some two seconds of CPU.
"""

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from xscore.cost_reports import comparison
from xscore.cost_reports.ledger_rows import add_offline, read_evaluations, read_jobs, read_turns
from xscore.cost_reports.ledger_sums import read_call_sums
from xscore.cost_reports.tables import (
    LedgerTurn,
    TurnKey,
    TurnLatency,
    call_timings,
    cost_by_turn,
    group_spending,
    join_calls_to_turns,
    spent_by,
    spent_by_turn,
    sum_coverage,
    total_spent_of,
    turn_timings,
)
from xscore.platform.database import lenient_text, read_snapshot
from xscore.platform.sqlite_drivers import REBUILD_HINT
from xscore.records import Selected, Stage
from xscore.records.cost_report import (
    CostReport,
    EvaluationLine,
    OfflineTotals,
    ReportQuery,
    Spent,
    Timing,
    TurnDetail,
    TurnLine,
)
from xscore.records.receipt import SCORE_BINS

if TYPE_CHECKING:
    import polars as pl


_BODY = "SELECT body FROM receipt WHERE turn_id = ?"


class _ReceiptRef(NamedTuple):
    """Where the receipt of a turn is."""

    connection: sqlite3.Connection
    turn_id: str


class TurnDetails(NamedTuple):
    """What receipts tell."""

    found: tuple[TurnDetail, ...]
    torn: int
    """Receipts that cannot be read."""


def read_turn_details(places: Sequence[_ReceiptRef]) -> TurnDetails:
    """Read the receipts of these turns, those that have one."""
    found, torn = [], 0
    for connection, turn_id in places:
        with lenient_text(connection):
            row = connection.execute(_BODY, (turn_id,)).fetchone()
        if row is None:
            continue
        try:
            receipt = msgspec.json.decode(row[0], type=_ReceiptPart)
        except (msgspec.DecodeError, UnicodeError):
            torn += 1
        else:
            found.append(TurnDetail(turn_id=turn_id, selected=receipt.selected, near_misses=receipt.near_misses))
    return TurnDetails(tuple(found), torn)


class _ReceiptPart(Struct, frozen=True):
    """The part of a receipt that is read."""

    selected: tuple[Selected, ...]
    near_misses: tuple[Selected, ...]


class RepositoryLedger(NamedTuple):
    """A repository and the connection to its open, trusted store."""

    repository: str
    """As it is shown: the root's path."""
    connection: sqlite3.Connection


class _Read(NamedTuple):
    """Everything that was read, of all ledgers."""

    calls: "pl.DataFrame"
    turns: list[LedgerTurn]
    """The newest first."""
    evaluations: list[EvaluationLine]
    warnings: list[str]
    left_out: int
    """Rows that make no sense."""
    offline: OfflineTotals


class _Sums(NamedTuple):
    """What several figures rest on."""

    judging: Mapping[TurnKey, Spent]
    """By turn."""
    stages: Mapping[str, Spent]
    finished: list[LedgerTurn]


def build_report(ledgers: Sequence[RepositoryLedger], asked: ReportQuery, *, now: float) -> CostReport:
    """Add up what the ledgers hold of the asked turns. now: Unix seconds.

    Raises StoreDamaged where a database itself cannot be read.
    """
    calls, turns, evaluations, warnings, left_out, offline = _read(ledgers, asked, now=now)
    names = [ledger.repository for ledger in ledgers]
    connections = [ledger.connection for ledger in ledgers]
    judging, stages, finished = _sums(calls, turns)
    chosen = read_turn_details(
        [_ReceiptRef(connections[turn.key.number], turn.row.id) for turn in turns[: asked.details]]
    )
    by_model = group_spending(calls, turns, "model", names)
    return CostReport(
        made_at=now,
        repositories=tuple(names),
        since=asked.since,
        until=asked.until,
        turn_id=asked.turn_id,
        turns_by_state=dict(sorted(Counter(turn.row.state for turn in turns).items())),
        turns_cached=sum(_is_cached(turn, judging) for turn in finished),
        coverage=sum_coverage(turns),
        unjudged_by_cause=_by_cause(finished),
        kept=sum(turn.row.figures.kept for turn in finished if turn.row.figures),
        near=_near(finished),
        scores=_scores(finished),
        threshold=next((turn.row.figures.threshold for turn in turns if turn.row.figures), None),
        spent=total_spent_of(calls),
        comparison=comparison.compare_costs(judging, stages, turns, connections),
        by_model=by_model,
        by=asked.by,
        groups=by_model if asked.by == "model" else group_spending(calls, turns, asked.by, names) if asked.by else (),
        timings=_timings(calls, finished, judging),
        accuracy=comparison.estimate_accuracy(judging, turns),
        evaluations=tuple(evaluations),
        turns=_report_turn_lines(calls, turns[: asked.lines]),
        prefix_hit_rate=_hit_rate(stages.get(str(Stage.JUDGE), Spent())),
        details=chosen.found,
        warnings=(*warnings, *_torn_receipts_warning(chosen.torn)),
        left_out=left_out,
        offline=offline,
    )


def _read(ledgers: Sequence[RepositoryLedger], asked: ReportQuery, *, now: float) -> _Read:
    import polars as pl

    tables, turns, evaluations, warnings = [], [], [], []
    left_out, offline = 0, OfflineTotals()
    for number, (repository, connection) in enumerate(ledgers):
        with read_snapshot(connection):
            rows, of_turns = read_turns(connection, asked)
            evaluated, of_evaluations = read_evaluations(connection, asked)
            sums, jobs = read_call_sums(connection, asked), read_jobs(connection, asked)
        here = [LedgerTurn(TurnKey(number, row.id), repository, row) for row in rows]
        tables.append(join_calls_to_turns(sums.sums, here, number=number, asked=asked, jobs=jobs.commands))
        offline = add_offline(offline, jobs.found)
        turns += here
        evaluations += evaluated
        left = (sums.left_out, "calls"), (of_turns, "turns"), (of_evaluations, "evaluations"), (jobs.left_out, "jobs")
        for count, what in left:
            left_out += count
            if count:
                said = f"left out of every figure, since they make no sense: {count:,} rows of {what}"
                warnings.append(f"{repository}: {said}. {REBUILD_HINT}")
    ahead = sum(turn.row.at > now for turn in turns)
    if ahead:
        warnings.append(f"turns that began in the future, by this clock: {ahead:,}; it was set back, or is slow")
    turns.sort(key=lambda turn: (turn.row.at, turn.row.id), reverse=True)
    evaluations.sort(key=lambda one: (one.at, one.id), reverse=True)
    return _Read(pl.concat(tables), turns, evaluations, warnings, left_out, offline)


def _sums(calls: "pl.DataFrame", turns: Sequence[LedgerTurn]) -> _Sums:
    judging = spent_by_turn(comparison.judging_of(calls, turns))
    return _Sums(judging, spent_by(calls, "stage"), [turn for turn in turns if turn.row.figures])


def _is_cached(turn: LedgerTurn, judging: Mapping[TurnKey, Spent]) -> bool:
    """Whether a turn with a model for a judge had to ask it nothing; one that could not ask it is no such turn.

    Nor is one of which calls that it shared with others, in the ledger under their run, had something judged.
    """
    figures = turn.row.figures
    if figures is None or not figures.is_model or figures.coverage.unjudged:
        return False
    return turn.key not in judging and not figures.coverage.judged


def _timings(
    calls: "pl.DataFrame", turns: Sequence[LedgerTurn], judging: Mapping[TurnKey, Spent]
) -> tuple[Timing, ...]:
    each = (TurnLatency(turn.row.figures.latency, _is_cached(turn, judging)) for turn in turns if turn.row.figures)
    return (*turn_timings(each), *call_timings(calls))


def _by_cause(turns: Sequence[LedgerTurn]) -> dict[str, int]:
    causes: Counter[str] = Counter()
    for turn in turns:
        causes.update(turn.row.figures.unjudged_by_cause if turn.row.figures else {})
    return dict(sorted(causes.items()))


def _near(turns: Sequence[LedgerTurn]) -> int | None:
    """Add up the scores near a threshold; None where no turn knows of any."""
    known = [turn.row.figures.near for turn in turns if turn.row.figures and turn.row.figures.near is not None]
    return sum(known) if known else None


def _scores(turns: Sequence[LedgerTurn]) -> tuple[int, ...]:
    known = [turn.row.figures.scores for turn in turns if turn.row.figures and turn.row.figures.scores]
    return tuple(map(sum, zip(*known, strict=True))) if known else (0,) * SCORE_BINS


def _hit_rate(judging: Spent) -> float | None:
    usage = judging.usage
    return usage.cached_input_tokens / usage.input_tokens if usage.input_tokens else None


def _report_turn_lines(calls: "pl.DataFrame", turns: Sequence[LedgerTurn]) -> tuple[TurnLine, ...]:
    import polars as pl

    if not turns:
        return ()
    wanted = pl.DataFrame([turn.key for turn in turns], schema={"number": pl.Int32, "turn_id": pl.String}, orient="row")
    calls = calls.join(wanted, on=["number", "turn_id"], how="semi")
    spent, models = spent_by_turn(calls), cost_by_turn(calls)
    return tuple(_turn_line(turn, spent.get(turn.key, Spent()), models.get(turn.key, {})) for turn in turns)


def _turn_line(turn: LedgerTurn, spent: Spent, cost_by_model: dict[str, Decimal]) -> TurnLine:
    row, figures = turn.row, turn.row.figures
    return TurnLine(
        id=row.id,
        at=row.at,
        repository=turn.repository,
        task=row.task,
        command=turn.command,
        state=row.state,
        judge=turn.judge,
        coverage=figures.coverage if figures else None,
        kept=figures.kept if figures else None,
        near=figures.near if figures else None,
        threshold=figures.threshold if figures else None,
        spent=spent,
        cost_by_model=cost_by_model,
        latency=figures.latency if figures else None,
        expected=figures.expected if figures else None,
    )


def _torn_receipts_warning(torn: int) -> tuple[str, ...]:
    if not torn:
        return ()
    return (f"receipts that cannot be read, so that their turns' choices are missing: {torn:,}. {REBUILD_HINT}",)
