"""Add up a period of one or more ledgers: money, tokens, time, coverage, as one `CostReport`.

SQLite adds up the calls and groups them, and this puts the parts together. Damaged rows are
left out of every figure and counted in `warnings`. It prints nothing and compares nothing with a
baseline. Trade-off: everything is read again each time; a million calls take some two seconds of
CPU.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cost_reports.call_table import CallTable
from xscore.cost_reports.ledger_rows import read_evaluations, read_jobs, read_turns, sum_offline
from xscore.cost_reports.records import (
    Accuracy,
    Comparison,
    CostReport,
    ExtractionTotals,
    LedgerTurn,
    OfflineTotals,
    ReportQuery,
    ScoreHistogram,
    Spent,
    TurnDetail,
    TurnLine,
)
from xscore.cost_reports.tables import (
    call_timings,
    group_spending,
    sum_coverage,
    turn_timings,
)
from xscore.pipeline.answer_citations import cited_of
from xscore.platform import money
from xscore.platform.database import lenient_text, read_snapshot
from xscore.platform.sqlite_drivers import REBUILD_HINT
from xscore.platform.text import counted
from xscore.records.calls import CounterfactualCost, Stage
from xscore.records.receipt import (
    NOTHING_EXPECTED,
    NOTHING_JUDGED,
    SCORE_BINS,
    Expected,
    Latency,
    TurnFigures,
)
from xscore.records.reports import EvaluationLine
from xscore.store.call_rows import AMOUNT_SQL
from xscore.store.extractor_state import ExtractorState, read_state


class RepositoryLedger(NamedTuple):
    """A repository and the connection to its open, trusted store."""

    repository: str
    """Path of the root, as it is shown."""
    connection: sqlite3.Connection


class _Read(Struct):
    turns: list[LedgerTurn] = field(default_factory=list)
    """All turns, newest first."""
    evaluations: list[EvaluationLine] = field(default_factory=list)
    offline: list[OfflineTotals] = field(default_factory=list)
    extractors: list[ExtractorState] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    left_out: int = 0
    """Number of damaged rows."""


_OF_FIGURES = ("coverage", "kept", "near", "threshold", "latency", "expected")
"""Fields of a turn's line copied from its figures; None without figures."""


def build_report(
    ledgers: Sequence[RepositoryLedger], query: ReportQuery, *, now: float
) -> CostReport:
    """Add up the requested turns of the ledgers. now: Unix seconds.

    Raises StoreDamaged where a database itself cannot be read.
    """
    with CallTable() as calls:
        read = _read_ledgers(ledgers, query, calls, now=now)
        return _report(read, calls, dict(ledgers), query, now=now)


def _report(
    read: _Read,
    calls: CallTable,
    connections: dict[str, sqlite3.Connection],
    query: ReportQuery,
    *,
    now: float,
) -> CostReport:
    turns = read.turns
    details = _turn_details(turns[: query.details], connections, read.warnings)
    judging = calls.spent_by("repo", "turn", where="is_own_judging")
    stages = {stage: spent for (stage,), spent in calls.spent_by("stage").items()}
    sent = stages.get(str(Stage.JUDGE), Spent()).usage
    by_model = group_spending(calls, turns, "model")
    finished = [turn.figures for turn in turns if turn.figures]
    latencies = _latencies(turns, judging)
    prefix_hit_rate = None
    if sent.input_tokens:
        prefix_hit_rate = sent.cached_input_tokens / sent.input_tokens
    evaluations = sorted(read.evaluations, key=lambda line: (line.at, line.id), reverse=True)
    return CostReport(
        made_at=now,
        repositories=tuple(connections),
        since=query.since,
        until=query.until,
        turn_id=query.turn_id,
        turns_by_state=dict(sorted(Counter([turn.state for turn in turns]).items())),
        turns_cached=sum([is_cached for _, is_cached in latencies]),
        **_candidates(finished),
        spent=calls.spent_by()[()],
        comparison=compare_costs(judging, stages, turns, connections.values()),
        by_model=by_model,
        by=query.by,
        groups=group_spending(calls, turns, query.by) if query.by else (),
        timings=(*turn_timings(latencies), *call_timings(calls)),
        accuracy=estimate_accuracy(judging, turns),
        evaluations=tuple(evaluations),
        turns=_turn_lines(calls, turns[: query.lines]),
        prefix_hit_rate=prefix_hit_rate,
        details=details,
        warnings=tuple(read.warnings),
        left_out=read.left_out,
        offline=sum_offline(read.offline),
        extraction=_extraction(read.extractors, stages, query),
    )


