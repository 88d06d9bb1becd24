"""Dollars per day and rate limits per minute that all runners of a tenant share through the server.

A call is sent when the store's own caps and the shared cap have room for the most it may cost;
dollars are reserved for a few calls at a time. The server grants rate shares in the order of the
requests, each with the time from which it may be used; what calls did not use is given back.
Trade-offs: while the server is away this process keeps only its own caps and limits (unless the
server is required); what was sent before the host stated a limit is not counted; a killed run loses
what it had taken in advance, its dollars until the lease ends.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from decimal import Decimal

from msgspec import Struct, field

from xscore.costs.caps import ZERO_USD
from xscore.costs.reservation import AHEAD_CALLS, AHEAD_SHARE, LEASE_S, Budget, Reservation
from xscore.extensions.shared.link import ServerLink
from xscore.platform.errors import BudgetExhausted, SharedUnavailable
from xscore.providers.limits import DollarBudget
from xscore.providers.rate_limits import UNSENT_SHARE, LocalRates, RateShare
from xscore.records.calls import RateLimits

REPORT_SPENT_S = 0.5
"""Delay before the server learns what calls have cost."""
RETURN_UNUSED_S = 0.2
"""Delay before unused amounts are returned."""
LIMIT_KINDS = ("requests", "tokens", "input_tokens", "output_tokens")


class SharedBudget:
    """The tenant's cap on a day, behind the caps that this process keeps on its own."""

    def __init__(
        self,
        local: DollarBudget,
        link: ServerLink,
        *,
        cap_usd: Decimal,
        clock: Callable[[], float] = time.time,
        lease_s: float = LEASE_S,
    ) -> None:
        """local: the caps of the store.
        clock: Unix seconds, for the day and the lease.
        """
        self._own = local
        self._backend = _ServerBackend(link, cap_usd, clock, lease_s)
        self._tenants = Budget(self._backend, clock=clock, lease_s=lease_s)

    async def reserve(self, usd: Decimal | None) -> str:
        """Reserve the amount in both budgets, or in neither.

        Raises BudgetExhausted, and whatever other error a budget raises.
        """
        # First the local caps: they cost no round trip, and are given back if the server refuses.
        local_id = await self._own.reserve(usd)
        try:
            return f"{local_id} {await self._tenants.reserve(usd)}"
        except BaseException:
            await self._own.settle(local_id, ZERO_USD)
            raise

    async def settle(self, reservation_names: str, actual: Decimal | None) -> None:
        """Charge the call in both budgets."""
        local_id, _, tenants = reservation_names.partition(" ")
        await self._own.settle(local_id, actual)
        await self._tenants.settle(tenants, actual)

    async def aclose(self) -> None:
        """Report what was spent and release the rest; if the server is away, the lease releases
        it."""
        await self._backend.aclose()


