"""Try a call again where its failure says that another try may do: by type of error, never by message.

It stands outside the limits, so that each attempt takes its own tokens, budget and ledger row, and no slot is held
while it waits. A 429 is no failed attempt: the call waits what the host asked for, or a moment, and goes back into the
line, up to `MOST_REFUSALS` times, so that a storm leaves nobody unjudged and a call that the host never takes (larger
than its limit a minute) does not circle for ever; when everybody must wait, and when to give up, is the gate's to say.
A Retry-After is a minimum, with jitter on top. On this very machine a deadline that passed means a slow model, not a
dead one: the next attempt has twice the time. What stops the run (money, key, model) is raised at once, and so is a
failure after text was shown: it would be shown twice. The trade-off: without a gate within, each call meets a storm
alone.

Write one ledger row for every attempt: answered, failed or cut off.

Innermost of the wrappers, so that the time it measures is the call's own and every attempt of a retry has its row. An
attempt that may have been charged without saying what for is entered at our estimate of its input and its whole
output cap, and marked as estimated. Durations are of the monotonic clock; the wall clock only stamps. It decides
nothing and swallows nothing; a ledger that fails stops the call.
"""

import asyncio
import random
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from uuid import uuid4

from msgspec.structs import replace

from xscore.platform.errors import CallTimedOut, ProviderError, RateLimited
from xscore.platform.tokens import size
from xscore.providers.concurrency import FIRST_BACKOFF_S, LONGEST_BACKOFF_S, LONGEST_RETRY_AFTER_S
from xscore.providers.hosts import is_loopback
from xscore.providers.prices import PriceFunction, call_price, counterfactual_cost
from xscore.providers.provider import OnText, Provider
from xscore.records import CallRecord, Completion, Request, Usage

MAX_REFUSALS = 20
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
                is_last = failed >= self._attempts or refused >= MAX_REFUSALS
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


OUTCOME_OK = "ok"
OUTCOME_CANCELLED = "cancelled"


class _Begin(NamedTuple):
    """When an attempt began, on both clocks."""

    at: float
    reading: float


class Metered:
    """A provider whose attempts are entered in a ledger."""

    def __init__(
        self,
        provider: Provider,
        *,
        turn_id: str,
        record: Callable[[CallRecord], None],
        price: PriceFunction = call_price,
        clock: Callable[[], float] = time.time,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        """clock: Unix seconds, for stamps. stopwatch: seconds that only go forward."""
        self.name = provider.name
        self.host = provider.host
        self._provider = provider
        self._turn_id = turn_id
        self._run, self._rows = uuid4().hex[:16], 0
        self._record = record
        self._price = price
        self._clock = clock
        self._stopwatch = stopwatch

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make one attempt and enter it, whatever becomes of it."""
        begin = self._begin()
        try:
            completion = await self._provider.complete(request, on_text)
        except ProviderError as error:
            usage = _feared(request) if error.may_be_charged else Usage()
            self._enter(request, begin, error.kind, usage, estimated=error.may_be_charged)
            raise
        except CancelledError:
            self._enter(request, begin, OUTCOME_CANCELLED, _feared(request), estimated=True)
            raise
        self._enter(request, begin, OUTCOME_OK, completion.usage, estimated=not completion.usage_reported)
        return completion

    async def aclose(self) -> None:
        """Close the provider within."""
        await self._provider.aclose()

    def _begin(self) -> _Begin:
        return _Begin(self._clock(), self._stopwatch())

    def _enter(self, request: Request, begin: _Begin, outcome: str, usage: Usage, *, estimated: bool) -> None:
        self._rows += 1
        cost = self._price(self.name, request.model, self.host, usage)
        self._record(
            CallRecord(
                id=f"{self._run}{self._rows:08x}",
                turn_id=self._turn_id,
                stage=request.stage,
                provider=self.name,
                host=self.host,
                model=request.model,
                started_at=begin.at,
                duration_s=self._stopwatch() - begin.reading,
                outcome=outcome,
                candidates=request.candidates,
                usage=usage,
                cost_usd=cost,
                otherwise=counterfactual_cost(self.name, self.host, request, usage, cost=cost, price_of=self._price),
                estimated=estimated,
                chars=size(request.system, *request.content),
            )
        )


def _feared(request: Request) -> Usage:
    """Return the usage that a call without a reply may be charged for."""
    return Usage(input_tokens=request.input_tokens, output_tokens=request.max_output_tokens)
