"""Limits of requests and tokens a minute: one token bucket for each, and the four that a host may have.

Waiters are served strictly in order, so a large request never starves behind small ones. A bucket holds three seconds'
worth, because one that holds a minute lets twice the limit through in the first minute; a request larger than the
bucket waits until it is full and leaves it in debt. Refunds serve the waiters at once; nothing is polled. Time is the
event loop's. Trade-off: what is taken and refunded later may be used on top of a window's rate.
"""

import asyncio
from collections import deque
from typing import NamedTuple, Protocol

from xscore.providers.provider import Provider
from xscore.records import RateLimits, Request, Usage

BURST_SHARE = 0.05
"""Capacity, as a share of a minute's worth (at least 1): no window of a minute exceeds the rate by more."""
MIN_TOKENS_PER_MINUTE = 1_000
"""A host that states fewer tokens a minute, less than one call takes, means something else."""
_ROUNDING = 1e-6


class TokenBucket:
    """One limit a minute; it may go into debt and takes refunds."""

    def __init__(self, per_minute: float, *, overdrawn: float = 0.0) -> None:
        """overdrawn: what was spent over the rate before the limit was known."""
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
        """Give back what was taken and not used; a negative amount is spent too, without waiting."""
        self._fill()
        self._level = min(self._capacity, self._level + tokens)
        if self._waiters:
            self._serve()

    def rate(self, per_minute: float) -> None:
        """Change the rate; the level and the waiters stay."""
        self._fill()
        self._set(per_minute)
        self._level = min(self._capacity, self._level)
        self._serve()

    def _set(self, per_minute: float) -> None:
        self._per_second = per_minute / 60
        self._capacity = max(1.0, per_minute * BURST_SHARE)

    def _serve(self) -> None:
        """Serve waiters from the front as far as the level allows; wake up when the next one can be served."""
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


class RateShare(NamedTuple):
    """What one call takes of each limit, in the order of `RateLimits`."""

    requests: int
    tokens: int
    input_tokens: int
    output_tokens: int


UNSENT_SHARE = RateShare(0, 0, 0, 0)
"""Used by a call that never left."""
REFUSED_SHARE = RateShare(1, 0, 0, 0)
"""Used by a call that the host answered with an error."""


def reserved_share(request: Request) -> RateShare:
    """Return the most that one attempt at this request may use."""
    given, output = request.reserved_input_tokens, request.max_output_tokens
    return RateShare(1, given + output, given, output)


def used_share(usage: Usage) -> RateShare:
    """Return what a call used; hosts that count input by itself do not count what their prefix cache served."""
    fresh = usage.input_tokens - usage.cached_input_tokens
    return RateShare(1, usage.input_tokens + usage.output_tokens, fresh, usage.output_tokens)


class RateBudget(Protocol):
    """The limits a minute of one host and model; those shared by several processes implement it too."""

    @property
    def stated(self) -> RateLimits:
        """What the host stated, in this run or an earlier one."""
        ...

    def learn(self, stated: RateLimits) -> None:
        """Take what the host says of its limits; where it is silent, what it said before holds."""
        ...

    async def take(self, share: RateShare) -> None:
        """Wait until all limits allow this share. For one caller at a time: callers queue in front of it."""
        ...

    def settle(self, taken: RateShare, spent: RateShare) -> None:
        """Give back what a call took and did not use."""
        ...


class _Limit:
    """One of the four limits: the lower of the user's and the host's holds."""

    def __init__(self, own: int | None) -> None:
        self.own = own
        self.stated: int | None = None
        self.bucket: TokenBucket | None = None
        self.spent = 0

    @property
    def in_force(self) -> int | None:
        """The lowest limit known."""
        return min((limit for limit in (self.own, self.stated) if limit is not None), default=None)

    def apply(self, minutes: float) -> None:
        """Make or re-rate the bucket; one made late starts as if it had been there since the first call."""
        limit = self.in_force
        if limit is None:
            return
        if self.bucket is None:
            self.bucket = TokenBucket(limit, overdrawn=max(0.0, self.spent - minutes * limit))
        else:
            self.bucket.rate(limit)


class LocalRates:
    """The limits a minute of one host, in this process."""

    def __init__(self, *, rpm: int | None = None, tpm: int | None = None, remembered: RateLimits | None = None) -> None:
        """Start with the user's limits and those that the host stated in earlier runs."""
        self._limits = [_Limit(own) for own in (rpm, tpm, None, None)]
        self._last_stated = RateLimits()
        self._first_at: float | None = None
        self.learn(remembered or RateLimits())

    @property
    def stated(self) -> RateLimits:
        """What the host stated, in this run or an earlier one."""
        return RateLimits(*(limit.stated for limit in self._limits))

    @property
    def in_force(self) -> RateLimits:
        """For each kind the lowest limit known."""
        return RateLimits(*(limit.in_force for limit in self._limits))

    def learn(self, stated: RateLimits) -> None:
        """Take what the host says of its limits; where it is silent, what it said before holds."""
        if stated == self._last_stated:
            return
        self._last_stated = stated
        tokens = (stated.tokens_per_minute, stated.input_tokens_per_minute, stated.output_tokens_per_minute)
        news = (
            stated.requests_per_minute,
            *(count if (count or 0) >= MIN_TOKENS_PER_MINUTE else None for count in tokens),
        )
        for limit, new in zip(self._limits, news, strict=True):
            limit.stated = new or limit.stated
        self._apply()

    async def take(self, share: RateShare) -> None:
        """Wait until all limits allow this share. For one caller at a time: callers queue in front of it."""
        if self._first_at is None:
            self._first_at = asyncio.get_running_loop().time()
            self._apply()
        taken = [0, 0, 0, 0]
        try:
            for at, (limit, amount) in enumerate(zip(self._limits, share, strict=True)):
                if limit.bucket is not None:
                    await limit.bucket.take(amount)
                taken[at] = amount
                limit.spent += amount
        except asyncio.CancelledError:
            self.settle(RateShare(*taken), UNSENT_SHARE)
            raise

    def settle(self, taken: RateShare, spent: RateShare) -> None:
        """Give back what a call took and did not use."""
        for limit, most, actual in zip(self._limits, taken, spent, strict=True):
            if most != actual:
                limit.spent -= most - actual
                if limit.bucket is not None:
                    limit.bucket.refund(most - actual)

    def _apply(self) -> None:
        if self._first_at is not None:  # before the first call there is nothing to make
            minutes = (asyncio.get_running_loop().time() - self._first_at) / 60
            for limit in self._limits:
                limit.apply(minutes)


def bucket_name(provider: Provider, *, model: str) -> str:
    """Name the limits of a model (`ModelSpec.model`) at its host, the same for all who share them."""
    return f"{provider.name} {provider.host} {model}"