def _read_ledgers(
    ledgers: Sequence[RepositoryLedger], query: ReportQuery, calls: CallTable, *, now: float
) -> _Read:
    """Read the ledgers, and add their calls to the table."""
    read = _Read()
    for repository, connection in ledgers:
        with read_snapshot(connection):
            turns, bad_turns = read_turns(connection, query, repository=repository, now=now)
            evaluations, bad_evaluations = read_evaluations(connection, query)
            offline, commands, bad_jobs = read_jobs(connection, query)
            extractor = read_state(connection)
            bad_calls = calls.add_ledger(
                connection, turns, repo=repository, query=query, jobs=commands
            )
        read.turns += turns
        read.evaluations += evaluations
        read.offline.append(offline)
        read.extractors.append(extractor)
        damaged_rows = {
            "calls": bad_calls,
            "turns": bad_turns,
            "evaluations": bad_evaluations,
            "jobs": bad_jobs,
        }
        read.left_out += sum(damaged_rows.values())
        for table in filter(damaged_rows.get, damaged_rows):
            remark = (
                f"damaged and left out of every figure: {damaged_rows[table]:,} rows of {table}"
            )
            read.warnings.append(f"{repository}: {remark}. {REBUILD_HINT}")
    read.turns.sort(key=lambda turn: (turn.at, turn.key.turn), reverse=True)
    ahead = sum([turn.at > now for turn in read.turns])
    if ahead:
        began = counted(ahead, "turn")
        read.warnings.append(
            f"{began} began in the future by this clock, which is slow or was set back"
        )
    return read


def _extraction(
    extractors: Sequence[ExtractorState], stages: Mapping[str, Spent], query: ReportQuery
) -> ExtractionTotals | None:
    """Add up what came of asking models for facts; None where none was asked."""
    if query.turn_id or not any(extractor.calls for extractor in extractors):
        return None
    dropped: Counter[str] = Counter()
    for extractor in extractors:
        dropped.update(extractor.dropped)
    return ExtractionTotals(
        spent=stages.get(str(Stage.EXTRACT), Spent()),
        proposed=sum(extractor.proposed for extractor in extractors),
        kept=sum(extractor.kept for extractor in extractors),
        dropped=dict(sorted(dropped.items())),
    )


def _latencies(turns: Sequence[LedgerTurn], judging: "Judging") -> list[tuple[Latency, bool]]:
    """Return the times of finished turns, each with whether every score was cached."""
    latencies: list[tuple[Latency, bool]] = []
    for turn in turns:
        if turn.figures is not None:
            is_cached = turn.key not in judging and _is_cached(turn.figures)
            latencies.append((turn.figures.latency, is_cached))
    return latencies


def _is_cached(figures: TurnFigures) -> bool:
    """Whether a turn with a model judge found every score in the cache; a turn that could not ask
    does not count."""
    if not figures.by_model:
        return False
    return not figures.coverage.unjudged and not figures.coverage.judged


def _candidates(figures: Sequence[TurnFigures]) -> dict[str, Any]:
    """Return the outcomes of finished turns' candidates, newest first, as fields of the report."""
    causes: Counter[str] = Counter()
    coverage = NOTHING_JUDGED
    kept = 0
    near: int | None = None
    for turn in figures:
        causes.update(turn.unjudged_by_cause)
        coverage += turn.coverage
        kept += turn.kept
        # A turn may have recorded none; if none has, their sum is not known.
        if turn.near is not None:
            near = (near or 0) + turn.near
    histograms = _histograms(figures)
    return {
        "coverage": coverage,
        "unjudged_by_cause": dict(sorted(causes.items())),
        "kept": kept,
        "near": near,
        "scores": histograms[0].scores if histograms else (0,) * SCORE_BINS,
        "threshold": _common_threshold(figures),
        "histograms": histograms,
    }


def _common_threshold(figures: Sequence[TurnFigures]) -> float | None:
    """Return the threshold of all these turns; None where they differ, since one says nothing
    about the others."""
    thresholds = {turn.threshold for turn in figures}
    if len(thresholds) != 1:
        return None
    return thresholds.pop()


