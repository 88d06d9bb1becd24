"""The added-up calls and the turns of one or more ledgers as tables, and what each group of `--by` spent. By polars.

A turn belongs to the day, and to the stretch, in which it began, with all its calls; so no turn is ever cut in two.
Calls that no turn made (an index that embeds, the doctor) stand under the command that made them. Trade-off: a call
after midnight counts for the day of its turn, where a cap by day counts it for its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from xscore import money
from xscore.cost_reports.ledger_sums import COSTS, SUMS
from xscore.cost_reports.turn_rows import TurnRow
from xscore.records import Coverage, Otherwise, Usage
from xscore.records.cost_report import NOTHING_JUDGED, Asked, Group, Spent
from xscore.utc_days import DAY_S, day_of

if TYPE_CHECKING:  # 0.2 s of CPU that no other command pays
    import polars as pl

_COMMANDS = {"a": "ask", "e": "index", "p": "doctor"}
"""First letter of what made calls without being a turn."""


class Key(NamedTuple):
    """A turn."""

    number: int
    """Of its repository, among those asked."""
    turn_id: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A turn and the repository it belongs to."""

    key: Key
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


def placed_calls(
    sums: "pl.DataFrame", turns: Sequence[Placed], *, number: int, asked: Asked, jobs: Mapping[str, str] | None = None
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
        *(pl.col(name).cast(pl.Int128) for name in COSTS),
    )
    since, until = asked.since, asked.until
    return placed.drop("turn_at", "turn_command").filter(
        pl.lit(True) if since is None else pl.col("at") >= since,
        pl.lit(True) if until is None else pl.col("at") < until,
    )


def spent_in_all(calls: "pl.DataFrame") -> Spent:
    """Add up all rows."""
    return next((one for _, one in _added_up(calls)), Spent()) if calls.height else Spent()


def spent_by(calls: "pl.DataFrame", column: str) -> dict[str, Spent]:
    """Add up the rows with the same name in a column."""
    return {str(name): one for (name,), one in _added_up(calls, column)}


def spent_by_turn(calls: "pl.DataFrame") -> dict[Key, Spent]:
    """Add up the rows of each turn, and of each that made calls without being one."""
    return {Key(*place): one for place, one in _added_up(calls, "number", "turn_id")}


def cost_by_turn(calls: "pl.DataFrame") -> dict[Key, dict[str, Decimal]]:
    """Return of each turn the dollars of each model."""
    found: dict[Key, dict[str, Decimal]] = defaultdict(dict)
    for (number, turn_id, model), one in _added_up(calls, "number", "turn_id", "key"):
        found[Key(number, turn_id)][model] = one.cost_usd
    return found


def _added_up(calls: "pl.DataFrame", *by: str) -> Iterator[tuple[tuple[Any, ...], Spent]]:
    """Add up the rows with the same values of these columns; of no column, all of them."""
    import polars as pl

    sums = [pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in SUMS]
    table = calls.group_by(by, maintain_order=True).agg(sums) if by else calls.select(sums)
    table = table.with_columns(pl.col(name).fill_null(0) for name in SUMS if name not in COSTS)
    for row in table.iter_rows():
        yield row[: len(by)], spent(dict(zip(SUMS, row[len(by) :], strict=True)))


def spent(sums: dict[str, int]) -> Spent:
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
        cost_usd=money.dollars(sums["cost"] or 0),
        unpriced=sums["unpriced"],
        estimated=sums["estimated"],
        otherwise=Otherwise(
            without_prefix_cache=_if_known(sums["without_prefix_cache"], sums["beside_prefix_cache"]),
            without_packs=_if_known(sums["without_packs"], sums["beside_packs"]),
            by_batch=_if_known(sums["by_batch"], sums["beside_batch"]),
        ),
    )


def groups(calls: "pl.DataFrame", turns: Sequence[Placed], by: str, repositories: Sequence[str]) -> tuple[Group, ...]:
    """Return one line a group: the dearest first; days and turns the newest first."""
    import polars as pl

    named = _named(calls, by, repositories)
    spent_of = spent_by(named, "name")
    among: dict[str, set[Key]] = defaultdict(set)
    for name, number, turn_id in named.filter(pl.col("of_turn")).select("name", "number", "turn_id").iter_rows():
        among[name].add(Key(number, turn_id))
    judged: dict[str, list[Placed]] = defaultdict(list)
    for turn in turns:
        name = name_of(turn, by)
        if name is not None:
            among[name].add(turn.key)
            judged[name].append(turn)
    found = [
        Group(
            name=name,
            turns=len(among[name]),
            spent=spent_of.get(name, Spent()),
            coverage=coverage(judged[name]),
            kept=sum(turn.row.figures.kept for turn in judged[name] if turn.row.figures),
        )
        for name in sorted(spent_of.keys() | among.keys())
    ]
    return tuple(_in_order(found, by, turns))


def name_of(turn: Placed, by: str) -> str | None:
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


def coverage(turns: Iterable[Placed]) -> Coverage:
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


def _in_order(found: list[Group], by: str, turns: Sequence[Placed]) -> list[Group]:
    if by == "day":
        return sorted(found, key=lambda group: group.name, reverse=True)
    if by == "turn":
        began = {turn.row.id: turn.row.at for turn in turns}
        return sorted(found, key=lambda group: (began.get(group.name, 0.0), group.name), reverse=True)
    return sorted(found, key=lambda group: (-group.spent.cost_usd, -group.spent.attempts, group.name))


def _if_known(amount: int | None, beside: int | None) -> Decimal | None:
    return None if amount is None else money.dollars(amount + (beside or 0))
