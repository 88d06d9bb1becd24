"""The dollars of a tenant's day, over all its processes and machines: set aside at the server before each send.

It stands behind the caps of the store (`cost_reports.budget`): a call is sent when both have room for its bound. As
there, a process sets some calls' worth aside at once and lends it out, fewer near the cap, and there a call waits for
those of its own process in flight before it is refused. The server is told what was spent altogether, with the next
reservation or soon, so that telling it twice does no harm. What a process that died had set aside is free when its
lease is over; what it had spent and told stays spent. Trade-off: while the server is away, this cap does not hold, and
only the store's do; who cannot have that requires the server. What was spent meanwhile is told when it is back.

Limits a minute that all runners of a tenant share: taken from the server a few calls' worth at a time.

What is taken in one round trip lasts for `AHEAD_S` of the limit, so that a fast run asks far less than once a call, and
a slow one once. The server deals shares out in the order in which they are asked for, as debts with a time from which
they may be used; within the process it is first come, first served. What calls took and did not use goes back with the
next round trip, or soon. A limit that becomes known late counts what was spent before, as in one process: so much
beyond the rate is owed to the bucket, and only what is owed or was taken goes back. Which limits hold is known here
(`providers.rates`), and while the server is away this process goes by them alone. Trade-offs: what was taken ahead and
is used later may come on top of a window's rate, a few calls in all; a run that is killed takes its few calls with it.
"""

import asyncio
import secrets
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from decimal import Decimal

from msgspec import Struct, field

from xscore.extensions.shared.link import ServerLink
from xscore.extensions.shared.server import SharedServer
from xscore.platform.clock import day_of
from xscore.platform.errors import BudgetExhausted, SharedUnavailable
from xscore.providers.limits import AHEAD_CALLS, AHEAD_SHARE, LEASE_S, DollarBudget
from xscore.providers.rate_limits import UNSENT_SHARE, LocalRates, RateShare
from xscore.records import RateLimits

REPORT_SPENT_S = 0.5
"""After so long the server is told what calls have cost."""
NO_USD = Decimal(0)


class _ServerReservation(Struct):
    """Dollars of one day, under a name of its own at the server."""

    day: str
    leased_until: float
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    held: Decimal = NO_USD
    """Set aside at the server."""
    lent: Decimal = NO_USD
    """Bounds of the calls in flight."""
    spent: Decimal = NO_USD
    told: Decimal = NO_USD
    """What the server knows to be spent."""

    @property
    def room(self) -> Decimal:
        """What may still be lent: what was spent since the server was told came out of what is set aside."""
        return self.held - self.lent - (self.spent - self.told)


