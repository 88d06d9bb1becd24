"""Limits a minute that all runners of a tenant share: taken from the server a few calls' worth at a time.

What is taken in one round trip lasts for `AHEAD_S` of the limit, so that a fast run asks far less than once a call,
and a slow one once. The server deals shares out in the order in which they are asked for, as debts with a time from
which they may be used; within the process it is first come, first served. What calls took and did not use goes back
with the next round trip, or soon. Which limits hold is known here (`providers.rates`), and while the server is away
this process goes by them alone. Trade-offs: what was taken ahead and is used later may come on top of a window's rate,
a few calls in all; a run that is killed takes its few calls with it.
"""

import asyncio
from collections.abc import Mapping
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
        self._taken_here = 0
        """Calls that took from our own buckets."""
        self._returning: asyncio.Task[None] | None = None

    @property
    def stated(self) -> RateLimits:
        """What the host stated, in this run or an earlier one."""
        return self._own.stated

    def learn(self, stated: RateLimits) -> None:
        """Take what the host says of its limits."""
        self._own.learn(stated)

    async def take(self, share: Share) -> None:
        """Wait until all limits allow this share. For one caller at a time. Raises SharedUnavailable."""
        limits = self._limits()
        wanted = {kind: amount for kind, amount in zip(KINDS, share, strict=True) if kind in limits}
        if any(self._room[kind] < amount for kind, amount in wanted.items()) and not await self._more(wanted, limits):
            await self._own.take(share)
            self._taken_here += 1
            return
        for kind, amount in wanted.items():
            self._room[kind] -= amount
        try:
            await asyncio.sleep(max(0.0, self._ready_at - asyncio.get_running_loop().time()))
        except asyncio.CancelledError:
            self.settle(share, UNSENT)
            raise

    def settle(self, taken: Share, spent: Share) -> None:
        """Give back what a call took and did not use."""
        if self._taken_here:
            self._taken_here -= 1
            self._own.settle(taken, spent)
            return
        limits = self._limits()
        for kind, most, actual in zip(KINDS, taken, spent, strict=True):
            if kind in limits and most != actual:
                self._room[kind] += most - actual
        if any(self._room.values()) and (self._returning is None or self._returning.done()):
            self._returning = asyncio.create_task(self._return_soon())

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

    async def _more(self, wanted: Mapping[str, float], limits: Mapping[str, float]) -> bool:
        """Take some calls' worth at the server, less what is there; return False where it is away."""
        calls = [limits[kind] / 60 * AHEAD_S / amount for kind, amount in wanted.items() if amount]
        count = max(1, min(MOST_AHEAD, int(min(calls, default=1))))
        amounts = {kind: amount * count - self._room[kind] for kind, amount in wanted.items()}
        wait_s = await self._link.ask(lambda server: server.take(self._bucket, amounts, limits), otherwise=-1.0)
        if wait_s < 0:
            return False
        for kind, amount in amounts.items():
            self._room[kind] += amount
        self._ready_at = asyncio.get_running_loop().time() + wait_s
        return True

    async def _return_soon(self) -> None:
        await asyncio.sleep(SOON_S)
        await self._give_back()

    async def _give_back(self) -> None:
        """Give back what has not been lent. What is owed beyond it is taken by the same stroke."""
        limits = self._limits()
        unused = {kind: amount for kind, amount in self._room.items() if kind in limits and amount}
        if not unused or self._link.is_away:
            return
        for kind in unused:
            self._room[kind] = 0.0
        with suppress(SharedUnavailable):  # whoever takes next is told of it
            await self._link.ask(lambda server: server.give_back(self._bucket, unused, limits), otherwise=None)
