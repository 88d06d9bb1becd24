"""Calls of one or more ledgers summed in a polars table, the spending of any group, and
percentiles.

A turn belongs to the day, and to the period, in which it began, with all its calls; so no turn is
ever cut in two. SQLite adds the calls up, a row for each turn, stage and model; a damaged row is
left out of every sum and counted. Calls that no turn made (an index that embeds, the doctor) stand
under the command that made them. A percentile is a time that was measured: of n samples in order,
the one at rank ⌈q · n⌉. Trade-off: a call after midnight counts for the day of its turn, where a
cap by day counts it for its own.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from xscore.cost_reports.records import Group, ReportQuery, Spent, Timing
from xscore.platform import money
from xscore.platform.clock import day_of
from xscore.platform.database import lenient_text
from xscore.providers.decision_hosts import DECISION_HOSTS
from xscore.records.calls import CounterfactualCost, Stage, Usage
from xscore.records.receipt import NOTHING_JUDGED, Coverage, Latency, TurnFigures
from xscore.store.call_rows import VALID_CALL_SQL

if TYPE_CHECKING:
    import polars as pl

_SUM_SQL = {
    "attempts": "count(*)",
    "calls": "count(*) FILTER (WHERE outcome = 'ok')",
    "rate_limited": "count(*) FILTER (WHERE outcome = 'rate_limited')",
    "estimated": "sum(estimated) FILTER (WHERE estimated IS NOT 0)",
    "unpriced": "count(*) FILTER (WHERE cost IS NULL)",
    "input_tokens": "sum(input_tokens)",
    "cached_input_tokens": "sum(cached_input_tokens)",
    "cache_write_tokens": "sum(cache_write_tokens) FILTER (WHERE cache_write_tokens IS NOT 0)",
    "cache_write_1h_tokens": (
        "sum(cache_write_1h_tokens) FILTER (WHERE cache_write_1h_tokens IS NOT 0)"
    ),
    "output_tokens": "sum(output_tokens)",
    "reasoning_tokens": "sum(reasoning_tokens)",
    "cost": "sum(cost)",
    "without_prefix_cache": "sum(cost_without_prefix_cache)",
    "beside_prefix_cache": "sum(cost) FILTER (WHERE cost_without_prefix_cache IS NULL)",
    "without_packs": "sum(cost_without_packs)",
    "beside_packs": "sum(cost) FILTER (WHERE cost_without_packs IS NULL)",
    "by_batch": "sum(cost_by_batch)",
    "beside_batch": "sum(cost) FILTER (WHERE cost_by_batch IS NULL)",
}
"""Each column that is summed further, in SQL. `beside_…`: the cost of calls without the figure
before it."""
SUM_COLUMNS = tuple(_SUM_SQL)
COST_COLUMNS = SUM_COLUMNS[SUM_COLUMNS.index("cost") :]
"""In picodollars, NULL if unknown."""
DURATIONS_COLUMN = "durations"
"""Durations of live answered calls, comma-separated: twice their microseconds, plus one if tokens
came from a prefix cache."""
_READ = f"""
    SELECT turn_id, stage, provider, model, min(started_at), {", ".join(_SUM_SQL.values())},
        group_concat(CAST(duration_s * 1000000 AS INTEGER) * 2 + (cached_input_tokens > 0))
            FILTER (WHERE outcome = 'ok' AND batch = '')
    FROM call WHERE {{among}} AND {VALID_CALL_SQL} GROUP BY turn_id, stage, provider, model