def _histograms(figures: Sequence[TurnFigures]) -> tuple[ScoreHistogram, ...]:
    """Add up the scores of each judge separately. figures: those of the turns, newest first."""
    by_judge: dict[str, list[TurnFigures]] = {}
    for turn in figures:
        by_judge.setdefault(turn.judge, []).append(turn)
    histograms: list[ScoreHistogram] = []
    for judge, of_judge in by_judge.items():
        recorded = [turn.scores for turn in of_judge if turn.scores]
        scores = tuple(map(sum, zip(*recorded, strict=True)))
        histograms.append(
            ScoreHistogram(
                judge=judge,
                turns=len(of_judge),
                scores=scores or (0,) * SCORE_BINS,
                threshold=_common_threshold(of_judge),
            )
        )
    return tuple(histograms)


def _turn_lines(calls: CallTable, turns: Sequence[LedgerTurn]) -> tuple[TurnLine, ...]:
    if not turns:
        return ()
    shown = [turn.key for turn in turns]
    spent = calls.spent_by("repo", "turn", only=shown)
    spent_by_model = calls.spent_by("repo", "turn", "model", only=shown)
    costs: dict[tuple[str, str], dict[str, Decimal]] = {}
    for (repo, turn_id, model), of_model in spent_by_model.items():
        costs.setdefault((repo, turn_id), {})[model] = of_model.cost_usd
    lines: list[TurnLine] = []
    for turn in turns:
        line = TurnLine(
            id=turn.key.turn,
            at=turn.at,
            repository=turn.key.repo,
            task=turn.task,
            command=turn.command,
            state=turn.state,
            judge=turn.judge,
            spent=spent.get(turn.key, Spent()),
            cost_by_model=costs.get(turn.key, {}),
            **{name: getattr(turn.figures, name, None) for name in _OF_FIGURES},
        )
        lines.append(line)
    return tuple(lines)


def _turn_details(
    turns: Sequence[LedgerTurn], connections: dict[str, sqlite3.Connection], warnings: list[str]
) -> tuple[TurnDetail, ...]:
    """Read these turns' choices and near misses; warn about unreadable receipts."""
    details, unreadable = [], 0
    for turn in turns:
        connection = connections[turn.key.repo]
        with lenient_text(connection):
            row = connection.execute(
                "SELECT body, answer FROM receipt JOIN turn ON turn.id = turn_id WHERE turn_id = ?",
                (turn.key.turn,),
            ).fetchone()
        if row is None:
            continue
        body, answer = row
        try:
            detail = msgspec.json.decode(body, type=TurnDetail)
            cited = cited_of(answer, detail.selected) if answer else None
            details.append(replace(detail, turn_id=turn.key.turn, cited=cited))
        except (msgspec.DecodeError, UnicodeError):
            # Damaged, or written by a version with other fields.
            unreadable += 1
    if unreadable:
        warnings.append(
            f"receipts that cannot be read, so their turns' choices are missing: {unreadable:,}."
            f" {REBUILD_HINT}"
        )
    return tuple(details)


_IS_AMOUNT = AMOUNT_SQL.format("cost")
_JUDGED_AND_PAID = f"""
    WITH judging AS (
        SELECT turn_id, sum(cost) FILTER (WHERE {_IS_AMOUNT}) AS paid,
          count(*) - count(cost) AS unpriced FROM call
        WHERE turn_id IN (SELECT turn_id FROM turn_figures WHERE judge = ? AND judged > 0)
        AND stage = 'judge' AND provider = ? AND model = ?
        GROUP BY turn_id HAVING min(cost IS NULL OR ({_IS_AMOUNT}))
    )
    SELECT coalesce(sum(judged), 0), coalesce(sum(paid), 0), coalesce(sum(unpriced), 0)
    FROM judging JOIN turn_figures USING (turn_id) WHERE judged BETWEEN 1 AND 1000000000
"""
"""Turns with all calls readable: a turn without its calls would make judging look free."""
Judging = Mapping[tuple[str, ...], Spent]
"""Turn -> the cost of judging by its own judge."""


