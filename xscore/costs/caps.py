"""What may be spent, and what is left of it: by a turn, a UTC day, and a repository in its whole life.

A cap holds over every task and process that shares the store: what was charged within its span (`spending`) plus what
is set aside for calls in flight (`reservation`). This module reads and adds up; who sets aside and charges is `budget`.
Trade-off: rows of the turns of months stay in `spending`, some 40 bytes each, so that no sum is ever made anew.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from math import inf
from sqlite3 import Connection
from typing import NamedTuple

from msgspec import Struct

from xscore.platform import money
from xscore.platform.clock import day_of
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import StoreDamaged
from xscore.platform.processes import is_process_at_work
from xscore.records import CapLeft
from xscore.settings import BudgetSettings

REPOSITORY_PERIOD = "repository"
"""The span of all that a store has ever cost."""
ZERO_USD = Decimal(0)
_RESERVED = """
    SELECT id, turn_id, day, life, leased_until, amount, EXISTS (
        SELECT 1 FROM batch WHERE mark = reservation.id AND state IN ('marked', 'created', 'ended')
    ) FROM reservation
"""


class Caps(Struct, frozen=True, kw_only=True):
    """Dollars that may be spent in each span; None: as much as it takes."""

    turn: Decimal | None = None
    day: Decimal | None = None
    repository: Decimal | None = None

    @property
    def any(self) -> bool:
        """Whether there is a cap at all."""
        return not (self.turn is None and self.day is None and self.repository is None)


def caps_of(budget: BudgetSettings) -> Caps:
    """Return the caps that the user set."""
    return Caps(turn=budget.max_usd, day=budget.max_usd_day, repository=budget.max_usd_repository)


class ReservedAmount(NamedTuple):
    """Dollars that some process has set aside."""

    row: str
    turn_id: str
    day: str
    """Empty: not known, so they count within every day."""
    usd: Decimal


class ReservedAmounts(NamedTuple):
    """What is set aside, and what no longer is."""

    held: tuple[ReservedAmount, ...]
    gone: tuple[str, ...]
    """Rows that the dead and the stuck have left."""


def spent_in_period(connection: Connection, span: str) -> Decimal:
    """Return what the settled calls of a turn, a day or the repository have cost. Raises StoreDamaged."""
    row = connection.execute("SELECT spent FROM spending WHERE span = ?", (span,)).fetchone()
    with damage_if_invalid(f"what was spent ({span})"):
        return money.dollars_of_picodollars(row[0]) if row else ZERO_USD


def add_spending(connection: Connection, spans: Mapping[str, Decimal], *, capped: frozenset[str]) -> None:
    """Enter dollars in each span. Raises StoreDamaged where a capped one makes no sense; others are left to a mend."""
    for span, usd in spans.items():
        try:
            whole = spent_in_period(connection, span) + usd
        except StoreDamaged:
            if span in capped:
                raise
            continue
        connection.execute(
            "INSERT INTO spending (span, spent) VALUES (?, ?) ON CONFLICT (span) DO UPDATE SET spent = excluded.spent",
            (span, money.picodollars(min(whole, money.dollars_of_picodollars(money.MAX_PICODOLLARS)))),
        )


def reserved_amounts(connection: Connection, *, own: frozenset[str], now: float) -> ReservedAmounts:
    """Return what is set aside, and what the dead and the stuck have left. Raises StoreDamaged.

    own: rows of this process. A process of this place holds its rows for as long as it is there: a lease that seems to
    be over may be a clock that was set forth, and its calls are in flight. One that runs elsewhere (another container,
    say) cannot be seen from here; its lease alone is believed. A batch that a vendor may have holds its row however
    long nobody looks at it.
    """
    rows = connection.execute(_RESERVED).fetchall()
    with damage_if_invalid("what is set aside"):
        others = [row for row in rows if row[0] not in own]
        gone = {row[0] for row in others if not (row[6] or _holds(life=row[3], is_over=row[4] < now))}
        held = tuple(
            ReservedAmount(row[0], row[1], row[2], money.dollars_of_picodollars(row[5]))
            for row in rows
            if row[0] not in gone
        )
    return ReservedAmounts(held, tuple(sorted(gone)))


def _holds(*, life: str, is_over: bool) -> bool:
    """Whether who set a row aside may still need it; without a name it is a row of a store from before."""
    return is_process_at_work(life, age_s=inf if is_over else 0.0) if life else not is_over


def remaining_under_caps(
    connection: Connection, caps: Caps, *, turn_id: str, day: str, set_aside: Iterable[ReservedAmount]
) -> tuple[CapLeft, ...]:
    """Return what is left of each cap that is set. Raises StoreDamaged."""
    rows = list(set_aside)
    spans = (
        ("turn", turn_id, caps.turn, [row.usd for row in rows if row.turn_id == turn_id]),
        ("day", day, caps.day, [row.usd for row in rows if row.day in (day, "")]),
        ("repository", REPOSITORY_PERIOD, caps.repository, [row.usd for row in rows]),
    )
    return tuple(
        CapLeft(of=of, cap_usd=cap, left_usd=cap - spent_in_period(connection, span) - sum(held, ZERO_USD))
        for of, span, cap, held in spans
        if cap is not None
    )


def cap_status(connection: Connection, caps: Caps, *, now: float) -> tuple[CapLeft, ...]:
    """Return what is left of each cap for a turn that has not begun; nothing is taken back. Raises StoreDamaged."""
    if not caps.any:
        return ()
    found = reserved_amounts(connection, own=frozenset(), now=now)
    return remaining_under_caps(connection, caps, turn_id="", day=day_of(now), set_aside=found.held)
