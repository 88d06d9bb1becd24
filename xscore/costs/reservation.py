"""The dollars of a turn: an upper bound of each call is set aside in the store before it is sent.

What is set aside plus what is charged never passes any of the caps (`caps`), over all tasks and processes that share
the store. A call that ended without telling its price stays charged at its bound, and each on the day on which its
dollars were set aside. What a process had set aside is taken back when it died; of one in another container its lease
alone tells. So that not every call waits for the disk, a process sets some calls' worth aside at once and lends it out;
near a cap it takes no more than the next call needs, and there a call waits for those of its own process in flight,
which mostly cost less than their bound, before it is refused. Without a cap nothing is set aside, and what was spent is
entered all the same, so that a cap set later knows of it. Trade-off: it does not wait for the calls of another process,
nor for what another holds ready, at most a sixteenth of what was left.
"""

import secrets
import sqlite3
import time
from asyncio import CancelledError, Event, Lock
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import ROUND_UP, Decimal
from functools import partial
from sqlite3 import Connection
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.group_commit import GroupCommit
from xscore.costs import caps as spans
from xscore.costs.caps import REPOSITORY_PERIOD, ZERO_USD, Caps
from xscore.platform import money
from xscore.platform.clock import DAY_S, day_of
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import BudgetExhausted, StoreError
from xscore.platform.processes import process_identity
from xscore.providers.limits import AHEAD_CALLS, AHEAD_SHARE, LEASE_S
from xscore.records import CapLeft

CENT = Decimal("0.01")


class Reservation(Struct):
    """Dollars set aside in one row of the store."""

    leased_until: float
    day: str
    """UTC; all that is lent from it is charged on this day."""
    number: float
    """Of that day, which takes less time to compare."""
    row: str = field(default_factory=lambda: secrets.token_hex(8))
    room: Decimal = ZERO_USD
    """Not lent to a call."""
    spare: Decimal = ZERO_USD
    """Most of the room that is kept for the next calls."""
    lent: int = 0
    """Calls in flight."""
    is_lost: bool = False
    """Another process has taken the row back; the writing thread says so."""

    def surplus(self) -> Decimal:
        """Take out what need not be kept."""
        given_back = max(ZERO_USD, self.room - (self.spare if self.lent else ZERO_USD))
        self.room -= given_back
        return given_back


class _Charge(NamedTuple):
    """What is to be written of a settled call."""

    purse: Reservation
    usd: Decimal
    freed: Decimal
    """What is no longer set aside: at most what was, where a host charged beyond the bound."""


class _ReserveRequest(Struct):
    """What is to be set aside, and what came of it."""

    purse: Reservation
    needed: Decimal
    """Beside the room there is."""
    call: Decimal
    """Bound of the call it is for."""
    own: frozenset[str]
    """Rows of this process."""
    got: Decimal = ZERO_USD
    tightest: CapLeft | None = None
    """The cap with the least room, before it."""


