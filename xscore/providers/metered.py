"""Write one ledger row for every attempt: answered, failed or cut off.

Innermost of the wrappers, so that the time it measures is the call's own and every attempt of a retry has its row. An
attempt that may have been charged without saying what for is entered at our estimate of its input and its whole
output cap, and marked as estimated. Durations are of the monotonic clock; the wall clock only stamps. It decides
nothing and swallows nothing; a ledger that fails stops the call.
"""

import time
from asyncio import CancelledError
from collections.abc import Callable
from typing import NamedTuple
from uuid import uuid4

from xscore.errors import ProviderError
from xscore.providers.prices import Price, otherwise, price
from xscore.providers.provider import OnText, Provider
from xscore.records import CallRecord, Completion, Request, Usage
from xscore.tokens import size

OK = "ok"
CANCELLED = "cancelled"


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
        price: Price = price,
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
            self._enter(request, begin, CANCELLED, _feared(request), estimated=True)
            raise
        self._enter(request, begin, OK, completion.usage, estimated=not completion.usage_reported)
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
                otherwise=otherwise(self.name, self.host, request, usage, cost=cost, price_of=self._price),
                estimated=estimated,
                chars=size(request.system, *request.content),
            )
        )


def _feared(request: Request) -> Usage:
    """Return the usage that a call without a reply may be charged for."""
    return Usage(input_tokens=request.input_tokens, output_tokens=request.max_output_tokens)
