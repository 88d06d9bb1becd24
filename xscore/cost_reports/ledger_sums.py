"""The calls of a ledger, added up by SQLite: one row for each turn, stage and model, in a polars table.

A damaged row (text or a fraction instead of a count, a negative, more than a call can have) is left out of every sum
and counted. SQLite walks an index that is already in group order, so a million rows need no sort and little memory.
`tables` groups further. Trade-off: durations are kept to the microsecond, as text, which SQLite joins fastest.
"""

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xscore.cost_reports.records import ReportQuery
from xscore.platform.clock import LATEST_TIMESTAMP
from xscore.platform.database import lenient_text
from xscore.records.calls import Stage
from xscore.store.call_rows import MOST_PICODOLLARS, MOST_SECONDS, MOST_TOKENS

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
    "cache_write_1h_tokens": "sum(cache_write_1h_tokens) FILTER (WHERE cache_write_1h_tokens IS NOT 0)",
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
"""Each column that is added up further, in SQL. `beside_…`: what calls cost that do not know the figure before it."""
SUM_COLUMNS = tuple(_SUM_SQL)
COST_COLUMNS = SUM_COLUMNS[SUM_COLUMNS.index("cost") :]
"""In picodollars, NULL where nothing is known."""
DURATIONS_COLUMN = "durations"
"""Of calls answered live: twice their microseconds, one more where tokens came from a prefix cache; commas between."""
_COUNTS = (
    *("input_tokens", "cached_input_tokens", "cache_write_tokens", "cache_write_1h_tokens"),
    *("output_tokens", "reasoning_tokens", "estimated"),
)
_COSTS = tuple(
    f"coalesce({name}, 0)" for name in ("cost", "cost_without_prefix_cache", "cost_without_packs", "cost_by_batch")
)
_IS_VALID = f"""
    typeof({" + ".join(_COUNTS + _COSTS)}) = 'integer'
    AND min({", ".join(_COUNTS + _COSTS)}) >= 0
    AND max({", ".join(_COUNTS)}) < {MOST_TOKENS} AND max({", ".join(_COSTS)}) < {MOST_PICODOLLARS}
    AND duration_s >= 0 AND duration_s <= {MOST_SECONDS} AND +started_at >= 0 AND +started_at <= {LATEST_TIMESTAMP}
"""
"""Whole numbers within bounds. To SQLite text is greater than any number, so the upper bounds refuse it."""
_READ = f"""
    SELECT turn_id, stage, provider, model, min(started_at), {", ".join(_SUM_SQL.values())},
        group_concat(CAST(duration_s * 1000000 AS INTEGER) * 2 + (cached_input_tokens > 0))
            FILTER (WHERE outcome = 'ok' AND batch = '')
    FROM call WHERE {{among}} AND {_IS_VALID} GROUP BY turn_id, stage, provider, model
"""
_COUNT = "SELECT count(*) FROM call WHERE {among}"
_STAGES = frozenset(map(str, Stage))
_ATTEMPTS = 5
"""Place of the first sum in a row."""
_AT_ONCE = 4_096


def read_call_sums(connection: sqlite3.Connection, asked: ReportQuery) -> tuple["pl.DataFrame", int]:
    """Add up the calls of the asked turns, and of what else made calls (an index, the doctor) in the asked period.

    Return columns `turn`, `stage`, `provider`, `model`, `first_at` (Unix seconds), those of `SUM_COLUMNS` and the
    durations; also how many rows are damaged.
    """
    import polars as pl

    among, values = _among(asked)
    table, valid = [pl.DataFrame(schema=_schema())], 0
    with lenient_text(connection):
        cursor = connection.execute(_READ.format(among=among), values)
        while rows := cursor.fetchmany(_AT_ONCE):
            known = [row for row in rows if row[1] in _STAGES and all(isinstance(name, str) for name in row[:4])]
            valid += sum(row[_ATTEMPTS] for row in known)
            table.append(pl.DataFrame(known, schema=_schema(), orient="row"))
        (there,) = connection.execute(_COUNT.format(among=among), values).fetchone()
    return pl.concat(table), there - valid


def _among(asked: ReportQuery) -> tuple[str, Sequence[object]]:
    """Name the rows that may belong to what is asked, by an index."""
    if asked.turn_id:
        return "turn_id = ?", (asked.turn_id,)
    if asked.since is None and asked.until is None:
        return "1", ()
    period = (asked.since or 0.0, LATEST_TIMESTAMP if asked.until is None else asked.until)
    within = "started_at >= ? AND started_at < ?"
    alone = "NOT EXISTS (SELECT 1 FROM turn WHERE id = turn_id)"
    chosen = f"SELECT id FROM turn WHERE {within} UNION SELECT turn_id FROM call WHERE {within} AND {alone}"
    return f"turn_id IN ({chosen})", (*period, *period)


def _schema() -> dict[str, Any]:
    import polars as pl

    names: dict[str, Any] = dict.fromkeys(("turn", "stage", "provider", "model"), pl.String)
    return {
        **names,
        "first_at": pl.Float64,
        **dict.fromkeys(SUM_COLUMNS, pl.Int64),
        DURATIONS_COLUMN: pl.String,
    }
