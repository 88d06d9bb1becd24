"""Try a call again where its failure says that another try may do: by type of error, never by message.

It stands outside the limits, so that each attempt takes its own tokens, budget and ledger row, and no slot is held
while it waits. A 429 is no failed attempt: the call waits what the host asked for, or a moment, and goes back into the
line, up to `MOST_REFUSALS` times, so that a storm leaves nobody unjudged and a call that the host never takes (larger
than its limit a minute) does not circle for ever; when everybody must wait, and when to give up, is the gate's to say.
A Retry-After is a minimum, with jitter on top. On this very machine a deadline that passed means a slow model, not a
dead one: the next attempt has twice the time. What stops the run (money, key, model) is raised at once, and so is a
failure after text was shown: it would be shown twice. The trade-off: without a gate within, each call meets a storm
alone.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from xscore.errors import CallTimedOut, ProviderError, RateLimited
from xscore.providers.gate import FIRST_BACKOFF_S, LONGEST_BACKOFF_S, LONGEST_RETRY_AFTER_S
from xscore.providers.hosts import is_loopback
from xscore.providers.provider import OnText, Provider
from xscore.records import Completion, Request

MOST_REFUSALS = 20
"""429s that one call meets before it is given up."""
JITTER_SHARE = 0.25
"""Of the wait, added at random; at least `FIRST_BACKOFF_S`."""


class Retrying:
    """A provider that tries again."""

    def __init__(
        self,
        provider: Provider,
        *,
        attempts: int,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        tell: Callable[[ProviderError], None] = lambda _: None,
    ) -> None:
        """tell: hears of a failure that will be tried again, before the wait."""
        self.name = provider.name
        self.host = provider.host
        self._provider = provider
        self._attempts = attempts
        self._sleep = sleep
        self._jitter = jitter
        self._tell = tell
        self._more_time = 2.0 if is_loopback(provider.host) else 1.0

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make up to `attempts` attempts; raise the last one's error."""
        shown = _Shown(on_text) if on_text is not None else None
        failed = refused = 0
        while True:
            try:
                return await self._provider.complete(request, shown)
            except ProviderError as error:
                if isinstance(error, RateLimited):
                    refused += 1
                else:
                    failed += 1
                is_last = failed >= self._attempts or refused >= MOST_REFUSALS
                if is_last or not may_retry(error) or (shown is not None and shown.any):
                    raise
                last = error
            self._tell(last)
            if isinstance(last, CallTimedOut):
                request = replace(request, timeout_s=request.timeout_s * self._more_time)
            await self._sleep(self._wait_s(1 if isinstance(last, RateLimited) else failed, last))

    async def aclose(self) -> None:
        """Close the provider within."""
        await self._provider.aclose()

    def _wait_s(self, failed: int, error: ProviderError) -> float:
        backoff = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (failed - 1))
        least = max(error.retry_after_s or 0.0, backoff)
        return least + self._jitter() * max(FIRST_BACKOFF_S, JITTER_SHARE * least)


def may_retry(error: BaseException) -> bool:
    """Whether another attempt may succeed within reason."""
    if not isinstance(error, ProviderError) or error.stops_run:
        return False
    return error.retryable and (error.retry_after_s or 0.0) <= LONGEST_RETRY_AFTER_S


class _Shown:
    """Pass text on and remember that there was some."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self.any = False

    def __call__(self, piece: str) -> None:
        self.any = True
        self._on_text(piece)