"""
_COUNT = "SELECT count(*) FROM call WHERE {among}"
_STAGES = frozenset(map(str, Stage))
_ATTEMPTS = 5
"""Index of the first sum in a row."""
_AT_ONCE = 4_096


def read_call_sums(
    connection: sqlite3.Connection, asked: ReportQuery
) -> tuple["pl.DataFrame", int]:
    """Add up the calls of the asked turns, and of other callers (an index, the doctor) in the asked
    period.

    Return columns `turn`, `stage`, `provider`, `model`, `first_at` (Unix seconds), those of
    `SUM_COLUMNS` and the durations; also how many rows are damaged.
    """
    import polars as pl

    among, values = _among(asked)
    table, valid = [pl.DataFrame(schema=_schema())], 0
    with lenient_text(connection):
        cursor = connection.execute(_READ.format(among=among), values)
        while rows := cursor.fetchmany(_AT_ONCE):
            known = [
                row
                for row in rows
                if row[1] in _STAGES and all(isinstance(name, str) for name in row[:4])
            ]
            valid += sum(row[_ATTEMPTS] for row in known)
            table.append(pl.DataFrame(known, schema=_schema(), orient="row"))
        (there,) = connection.execute(_COUNT.format(among=among), values).fetchone()
    return pl.concat(table), there - valid


def _among(asked: ReportQuery) -> tuple[str, Sequence[object]]:
    """Select the rows that may match, by an index."""
    if asked.turn_id:
        return "turn_id = ?", (asked.turn_id,)
    if asked.period is None:
        return "1", ()
    within = "started_at >= ? AND started_at < ?"
    alone = "NOT EXISTS (SELECT 1 FROM turn WHERE id = turn_id)"
    chosen = (
        f"SELECT id FROM turn WHERE {within} UNION SELECT turn_id FROM call WHERE {within} AND"
        f" {alone}"
    )
    return f"turn_id IN ({chosen})", (*asked.period, *asked.period)


def _schema() -> dict[str, Any]:
    import polars as pl

    names: dict[str, Any] = dict.fromkeys(("turn", "stage", "provider", "model"), pl.String)
    return {
        **names,
        "first_at": pl.Float64,
        **dict.fromkeys(SUM_COLUMNS, pl.Int64),
        DURATIONS_COLUMN: pl.String,
    }


_COMMANDS = {"a_": "ask", "e_": "index", "p_": "doctor", "w_": "watch"}
"""Prefixes of the ids of callers that are no turns."""
_KINDS = ("live", "cached")
_WIRES = {name: host.wire.value for name, host in DECISION_HOSTS.items()}
_CHAT = "chat"
"""The wire of every other provider."""


class TurnKey(NamedTuple):
    """A turn, or another caller, among several ledgers."""

    repo: str
    turn: str


class LedgerTurn(Struct, frozen=True):
    """A turn whose row passed the checks."""

    key: TurnKey
    at: float
    """Unix seconds."""
    task: str
    state: str
    figures: TurnFigures | None
    """None: it has not finished, or its figures are damaged."""

    @property
    def command(self) -> str:
        """Empty: the turn has not finished."""
        return self.figures.command if self.figures else ""

    @property
    def judge(self) -> str:
        """Empty: the turn has not finished."""
        return self.figures.judge if self.figures else ""


def join_calls_to_turns(
    sums: "pl.DataFrame",
    turns: Sequence[LedgerTurn],
    *,
    repo: str,
    asked: ReportQuery,
    jobs: Mapping[str, str],
) -> "pl.DataFrame":
    """Join one ledger's sums to its turns: adds `at`, `of_turn` and a column for each grouping of a
    report.

    jobs: job -> the command its calls stand under.
    """
    import polars as pl

    known = pl.DataFrame(
        [(turn.key.turn, turn.at, turn.command) for turn in turns],
        schema={"turn": pl.String, "turn_at": pl.Float64, "turn_command": pl.String},
        orient="row",
    )
    made_by = (
        pl.col("turn").str.head(2).replace_strict(_COMMANDS, default="", return_dtype=pl.String)
    )
    if jobs:
        made_by = pl.col("turn").replace_strict(jobs, default=made_by, return_dtype=pl.String)
    placed = sums.join(known, on="turn", how="left").with_columns(
        pl.lit(repo).alias("repo"),
        pl.col("turn_at").is_not_null().alias("of_turn"),
        pl.coalesce("turn_at", pl.col("first_at").min().over("turn")).alias("at"),
        pl.coalesce("turn_command", made_by).alias("command"),
        pl.concat_str("provider", "model", separator=":").alias("model"),
        pl.when(pl.col("stage") == str(Stage.EMBED))
        .then(pl.lit(Stage.EMBED.operation))
        .otherwise(pl.col("provider").replace_strict(_WIRES, default=_CHAT, return_dtype=pl.String))
        .alias("wire"),
        *(pl.col(name).cast(pl.Int128) for name in COST_COLUMNS),
    )
    placed = placed.with_columns(
        pl.from_epoch(pl.col("at").cast(pl.Int64)).dt.to_string("%Y-%m-%d").alias("day")
    )
    placed = placed.drop("turn_at", "turn_command")
    return (
        placed.filter(pl.col("at").is_between(*asked.period, closed="left"))
        if asked.period
        else placed
    )


def judging_calls(calls: "pl.DataFrame", turns: Sequence[LedgerTurn]) -> "pl.DataFrame":
    """Return a turn's judging calls to its own judge."""
    import polars as pl

    own = pl.DataFrame(
        [(*turn.key, turn.judge) for turn in turns],
        schema=dict.fromkeys(("repo", "turn", "model"), pl.String),
        orient="row",
    )
    return calls.filter(pl.col("stage") == str(Stage.JUDGE)).join(
        own, on=["repo", "turn", "model"], how="semi"
    )


def spent_by(calls: "pl.DataFrame", *by: str) -> dict[tuple[str, ...], Spent]:
    """Add up the rows with the same values of these columns; without columns, all of them."""
    import polars as pl

    sums = [
        pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name)
        for name in SUM_COLUMNS
    ]
    table = calls.group_by(by, maintain_order=True).agg(sums) if by else calls.select(sums)
    table = table.with_columns(
        pl.col(name).fill_null(0) for name in SUM_COLUMNS if name not in COST_COLUMNS
    )
    return {tuple(row[name] for name in by): _spent(row) for row in table.iter_rows(named=True)}


