"""Limits a minute that all runners of a tenant share: taken from the server a few calls' worth at a time.

What is taken in one round trip lasts for `AHEAD_S` of the limit, so that a fast run asks far less than once a call, and
a slow one once. The server deals shares out in the order in which they are asked for, as debts with a time from which
they may be used; within the process it is first come, first served. What calls took and did not use goes back with the
next round trip, or soon. A limit that becomes known late counts what was spent before, as in one process: so much
beyond the rate is owed to the bucket, and only what is owed or was taken goes back. Which limits hold is known here
(`providers.rates`), and while the server is away this process goes by them alone. Trade-offs: what was taken ahead and
is used later may come on top of a window's rate, a few calls in all; a run that is killed takes its few calls with it.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Collection, Mapping
from contextlib import suppress

from xscore.errors import SharedUnavailable
from xscore.providers.rates import UNSENT, Rates, Share
from xscore.records import RateLimits
from xscore.shared.link import Link

AHEAD_S = 0.02
"""So much of a limit is taken at once, at least one call's worth,"""
MOST_AHEAD = 64
"""and at most so many calls'."""
SOON_S = 0.2
"""After so long what is not used goes back."""
KINDS = ("requests", "tokens", "input_tokens", "output_tokens")


class SharedRates:
    """A `RateBudget` whose buckets are at the server."""

    def __init__(self, own: Rates, link: Link, *, bucket: str) -> None:
        """own: knows the limits, and holds to them while the server is away. bucket: names host and model."""
        self._own, self._link, self._bucket = own, link, bucket
        self._room = dict.fromkeys(KINDS, 0.0)
        """Taken at the server and lent to no call."""
        self._ready_at = 0.0
        self._open: defaultdict[Share, deque[Collection[str] | None]] = defaultdict(deque)
        """Calls in flight: the kinds that each took at the server; None: it took from our own buckets."""
        self._first_at: float | None = None
        self._known = frozenset(self._limits())
        self._before = dict.fromkeys(KINDS, 0.0)
        """Spent of a kind that was not known yet."""
        self._owed = dict.fromkeys(KINDS, 0.0)
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

    async def take(self, share: Share) -> None:
        """Wait until all limits allow this share. For one caller at a time. Raises SharedUnavailable."""
        if self._first_at is None:
            self._first_at = asyncio.get_running_loop().time()
        limits = self._limits()
        wanted = {kind: amount for kind, amount in zip(KINDS, share, strict=True) if kind in limits}
        if any(self._room[kind] < amount for kind, amount in wanted.items()) and not await self._more(wanted, limits):
            await self._own.take(share)
            self._open[share].append(None)
            return
        for kind, amount in zip(KINDS, share, strict=True):
            spent = self._room if kind in wanted else self._before
            spent[kind] += -amount if kind in wanted else amount
        self._open[share].append(frozenset(wanted))
        try:
            await asyncio.sleep(max(0.0, self._ready_at - asyncio.get_running_loop().time()))
        except asyncio.CancelledError:
            self.settle(share, UNSENT)
            raise

    def settle(self, taken: Share, spent: Share) -> None:
        """Give back what a call took and did not use."""
        kinds = self._open[taken].popleft()
        if not self._open[taken]:
            del self._open[taken]
        if kinds is None:
            self._own.settle(taken, spent)
            return
        for kind, most, actual in zip(KINDS, taken, spent, strict=True):
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
        return {kind: limit for kind, limit in zip(KINDS, limits, strict=True) if limit}

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
        await asyncio.sleep(SOON_S)
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
