"""The calls of one or more ledgers in one table in memory, and the spending of any group of them.

A turn belongs to the day, and to the period, in which it began, with all its calls; so no turn is
ever cut in two. SQLite adds the calls of a ledger up, a row for each turn, stage and model, and
groups those rows further; a damaged row is left out of every sum and counted. Calls that no turn
made (an index that embeds, the doctor) are under the command that made them. The table is never
written to a disk, since a store may be encrypted. Trade-off: a call after midnight counts for the
day of its turn, where a cap by day counts it for its own.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Self

from xscore.cost_reports.groupings import GROUPINGS, SQL_FUNCTIONS
from xscore.cost_reports.records import LedgerTurn, ReportQuery, Spent, TurnKey
from xscore.platform import money
from xscore.platform.database import lenient_text
from xscore.platform.sqlite_drivers import IN_MEMORY
from xscore.records.calls import CounterfactualCost, Stage, Usage
from xscore.store.call_rows import VALID_CALL_SQL

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
    "lacking_prefix_cache": "sum(cost) FILTER (WHERE cost_without_prefix_cache IS NULL)",
    "without_packs": "sum(cost_without_packs)",
    "lacking_packs": "sum(cost) FILTER (WHERE cost_without_packs IS NULL)",
    "by_batch": "sum(cost_by_batch)",
    "lacking_batch": "sum(cost) FILTER (WHERE cost_by_batch IS NULL)",
}
"""Each column that is summed further, in SQL. `lacking_…`: the cost of calls that lack the figure
before it."""
SUM_COLUMNS = tuple(_SUM_SQL)
COUNT_COLUMNS = SUM_COLUMNS[: SUM_COLUMNS.index("cost")]
COST_COLUMNS = SUM_COLUMNS[SUM_COLUMNS.index("cost") :]
"""Columns in picodollars, NULL if unknown."""
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
_LEDGER_COLUMNS = ("turn", "stage", "provider", "model", "first_at", *SUM_COLUMNS, "durations")


def _quoted(column: str) -> str:
    """Return a column as SQL takes it, whichever characters `--by` has in its name.

    Not between double quotes: SQLite reads those as text where there is no such column.
    """
    return f"[{column}]"


_OF_TURN = {
    name: _quoted(f"turn_{name}")
    for name, grouping in GROUPINGS.items()
    if not grouping.of_call
}
"""Groupings by what only the turn knows -> their column in `ledger_turn`."""
_GROUP_SQL = {
    name: grouping.of_call or f"coalesce({_OF_TURN[name]}, {grouping.of_other})"
    for name, grouping in GROUPINGS.items()
}
_TURN_COLUMNS = ("turn", "at", "judge", *_OF_TURN.values())
_TABLES = f"""
    PRAGMA temp_store = MEMORY;
    CREATE TABLE ledger ({", ".join(_LEDGER_COLUMNS)});
    CREATE TABLE ledger_turn ({", ".join(_TURN_COLUMNS)}, PRIMARY KEY (turn));
    CREATE TABLE call (
        {", ".join(map(_quoted, GROUPINGS))}, of_turn, is_own_judging,
        {", ".join(SUM_COLUMNS)}, durations
    );
    CREATE TABLE chosen (repo, turn, PRIMARY KEY (repo, turn));
"""
"""`ledger` and `ledger_turn` hold one ledger at a time; `call` has the group of each row by
every grouping. `durations`: those of live answered calls, comma-separated: twice their
microseconds, plus one if tokens came from a prefix cache."""
_PLACE = f"""
    INSERT INTO call
    SELECT {", ".join(_GROUP_SQL.values())}, of_turn,
        of_turn AND stage = '{Stage.JUDGE}' AND provider || ':' || model = judge,
        {", ".join(SUM_COLUMNS)}, durations
    FROM (
        SELECT ledger.*, {", ".join(("judge", *_OF_TURN.values()))},
            ledger_turn.at IS NOT NULL AS of_turn,
            coalesce(ledger_turn.at, min(first_at) OVER (PARTITION BY turn)) AS at
        FROM ledger LEFT JOIN ledger_turn USING (turn)
    )
    WHERE :since IS NULL OR (at >= :since AND at < :until)