def _spent(sums: Mapping[str, int]) -> Spent:
    return Spent(
        calls=sums["calls"],
        attempts=sums["attempts"],
        rate_limited=sums["rate_limited"],
        failed=sums["attempts"] - sums["calls"] - sums["rate_limited"],
        usage=Usage(**{name: sums[name] for name in Usage.__struct_fields__}),
        cost_usd=money.dollars_of_picodollars(sums["cost"] or 0),
        unpriced=sums["unpriced"],
        estimated=sums["estimated"],
        otherwise=CounterfactualCost(
            without_prefix_cache=_if_known(
                sums["without_prefix_cache"], sums["beside_prefix_cache"]
            ),
            without_packs=_if_known(sums["without_packs"], sums["beside_packs"]),
            by_batch=_if_known(sums["by_batch"], sums["beside_batch"]),
        ),
    )


def _if_known(amount: int | None, beside: int | None) -> Decimal | None:
    return None if amount is None else money.dollars_of_picodollars(amount + (beside or 0))


def group_spending(
    calls: "pl.DataFrame", turns: Sequence[LedgerTurn], by: str
) -> tuple[Group, ...]:
    """Return one line per group: the most expensive first; days and turns newest first."""
    spent = {name: one for (name,), one in spent_by(calls, by).items()}
    members: dict[str, set[TurnKey]] = defaultdict(set)
    of_turns = calls.filter(calls["of_turn"])
    for name, *key in zip(of_turns[by], of_turns["repo"], of_turns["turn"], strict=True):
        members[name].add(TurnKey(*key))
    judged: dict[str, list[LedgerTurn]] = defaultdict(list)
    for turn in turns:
        name = _group_name(turn, by)
        if name is not None:
            members[name].add(turn.key)
            judged[name].append(turn)
    found = [
        Group(
            name=name,
            turns=len(members[name]),
            spent=spent.get(name, Spent()),
            coverage=sum_coverage(judged[name]),
            kept=sum(turn.figures.kept for turn in judged[name] if turn.figures),
        )
        for name in sorted(spent.keys() | members.keys())
    ]
    if by not in ("day", "turn"):
        return tuple(
            sorted(found, key=lambda one: (-one.spent.cost_usd, -one.spent.attempts, one.name))
        )
    began = {turn.key.turn: turn.at for turn in turns} if by == "turn" else {}
    return tuple(sorted(found, key=lambda one: (began.get(one.name, 0.0), one.name), reverse=True))


def _group_name(turn: LedgerTurn, by: str) -> str | None:
    """Return the group of a turn's figures; None: no group."""
    provider = turn.judge.partition(":")[0]
    by_model = turn.figures is not None and turn.figures.by_model
    names = {
        "model": turn.judge or None,
        "provider": provider or None,
        "wire": _WIRES.get(provider, _CHAT) if by_model else "none" if provider else None,
        "day": day_of(turn.at),
        "repo": turn.key.repo,
        "command": turn.command,
        "turn": turn.key.turn,
    }
    return names.get(by)


def sum_coverage(turns: Iterable[LedgerTurn]) -> Coverage:
    """Add up the outcomes of finished turns' candidates."""
    return sum((turn.figures.coverage for turn in turns if turn.figures), NOTHING_JUDGED)


def call_timings(calls: "pl.DataFrame") -> Iterator[Timing]:
    """Return the timings of answered calls, by stage and by whether a prefix came from the host's
    cache."""
    import polars as pl

    for stage in Stage:
        packed = calls.filter(pl.col("stage") == str(stage))[DURATIONS_COLUMN].drop_nulls()
        taken = packed.str.split(",").explode().cast(pl.Int64).sort()
        for is_cached, kind in enumerate(_KINDS):
            samples = taken.filter(taken % 2 == is_cached) // 2
            if len(samples):
                yield _timing("call", str(stage), kind, samples, 1e6)


def turn_timings(turns: Iterable[tuple[Latency, bool]]) -> Iterator[Timing]:
    """Return the timings of finished turns by stage; each turn says whether every score was
    cached."""
    taken: dict[tuple[str, str], list[float]] = defaultdict(list)
    for latency, is_cached in turns:
        for stage in Latency.__struct_fields__:
            seconds = getattr(latency, stage)
            if seconds > 0:  # a stage that did not happen is no sample
                taken[stage, _KINDS[is_cached]].append(seconds)
    for stage in Latency.__struct_fields__:
        for kind in _KINDS:
            if samples := sorted(taken[stage, kind]):
                yield _timing("turn", stage, kind, samples, 1.0)


def _timing(
    of: str, stage: str, kind: str, samples: "Sequence[float] | pl.Series", in_a_second: float
) -> Timing:
    """samples: in order."""
    count = len(samples)
    p50, p95, p99 = (
        samples[max(0, ceil(q * count - 1e-9) - 1)] / in_a_second for q in (0.5, 0.95, 0.99)
    )
    return Timing(of=of, stage=stage, kind=kind, count=count, p50_s=p50, p95_s=p95, p99_s=p99)
