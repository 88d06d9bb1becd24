"""Hold one provider to its limits: calls in flight, requests and tokens a minute, and the dollars
of the turn.

Everything is reserved before the send, at an upper bound, and the rest is given back afterwards; a
call that may have been charged without reporting its usage stays charged in full. Callers queue:
the first takes its tokens, then its slot, so no slot idles while its call waits for tokens. Dollars
come last, because that may wait for calls in flight. Trade-off: limits are this process's own
unless `rates` is shared.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Protocol

from xscore.platform.errors import (
    ConnectionFailed,
    NotSent,
    ProviderError,
    RateLimited,
    Unreachable,
)
from xscore.providers.concurrency import AdaptiveConcurrency
from xscore.providers.prices import PriceFunction, call_price, cost_upper_bound
from xscore.providers.provider import OnText, Provider, ProviderWrapper
from xscore.providers.rate_limits import (
    REFUSED_SHARE,
    UNSENT_SHARE,
    LocalRates,
    RateBudget,
    RateShare,
    reserved_share,
    used_share,
)
from xscore.records.calls import Completion, Request, Traffic


class DollarBudget(Protocol):
    """Dollars of a turn, reserved before each send."""

    async def reserve(self, usd: Decimal | None) -> str:
        """Set aside an upper bound (None: unpriced); raise BudgetExhausted where it would pass the
        cap."""
        ...

    async def settle(self, reservation_name: str, actual: Decimal | None) -> None:
        """Replace the reservation by what the call cost; None: unknown, so the bound stays
        charged."""
        ...


class Limited(ProviderWrapper):
    """A provider within limits; None means no limit of that kind beyond what the host states."""

    def __init__(
        self,
        provider: Provider,
        *,
        concurrency: int | None = None,
        start: int = 0,
        budget: DollarBudget | None = None,
        price_of: PriceFunction = call_price,
        rates: RateBudget | None = None,
    ) -> None:
        """concurrency: most calls in flight, tried from `start` up.
        rates: a minute; None: as the host states.
        """
        super().__init__(provider)
        self._front = asyncio.Lock()
        self._rates: RateBudget = rates or LocalRates()
        self._gate = AdaptiveConcurrency(concurrency, start=start, host=provider.host)
        self._budget = budget
        self._price_of = price_of
        self._halted = asyncio.Event()
        self._waiting: set[asyncio.Task[object]] = set()

    def halt(self) -> None:
        """Send nothing more: calls that are queued or waiting to retry get NotSent at once.

        Calls in flight continue. A second halt does nothing, since one `uncancel` would not undo
        two.
        """
        if self._halted.is_set():
            return
        # Set first: a task that wakes up sees that its cancellation is the halt.
        self._halted.set()
        for task in self._waiting:
            task.cancel()

    async def sleep(self, seconds: float) -> None:
        """Sleep between two attempts of a call. Raises NotSent at a halt."""
        with self._until_halted():
            await asyncio.sleep(seconds)

    def traffic(self) -> Traffic:
        """Return what the host stated of its limits and how the calls in flight went."""
        return Traffic(self._rates.stated, self._gate.history)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Queue for the limits, then make one attempt.

        Raises BudgetExhausted and NotSent before anything is sent, RateLimited when the host
        refuses for long and ConnectionFailed when it is dead.
        """
        share = reserved_share(request)
        ticket = await self._admitted(share)
        # Until the host reports its usage, the call counts as the most that it may use.
        spent = share
        try:
            completion = await self._within_budget(request, on_text)
            spent = used_share(completion.usage)
        except RateLimited as error:
            spent = REFUSED_SHARE
            self._gate.refused(ticket, error)
            raise
        except BaseException as error:
            spent = _feared_share(error, share)
            if isinstance(error, ConnectionFailed):
                self._gate.unanswered(ticket, error)
            else:
                self._gate.leave(ticket)
            raise
        finally:
            self._rates.settle(share, spent)
        self._gate.answered(ticket)
        self._rates.learn(completion.limits)
        return completion

    async def _admitted(self, share: RateShare) -> int:
        with self._until_halted():
            # One call at a time is in front: the buckets know one waiting caller, and calls
            # leave in the order in which they came.
            async with self._front:
                await self._rates.take(share)
                try:
                    return await self._gate.enter()
                except BaseException:
                    self._rates.settle(share, UNSENT_SHARE)
                    raise

    @contextmanager
    def _until_halted(self) -> Iterator[None]:
        """Cancel the wait of this task at a halt. Raises NotSent."""
        if self._halted.is_set():
            raise _not_sent()
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            yield
        except asyncio.CancelledError:
            # The halt cancelled this task once, and `uncancel` takes that back. If a cancellation
            # is still open then, someone else ended the task too, and theirs must go on.
            if self._halted.is_set() and not task.uncancel():
                raise _not_sent() from None
            raise
        finally:
            self._waiting.discard(task)

    async def _within_budget(self, request: Request, on_text: OnText | None) -> Completion:
        if self._budget is None:
            return await self.provider.complete(request, on_text)
        bound_usd = cost_upper_bound(self.name, self.host, request, price_of=self._price_of)
        reservation_name = await self._budget.reserve(bound_usd)
        # A call that is cancelled in flight may be billed, so it is charged at its bound.
        actual = bound_usd
        try:
            completion = await self.provider.complete(request, on_text)
            actual = self._price_of(self.name, request.model, self.host, completion.usage)
        except ProviderError as error:
            actual = bound_usd if error.may_be_charged else Decimal(0)
            raise
        finally:
            await self._budget.settle(reservation_name, actual)
        return completion


def _not_sent() -> NotSent:
    return NotSent(
        "the run was stopped before this call was sent",
        hint="Continue it with `xscore continue`.",
    )


def _feared_share(error: BaseException, share: RateShare) -> RateShare:
    """Return what to assume that a failed call used."""
    if isinstance(error, Unreachable):
        return UNSENT_SHARE
    if isinstance(error, ProviderError) and not error.may_be_charged:
        return REFUSED_SHARE
    if isinstance(error, ProviderError | asyncio.CancelledError):
        return share
    return UNSENT_SHARE