"""
_LOW_BITS = 32
_COMMANDS = {"a_": "ask", "e_": "index", "p_": "doctor", "w_": "watch"}
"""Prefixes of the ids of callers that are not turns."""


class CallTable:
    """Sums of calls, a row for each repository, turn, stage and model."""

    def __init__(self) -> None:
        self._rows = sqlite3.connect(IN_MEMORY, isolation_level=None)
        self._rows.executescript(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()

    def add_ledger(
        self,
        ledger: sqlite3.Connection,
        turns: Sequence[LedgerTurn],
        *,
        repo: str,
        query: ReportQuery,
        jobs: Mapping[str, str],
    ) -> int:
        """Add the calls of the requested turns, and of other callers in that period; return how
        many rows of calls are damaged.

        turns: those of this ledger that were asked for.
        jobs: job -> the command its calls are listed under.
        """
        valid = 0

        def readable_rows(cursor: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
            nonlocal valid
            for row in cursor:
                if row[1] in _STAGES and all(isinstance(name, str) for name in row[:4]):
                    valid += row[_ATTEMPTS]
                    yield row

        def command_of(caller: str) -> str:
            return jobs.get(caller) or _COMMANDS.get(caller[:2], "")

        among, values = _among(query)
        rows = self._rows
        rows.executescript("DELETE FROM ledger; DELETE FROM ledger_turn")
        rows.execute("BEGIN")
        with lenient_text(ledger):
            marks = ", ".join("?" * len(_LEDGER_COLUMNS))
            cursor = ledger.execute(_READ.format(among=among), values)
            rows.executemany(f"INSERT INTO ledger VALUES ({marks})", readable_rows(cursor))
            (in_ledger,) = ledger.execute(_COUNT.format(among=among), values).fetchone()
        marks = ", ".join("?" * len(_TURN_COLUMNS))
        rows.executemany(f"INSERT INTO ledger_turn VALUES ({marks})", map(_turn_row, turns))
        rows.create_function("command_of", 1, command_of, deterministic=True)
        for name, function in SQL_FUNCTIONS.items():
            rows.create_function(name, -1, function, deterministic=True)
        since, until = query.period or (None, None)
        rows.execute(_PLACE, {"repo": repo, "since": since, "until": until})
        rows.execute("COMMIT")
        return int(in_ledger - valid)

    def spent_by(
        self, *columns: str, where: str = "1", only: Iterable[TurnKey] | None = None
    ) -> dict[tuple[str, ...], Spent]:
        """Add up the rows with the same values of these columns; without columns, all of them.

        where: SQL over the table's columns.
        only: the turns whose calls count; None: all.
        """
        if only is not None:
            self._rows.execute("DELETE FROM chosen")
            self._rows.executemany("INSERT OR IGNORE INTO chosen VALUES (?, ?)", only)
            where = f"{where} AND (repo, turn) IN chosen"
        # The groups keep the order of the ledger.
        groups = tuple(map(_quoted, columns))
        order = f"GROUP BY {', '.join(groups)} ORDER BY min(rowid)" if groups else ""
        names = (*groups, *map(_sum, COUNT_COLUMNS), *map(_cost_sum, COST_COLUMNS))
        query = f"SELECT {', '.join(names)} FROM call WHERE {where} {order}"
        spent: dict[tuple[str, ...], Spent] = {}
        for row in self._rows.execute(query):
            spent[row[: len(columns)]] = _spent(row[len(columns) :])
        return spent

    def turns_by(self, column: str) -> Iterator[tuple[str, TurnKey]]:
        """Yield each value of a column with each turn that has calls with it."""
        query = f"SELECT DISTINCT {_quoted(column)}, repo, turn FROM call WHERE of_turn"
        for value, repo, turn in self._rows.execute(query):
            yield value, TurnKey(repo, turn)

    def durations(self, stage: Stage) -> list[int]:
        """Return how long answered calls took, in the form of the column `durations`."""
        query = "SELECT durations FROM call WHERE stage = ? AND durations IS NOT NULL"
        taken: list[int] = []
        for (durations,) in self._rows.execute(query, (str(stage),)):
            taken.extend(map(int, durations.split(",")))
        return taken


def _turn_row(turn: LedgerTurn) -> tuple[object, ...]:
    groups = [GROUPINGS[name].of_turn(turn) for name in _OF_TURN]
    return (turn.key.turn, turn.at, turn.judge, *groups)


def _among(query: ReportQuery) -> tuple[str, Sequence[object]]:
    """Select the rows that may match, by an index."""
    if query.turn_id:
        return "turn_id = ?", (query.turn_id,)
    if query.period is None:
        return "1", ()
    within = "started_at >= ? AND started_at < ?"
    alone = "NOT EXISTS (SELECT 1 FROM turn WHERE id = turn_id)"
    chosen = (
        f"SELECT id FROM turn WHERE {within} UNION SELECT turn_id FROM call WHERE {within} AND"
        f" {alone}"
    )
    return f"turn_id IN ({chosen})", (*query.period, *query.period)


def _sum(column: str) -> str:
    return f"coalesce(sum({column}), 0)"


def _cost_sum(column: str) -> str:
    """Sum picodollars in two halves, since SQLite's whole numbers end at nine million dollars."""
    low = (1 << _LOW_BITS) - 1
    return f"sum({column} >> {_LOW_BITS}), sum({column} & {low})"


def _spent(sums: Sequence[Any]) -> Spent:
    count = dict(zip(COUNT_COLUMNS, sums, strict=False))
    # Each cost comes as its upper and its lower half.
    halves = iter(sums[len(COUNT_COLUMNS) :])
    cost: dict[str, int | None] = {}
    for column, high, low in zip(COST_COLUMNS, halves, halves, strict=True):
        cost[column] = None if high is None else (high << _LOW_BITS) + low
    return Spent(
        calls=count["calls"],
        attempts=count["attempts"],
        rate_limited=count["rate_limited"],
        failed=count["attempts"] - count["calls"] - count["rate_limited"],
        usage=Usage(**{name: count[name] for name in Usage.__struct_fields__}),
        cost_usd=money.dollars_of_picodollars(cost["cost"] or 0),
        unpriced=count["unpriced"],
        estimated=count["estimated"],
        otherwise=CounterfactualCost(
            without_prefix_cache=_otherwise(cost, "prefix_cache", way="without_prefix_cache"),
            without_packs=_otherwise(cost, "packs", way="without_packs"),
            by_batch=_otherwise(cost, "batch", way="by_batch"),
        ),
    )


def _otherwise(cost: Mapping[str, int | None], name: str, *, way: str) -> Decimal | None:
    """Return what another way would have cost; None if it is known of no call.

    Calls without the figure count at their real cost.
    """
    amount = cost[way]
    if amount is None:
        return None
    return money.dollars_of_picodollars(amount + (cost[f"lacking_{name}"] or 0))