class ReservationLedger:
    """What one turn may spend under all the caps, shared through the store."""

    def __init__(
        self,
        commits: GroupCommit,
        *,
        turn_id: str,
        caps: Caps,
        clock: Callable[[], float] = time.time,
        lease_s: float = LEASE_S,
    ) -> None:
        """clock: Unix seconds; it tells the day, and when a lease has run out."""
        self._commits = commits
        self._turn_id = turn_id
        self._caps = caps
        self._clock = clock
        self._lease_s = lease_s
        self._life = process_identity()
        self._purse = self._new_purse()
        self._open: dict[str, tuple[Reservation, Decimal]] = {}
        self._reserved = 0
        self._line = Lock()
        self._settled = Event()

    async def reserve(self, usd: Decimal | None) -> str:
        """Set aside an upper bound (None: unpriced, counts as nothing). Raises BudgetExhausted past a cap.

        What was bought so far is kept first: where it cannot be, StoreError is raised and nothing more is bought.
        """
        await self._commits.caught_up()
        if not usd:
            return ""
        async with self._line:
            while not (self._is_held() and (usd <= self._purse.room or not self._caps.any)):
                await self._more_for(usd)
            if self._caps.any:
                self._purse.room -= usd
        self._purse.lent += 1
        self._reserved += 1
        name = f"{self._reserved:x}"
        self._open[name] = (self._purse, usd)
        return name

    async def settle(self, reservation: str, actual: Decimal | None) -> None:
        """Charge what the call cost instead of its bound; None: it did not tell, so the bound stays charged.

        Does not raise where an earlier commit failed: a reply that was paid for is worth having, nothing more can be
        reserved, and what is left set aside keeps the dollars charged.
        """
        if not reservation:
            return
        purse, bound = self._open.pop(reservation)
        charge = bound if actual is None else actual
        purse.lent -= 1
        freed = ZERO_USD
        if self._caps.any:
            held = purse.room + bound
            purse.room = max(ZERO_USD, held - charge)
            freed = held - purse.room + purse.surplus()
        with suppress(StoreError, sqlite3.Error):
            self._commits.add(self._charge, _Charge(purse, charge, freed))
        self._settled.set()
        self._settled = Event()

    def _new_purse(self) -> Reservation:
        now = self._clock()
        return Reservation(now + self._lease_s, day_of(now), now // DAY_S)

    def _is_held(self) -> bool:
        """Whether what the purse holds will be set aside for as long as a call takes, and counts for today."""
        purse, now = self._purse, self._clock()
        is_leased = not self._caps.any or (not purse.is_lost and now < purse.leased_until - self._lease_s / 2)
        return is_leased and purse.number == now // DAY_S

    async def _more_for(self, usd: Decimal) -> None:
        """Set more aside, or wait for a call in flight. Raises BudgetExhausted where there is none."""
        if not self._is_held():
            self._renew()
        if not self._caps.any:
            return
        purse, settled = self._purse, self._settled
        own = frozenset(lender.row for lender, _ in self._open.values()) | {purse.row}
        fill = _ReserveRequest(purse, usd - purse.room, usd, own)
        try:
            await self._commits.submit(partial(self._set_aside, fill))
        except CancelledError:
            self._commits.post(lambda connection: _reduce_reservation(connection, purse, fill.got))
            raise
        if fill.got:
            purse.room += fill.got
            purse.spare = fill.got - fill.needed
        elif self._open or settled.is_set():
            await settled.wait()
        else:
            assert fill.tightest is not None
            raise _budget_exhausted(usd, fill.tightest, purse)

    def _renew(self) -> None:
        """Begin another purse; what is not lent of the one before is given back, the rest by its calls in flight."""
        before, self._purse = self._purse, self._new_purse()
        before.spare = ZERO_USD
        unlent = before.surplus()
        if unlent:
            self._commits.post(lambda connection: _reduce_reservation(connection, before, unlent))

    def _set_aside(self, fill: _ReserveRequest, connection: Connection) -> None:
        now, purse = self._clock(), fill.purse
        held, gone = spans.reserved_amounts(connection, own=fill.own, now=now)
        connection.executemany("DELETE FROM reservation WHERE id = ?", [(row,) for row in gone])
        found = spans.remaining_under_caps(connection, self._caps, turn_id=self._turn_id, day=purse.day, set_aside=held)
        fill.tightest = min(found, key=lambda cap: cap.left_usd)
        if fill.needed > fill.tightest.left_usd:
            return
        further = int((fill.tightest.left_usd - fill.needed) / fill.call) // AHEAD_SHARE
        fill.got = fill.needed + min(AHEAD_CALLS, further) * fill.call
        purse.leased_until = now + self._lease_s
        before = sum((row.usd for row in held if row.row == purse.row), ZERO_USD)
        connection.execute(
            "INSERT INTO reservation (id, turn_id, day, life, leased_until, amount) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET leased_until = excluded.leased_until, amount = excluded.amount",
            (purse.row, self._turn_id, purse.day, self._life, purse.leased_until, money.picodollars(before + fill.got)),
        )

    def _charge(self, charges: Sequence[_Charge], connection: Connection) -> None:
        whole = {self._turn_id: ZERO_USD, REPOSITORY_PERIOD: ZERO_USD}
        for purse in {charge.purse.row: charge.purse for charge in charges}.values():
            own = [charge for charge in charges if charge.purse is purse]
            if self._caps.any:
                _reduce_reservation(connection, purse, sum((charge.freed for charge in own), ZERO_USD))
            spent = sum((charge.usd for charge in own), ZERO_USD)
            for span in (self._turn_id, purse.day, REPOSITORY_PERIOD):
                whole[span] = whole.get(span, ZERO_USD) + spent
        spans.add_spending(connection, whole, capped=self._capped(whole))

    def _capped(self, names: Iterable[str]) -> frozenset[str]:
        """Return which of these spans have a cap."""
        caps, turn = self._caps, self._turn_id
        of = {turn: caps.turn, REPOSITORY_PERIOD: caps.repository}
        return frozenset(name for name in names if of.get(name, caps.day) is not None)


def _budget_exhausted(usd: Decimal, cap: CapLeft, purse: Reservation) -> BudgetExhausted:
    """Say which cap binds, what is left of it and how to go on."""
    from xscore.costs.budget_messages import cap_left_exact  # for refusals alone

    rest = cap_left_exact(replace(cap, left_usd=cap.left_usd + purse.room), day=purse.day)
    return BudgetExhausted(f"the next call may cost ${usd:f}, and {rest}", hint=_how_to_continue(cap, usd))


def _how_to_continue(cap: CapLeft, usd: Decimal) -> str:
    """Name what to raise, and the command that goes on; each turn has a cap of its own, also one that goes on."""
    match cap.of:
        case "turn":
            higher = max(2 * cap.cap_usd, 2 * usd).quantize(CENT, ROUND_UP)
            return f"What was judged is kept; go on with `xscore continue --max-usd {higher:f}`, or narrow the task."
        case "day":
            return "Raise budget.max_usd_day, or wait for the next day (UTC); then go on with `xscore continue`."
    return "Raise budget.max_usd_repository; then go on with `xscore continue`."


def _reduce_reservation(connection: Connection, purse: Reservation, usd: Decimal) -> None:
    """Set so much less aside; a purse whose row is gone is lost."""
    found = connection.execute("SELECT amount FROM reservation WHERE id = ?", (purse.row,)).fetchone()
    if found is None:
        purse.is_lost = True
        return
    with damage_if_invalid("what is set aside"):
        left = money.dollars_of_picodollars(found[0]) - usd
    if left > 0:
        connection.execute("UPDATE reservation SET amount = ? WHERE id = ?", (money.picodollars(left), purse.row))
    else:
        connection.execute("DELETE FROM reservation WHERE id = ?", (purse.row,))
