"""When to pay a host for nothing more: it takes no request, or its model gives no score.

A request that holds hundreds of questions is halved when it is turned down, so one bad memory and a
host that takes nothing look alike at first; refusals also come back sooner than answers. Once some
were turned down in a row, each request therefore waits for those in flight. Trade-off: in doubt,
calls go out one after the other.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct, field

from xscore.platform.errors import (
    PromptTooLong,
    ProviderError,
    RequestRejected,
    Unreachable,
    UnreadableResponse,
)

IN_DOUBT_FROM = 3
"""Number of large requests turned down in a row from which on they are sent one at a time."""
MOST_LARGE_REJECTED = 5
"""Most large requests turned down in a row, none in flight: the host will take none."""


MORE_AFTER_AN_ANSWER = 8
"""How many times the rejections in a row a host is allowed that has answered: one bad memory
rejects each half of its request in turn."""


class GiveUpRule(Struct):
    """Decides when to stop paying: the host rejects everything, or the model gives no usable
    score."""

    most_rejected: int = 8
    """Requests rejected in a row, before any answer: the host will take none."""
    most_unscored: int = 4
    """Memories or replies that came to nothing before there was any score: the model will give
    none."""
    has_answer: bool = False
    has_score: bool = False
    rejected: int = 0
    unscored: int = 0
    in_flight: int = 0
    """Requests within `sending`, which may still be answered."""
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    def count_reply(self, *, scored: bool) -> None:
        """Count an answer. scored: it held a usable score."""
        self.has_answer = True
        self.rejected = 0
        self.has_score = self.has_score or scored

    def is_over_after(self, error: ProviderError) -> bool:
        """Whether no other prompt will fare better, this one rejected."""
        self.rejected += isinstance(error, RequestRejected | PromptTooLong | UnreadableResponse)
        no_host = isinstance(error, Unreachable) and not self.has_answer
        allowed = self.most_rejected * (MORE_AFTER_AN_ANSWER if self.has_answer else 1)
        return (self.rejected >= allowed and not self.in_flight) or error.stops_run or no_host

    def is_over_after_unscored(self, count: int) -> bool:
        """Whether the model gives no score, with these that came to nothing."""
        self.unscored += 0 if self.has_score else count
        return not self.has_score and self.unscored >= self.most_unscored

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        """Hold a request in flight; wait for those before it while it is in doubt whether the host
        takes any."""
        while self.in_flight and self.rejected >= IN_DOUBT_FROM:
            self._ended.clear()
            await self._ended.wait()
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._ended.set()
