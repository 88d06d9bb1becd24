"""The added-up calls and the turns of one or more ledgers as tables, and what each group of `--by` spent. By polars.

A turn belongs to the day, and to the stretch, in which it began, with all its calls; so no turn is ever cut in two.
Calls that no turn made (an index that embeds, the doctor) stand under the command that made them. Trade-off: a call
after midnight counts for the day of its turn, where a cap by day counts it for its own.

How long stages took: exact percentiles by nearest rank, turns and calls, live and cached apart.

A percentile is always a time that was measured: of n samples in order, the one at rank ⌈q · n⌉. A stage that did not
happen in a turn (0 s) is no sample of it. Times of calls are exact to the microsecond.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from xscore.cost_reports.ledger_rows import TurnRow
from xscore.cost_reports.ledger_sums import COST_COLUMNS, DURATIONS_COLUMN, SUM_COLUMNS
from xscore.platform import money
from xscore.platform.clock import DAY_S, day_of
from xscore.records import CounterfactualCost, Coverage, Latency, Stage, Usage
from xscore.records.cost_report import NOTHING_JUDGED, Group, ReportQuery, Spent, Timing

if TYPE_CHECKING:
    import polars as pl


_COMMANDS = {"a": "ask", "e": "index", "p": "doctor"}
"""First letter of what made calls without being a turn."""


class TurnKey(NamedTuple):
    """A turn."""

    number: int
    """Of its repository, among those asked."""
    turn_id: str


class LedgerTurn(Struct, frozen=True):
    """A turn and the repository it belongs to."""

    key: TurnKey
    repository: str
    row: TurnRow

    @property
    def command(self) -> str:
        """Empty: not known, since it has not finished."""
        return self.row.figures.command if self.row.figures else ""

    @property
    def judge(self) -> str:
        """Empty: it has not finished."""
        return self.row.figures.judge if self.row.figures else ""


def join_calls_to_turns(
    sums: "pl.DataFrame",
    turns: Sequence[LedgerTurn],
    *,
    number: int,
    asked: ReportQuery,
    jobs: Mapping[str, str] | None = None,
) -> "pl.DataFrame":
    """Put each row of one repository's sums at its turn: adds `number`, `at`, `command`, `key`, `of_turn`.

    jobs: job -> the command its calls stand under.
    """
    import polars as pl

    known = pl.DataFrame(
        [(turn.row.id, turn.row.at, turn.command) for turn in turns],
        schema={"turn_id": pl.String, "turn_at": pl.Float64, "turn_command": pl.String},
        orient="row",
    )
    letter, began = pl.col("turn_id").str.head(2), pl.col("first_at").min().over("turn_id")
    alone = pl.when(letter == "e_").then(pl.lit(_COMMANDS["e"])).when(letter == "p_").then(pl.lit(_COMMANDS["p"]))
    alone = alone.when(letter == "a_").then(pl.lit(_COMMANDS["a"]))
    if jobs:
        alone = alone.when(pl.col("turn_id").is_in(list(jobs))).then(
            pl.col("turn_id").replace_strict(jobs, default="", return_dtype=pl.String)
        )
    placed = sums.join(known, on="turn_id", how="left").with_columns(
        pl.lit(number).alias("number"),
        pl.col("turn_at").is_not_null().alias("of_turn"),
        pl.coalesce("turn_at", began).alias("at"),
        pl.coalesce("turn_command", alone.otherwise(pl.lit(""))).alias("command"),
        (pl.col("provider") + ":" + pl.col("model")).alias("key"),
        *(pl.col(name).cast(pl.Int128) for name in COST_COLUMNS),
    )
    since, until = asked.since, asked.until
    return placed.drop("turn_at", "turn_command").filter(
        pl.lit(True) if since is None else pl.col("at") >= since,
        pl.lit(True) if until is None else pl.col("at") < until,
    )


def total_spent_of(calls: "pl.DataFrame") -> Spent:
    """Add up all rows."""
    return next((one for _, one in _sum_by(calls)), Spent()) if calls.height else Spent()


def spent_by(calls: "pl.DataFrame", column: str) -> dict[str, Spent]:
    """Add up the rows with the same name in a column."""
    return {str(name): one for (name,), one in _sum_by(calls, column)}


def spent_by_turn(calls: "pl.DataFrame") -> dict[TurnKey, Spent]:
    """Add up the rows of each turn, and of each that made calls without being one."""
    return {TurnKey(*place): one for place, one in _sum_by(calls, "number", "turn_id")}


def cost_by_turn(calls: "pl.DataFrame") -> dict[TurnKey, dict[str, Decimal]]:
    """Return of each turn the dollars of each model."""
    found: dict[TurnKey, dict[str, Decimal]] = defaultdict(dict)
    for (number, turn_id, model), one in _sum_by(calls, "number", "turn_id", "key"):
        found[TurnKey(number, turn_id)][model] = one.cost_usd
    return found


def _sum_by(calls: "pl.DataFrame", *by: str) -> Iterator[tuple[tuple[Any, ...], Spent]]:
    """Add up the rows with the same values of these columns; of no column, all of them."""
    import polars as pl

    sums = [pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in SUM_COLUMNS]
    table = calls.group_by(by, maintain_order=True).agg(sums) if by else calls.select(sums)
    table = table.with_columns(pl.col(name).fill_null(0) for name in SUM_COLUMNS if name not in COST_COLUMNS)
    for row in table.iter_rows():
        yield row[: len(by)], spent_from_sums(dict(zip(SUM_COLUMNS, row[len(by) :], strict=True)))


def spent_from_sums(sums: dict[str, int]) -> Spent:
    """Make the record of a row of sums, by the names of `ledger_sums.SUMS`."""
    return Spent(
        calls=sums["calls"],
        attempts=sums["attempts"],
        rate_limited=sums["rate_limited"],
        failed=sums["attempts"] - sums["calls"] - sums["rate_limited"],
        usage=Usage(
            input_tokens=sums["input_tokens"],
            cached_input_tokens=sums["cached_input_tokens"],
            cache_write_tokens=sums["cache_write_tokens"],
            cache_write_1h_tokens=sums["cache_write_1h_tokens"],
            output_tokens=sums["output_tokens"],
            reasoning_tokens=sums["reasoning_tokens"],
        ),
        cost_usd=money.dollars_of_picodollars(sums["cost"] or 0),
        unpriced=sums["unpriced"],
        estimated=sums["estimated"],
        otherwise=CounterfactualCost(
            without_prefix_cache=_if_known(sums["without_prefix_cache"], sums["beside_prefix_cache"]),
            without_packs=_if_known(sums["without_packs"], sums["beside_packs"]),
            by_batch=_if_known(sums["by_batch"], sums["beside_batch"]),
        ),
    )


def group_spending(
    calls: "pl.DataFrame", turns: Sequence[LedgerTurn], by: str, repositories: Sequence[str]
) -> tuple[Group, ...]:
    """Return one line a group: the dearest first; days and turns the newest first."""
    import polars as pl

    named = _named(calls, by, repositories)
    spent_of = spent_by(named, "name")
    among: dict[str, set[TurnKey]] = defaultdict(set)
    for name, number, turn_id in named.filter(pl.col("of_turn")).select("name", "number", "turn_id").iter_rows():
        among[name].add(TurnKey(number, turn_id))
    judged: dict[str, list[LedgerTurn]] = defaultdict(list)
    for turn in turns:
        name = group_name_of(turn, by)
        if name is not None:
            among[name].add(turn.key)
            judged[name].append(turn)
    found = [
        Group(
            name=name,
            turns=len(among[name]),
            spent=spent_of.get(name, Spent()),
            coverage=sum_coverage(judged[name]),
            kept=sum(turn.row.figures.kept for turn in judged[name] if turn.row.figures),
        )
        for name in sorted(spent_of.keys() | among.keys())
    ]
    return tuple(_in_order(found, by, turns))


def group_name_of(turn: LedgerTurn, by: str) -> str | None:
    """Name the group that a turn's figures belong to; None: to none."""
    names = {
        "model": turn.judge or None,
        "provider": turn.judge.partition(":")[0] or None,
        "day": day_of(turn.row.at),
        "repo": turn.repository,
        "command": turn.command,
        "turn": turn.row.id,
    }
    return names.get(by)


