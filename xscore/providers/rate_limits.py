"""So much a minute, be it tokens or requests: a first-come-first-served bucket that may go into debt and takes refunds.

Waiters are served strictly in order, so a large request never starves behind small ones (weighted leaky buckets let
small ones pass). A request larger than the bucket waits until the bucket is full and leaves it in debt. What was
reserved too much is refunded and serves the waiters at once; nothing is polled. The bucket holds three seconds' worth
only, because a bucket of a whole minute would let twice the limit through in the first one. Time is the event loop's,
so a wall clock that jumps does not matter. Trade-off: what is on loan (taken and refunded later) may be used on top of
a window's rate; it is not shared between processes.

The four limits a minute that a host may have, and what one call takes of each.

A limit in force is the lower of the user's and the host's. What a host states while we run makes or re-rates its
bucket; a bucket made late starts as if it had been there from the first call. Nothing here is sent, and nothing knows
how many calls are in flight (`gate`). The trade-off: a call larger than a limit is let through once and paid off
afterwards, since waiting would not make it smaller.

The seam to limits a minute: who takes from them, what is given back, what a host states of them.

`rates.Rates` holds the limits of one process; those that several processes share stand elsewhere (`shared.rates`).
"""

import asyncio
from collections import deque
from typing import NamedTuple, Protocol

from xscore.providers.provider import Provider
from xscore.records import RateLimits, Request, Usage

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


MIN_TOKENS_PER_MINUTE = 1_000
"""A host that states fewer tokens a minute, less than one call takes, says something else, or nonsense."""


class RateShare(NamedTuple):
    """What one call takes of each limit, in the order of `RateLimits`."""

    requests: int
    tokens: int
    input_tokens: int
    output_tokens: int


def reserved_share(request: Request) -> RateShare:
    """Return the most that one attempt at this request may use."""
    given, output = request.reserved_input_tokens, request.max_output_tokens
    return RateShare(1, given + output, given, output)


def used_share(usage: Usage) -> RateShare:
    """Return what a call used; hosts that count input apart do not count what their prefix cache served."""
    fresh = usage.input_tokens - usage.cached_input_tokens
    return RateShare(1, usage.input_tokens + usage.output_tokens, fresh, usage.output_tokens)


UNSENT_SHARE = RateShare(0, 0, 0, 0)
"""Used by a call that never left."""
REFUSED_SHARE = RateShare(1, 0, 0, 0)
"""Used by a call that the host answered with an error."""


class LocalRates:
    """Limits a minute of one host, in force."""

    def __init__(self, *, rpm: int | None = None, tpm: int | None = None, remembered: RateLimits | None = None) -> None:
        """Start with the user's limits and those that the host stated in earlier runs."""
        self._heard = RateLimits()
        self._own: tuple[int | None, ...] = (rpm, tpm, None, None)
        self._stated: tuple[int | None, ...] = (None, None, None, None)
        self._buckets: list[TokenBucket | None] = [None] * len(self._own)
        self._spent = list(UNSENT_SHARE)
        self._first_at: float | None = None
        self.learn(remembered or RateLimits())

    @property
    def stated(self) -> RateLimits:
        """What the host stated, in this run or an earlier one."""
        return RateLimits(*self._stated)

    @property
    def in_force(self) -> RateLimits:
        """For each kind the lowest limit known."""
        return RateLimits(*map(_lower, self._own, self._stated))

    def learn(self, stated: RateLimits) -> None:
        """Take what the host says of its limits; where it is silent, what it said before holds."""
        if stated == self._heard:
            return
        self._heard = stated
        news = (
            stated.requests_per_minute,
            _sane(stated.tokens_per_minute),
            _sane(stated.input_tokens_per_minute),
            _sane(stated.output_tokens_per_minute),
        )
        self._stated = tuple(new or old for old, new in zip(self._stated, news, strict=True))
        self._apply()

    async def take(self, share: RateShare) -> None:
        """Wait until all limits allow this share. For one caller at a time: callers queue in front of it."""
        if self._first_at is None:
            self._first_at = asyncio.get_running_loop().time()
            self._apply()
        taken = [0, 0, 0, 0]
        try:
            for at, amount in enumerate(share):
                bucket = self._buckets[at]
                if bucket is not None:
                    await bucket.take(amount)
                taken[at] = amount
                self._spent[at] += amount
        except asyncio.CancelledError:
            self.settle(RateShare(*taken), UNSENT_SHARE)
            raise

    def settle(self, taken: RateShare, spent: RateShare) -> None:
        """Give back what a call took and did not use."""
        for at, (most, actual) in enumerate(zip(taken, spent, strict=True)):
            if most != actual:
                self._spent[at] -= most - actual
                bucket = self._buckets[at]
                if bucket is not None:
                    bucket.refund(most - actual)

    def _apply(self) -> None:
        """Make or re-rate the buckets; before the first call there is nothing to make."""
        if self._first_at is None:
            return
        minutes = (asyncio.get_running_loop().time() - self._first_at) / 60
        for at, limit in enumerate(map(_lower, self._own, self._stated)):
            bucket = self._buckets[at]
            if limit is None:
                continue
            if bucket is None:
                self._buckets[at] = TokenBucket(limit, overdrawn=max(0.0, self._spent[at] - minutes * limit))
            else:
                bucket.rate(limit)


def _sane(tokens: int | None) -> int | None:
    return tokens if tokens is not None and tokens >= MIN_TOKENS_PER_MINUTE else None


def _lower(one: int | None, other: int | None) -> int | None:
    known = [limit for limit in (one, other) if limit is not None]
    return min(known, default=None)


class RateBudget(Protocol):
    """The limits a minute of one host and model."""

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


def bucket_name(provider: Provider, *, model: str) -> str:
    """Name the limits of the model at work (`Spec.model`) at its host, the same for all who share them."""
    return f"{provider.name} {provider.host} {model}"
