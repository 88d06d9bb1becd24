"""Wrappers around one call: try again where that may help, and write one ledger row for every
attempt.

Retrying depends on the type of error, never on its message. It wraps the limits, so each attempt
takes its own tokens, budget and ledger row, and no slot is held during a wait. A 429 is not a
failed attempt: the call waits as long as the host asks, plus jitter, and queues again, up to
`MAX_REFUSALS` times. An unreadable reply is asked for once more. Metering is innermost, so it times
each call separately. Trade-off: without adaptive concurrency inside, each call handles a storm of
429s on its own.
"""

import asyncio
import random
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from decimal import Decimal

from msgspec.structs import replace

from xscore.platform.errors import (
    CallTimedOut,
    ProviderError,
    RateLimited,
    Unreachable,
    UnreadableResponse,
)
from xscore.platform.processes import random_hex
from xscore.platform.tokens import size
from xscore.providers.concurrency import (
    FIRST_BACKOFF_S,
    LONGEST_BACKOFF_S,
    LONGEST_RETRY_AFTER_S,
)
from xscore.providers.hosts import is_loopback
from xscore.providers.prices import (
    PriceFunction,
    call_price,
    counterfactual_cost,
    usage_upper_bound,
)
from xscore.providers.provider import OnText, Provider, ProviderWrapper
from xscore.records.calls import CallRecord, Completion, Request, Usage

MAX_REFUSALS = 20
"""Give up a call after this many 429s."""
MOST_FUTILE = 2
"""Give up a call after this many replies not in the dialect, or connections that a host of this
machine, which has not answered yet, refuses: a host of the wrong kind stays one, and a server that
is not started does not start by itself."""
JITTER_SHARE = 0.25
"""Share of the wait that is added at random; at least `FIRST_BACKOFF_S`."""
OUTCOME_OK = "ok"
OUTCOME_CANCELLED = "cancelled"


class Retrying(ProviderWrapper):
    """A provider that retries."""

    def __init__(
        self,
        provider: Provider,
        *,
        attempts: int,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        tell: Callable[[ProviderError], None] = lambda _: None,
    ) -> None:
        """tell: called with each failure that will be retried, before the wait."""
        super().__init__(provider)
        self._attempts = attempts
        self._sleep = sleep
        self._jitter = jitter
        self._tell = tell
        self._is_local = is_loopback(provider.host)
        self._is_up = False

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make up to `attempts` attempts; raise the last one's error."""
        has_shown = False

        def show(piece: str) -> None:
            nonlocal has_shown
            has_shown = True
            if on_text is not None:
                on_text(piece)

        failed = refused = futile = 0
        while True:
            try:
                completion = await self.provider.complete(
                    request, None if on_text is None else show
                )
                self._is_up = True
                return completion
            except ProviderError as error:
                refused += isinstance(error, RateLimited)
                failed += not isinstance(error, RateLimited)
                # A server of this machine that never answered is not running: few tries suffice.
                is_absent = (
                    self._is_local and not self._is_up and isinstance(error, Unreachable)
                )
                futile += is_absent or isinstance(error, UnreadableResponse)
                is_last = (
                    failed >= self._attempts or refused >= MAX_REFUSALS or futile >= MOST_FUTILE
                )
                # A retry would show the same text twice.
                if is_last or has_shown or not may_retry(error):
                    raise
                last = error
            self._tell(last)
            # A slow model, not a dead one: give it more time.
            if isinstance(last, CallTimedOut) and self._is_local:
                request = replace(request, timeout_s=request.timeout_s * 2)
            # A refusal is not a failure of the host, so it does not lengthen the backoff.
            failed_so_far = 1 if isinstance(last, RateLimited) else failed
            await self._sleep(retry_wait_s(failed_so_far, last, jitter=self._jitter))


def retry_wait_s(
    failed: int, error: ProviderError, *, jitter: Callable[[], float] = random.random
) -> float:
    """Return how long to wait before another attempt. failed: attempts so far."""
    backoff = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (failed - 1))
    least = max(error.retry_after_s or 0.0, backoff)
    return least + jitter() * max(FIRST_BACKOFF_S, JITTER_SHARE * least)


def may_retry(error: BaseException) -> bool:
    """Return whether another attempt may succeed."""
    if not isinstance(error, ProviderError) or error.stops_run:
        return False
    return error.retryable and (error.retry_after_s or 0.0) <= LONGEST_RETRY_AFTER_S


class Metered(ProviderWrapper):
    """A provider whose attempts are written to a ledger; a ledger that fails stops the call.

    An attempt that may have been charged without reporting its usage is recorded at its upper
    bound, as its budget is charged, and marked as estimated.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        turn_id: str,
        record: Callable[[CallRecord], None],
        price: PriceFunction = call_price,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """clock: Unix seconds, for stamps; durations are of a clock that only goes forward."""
        super().__init__(provider)
        self._turn_id = turn_id
        self._run = random_hex(8)
        self._rows = 0
        self._record = record
        self._price = price
        self._clock = clock

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make one attempt and record it, whether it succeeds or fails."""
        begin = (self._clock(), time.monotonic())
        try:
            completion = await self.provider.complete(request, on_text)
        except ProviderError as error:
            usage = self._most(request) if error.may_be_charged else Usage()
            self._write(request, begin, error.kind, usage, estimated=error.may_be_charged)
            raise
        except CancelledError:
            self._write(request, begin, OUTCOME_CANCELLED, self._most(request), estimated=True)
            raise
        estimated = not completion.usage_reported
        cost = self._write(request, begin, OUTCOME_OK, completion.usage, estimated=estimated)
        return replace(completion, cost_usd=cost)

    def _most(self, request: Request) -> Usage:
        return usage_upper_bound(self.name, self.host, request, price_of=self._price)

    def _write(
        self,
        request: Request,
        begin: tuple[float, float],
        outcome: str,
        usage: Usage,
        *,
        estimated: bool,
    ) -> Decimal | None:
        self._rows += 1
        cost = self._price(self.name, request.model, self.host, usage)
        otherwise = counterfactual_cost(
            self.name, self.host, request, usage, cost=cost, price_of=self._price
        )
        self._record(
            CallRecord(
                id=f"{self._run}{self._rows:08x}",
                turn_id=self._turn_id,
                stage=request.stage,
                provider=self.name,
                host=self.host,
                model=request.model,
                started_at=begin[0],
                duration_s=time.monotonic() - begin[1],
                outcome=outcome,
                candidates=request.candidates,
                usage=usage,
                cost_usd=cost,
                otherwise=otherwise,
                estimated=estimated,
                chars=size(request.system, *request.content),
            )
        )
        return cost