def sum_coverage(turns: Iterable[LedgerTurn]) -> Coverage:
    """Add up what became of the candidates of finished turns."""
    each = [turn.row.figures.coverage for turn in turns if turn.row.figures]
    if not each:
        return NOTHING_JUDGED
    return Coverage(
        candidates=sum(one.candidates for one in each),
        judged=sum(one.judged for one in each),
        cached=sum(one.cached for one in each),
        carried=sum(one.carried for one in each),
        unjudged=sum(one.unjudged for one in each),
    )


def _named(calls: "pl.DataFrame", by: str, repositories: Sequence[str]) -> "pl.DataFrame":
    import polars as pl

    match by:
        case "day":
            number = (pl.col("at") // DAY_S).cast(pl.Int64)
            names = {one: day_of(one * DAY_S) for one in calls.select(number).to_series().unique()}
            name = number.replace_strict(names, return_dtype=pl.String)
        case "repo":
            name = pl.col("number").replace_strict(dict(enumerate(repositories)), return_dtype=pl.String)
        case "turn":
            name = pl.col("turn_id")
        case "model":
            name = pl.col("key")
        case _:
            name = pl.col(by)
    return calls.with_columns(name.alias("name"))


def _in_order(found: list[Group], by: str, turns: Sequence[LedgerTurn]) -> list[Group]:
    if by == "day":
        return sorted(found, key=lambda group: group.name, reverse=True)
    if by == "turn":
        began = {turn.row.id: turn.row.at for turn in turns}
        return sorted(found, key=lambda group: (began.get(group.name, 0.0), group.name), reverse=True)
    return sorted(found, key=lambda group: (-group.spent.cost_usd, -group.spent.attempts, group.name))


def _if_known(amount: int | None, beside: int | None) -> Decimal | None:
    return None if amount is None else money.dollars_of_picodollars(amount + (beside or 0))


_KINDS = {"live": 0, "cached": 1}
_QUANTILES = (0.5, 0.95, 0.99)


class TurnLatency(NamedTuple):
    """What a finished turn took."""

    latency: Latency
    is_cached: bool
    """Every score was known before."""


def call_timings(calls: "pl.DataFrame") -> list[Timing]:
    """Return the timings of answered calls, by their stage and whether a prefix came from the host's cache."""
    import polars as pl

    found = []
    for stage in Stage:
        packed = calls.filter(pl.col("stage") == str(stage))[DURATIONS_COLUMN].drop_nulls()
        taken = packed.str.split(",").explode().cast(pl.Int64).sort()
        for kind, is_cached in _KINDS.items():
            samples = taken.filter(taken % 2 == is_cached)
            if len(samples):
                percentiles = [samples[nearest_rank(q, len(samples))] // 2 / 1e6 for q in _QUANTILES]
                found.append(_timing("call", str(stage), kind, percentiles, len(samples)))
    return found


def turn_timings(turns: Iterable[TurnLatency]) -> list[Timing]:
    """Return the timings of finished turns by stage."""
    taken: dict[tuple[str, str], list[float]] = {}
    for latency, is_cached in turns:
        for stage in Latency.__struct_fields__:
            seconds = getattr(latency, stage)
            if seconds > 0:
                taken.setdefault((stage, "cached" if is_cached else "live"), []).append(seconds)
    found = []
    for stage in Latency.__struct_fields__:
        for kind in _KINDS:
            samples = sorted(taken.get((stage, kind), ()))
            if samples:
                found.append(
                    _timing(
                        "turn", stage, kind, [samples[nearest_rank(q, len(samples))] for q in _QUANTILES], len(samples)
                    )
                )
    return found


def nearest_rank(quantile: float, count: int) -> int:
    """Return the place, from 0, of a quantile among so many samples in order."""
    return max(0, ceil(quantile * count - 1e-9) - 1)


def _timing(of: str, stage: str, kind: str, percentiles: Sequence[float], count: int) -> Timing:
    p50, p95, p99 = percentiles
    return Timing(of=of, stage=stage, kind=kind, count=count, p50_s=p50, p95_s=p95, p99_s=p99)
