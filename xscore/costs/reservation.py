"""Reserve dollars before each call is sent, so that charges plus reservations never pass a cap.

A `Budget` reserves several calls' worth at a backend (rows of the store, a shared server) and lends
it to calls. Near a cap it reserves only what the next call needs, and that call waits for this
process's own calls in flight before it is refused. A call that did not report its price stays
charged at its bound, on the day of its reservation.
Trade-off: it does not wait for another process's calls, nor for the sixteenth of a cap that one may
hold ready.
"""

import sqlite3
import time
from asyncio import CancelledError, Event, Lock
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from sqlite3 import Connection
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.costs import caps as spending
from xscore.costs.caps import ZERO_USD
from xscore.platform.clock import DAY_S, day_of
from xscore.platform.errors import BudgetExhausted, StoreError
from xscore.platform.processes import process_identity, random_hex
from xscore.records.estimates import CapLeft

if TYPE_CHECKING:
    from xscore.cache.group_commit import GroupCommit
    from xscore.costs.caps import Caps

LEASE_S = 3_600.0
"""Lease of a reservation; half of it is longer than any call's deadline."""
AHEAD_CALLS = 16
"""How many calls' worth to reserve beyond what the next call needs."""
AHEAD_SHARE = 16
"""Near a cap fewer are reserved: at most one in this many of the calls that still fit under it."""


class Reservation(Struct):
    """Dollars of one day that a process holds at a backend, under a unique name."""

    day: str
    """UTC day on which every call lent from it is charged."""
    day_number: float
    """The same day as a number, which is faster to compare."""
    leased_until: float
    name: str = field(default_factory=lambda: random_hex(8))
    held: Decimal = ZERO_USD
    """Dollars set aside at the backend."""
    lent: Decimal = ZERO_USD
    """Sum of the cost bounds of the calls in flight."""
    calls_in_flight: int = 0
    spent: Decimal = ZERO_USD
    reported: Decimal = ZERO_USD
    """Spending known to the backend."""
    reserve_ahead: Decimal = ZERO_USD
    """The most that is kept for the next calls."""
    is_lost: bool = False
    """Whether another process has taken it back; the writing thread sets this."""

    @property
    def unreported(self) -> Decimal:
        """Spending since the last report to the backend."""
        return self.spent - self.reported

    @property
    def available(self) -> Decimal:
        """What may still be lent."""
        return self.held - self.lent - self.unreported

    @property
    def needed(self) -> Decimal:
        """The amount to keep reserved once all spending is reported."""
        ahead = self.reserve_ahead if self.calls_in_flight else ZERO_USD
        return min(self.held, self.lent + max(ZERO_USD, min(self.available, ahead)))


class BudgetBackend(Protocol):
    """Where dollars are reserved."""

    async def check(self) -> None:
        """Raise the error that stops this process from buying more, if there is one."""
        ...

    async def set_aside(self, reservation: Reservation, usd: Decimal) -> bool:
        """Hold enough for one more call; False if no cap is set, so nothing is held.

        Raises BudgetExhausted where a cap has no room; then nothing is held either.
        """
        ...

    async def report(self, reservation: Reservation) -> None:
        """Charge unreported spending and release what is not needed soon. Must not raise."""
        ...