def compare_costs(
    judging: Judging,
    stages: Mapping[str, Spent],
    turns: Sequence[LedgerTurn],
    ledgers: Iterable[sqlite3.Connection],
) -> Comparison:
    """Compare the cost with other ways. stages: all calls, by stage."""
    actual = sum([spent.cost_usd for spent in stages.values()], Decimal(0))
    return Comparison(
        actual_usd=actual,
        without_cache_usd=_without_cache(actual, judging, turns, ledgers),
        without_packs_usd=_counterfactual_cost(stages, lambda way: way.without_packs),
        without_prefix_cache_usd=_counterfactual_cost(
            stages, lambda way: way.without_prefix_cache
        ),
        by_batch_usd=_counterfactual_cost(stages, lambda way: way.by_batch, only=Stage.JUDGE),
    )


def _counterfactual_cost(
    stages: Mapping[str, Spent],
    way: Callable[[CounterfactualCost], Decimal | None],
    *,
    only: Stage | None = None,
) -> Decimal | None:
    """Add up the alternative cost of calls; a call without one, or of another stage, counts at its
    real cost."""
    total = Decimal(0)
    # Without a call nothing is unknown.
    is_known = not any(spent.attempts for spent in stages.values())
    for stage, spent in stages.items():
        otherwise_usd = None
        if only in (None, stage):
            otherwise_usd = way(spent.otherwise)
        if otherwise_usd is None:
            total += spent.cost_usd
        else:
            total += otherwise_usd
            is_known = True
    return total if is_known else None


def _without_cache(
    actual: Decimal,
    judging: Judging,
    turns: Sequence[LedgerTurn],
    ledgers: Iterable[sqlite3.Connection],
) -> Decimal | None:
    by_judge: dict[str, list[LedgerTurn]] = defaultdict(list)
    for turn in turns:
        if turn.figures and turn.figures.by_model:
            by_judge[turn.judge].append(turn)
    total = actual
    for judge, of_judge in by_judge.items():
        coverage = sum_coverage(of_judge)
        saved = coverage.cached + coverage.carried
        if not saved:
            continue
        usd_per_judgment = _average_of_period(of_judge, judging)
        if usd_per_judgment is None:
            usd_per_judgment = _average_of_all_times(judge, ledgers)
        if usd_per_judgment is None:
            return None
        total += saved * usd_per_judgment
    return total


def _average_of_period(turns: Sequence[LedgerTurn], judging: Judging) -> Decimal | None:
    """Return the average cost of a judgment in these turns; None if nothing was judged, or a call
    has no price."""
    judged = 0
    paid = Decimal(0)
    for turn in turns:
        spent = judging.get(turn.key)
        if spent is None or turn.figures is None:
            continue
        if spent.unpriced:
            return None
        judged += turn.figures.coverage.judged
        paid += spent.cost_usd
    return paid / judged if judged else None


def _average_of_all_times(judge: str, ledgers: Iterable[sqlite3.Connection]) -> Decimal | None:
    """Return the average cost of a judgment by this judge; None if it has judged nothing priced."""
    provider, _, model = judge.partition(":")
    judged = paid = 0
    for connection in ledgers:
        cursor = connection.execute(_JUDGED_AND_PAID, (judge, provider, model))
        count, amount, unpriced = cursor.fetchone()
        if unpriced:
            return None
        judged += count
        paid += amount
    if not judged:
        return None
    return money.dollars_of_picodollars(paid) / judged


def estimate_accuracy(judging: Judging, turns: Sequence[LedgerTurn]) -> Accuracy | None:
    """Compare estimates with actual judging, over turns that made calls and left nothing unjudged.

    No estimate assumes the discount of a host's prefix cache, so the dollars are those without it.
    """
    expected = NOTHING_EXPECTED
    actual = NOTHING_EXPECTED
    count = 0
    for turn in turns:
        figures = turn.figures
        taken = judging.get(turn.key)
        if figures is None or figures.expected is None or not taken:
            continue
        if not figures.expected.calls or figures.coverage.unjudged:
            continue
        count += 1
        expected += figures.expected
        actual += Expected(
            calls=taken.calls,
            input_tokens=taken.usage.input_tokens,
            output_tokens=taken.usage.output_tokens,
            cost_usd=None if taken.unpriced else taken.otherwise.without_prefix_cache,
        )
    if not count:
        return None
    # Sums of different turns cannot be compared.
    if expected.cost_usd is None or actual.cost_usd is None:
        expected = replace(expected, cost_usd=None)
        actual = replace(actual, cost_usd=None)
    return Accuracy(turns=count, expected=expected, actual=actual)
