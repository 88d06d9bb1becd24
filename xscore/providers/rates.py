"""The four limits a minute that a host may have, and what one call takes of each.

A limit in force is the lower of the user's and the host's. What a host states while we run makes or re-rates its
bucket; a bucket made late starts as if it had been there from the first call. Nothing here is sent, and nothing knows
how many calls are in flight (`gate`). The trade-off: a call larger than a limit is let through once and paid off
afterwards, since waiting would not make it smaller.
"""

import asyncio
from typing import NamedTuple

from xscore.providers.token_bucket import TokenBucket
from xscore.records import RateLimits, Request, Usage

LEAST_TOKENS = 1_000
"""A host that states fewer tokens a minute, less than one call takes, says something else, or nonsense."""


class Share(NamedTuple):
    """What one call takes of each limit, in the order of `RateLimits`."""

    requests: int
    tokens: int
    input_tokens: int
    output_tokens: int


def bound(request: Request) -> Share:
    """Return the most that one attempt at this request may use."""
    given, output = request.reserved_input_tokens, request.max_output_tokens
    return Share(1, given + output, given, output)


def used(usage: Usage) -> Share:
    """Return what a call used; hosts that count input apart do not count what their prefix cache served."""
    fresh = usage.input_tokens - usage.cached_input_tokens
    return Share(1, usage.input_tokens + usage.output_tokens, fresh, usage.output_tokens)


UNSENT = Share(0, 0, 0, 0)
"""Used by a call that never left."""
TURNED_AWAY = Share(1, 0, 0, 0)
"""Used by a call that the host answered with an error."""


class Rates:
    """Limits a minute of one host, in force."""

    def __init__(self, *, rpm: int | None = None, tpm: int | None = None, remembered: RateLimits | None = None) -> None:
        """Start with the user's limits and those that the host stated in earlier runs."""
        self._heard = RateLimits()
        self._own: tuple[int | None, ...] = (rpm, tpm, None, None)
        self._stated: tuple[int | None, ...] = (None, None, None, None)
        self._buckets: list[TokenBucket | None] = [None] * len(self._own)
        self._spent = list(UNSENT)
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

    async def take(self, share: Share) -> None:
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
            self.settle(Share(*taken), UNSENT)
            raise

    def settle(self, taken: Share, spent: Share) -> None:
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
    return tokens if tokens is not None and tokens >= LEAST_TOKENS else None


def _lower(one: int | None, other: int | None) -> int | None:
    known = [limit for limit in (one, other) if limit is not None]
    return min(known, default=None)
