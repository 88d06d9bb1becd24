"""Tokens, dollars and times of the ledger as records, whoever reads them: of one row, or added up by SQL.

It is read strictly: a count that is none raises, which `database.making_sense` tells as damage, and who adds up asks
for rows that make sense (`MAKES_SENSE`). It asks the store nothing itself. Trade-off: a reader must name the columns in
the order of `TOKENS`.
"""

from collections.abc import Sequence
from decimal import Decimal

from xscore import money
from xscore.records import Usage
from xscore.records.cost_report import LAST_MOMENT

TOKENS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "output_tokens",
    "reasoning_tokens",
)
"""Columns of `call`, in the order that `usage_of` takes them."""
_MOST_TOKENS = 2**30
"""Of one call less; reports leave out the same (`cost_reports.ledger_sums`)."""
_MOST_PICODOLLARS = 2**50
_MOST_SECONDS = 10**6
_WHOLE = "typeof({name}) = 'integer' AND {name} >= 0 AND {name} < {most}"
_TIMES = {"duration_s": _MOST_SECONDS, "started_at": LAST_MOMENT}
MAKES_SENSE = " AND ".join(
    f"({each})"
    for each in (
        *(_WHOLE.format(name=name, most=_MOST_TOKENS) for name in (*TOKENS, "estimated")),
        f"cost IS NULL OR {_WHOLE.format(name='cost', most=_MOST_PICODOLLARS)}",
        *(f"typeof({name}) = 'real' AND {name} >= 0 AND {name} <= {most}" for name, most in _TIMES.items()),
    )
)
"""SQL: whether tokens, dollars and times of a row of `call` are what a call can have. It needs all those columns."""


def usage_of(counts: Sequence[object]) -> Usage:
    """Make the tokens of a row, in the order of `TOKENS`."""
    return Usage(**dict(zip(TOKENS, map(count, counts), strict=True)))


def dollars_of(cost: object) -> Decimal | None:
    """Make dollars of picodollars; None: unpriced."""
    return None if cost is None else money.dollars(count(cost))


def count(value: object) -> int:
    """Return a whole number; TypeError or ValueError for what is none."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no count")
    if value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def moment_of(value: object) -> float:
    """Return Unix seconds; TypeError or ValueError for what is no moment."""
    return number(value, most=LAST_MOMENT)


def seconds_of(value: object) -> float:
    """Return a duration; TypeError or ValueError for what is none."""
    return number(value, most=_MOST_SECONDS)


def number(value: object, *, most: float) -> float:
    """Return a number from 0 to `most`; TypeError or ValueError for what is none."""
    if not isinstance(value, float | int):
        raise TypeError(f"{value!r} is no number")
    if not 0 <= value <= most:
        raise ValueError(f"{value!r} lies beyond 0..{most}")
    return float(value)
