"""Limits of requests and tokens a minute: one token bucket for each of the four that a host may
have.

A bucket holds three seconds' worth, because one that holds a minute lets twice the limit through in
the first minute (less for a host that counts by the second); a request larger than the bucket waits
until it is full and leaves it in debt. Callers queue in front of the limits, so a large request
never starves behind small ones. Refunds wake the one that waits; nothing is polled. Time is the
event loop's. Trade-off: what is taken and refunded later may be used on top of a window's rate.
"""

import asyncio
from contextlib import suppress
from typing import NamedTuple, Protocol

from msgspec.structs import astuple

from xscore.providers.provider import Provider
from xscore.records.calls import RateLimits, Request, Usage

BURST_S = 3.0
"""Capacity, in seconds' worth (at least 1): no window of a minute exceeds the rate by more."""
MIN_TOKENS_PER_MINUTE = 1_000
"""Fewest tokens a minute that are believed: a host that states fewer, less than one call takes,
means something else."""
_ROUNDING = 1e-6


class TokenBucket:
    """One limit a minute, for one caller at a time; it may go into debt and takes refunds."""

    def __init__(self, per_minute: float | None = None, *, burst_s: float = BURST_S) -> None:
        """per_minute: None, until a limit is known; what is spent until then counts."""
        self._burst_s = burst_s
        self._per_minute: float | None = None
        self._level = 0.0
        self._filled_at: float | None = None
        self._changed = asyncio.Event()
        if per_minute is not None:
            self.rate(per_minute)

    async def take(self, tokens: float) -> None:
        """Wait until these tokens may be spent, and spend them."""
        self._fill()
        while self._per_minute is not None and (missing := self._missing(tokens)) > _ROUNDING:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(missing / self._per_minute * 60):
                    await self._changed.wait()
            self._fill()
        self._level -= tokens

    def refund(self, tokens: float) -> None:
        """Give back what was taken and not used; a negative amount is spent too, without
        waiting."""
        self._level += tokens
        self._fill()
        self._changed.set()

    def rate(self, per_minute: float) -> None:
        """Change the rate; the level stays."""
        if self._per_minute is None:
            self._level += self._capacity(per_minute)
        elif self._filled_at is not None:
            self._fill()
        self._per_minute = per_minute
        # A rate that is learned late counts from the first call on.
        if self._filled_at is not None:
            self._fill()
        self._changed.set()

    def _missing(self, tokens: float) -> float:
        return min(tokens, self._capacity(self._per_minute or 0.0)) - self._level

    def _fill(self) -> None:
        now = asyncio.get_running_loop().time()
        filled_at = now if self._filled_at is None else self._filled_at
        if self._per_minute is not None:
            self._level += (now - filled_at) * self._per_minute / 60
            self._level = min(self._capacity(self._per_minute), self._level)
            filled_at = now
        self._filled_at = filled_at

    def _capacity(self, per_minute: float) -> float:
        return max(1.0, per_minute / 60 * self._burst_s)


class RateShare(NamedTuple):
    """What one call takes of each limit, in the order of `RateLimits`."""

    requests: int
    tokens: int
    input_tokens: int
    output_tokens: int


UNSENT_SHARE = RateShare(0, 0, 0, 0)
"""Share of its reservation that a call uses if it never left."""
REFUSED_SHARE = RateShare(1, 0, 0, 0)
"""Share of its reservation that a call uses if the host answered with an error."""


def reserved_share(request: Request) -> RateShare:
    """Return the most that one attempt at this request may use."""
    input_tokens = request.reserved_input_tokens
    output = request.max_output_tokens
    return RateShare(1, input_tokens + output, input_tokens, output)


def used_share(usage: Usage) -> RateShare:
    """Return what a call used; hosts that count input by itself do not count what their prefix
    cache served."""
    fresh = usage.input_tokens - usage.cached_input_tokens
    return RateShare(1, usage.input_tokens + usage.output_tokens, fresh, usage.output_tokens)


class RateBudget(Protocol):
    """The limits a minute of one host and model; those shared by several processes implement it
    too."""

    @property
    def stated(self) -> RateLimits:
        """Limits that the host stated, in this run or an earlier one."""
        ...

    def learn(self, stated: RateLimits) -> None:
        """Update the limits that the host states; one that it does not state keeps its earlier
        value."""
        ...

    async def take(self, share: RateShare) -> None:
        """Wait until all limits allow this share.

        One caller at a time: callers queue in front of it.
        """
        ...

    def settle(self, taken: RateShare, spent: RateShare) -> None:
        """Refund what a call took and did not use."""
        ...


class LocalRates:
    """The limits a minute of one host, in this process: for each kind the lower of the user's
    and the host's."""

    def __init__(
        self,
        *,
        rpm: int | None = None,
        tpm: int | None = None,
        remembered: RateLimits | None = None,
        burst_s: float = BURST_S,
    ) -> None:
        """Start with the user's limits and those that the host stated in earlier runs."""
        self._own = (rpm, tpm, None, None)
        self._buckets = [TokenBucket(burst_s=burst_s) for _ in self._own]
        self._stated: tuple[int | None, ...] = (None,) * len(self._own)
        self._last_stated: RateLimits | None = None
        self.learn(remembered or RateLimits())

    @property
    def stated(self) -> RateLimits:
        """Limits that the host stated, in this run or an earlier one."""
        return RateLimits(*self._stated)

    @property
    def in_force(self) -> RateLimits:
        """The lowest known limit of each kind."""
        lowest: list[int | None] = []
        for pair in zip(self._own, self._stated, strict=True):
            limits = [limit for limit in pair if limit is not None]
            lowest.append(min(limits, default=None))
        return RateLimits(*lowest)

    def learn(self, stated: RateLimits) -> None:
        """Update the limits that the host states; one that it does not state keeps its earlier
        value."""
        if stated == self._last_stated:
            return
        self._last_stated = stated
        requests, *tokens = astuple(stated)
        news: list[int | None] = [requests]
        for per_minute in tokens:
            # Fewer than one call takes is not a limit of tokens a minute.
            is_limit = (per_minute or 0) >= MIN_TOKENS_PER_MINUTE
            news.append(per_minute if is_limit else None)
        self._stated = tuple(new or old for new, old in zip(news, self._stated, strict=True))
        for bucket, limit in zip(self._buckets, astuple(self.in_force), strict=True):
            if limit is not None:
                bucket.rate(limit)

    async def take(self, share: RateShare) -> None:
        """Wait until all limits allow this share.

        One caller at a time: callers queue in front of it.
        """
        # Cancelled in the middle, it gives back what it had taken so far, and no more.
        taken = [0] * len(share)
        try:
            for at, (bucket, amount) in enumerate(zip(self._buckets, share, strict=True)):
                await bucket.take(amount)
                taken[at] = amount
        except asyncio.CancelledError:
            self.settle(RateShare(*taken), UNSENT_SHARE)
            raise

    def settle(self, taken: RateShare, spent: RateShare) -> None:
        """Refund what a call took and did not use."""
        for bucket, reserved, actual in zip(self._buckets, taken, spent, strict=True):
            if reserved != actual:
                bucket.refund(reserved - actual)


def bucket_name(provider: Provider, *, model: str) -> str:
    """Name the shared limits of a model (`ModelSpec.model`) at its host."""
    return f"{provider.name} {provider.host} {model}"
