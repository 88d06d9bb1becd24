"""What may be spent, and what is left: per turn, per UTC day, and over a repository's lifetime.

A cap covers every task and process that shares the store: what was charged in its period
(`spending`) plus what is reserved for calls in flight (`reservation`). This module reads and writes
those two tables; `reservation` decides. What is left of a cap is computed here too: exact if a call
is refused, rounded elsewhere. Trade-off: `spending` keeps a row a turn, some 40 bytes each, so that
no sum over the ledger is ever needed.
"""

from collections.abc import Callable, Sequence
from decimal import ROUND_UP, Decimal
from math import inf
from sqlite3 import Connection
from typing import NamedTuple, Self

from msgspec import Struct

from xscore.platform import money
from xscore.platform.clock import day_of
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import BudgetExhausted, StoreDamaged
from xscore.platform.figures import format_dollars
from xscore.platform.processes import is_process_at_work
from xscore.platform.text import one_line
from xscore.records.estimates import CapLeft
from xscore.settings import BudgetSettings

REPOSITORY_PERIOD = "repository"
"""The period of all that a store has ever cost."""
ZERO_USD = Decimal(0)
_RESERVED = """
    SELECT id, turn_id, day, amount, process, leased_until, EXISTS (
        SELECT 1 FROM batch WHERE token = reservation.id AND state IN ('marked', 'created', 'ended')
    ) FROM reservation
"""
"""SQL of open reservations. The last column belongs to the batch extension: a batch that a
vendor may hold keeps its row whatever its lease."""


class Caps(Struct, frozen=True, kw_only=True):
    """Dollars that may be spent in each period; None: no limit."""

    turn: Decimal | None = None
    day: Decimal | None = None
    repository: Decimal | None = None

    @classmethod
    def of(cls, budget: BudgetSettings) -> Self:
        """Return the caps that the user set."""
        return cls(
            turn=budget.max_usd, day=budget.max_usd_day, repository=budget.max_usd_repository
        )

    @property
    def any(self) -> bool:
        """Whether there is a cap at all."""
        return not (self.turn is None and self.day is None and self.repository is None)


class ReservedAmount(NamedTuple):
    """Dollars that some process has set aside."""

    name: str
    turn_id: str
    day: str
    """UTC day of the call; empty: unknown, so it counts on every day."""
    usd: Decimal


def spent_in_period(connection: Connection, period: str) -> Decimal:
    """Return what the settled calls of a turn, a day or the repository cost.

    Raises StoreDamaged.
    """
    row = connection.execute("SELECT spent FROM spending WHERE span = ?", (period,)).fetchone()
    with damage_if_invalid(f"what was spent ({period})"):
        if row:
            return money.dollars_of_picodollars(row[0])
        return ZERO_USD


def add_spending(
    connection: Connection, caps: Caps, usd: Decimal, *, turn_id: str, day: str
) -> None:
    """Charge dollars to the turn, its day and the repository. Raises StoreDamaged for a capped
    period's bad sum.

    A bad sum without a cap is left for `doctor` to repair.
    """
    for period, cap in (
        (turn_id, caps.turn),
        (day, caps.day),
        (REPOSITORY_PERIOD, caps.repository),
    ):
        try:
            total = spent_in_period(connection, period) + usd
        except StoreDamaged:
            # Nothing may be spent under a cap whose sum is unknown; without one it limits nothing.
            if cap is not None:
                raise
            continue
        # A host that reports absurd usage must not make a sum that no integer holds.
        storable = min(total, money.dollars_of_picodollars(money.MAX_PICODOLLARS))
        connection.execute(
            "INSERT INTO spending (span, spent) VALUES (?, ?) ON CONFLICT (span) DO UPDATE SET"
            " spent = excluded.spent",
            (period, money.picodollars(storable)),
        )


def reserved_amounts(
    connection: Connection, *, now: float
) -> tuple[list[ReservedAmount], list[str]]:
    """Return what is reserved, and the names of rows left by dead processes. Raises StoreDamaged.

    A process on this machine holds its rows while it runs: an expired lease may mean a clock was
    set forward. A process elsewhere (in another container) cannot be seen; only its lease counts.
    """
    held: list[ReservedAmount] = []
    expired: list[str] = []
    with damage_if_invalid("what is set aside"):
        rows = connection.execute(_RESERVED).fetchall()
        for name, turn_id, day, amount, process, leased_until, is_batch in rows:
            # A vendor works on a batch for hours after the process that sent it is gone.
            if is_batch or _holds(process, is_over=leased_until < now):
                usd = money.dollars_of_picodollars(amount)
                held.append(ReservedAmount(name, turn_id, day, usd))
            else:
                expired.append(name)
    return held, expired


def _holds(process: str, *, is_over: bool) -> bool:
    """Return whether the process that wrote a row may still need it; a batch's row names no
    process."""
    if not process:
        return not is_over
    return is_process_at_work(process, age_s=inf if is_over else 0.0)


def delete_expired(connection: Connection, *, now: float) -> list[ReservedAmount]:
    """Delete the rows of dead processes; return the others. Raises StoreDamaged."""
    held, expired = reserved_amounts(connection, now=now)
    connection.executemany(
        "DELETE FROM reservation WHERE id = ?", [(name,) for name in expired]
    )
    return held


def write_reservation(
    connection: Connection, row: ReservedAmount, *, process: str, leased_until: float
) -> None:
    """Insert a row, or update the amount and lease of the row with that name."""
    connection.execute(
        "INSERT INTO reservation (id, turn_id, day, process, leased_until, amount) VALUES (?, ?, ?,"
        " ?, ?, ?) ON CONFLICT (id) DO UPDATE SET leased_until = excluded.leased_until, amount ="
        " excluded.amount",
        (row.name, row.turn_id, row.day, process, leased_until, money.picodollars(row.usd)),
    )