class _ServerBackend(Struct):
    """Reports totals, so that reporting twice does no harm."""

    link: ServerLink
    cap_usd: Decimal
    clock: Callable[[], float]
    lease_s: float
    left_usd: Decimal = ZERO_USD
    """Room under the cap when last seen."""
    known: dict[str, Reservation] = {}
    """Reservations that the server holds or does not know yet."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held during a request about a reservation."""
    reporting: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Do nothing: a run does not stop because the server is away."""

    async def set_aside(self, reservation: Reservation, usd: Decimal) -> bool:
        async with self.lock:
            self.known[reservation.name] = reservation
            # Dollars for several calls are asked for at once. Near the cap they may not fit where
            # one call does, so a refusal is asked again for less, until this call alone is refused.
            while True:
                ahead = min(AHEAD_CALLS, int(max(ZERO_USD, self.left_usd) / usd) // AHEAD_SHARE)
                left_usd = await self._reserve(reservation, usd, ahead)
                if left_usd is None:
                    return False
                self.left_usd = left_usd
                if left_usd >= 0:
                    return True
                if not ahead:
                    raise self._refusal(usd, left_usd + usd, reservation.day)

    async def report(self, reservation: Reservation) -> None:
        self.known[reservation.name] = reservation
        if self.reporting is None or self.reporting.done():
            self.reporting = asyncio.create_task(self._report_soon())

    async def aclose(self) -> None:
        if self.reporting is not None:
            self.reporting.cancel()
            await asyncio.gather(self.reporting, return_exceptions=True)
        with suppress(SharedUnavailable):
            for reservation in list(self.known.values()):
                # No call follows, so nothing stays reserved for one.
                reservation.reserve_ahead = ZERO_USD
                await self._report_now(reservation)

    async def _reserve(
        self, reservation: Reservation, usd: Decimal, ahead: int
    ) -> Decimal | None:
        """Ask for this call and `ahead` more; return what the cap has room for after it; None
        if the server is away."""
        held = reservation.lent + usd * (1 + ahead)
        spent = reservation.spent
        name = reservation.name
        day = reservation.day
        unknown: Decimal | None = None
        left_usd = await self.link.ask(
            lambda server: server.reserve(
                name, day, held, spent, cap_usd=self.cap_usd, lease_s=self.lease_s
            ),
            otherwise=unknown,
        )
        # The server reserves all that was asked for, or nothing: below zero it reserved nothing.
        if left_usd is not None and left_usd >= 0:
            reservation.held = held
            reservation.reported = spent
            reservation.reserve_ahead = usd * ahead
            reservation.leased_until = self.clock() + self.lease_s
        return left_usd

    def _refusal(self, usd: Decimal, left_usd: Decimal, day: str) -> BudgetExhausted:
        return BudgetExhausted(
            f"the next call may cost ${usd:f}, and ${max(ZERO_USD, left_usd):f} is left of the"
            f" ${self.cap_usd:f} that all who share the server may spend on {day} (UTC)",
            hint=(
                "Raise shared.max_usd_day, or wait for the next day (UTC); then run `xscore"
                " continue`."
            ),
        )

    async def _report_soon(self) -> None:
        with suppress(SharedUnavailable):  # the next reservation raises it
            while any(
                held.unreported or held.held > held.needed for held in self.known.values()
            ):
                await asyncio.sleep(REPORT_SPENT_S)
                await self.link.wait_until_back()
                for reservation in list(self.known.values()):
                    await self._report_now(reservation)

    async def _report_now(self, reservation: Reservation) -> None:
        async with self.lock:
            before = reservation.held
            needed = reservation.needed
            spent = reservation.spent
            if reservation.unreported or needed < before:
                # So that no call takes what goes back.
                reservation.held = min(before, needed + reservation.unreported)
                is_told = await self.link.tell(
                    lambda server: server.reserve(
                        reservation.name, reservation.day, needed, spent, cap_usd=None
                    )
                )
                reservation.held = needed if is_told else before
                reservation.reported = spent if is_told else reservation.reported
            if not (reservation.calls_in_flight or reservation.held or reservation.unreported):
                self.known.pop(reservation.name, None)


class SharedRates:
    """A `RateBudget` whose buckets are at the server."""

    def __init__(self, local: LocalRates, link: ServerLink, *, bucket: str) -> None:
        """local: knows the limits, and enforces them while the server is away.

        bucket: names host and model.
        """
        self._own = local
        self._link = link
        self._bucket = bucket
        self._room = dict.fromkeys(LIMIT_KINDS, 0.0)
        """Amounts taken at the server and not used by a call; below zero: more was used than
        taken."""
        self._ready_at = 0.0
        """When they may be used, on the loop's clock."""
        self._in_flight: defaultdict[RateShare, deque[Collection[str] | None]] = defaultdict(
            deque
        )
        """The kinds that each call took at the server; None if it took from this process's own
        buckets."""
        self._returning: asyncio.Task[None] | None = None

    @property
    def stated(self) -> RateLimits:
        """Limits that the host stated, in this run or an earlier one."""
        return self._own.stated

    def learn(self, stated: RateLimits) -> None:
        """Learn the limits that the host states."""
        self._own.learn(stated)

    async def take(self, share: RateShare) -> None:
        """Wait until all limits allow this share.

        Only one caller may wait at a time. Raises SharedUnavailable.
        """
        limits = self._limits()
        amounts = {
            kind: amount
            for kind, amount in zip(LIMIT_KINDS, share, strict=True)
            if kind in limits
        }
        missing = {kind: amount - self._room[kind] for kind, amount in amounts.items()}
        # What an earlier call took and did not use serves this one without a round trip.
        if any(amount > 0 for amount in missing.values()):
            wait_s = await self._link.ask(
                lambda server: server.take(self._bucket, missing, limits), otherwise=-1.0
            )
            # The server is away: this process's own buckets hold, at the whole limit.
            if wait_s < 0:
                await self._own.take(share)
                self._in_flight[share].append(None)
                return
            for kind, amount in missing.items():
                self._room[kind] += amount
            self._ready_at = asyncio.get_running_loop().time() + wait_s
        for kind, amount in amounts.items():
            self._room[kind] -= amount
        self._in_flight[share].append(amounts.keys())
        try:
            await asyncio.sleep(max(0.0, self._ready_at - asyncio.get_running_loop().time()))
        except asyncio.CancelledError:
            self.settle(share, UNSENT_SHARE)
            raise

    def settle(self, taken: RateShare, spent: RateShare) -> None:
        """Refund what a call took and did not use."""
        # Calls of one size are alike: the first to end settles what the first to begin took.
        kinds = self._in_flight[taken].popleft()
        if not self._in_flight[taken]:
            del self._in_flight[taken]
        if kinds is None:
            self._own.settle(taken, spent)
            return
        for kind, reserved, actual in zip(LIMIT_KINDS, taken, spent, strict=True):
            if kind in kinds:
                self._room[kind] += reserved - actual
        if any(self._room.values()) and (self._returning is None or self._returning.done()):
            self._returning = asyncio.create_task(self._return_soon())

    async def aclose(self) -> None:
        """Give back what is left."""
        if self._returning is not None:
            self._returning.cancel()
            await asyncio.gather(self._returning, return_exceptions=True)
        await self._give_back()

    def _limits(self) -> Mapping[str, float]:
        limits = {
            kind: getattr(self._own.in_force, f"{kind}_per_minute") for kind in LIMIT_KINDS
        }
        return {kind: limit for kind, limit in limits.items() if limit}

    async def _return_soon(self) -> None:
        await asyncio.sleep(RETURN_UNUSED_S)
        await self._give_back()

    async def _give_back(self) -> None:
        """Give back what was not used, or take what was used beyond it.

        If the server is away, its buckets refill.
        """
        limits = self._limits()
        amounts = {}
        for kind, amount in self._room.items():
            if amount and kind in limits:
                amounts[kind] = -amount
        # Emptied before the wait, so that no call takes what is on its way back.
        self._room.update(dict.fromkeys(amounts, 0.0))
        if amounts:
            with suppress(SharedUnavailable):  # the next taker sees the error
                await self._link.tell(lambda server: server.take(self._bucket, amounts, limits))