class Budget:
    """A `DollarBudget` that lends to calls what it has reserved at a backend."""

    def __init__(
        self,
        backend: BudgetBackend,
        *,
        clock: Callable[[], float] = time.time,
        lease_s: float = LEASE_S,
    ) -> None:
        """clock: Unix seconds; decides the day and when a lease ends."""
        self._backend = backend
        self._clock = clock
        self._lease_s = lease_s
        self.current: Reservation = self._new_reservation()
        self._in_flight: dict[str, tuple[Reservation, Decimal]] = {}
        self._count = 0
        self.lock: Lock = Lock()
        """Held while the current reservation grows."""
        self._settled = Event()

    async def reserve(self, usd: Decimal | None) -> str:
        """Set aside an upper bound (None: unpriced, counts as nothing). Raises BudgetExhausted past
        a cap.

        Raises StoreError if earlier results cannot be stored: then nothing more is bought.
        """
        await self._backend.check()
        if not usd:
            return ""
        # One grows the reservation at a time. Two would each ask the backend for what the other is
        # about to get, and near a cap one of them would be refused for nothing.
        async with self.lock:
            while not self._can_lend(usd):
                if not await self._set_aside(usd):
                    break
        self.current.lent += usd
        self.current.calls_in_flight += 1
        self._count += 1
        name = f"{self._count:x}"
        self._in_flight[name] = (self.current, usd)
        return name

    async def settle(self, reservation_name: str, actual: Decimal | None) -> None:
        """Charge what the call cost instead of its bound; None: unknown, so the bound stays
        charged."""
        if not reservation_name:
            return
        # The reservation that lent it, which may not be the current one: the day may have changed.
        lender, bound = self._in_flight.pop(reservation_name)
        lender.lent -= bound
        lender.calls_in_flight -= 1
        lender.spent += bound if actual is None else actual
        await self._backend.report(lender)
        self._settled.set()
        self._settled = Event()

    def _new_reservation(self) -> Reservation:
        now = self._clock()
        return Reservation(day_of(now), now // DAY_S, now + self._lease_s)

    def _can_lend(self, usd: Decimal) -> bool:
        return self._is_held() and usd <= self.current.available

    def _is_held(self) -> bool:
        """Return whether the current reservation outlasts any call and counts for today."""
        current = self.current
        now = self._clock()
        return (
            not current.is_lost
            and now < current.leased_until - self._lease_s / 2
            and current.day_number == now // DAY_S
        )

    async def _set_aside(self, usd: Decimal) -> bool:
        """Reserve more, or wait for a call in flight; False if no cap is set."""
        if not self._is_held():
            # Calls in flight stay with the old reservation, and so with its day: it keeps what they
            # may cost, and gives back what it held ready.
            earlier = self.current
            self.current = self._new_reservation()
            earlier.reserve_ahead = ZERO_USD
            await self._backend.report(earlier)
        # Taken before the backend is asked: a call that ends meanwhile frees dollars and sets this
        # event; the one that `settle` puts in its place would miss it.
        settled = self._settled
        try:
            return await self._backend.set_aside(self.current, usd)
        except BudgetExhausted:
            # Bounds are larger than costs, so calls in flight give dollars back. Only when there is
            # none, and none has ended since, is the cap really reached.
            if not (self._in_flight or settled.is_set()):
                raise
        await settled.wait()
        return True


def turn_budget(
    commits: "GroupCommit",
    *,
    turn_id: str,
    caps: "Caps",
    clock: Callable[[], float] = time.time,
    lease_s: float = LEASE_S,
) -> Budget:
    """Return what one turn may spend under the caps of its store, which all its processes share."""
    return Budget(
        _StoreBackend(commits, turn_id, caps, clock, lease_s), clock=clock, lease_s=lease_s
    )


class _Charge(NamedTuple):
    """What a report writes."""

    reservation: Reservation
    usd: Decimal
    freed: Decimal
    """The released amount: at most what was reserved, if a host charged beyond the bound."""


class _StoreBackend(Struct):
    """Reservations as rows of the store; other processes delete the rows of a dead one."""

    commits: "GroupCommit"
    turn_id: str
    caps: "Caps"
    clock: Callable[[], float]
    lease_s: float
    process: str = field(default_factory=process_identity)

    async def check(self) -> None:
        await self.commits.caught_up()

    async def set_aside(self, reservation: Reservation, usd: Decimal) -> bool:
        if not self.caps.any:
            return False
        missing = usd - reservation.available
        got = ZERO_USD
        tightest: CapLeft | None = None

        def write(connection: Connection) -> None:
            # What is left of the caps is read, and the row that takes of it written, in one
            # transaction: no two processes can take the same dollars.
            nonlocal got, tightest
            reserved_rows = spending.delete_expired(connection, now=self.clock())
            caps_left = spending.remaining_under_caps(
                connection,
                self.caps,
                turn_id=self.turn_id,
                day=reservation.day,
                set_aside=reserved_rows,
            )
            tightest = min(caps_left, key=lambda cap: cap.left_usd)
            if missing > tightest.left_usd:
                return
            # A sixteenth of the calls that would still fit, so near a cap nothing is held ready
            # that another process could spend on its next call.
            further = int((tightest.left_usd - missing) / usd) // AHEAD_SHARE
            got = missing + min(AHEAD_CALLS, further) * usd
            self._write_row(connection, reservation, reserved_rows, got)

        try:
            await self.commits.submit(write)
        except CancelledError:
            # The job is not taken back, so give back what it will get. This one runs after it, and
            # reads `got` only then.
            self.commits.post(lambda connection: _reduce(connection, reservation, got))
            raise
        if not got:
            assert tightest is not None
            # What this reservation still has is left as well, though the store counts it as taken.
            left_usd = tightest.left_usd + reservation.available
            cap = replace(tightest, left_usd=left_usd)
            raise spending.budget_exhausted(usd, cap, day=reservation.day)
        # Only now: after a failed commit nothing is held.
        reservation.held += got
        reservation.reserve_ahead = got - missing
        return True

    async def report(self, reservation: Reservation) -> None:
        """Queue the charge. A failed commit does not raise here (the reply was paid for); `check`
        stops the next."""
        charge = _Charge(
            reservation, reservation.unreported, reservation.held - reservation.needed
        )
        if not (charge.usd or charge.freed):
            return
        # Before the job is queued, so that the next report neither charges nor frees it again.
        reservation.held = reservation.needed
        reservation.reported = reservation.spent
        with suppress(StoreError, sqlite3.Error):
            self.commits.post_item(self._write_charges, charge)

    def _write_row(
        self,
        connection: Connection,
        reservation: Reservation,
        reserved_rows: Sequence[spending.ReservedAmount],
        usd: Decimal,
    ) -> None:
        reservation.leased_until = self.clock() + self.lease_s
        own_amounts = [row.usd for row in reserved_rows if row.name == reservation.name]
        reserved_before_usd = sum(own_amounts, ZERO_USD)
        row = spending.ReservedAmount(
            reservation.name, self.turn_id, reservation.day, reserved_before_usd + usd
        )
        spending.write_reservation(
            connection, row, process=self.process, leased_until=reservation.leased_until
        )

    def _write_charges(self, charges: Sequence[_Charge], connection: Connection) -> None:
        reservations = {charge.reservation.name: charge.reservation for charge in charges}
        for reservation in reservations.values():
            of_reservation = [charge for charge in charges if charge.reservation is reservation]
            # Dollars go from reserved to spent in one transaction: at no moment are they in
            # neither, where another process would take them for free, or in both.
            if self.caps.any:
                freed = sum((charge.freed for charge in of_reservation), ZERO_USD)
                _reduce(connection, reservation, freed)
            usd = sum((charge.usd for charge in of_reservation), ZERO_USD)
            spending.add_spending(
                connection, self.caps, usd, turn_id=self.turn_id, day=reservation.day
            )


def _reduce(connection: Connection, reservation: Reservation, usd: Decimal) -> None:
    # Another process took this one for dead and deleted the row: what it held may be spent by now.
    if not spending.reduce_reservation(connection, reservation.name, usd):
        reservation.is_lost = True
