"""Hold one provider to its limits: calls in flight, requests and tokens a minute, and the dollars of the turn.

Everything is reserved before the send, at an upper bound, and what was not used is given back after it. Retries stand
outside, so that each attempt takes its own share and a slot is free during a backoff. A call that may have been
charged without telling stays charged in full. The trade-off: limits are this process's own; two runs at once share
only the budget.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from xscore.errors import ProviderError
from xscore.providers.prices import Price, price, upper_bound
from xscore.providers.provider import OnText, Provider
from xscore.providers.token_bucket import TokenBucket
from xscore.records import Completion, Request

if TYPE_CHECKING:
    from aiolimiter import AsyncLimiter

REQUEST_BURST_SHARE = 0.05
"""Requests that may go at once, as a share of those of a minute (at least one)."""


class Budget(Protocol):
    """Dollars of a turn, reserved before each send."""

    async def reserve(self, usd: Decimal | None) -> str:
        """Set aside an upper bound (None: unpriced); raise BudgetExhausted where it would pass the cap."""
        ...

    async def settle(self, reservation: str, actual: Decimal | None) -> None:
        """Replace the reservation by what the call cost (None: unpriced)."""
        ...


class Limited:
    """A provider within limits; None means no limit of that kind."""

    def __init__(
        self,
        provider: Provider,
        *,
        rpm: int | None = None,
        tpm: int | None = None,
        concurrency: int | None = None,
        budget: Budget | None = None,
        price_of: Price = price,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.name = provider.name
        self.host = provider.host
        self._provider = provider
        self._slots = asyncio.Semaphore(concurrency) if concurrency is not None else None
        self._rpm = rpm
        self._requests: AsyncLimiter | None = None
        self._tokens = TokenBucket(tpm, clock=clock, sleep=sleep) if tpm is not None else None
        self._budget = budget
        self._price_of = price_of

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Wait for a slot and for its share of the limits, then make one attempt.

        Raises BudgetExhausted before anything is sent.
        """
        if self._slots is None:
            return await self._at_the_rate(request, on_text)
        async with self._slots:
            return await self._at_the_rate(request, on_text)

    async def aclose(self) -> None:
        """Close the provider within."""
        await self._provider.aclose()

    async def _at_the_rate(self, request: Request, on_text: OnText | None) -> Completion:
        reserved = request.reserved_input_tokens + request.max_output_tokens
        if self._tokens is not None:
            await self._tokens.take(reserved)
        used = 0
        try:
            if self._rpm is not None:
                await self._request_limiter(self._rpm).acquire()
            completion, used = await self._within_budget(request, on_text)
            return completion
        except ProviderError as error:
            used = reserved if error.may_be_charged else 0
            raise
        except asyncio.CancelledError:
            used = reserved
            raise
        finally:
            if self._tokens is not None:
                self._tokens.refund(reserved - used)

    async def _within_budget(self, request: Request, on_text: OnText | None) -> tuple[Completion, int]:
        if self._budget is None:
            completion = await self._provider.complete(request, on_text)
            return completion, _used(completion)
        bound = upper_bound(self.name, self.host, request, price_of=self._price_of)
        reservation = await self._budget.reserve(bound)
        actual = bound
        try:
            completion = await self._provider.complete(request, on_text)
            actual = self._price_of(self.name, request.model, self.host, completion.usage)
        except ProviderError as error:
            actual = bound if error.may_be_charged else Decimal(0)
            raise
        finally:
            await self._budget.settle(reservation, actual)
        return completion, _used(completion)

    def _request_limiter(self, rpm: int) -> "AsyncLimiter":
        if self._requests is None:
            from aiolimiter import AsyncLimiter

            burst = max(1.0, rpm * REQUEST_BURST_SHARE)
            self._requests = AsyncLimiter(burst, burst * 60 / rpm)
        return self._requests


def _used(completion: Completion) -> int:
    return completion.usage.input_tokens + completion.usage.output_tokens
