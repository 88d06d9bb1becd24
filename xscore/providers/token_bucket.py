"""So much a minute, be it tokens or requests: a first-come-first-served bucket that may go into debt and takes refunds.

Waiters are served strictly in order, so a large request never starves behind small ones (weighted leaky buckets let
small ones pass). A request larger than the bucket waits until the bucket is full and leaves it in debt. What was
reserved too much is refunded and serves the waiters at once; nothing is polled. The bucket holds three seconds' worth
only, because a bucket of a whole minute would let twice the limit through in the first one. Time is the event loop's,
so a wall clock that jumps does not matter. Trade-off: what is on loan (taken and refunded later) may be used on top of
a window's rate; it is not shared between processes.
"""

import asyncio
from collections import deque

BURST_SHARE = 0.05
"""Capacity, as a share of a minute's worth (at least 1): no window of a minute exceeds the rate by more."""
_ROUNDING = 1e-6


class TokenBucket:
    """One limit a minute."""

    def __init__(self, per_minute: float, *, overdrawn: float = 0.0) -> None:
        """Start full, less what was spent over the rate before the limit was known."""
        self._set(per_minute)
        self._level = self._capacity - overdrawn
        self._filled_at: float | None = None
        self._waiters: deque[tuple[float, asyncio.Future[None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, tokens: float) -> None:
        """Wait until these tokens may be spent, in order of arrival, and spend them."""
        self._fill()
        if not self._waiters and self._missing(tokens) <= 0:
            self._level -= tokens
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((tokens, waiter))
        self._serve()
        try:
            await waiter
        except asyncio.CancelledError:
            self.refund(0 if waiter.cancelled() else tokens)
            raise

    def refund(self, tokens: float) -> None:
        """Give back what was taken and not used; a negative amount is spent as well, without waiting."""
        self._fill()
        self._level = min(self._capacity, self._level + tokens)
        if self._waiters:
            self._serve()

    def rate(self, per_minute: float) -> None:
        """Go on at another rate; the level and the waiters stay."""
        self._fill()
        self._set(per_minute)
        self._level = min(self._capacity, self._level)
        self._serve()

    def _set(self, per_minute: float) -> None:
        self._per_second = per_minute / 60
        self._capacity = max(1.0, per_minute * BURST_SHARE)

    def _serve(self) -> None:
        """Let those pass who may, from the front; wake up again when the next one may."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fill()
        while self._waiters:
            tokens, waiter = self._waiters[0]
            if not waiter.cancelled():
                missing = self._missing(tokens)
                if missing > 0:
                    wait_s = missing / self._per_second
                    self._timer = asyncio.get_running_loop().call_later(wait_s, self._serve)
                    return
                self._level -= tokens
                waiter.set_result(None)
            self._waiters.popleft()

    def _missing(self, tokens: float) -> float:
        missing = min(tokens, self._capacity) - self._level
        return missing if missing > _ROUNDING else 0.0

    def _fill(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._filled_at is not None:
            self._level = min(self._capacity, self._level + (now - self._filled_at) * self._per_second)
        self._filled_at = now