class SharedBudget:
    """A `Budget` that keeps to the tenant's cap as well as to its own."""

    def __init__(
        self,
        own: DollarBudget,
        link: ServerLink,
        *,
        cap_usd: Decimal,
        clock: Callable[[], float] = time.time,
        lease_s: float = LEASE_S,
    ) -> None:
        """own: the caps of the store. clock: Unix seconds, for the day and the lease."""
        self._own, self._link, self._cap = own, link, cap_usd
        self._clock, self._lease_s = clock, lease_s
        self._purse = self._new_purse()
        self._old: list[_ServerReservation] = []
        """Of another day or another lease, with calls in flight or something to tell."""
        self._open: dict[str, tuple[_ServerReservation, Decimal, str]] = {}
        self._reserved = 0
        self._left: Decimal | None = None
        """Room under the cap, when last seen."""
        self._line = asyncio.Lock()
        self._settled = asyncio.Event()
        self._telling: asyncio.Task[None] | None = None

    async def reserve(self, usd: Decimal | None) -> str:
        """Set aside an upper bound (None: unpriced, counts as nothing). Raises BudgetExhausted, SharedUnavailable."""
        name = await self._own.reserve(usd)
        if not usd:
            return name
        try:
            async with self._line:
                while not (self._is_held() and usd <= self._purse.room) and await self._more_for(usd):
                    pass
                self._purse.lent += usd
        except BaseException:
            await self._own.settle(name, NO_USD)
            raise
        self._reserved += 1
        own_name = f"shared {self._reserved}"
        self._open[own_name] = (self._purse, usd, name)
        return own_name

    async def settle(self, reservation: str, actual: Decimal | None) -> None:
        """Charge what the call cost instead of its bound; None: it did not tell, so the bound stays charged."""
        if reservation not in self._open:
            await self._own.settle(reservation, actual)
            return
        purse, bound, name = self._open.pop(reservation)
        purse.lent -= bound
        purse.spent += bound if actual is None else actual
        self._settled.set()
        self._settled = asyncio.Event()
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell_soon())
        await self._own.settle(name, actual)

    async def aclose(self) -> None:
        """Tell the server what was spent, and hold nothing more."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        with suppress(SharedUnavailable):  # the lease ends what is held
            for purse in (*self._old, self._purse):
                await self._tell(purse, keeping=NO_USD)

    def _new_purse(self) -> _ServerReservation:
        now = self._clock()
        return _ServerReservation(day_of(now), now + self._lease_s)

    def _is_held(self) -> bool:
        now = self._clock()
        return now < self._purse.leased_until - self._lease_s / 2 and self._purse.day == day_of(now)

    async def _more_for(self, usd: Decimal) -> bool:
        """Set more aside, or wait for a call in flight; return False where the server is away.

        Raises BudgetExhausted where there is nothing to wait for.
        """
        if not self._is_held():
            self._old.append(self._purse)
            self._purse = self._new_purse()
        purse, settled = self._purse, self._settled
        ahead = int(self._left / usd) // AHEAD_SHARE if self._left is not None and self._left > 0 else 0
        held, spent = purse.lent + usd * (1 + min(AHEAD_CALLS, ahead)), purse.spent
        left = await self._link.ask(lambda server: self._reserve(server, purse, held, spent), otherwise=None)
        if left is None:
            return False
        self._left = left
        if left >= 0:
            purse.held, purse.told = held, spent
            purse.leased_until = self._clock() + self._lease_s
        elif ahead:
            return True  # and now for no more than this call
        elif self._open or settled.is_set():
            await settled.wait()
        else:
            raise self._refusal(usd, left + usd, purse.day)
        return True

    async def _reserve(self, server: SharedServer, purse: _ServerReservation, held: Decimal, spent: Decimal) -> Decimal:
        return await server.reserve(
            purse.name, held, spent=spent, day=purse.day, cap_usd=self._cap, lease_s=self._lease_s
        )

    def _refusal(self, usd: Decimal, left: Decimal, day: str) -> BudgetExhausted:
        return BudgetExhausted(
            f"the next call may cost ${usd:f}, and ${max(NO_USD, left):f} is left of the ${self._cap:f} that all who"
            f" share the server may spend on {day} (UTC)",
            hint="Raise shared.max_usd_day, or wait for the next day (UTC); then go on with `xscore continue`.",
        )

    async def _tell_soon(self) -> None:
        with suppress(SharedUnavailable):  # whoever reserves next is told of it
            while self._has_untold():
                await asyncio.sleep(REPORT_SPENT_S)
                await self._link.until_here()
                await self._tell_all()

    def _has_untold(self) -> bool:
        """Whether something was spent, or is held for no call, that the server does not know."""
        return any(purse.spent != purse.told or (purse.held and not purse.lent) for purse in (*self._old, self._purse))

    async def _tell_all(self) -> None:
        for purse in list(self._old):
            await self._tell(purse, keeping=purse.lent)
            if not purse.lent and purse.told == purse.spent:
                self._old.remove(purse)
        async with self._line:
            await self._tell(self._purse, keeping=None if self._purse.lent else NO_USD)

    async def _tell(self, purse: _ServerReservation, *, keeping: Decimal | None) -> None:
        """Tell what a purse has spent. keeping: what it holds from then on; None: all but what was spent."""
        spent = purse.spent
        held = purse.held - (spent - purse.told) if keeping is None else keeping
        if spent == purse.told and held == purse.held:
            return
        held = max(NO_USD, purse.lent, held)

        async def charge(server: SharedServer) -> bool:
            await server.charge(purse.name, held, spent=spent, day=purse.day)
            return True

        if await self._link.ask(charge, otherwise=False):
            purse.told, purse.held = spent, min(held, purse.held)


AHEAD_S = 0.02
"""So much of a limit is taken at once, at least one call's worth,"""
MOST_AHEAD = 64
"""and at most so many calls'."""
RETURN_UNUSED_S = 0.2
"""After so long what is not used goes back."""
LIMIT_KINDS = ("requests", "tokens", "input_tokens", "output_tokens")


