"""Tokens a minute: a first-come-first-served bucket that may go into debt and takes refunds.

Waiters are served strictly in order, so a large request never starves behind small ones (weighted leaky buckets let
small ones pass). A request larger than the bucket waits until the bucket is full and leaves it in debt. What was
reserved too much is refunded and serves the waiters at once. The bucket holds three seconds' worth only, because a
bucket of a whole minute would let twice the limit through in the first one. It is not shared between processes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

BURST_SHARE = 0.05
"""Capacity, as a share of the tokens of a minute: no window of a minute exceeds the rate by more."""
POLL_S = 0.05
"""The one waiter in front looks at the level again so often, since a refund may have filled it."""


class TokenBucket:
    """One limit of tokens a minute."""

    def __init__(
        self,
        per_minute: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._per_second = per_minute / 60
        self._capacity = per_minute * BURST_SHARE
        self._clock = clock
        self._sleep = sleep
        self._level = self._capacity
        self._filled_at = clock()
        self._turnstile = asyncio.Lock()

    async def take(self, tokens: int) -> None:
        """Wait until these tokens may be spent, in order of arrival, and spend them."""
        async with self._turnstile:
            while (missing := self._missing(tokens)) > 0:
                await self._sleep(min(missing / self._per_second, POLL_S))
            self._level -= tokens

    def refund(self, tokens: int) -> None:
        """Give back what was taken and not used; a negative amount is spent as well, without waiting."""
        self._fill()
        self._level = min(self._capacity, self._level + tokens)

    def _missing(self, tokens: int) -> float:
        self._fill()
        missing = min(tokens, self._capacity) - self._level
        return missing if missing > 1e-6 else 0.0

    def _fill(self) -> None:
        now = self._clock()
        self._level = min(self._capacity, self._level + (now - self._filled_at) * self._per_second)
        self._filled_at = now
