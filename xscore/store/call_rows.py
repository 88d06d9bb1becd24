"""Rows of the ledger's table `call` as records, read strictly.

A reader leaves out a row that cannot be right and counts it (`VALID_CALL_SQL`). It reads nothing
itself.
"""

from collections.abc import Sequence
from decimal import Decimal

from xscore.platform import money
from xscore.platform.clock import LATEST_TIMESTAMP
from xscore.records.calls import Usage

MOST_TOKENS = 2**30
"""Most tokens of one call: a row beyond them is damaged, and no sum includes it."""
MOST_PICODOLLARS = 2**50
MOST_SECONDS = 10**6
TOKEN_COLUMNS = Usage.__struct_fields__
"""Columns of `call`, called like the fields, in the order that `usage_from_row` takes them."""
_COUNTS = (*TOKEN_COLUMNS, "estimated")
_COSTS = tuple(
    f"coalesce({name}, 0)"
    for name in ("cost", "cost_without_prefix_cache", "cost_without_packs", "cost_by_batch")
)
VALID_CALL_SQL = f"""
    typeof({" + ".join(_COUNTS + _COSTS)}) = 'integer'
    AND min({", ".join(_COUNTS + _COSTS)}) >= 0
    AND max({", ".join(_COUNTS)}) < {MOST_TOKENS} AND max({", ".join(_COSTS)}) < {MOST_PICODOLLARS}
    AND duration_s >= 0 AND duration_s <= {MOST_SECONDS}
    AND +started_at >= 0 AND +started_at <= {LATEST_TIMESTAMP}
"""
"""SQL: whether tokens, dollars and times of a row of `call` are what a call can have: whole
numbers within bounds.

SQLite orders text above all numbers, so the upper bounds refuse it."""
AMOUNT_SQL = f"typeof({{0}}) = 'integer' AND {{0}} BETWEEN 0 AND {MOST_PICODOLLARS - 1}"
"""SQL: whether a column holds the dollars of a call, as a template."""


def usage_from_row(counts: Sequence[object]) -> Usage:
    """Make the tokens of a row, in the order of `TOKEN_COLUMNS`."""
    return Usage(**dict(zip(TOKEN_COLUMNS, map(parse_count, counts), strict=True)))


def dollars_from_row(cost: object) -> Decimal | None:
    """Make dollars of picodollars; None: unpriced."""
    if cost is None:
        return None
    return money.dollars_of_picodollars(parse_count(cost))


def parse_count(value: object) -> int:
    """Return a whole number from 0 on; TypeError or ValueError for anything else."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a count")
    if value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def parse_timestamp(value: object) -> float:
    """Return Unix seconds; TypeError or ValueError for anything else."""
    return parse_number(value, most=LATEST_TIMESTAMP)


def parse_seconds(value: object) -> float:
    """Return a duration; TypeError or ValueError for anything else."""
    return parse_number(value, most=MOST_SECONDS)


def parse_number(value: object, *, most: float) -> float:
    """Return a number from 0 to `most`; TypeError or ValueError for anything else."""
    if not isinstance(value, float | int):
        raise TypeError(f"{value!r} is not a number")
    if not 0 <= value <= most:
        raise ValueError(f"{value!r} is outside 0..{most}")
    return float(value)