def reserved_usd(connection: Connection, name: str) -> Decimal | None:
    """Return the amount that one row reserves; None if there is no such row.

    Raises StoreDamaged.
    """
    row = connection.execute("SELECT amount FROM reservation WHERE id = ?", (name,)).fetchone()
    with damage_if_invalid("what is set aside"):
        if row:
            return money.dollars_of_picodollars(row[0])
        return None


def reduce_reservation(connection: Connection, name: str, usd: Decimal) -> bool:
    """Reduce a reservation by this amount; False if there is no such row. Raises StoreDamaged."""
    held = reserved_usd(connection, name)
    if held is not None and held > usd:
        connection.execute(
            "UPDATE reservation SET amount = ? WHERE id = ?",
            (money.picodollars(held - usd), name),
        )
    elif held is not None:
        connection.execute("DELETE FROM reservation WHERE id = ?", (name,))
    return held is not None


def remaining_under_caps(
    connection: Connection,
    caps: Caps,
    *,
    turn_id: str,
    day: str,
    set_aside: Sequence[ReservedAmount],
) -> tuple[CapLeft, ...]:
    """Return what is left of each cap that is set. Raises StoreDamaged."""
    held_for = {"turn": ZERO_USD, "day": ZERO_USD, "repository": ZERO_USD}
    for row in set_aside:
        held_for["repository"] += row.usd
        if row.turn_id == turn_id:
            held_for["turn"] += row.usd
        if row.day in (day, ""):
            held_for["day"] += row.usd
    periods = (
        ("turn", turn_id, caps.turn),
        ("day", day, caps.day),
        ("repository", REPOSITORY_PERIOD, caps.repository),
    )
    caps_left: list[CapLeft] = []
    for of, period, cap in periods:
        if cap is not None:
            left_usd = cap - spent_in_period(connection, period) - held_for[of]
            caps_left.append(CapLeft(of=of, cap_usd=cap, left_usd=left_usd))
    return tuple(caps_left)


def cap_status(
    connection: Connection, caps: Caps, *, now: float, turn_id: str = ""
) -> tuple[CapLeft, ...]:
    """Return what is left of each cap, by default for a turn that has not begun.

    Raises StoreDamaged.
    """
    if not caps.any:
        return ()
    held, _ = reserved_amounts(connection, now=now)
    return remaining_under_caps(
        connection, caps, turn_id=turn_id, day=day_of(now), set_aside=held
    )


CAP_PERIOD_NAMES = {
    "turn": "a turn",
    "run": "this run",
    "day": "a day",
    "repository": "this repository",
}
CAP_SETTINGS = {
    "turn": "--max-usd",
    "run": "--max-usd",
    "day": "budget.max_usd_day",
    "repository": "budget.max_usd_repository",
}


def cap_left_rounded(cap: CapLeft) -> str:
    """Format what is left: `$4.93 of the day's $5 is left`, or by how much the cap was
    exceeded."""
    return _cap_left(cap, format_dollars)


def _cap_left(cap: CapLeft, written: Callable[[Decimal], str], *, day: str = "") -> str:
    whose = f"the {one_line(cap.of)}'s ${cap.cap_usd:f}"
    if day and cap.of == "day":
        whose += f" ({day}, UTC)"
    if cap.left_usd < 0:
        return f"{whose} is spent, and {written(-cap.left_usd)} more"
    return f"{written(cap.left_usd)} of {whose} is left"


def describe_cap(cap: CapLeft) -> str:
    """`the cap of $5 on a day (budget.max_usd_day), of which $0.40 is left`."""
    words = (
        f"the cap of ${cap.cap_usd:f} on {CAP_PERIOD_NAMES[cap.of]} ({CAP_SETTINGS[cap.of]})"
    )
    if cap.left_usd == cap.cap_usd:
        return words
    return f"{words}; {format_dollars(max(cap.left_usd, ZERO_USD))} left"


def budget_exhausted(usd: Decimal, cap: CapLeft, *, day: str) -> BudgetExhausted:
    """Return the refusal of a call that may cost `usd`: what is left of the cap, and how to
    continue."""
    only = "" if cap.left_usd < 0 else "only "
    message = (
        f"the next call may cost {_exact(usd)}, and {only}{_cap_left(cap, _exact, day=day)}"
    )
    return BudgetExhausted(message, hint=suggest_doubled_cap(cap, usd))


def _exact(usd: Decimal) -> str:
    """All digits, since a cap may fail by the last one."""
    return f"${usd.normalize():f}"


def suggest_doubled_cap(cap: CapLeft, usd: Decimal) -> str:
    """Say how to go on, knowing only the call that was refused.

    Shown where the refusal ends a command or a list. A turn that ends with a receipt shows the cap
    that is enough for all that is left instead (`pipeline.room_under_caps`).
    """
    match cap.of:
        case "turn":
            higher = max(2 * cap.cap_usd, 2 * usd).quantize(Decimal("0.01"), ROUND_UP)
            return (
                f"What was judged is kept; run `xscore continue --max-usd {higher:f}`, or narrow"
                " the task."
            )
        case "day":
            return (
                "Raise budget.max_usd_day, or wait for the next day (UTC); then run `xscore"
                " continue`."
            )
    return "Raise budget.max_usd_repository; then run `xscore continue`."