class SharedRates:
    """A `RateBudget` whose buckets are at the server."""

    def __init__(self, own: LocalRates, link: ServerLink, *, bucket: str) -> None:
        """own: knows the limits, and holds to them while the server is away. bucket: names host and model."""
        self._own, self._link, self._bucket = own, link, bucket
        self._room = dict.fromkeys(LIMIT_KINDS, 0.0)
        """Taken at the server and lent to no call."""
        self._ready_at = 0.0
        self._open: defaultdict[RateShare, deque[Collection[str] | None]] = defaultdict(deque)
        """Calls in flight: the kinds that each took at the server; None: it took from our own buckets."""
        self._first_at: float | None = None
        self._known = frozenset(self._limits())
        self._before = dict.fromkeys(LIMIT_KINDS, 0.0)
        """Spent of a kind that was not known yet."""
        self._owed = dict.fromkeys(LIMIT_KINDS, 0.0)
        """Of that what was charged to the bucket when the kind became known, less what went back of it."""
        self._returning: asyncio.Task[None] | None = None

    @property
    def stated(self) -> RateLimits:
        """What the host stated, in this run or an earlier one."""
        return self._own.stated

    def learn(self, stated: RateLimits) -> None:
        """Take what the host says of its limits."""
        self._own.learn(stated)
        limits = self._limits()
        for kind in limits.keys() - self._known:
            self._owe(kind, limits[kind])
        self._known = frozenset(limits)

    async def take(self, share: RateShare) -> None:
        """Wait until all limits allow this share. For one caller at a time. Raises SharedUnavailable."""
        if self._first_at is None:
            self._first_at = asyncio.get_running_loop().time()
        limits = self._limits()
        wanted = {kind: amount for kind, amount in zip(LIMIT_KINDS, share, strict=True) if kind in limits}
        if any(self._room[kind] < amount for kind, amount in wanted.items()) and not await self._more(wanted, limits):
            await self._own.take(share)
            self._open[share].append(None)
            return
        for kind, amount in zip(LIMIT_KINDS, share, strict=True):
            spent = self._room if kind in wanted else self._before
            spent[kind] += -amount if kind in wanted else amount
        self._open[share].append(frozenset(wanted))
        try:
            await asyncio.sleep(max(0.0, self._ready_at - asyncio.get_running_loop().time()))
        except asyncio.CancelledError:
            self.settle(share, UNSENT_SHARE)
            raise

    def settle(self, taken: RateShare, spent: RateShare) -> None:
        """Give back what a call took and did not use."""
        kinds = self._open[taken].popleft()
        if not self._open[taken]:
            del self._open[taken]
        if kinds is None:
            self._own.settle(taken, spent)
            return
        for kind, most, actual in zip(LIMIT_KINDS, taken, spent, strict=True):
            if kind in kinds:
                self._room[kind] += most - actual
            elif kind in self._known:
                forgiven = min(self._owed[kind], most - actual)
                self._owed[kind] -= forgiven
                self._room[kind] += forgiven
            else:
                self._before[kind] -= most - actual
        self._begin_return()

    async def aclose(self) -> None:
        """Give back what is left."""
        if self._returning is not None:
            self._returning.cancel()
            await asyncio.gather(self._returning, return_exceptions=True)
        await self._give_back()

    def _limits(self) -> Mapping[str, float]:
        known = self._own.in_force
        limits = (
            known.requests_per_minute,
            known.tokens_per_minute,
            known.input_tokens_per_minute,
            known.output_tokens_per_minute,
        )
        return {kind: limit for kind, limit in zip(LIMIT_KINDS, limits, strict=True) if limit}

    def _owe(self, kind: str, limit: float) -> None:
        """Charge to the bucket what was spent over the rate before the limit was known."""
        if self._first_at is None:
            return
        minutes = (asyncio.get_running_loop().time() - self._first_at) / 60
        self._owed[kind] = max(0.0, self._before[kind] - minutes * limit)
        self._room[kind] -= self._owed[kind]
        self._begin_return()

    async def _more(self, wanted: Mapping[str, float], limits: Mapping[str, float]) -> bool:
        """Take some calls' worth at the server, less what is there; return False where it is away."""
        calls = [limits[kind] / 60 * AHEAD_S / amount for kind, amount in wanted.items() if amount]
        count = max(1, min(MOST_AHEAD, int(min(calls, default=1))))
        amounts = {kind: max(0.0, amount * count - self._room[kind]) for kind, amount in wanted.items()}
        wait_s = await self._link.ask(lambda server: server.take(self._bucket, amounts, limits), otherwise=-1.0)
        if wait_s < 0:
            return False
        for kind, amount in amounts.items():
            self._room[kind] += amount
        self._ready_at = asyncio.get_running_loop().time() + wait_s
        return True

    def _begin_return(self) -> None:
        if any(self._room.values()) and (self._returning is None or self._returning.done()):
            self._returning = asyncio.create_task(self._return_soon())

    async def _return_soon(self) -> None:
        await asyncio.sleep(RETURN_UNUSED_S)
        await self._give_back()

    async def _give_back(self) -> None:
        """Give back what has not been lent, and take what is owed beyond it."""
        if self._link.is_away:
            return
        limits = self._limits()
        unused = {kind: amount for kind, amount in self._room.items() if kind in limits and amount > 0}
        owed = {kind: -amount for kind, amount in self._room.items() if kind in limits and amount < 0}
        self._room.update(dict.fromkeys((*unused, *owed), 0.0))
        if unused:  # told once: a repeat would lend out what nobody gave back, and what is lost earns itself again
            await self._link.tell_once(lambda server: server.give_back(self._bucket, unused, limits))
        if owed:
            with suppress(SharedUnavailable):  # whoever takes next is told of it
                await self._link.ask(lambda server: server.take(self._bucket, owed, limits), otherwise=0.0)
