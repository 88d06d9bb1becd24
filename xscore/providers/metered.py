"""Write one ledger row for every attempt: answered, failed or cut off.

Innermost of the wrappers, so that the time it measures is the call's own and every attempt of a retry has its row. An
attempt that may have been charged without saying what for is entered at our estimate of its input and its whole
output cap, and marked as estimated. It decides nothing and swallows nothing; a ledger that fails stops the call.
"""

import time
from asyncio import CancelledError
from collections.abc import Callable
from uuid import uuid4

from xscore.errors import ProviderError
from xscore.providers.prices import Price, price
from xscore.providers.provider import OnText, Provider
from xscore.records import CallRecord, Completion, Request, Usage
from xscore.tokens import size

OK = "ok"
CANCELLED = "cancelled"


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
    ) -> None:
        self.name = provider.name
        self.host = provider.host
        self._provider = provider
        self._turn_id = turn_id
        self._record = record
        self._price = price
        self._clock = clock

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make one attempt and enter it, whatever becomes of it."""
        started_at = self._clock()
        try:
            completion = await self._provider.complete(request, on_text)
        except ProviderError as error:
            usage = _feared(request) if error.may_be_charged else Usage()
            self._enter(request, started_at, error.kind, usage, estimated=error.may_be_charged)
            raise
        except CancelledError:
            self._enter(request, started_at, CANCELLED, _feared(request), estimated=True)
            raise
        self._enter(request, started_at, OK, completion.usage, estimated=not completion.usage_reported)
        return completion

    async def aclose(self) -> None:
        """Close the provider within."""
        await self._provider.aclose()

    def _enter(self, request: Request, started_at: float, outcome: str, usage: Usage, *, estimated: bool) -> None:
        self._record(
            CallRecord(
                id=uuid4().hex,
                turn_id=self._turn_id,
                stage=request.stage,
                provider=self.name,
                host=self.host,
                model=request.model,
                started_at=started_at,
                duration_s=max(0.0, self._clock() - started_at),
                outcome=outcome,
                candidates=request.candidates,
                usage=usage,
                cost_usd=self._price(self.name, request.model, self.host, usage),
                estimated=estimated,
                chars=size(request.system, *request.content),
            )
        )


def _feared(request: Request) -> Usage:
    """Return the usage that a call without a reply may be charged for."""
    return Usage(input_tokens=request.input_tokens, output_tokens=request.max_output_tokens)
