"""The dollars of a tenant's day, over all its processes and machines: set aside at the server before each send.

It stands behind the caps of the store (`cost_reports.budget`): a call is sent when both have room for its bound. As
there, a process sets some calls' worth aside at once and lends it out, fewer near the cap, and there a call waits for
those of its own process in flight before it is refused. The server is told what was spent altogether, with the next
reservation or soon, so that telling it twice does no harm. What a process that died had set aside is free when its
lease is over; what it had spent and told stays spent. Trade-off: while the server is away, this cap does not hold, and
only the store's do; who cannot have that requires the server. What was spent meanwhile is told when it is back.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal

from xscore.errors import BudgetExhausted, SharedUnavailable
from xscore.providers.limits import AHEAD, AHEAD_SHARE, LEASE_S, Budget
from xscore.shared.link import Link
from xscore.shared.server import SharedServer
from xscore.utc_days import day_of

SOON_S = 0.5
"""After so long the server is told what calls have cost."""
NOTHING = Decimal(0)


@dataclass(slots=True)
class _Purse:
    """Dollars of one day, under a name of its own at the server."""

    day: str
    leased_until: float
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    held: Decimal = NOTHING
    """Set aside at the server."""
    lent: Decimal = NOTHING
    """Bounds of the calls in flight."""
    spent: Decimal = NOTHING
    told: Decimal = NOTHING
    """What the server knows to be spent."""

    @property
    def room(self) -> Decimal:
        """What may still be lent: what was spent since the server was told came out of what is set aside."""
        return self.held - self.lent - (self.spent - self.told)


class SharedDollars:
    """A `Budget` that keeps to the tenant's cap as well as to its own."""

    def __init__(
        self,
        own: Budget,
        link: Link,
        *,
        cap_usd: Decimal,
        clock: Callable[[], float] = time.time,
        lease_s: float = LEASE_S,
    ) -> None:
        """own: the caps of the store. clock: Unix seconds, for the day and the lease."""
        self._own, self._link, self._cap = own, link, cap_usd
        self._clock, self._lease_s = clock, lease_s
        self._purse = self._new_purse()
        self._old: list[_Purse] = []
        """Of another day or another lease, with calls in flight or something to tell."""
        self._open: dict[str, tuple[_Purse, Decimal, str]] = {}
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
            await self._own.settle(name, NOTHING)
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
                await self._tell(purse, keeping=NOTHING)

    def _new_purse(self) -> _Purse:
        now = self._clock()
        return _Purse(day_of(now), now + self._lease_s)

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
        held, spent = purse.lent + usd * (1 + min(AHEAD, ahead)), purse.spent
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

    async def _reserve(self, server: SharedServer, purse: _Purse, held: Decimal, spent: Decimal) -> Decimal:
        return await server.reserve(
            purse.name, held, spent=spent, day=purse.day, cap_usd=self._cap, lease_s=self._lease_s
        )

    def _refusal(self, usd: Decimal, left: Decimal, day: str) -> BudgetExhausted:
        return BudgetExhausted(
            f"the next call may cost ${usd:f}, and ${max(NOTHING, left):f} is left of the ${self._cap:f} that all who"
            f" share the server may spend on {day} (UTC)",
            hint="Raise shared.max_usd_day, or wait for the next day (UTC); then go on with `xscore continue`.",
        )

    async def _tell_soon(self) -> None:
        with suppress(SharedUnavailable):  # whoever reserves next is told of it
            while self._has_untold():
                await asyncio.sleep(SOON_S)
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
            await self._tell(self._purse, keeping=None if self._purse.lent else NOTHING)

    async def _tell(self, purse: _Purse, *, keeping: Decimal | None) -> None:
        """Tell what a purse has spent. keeping: what it holds from then on; None: all but what was spent."""
        spent = purse.spent
        held = purse.held - (spent - purse.told) if keeping is None else keeping
        if spent == purse.told and held == purse.held:
            return
        held = max(NOTHING, purse.lent, held)

        async def charge(server: SharedServer) -> bool:
            await server.charge(purse.name, held, spent=spent, day=purse.day)
            return True

        if await self._link.ask(charge, otherwise=False):
            purse.told, purse.held = spent, min(held, purse.held)
