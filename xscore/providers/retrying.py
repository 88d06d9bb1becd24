"""Try a call again where its failure says that another try may do: by type of error, never by message.

It stands outside the limits, so that each attempt takes its own tokens, budget and ledger row, and no slot is held
while it waits. A host's Retry-After is a minimum, with jitter on top, so that waiters do not come back together.
What stops the run (money, key, model) is raised at once, and so is a failure after text was shown: it would be shown
twice. The trade-off: a host that asks for more patience than `MAX_WAIT_S` gets none.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from xscore.errors import ProviderError
from xscore.providers.provider import OnText, Provider
from xscore.records import Completion, Request

if TYPE_CHECKING:
    from tenacity import RetryCallState

FIRST_WAIT_S = 0.5
LONGEST_BACKOFF_S = 30.0
MAX_WAIT_S = 120.0
"""A host that asks for a longer wait has failed."""
JITTER_SHARE = 0.25
"""Of the wait, added at random; at least `FIRST_WAIT_S`."""


class Retrying:
    """A provider that tries again."""

    def __init__(
        self,
        provider: Provider,
        *,
        attempts: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = provider.name
        self.host = provider.host
        self._provider = provider
        self._attempts = attempts
        self._sleep = sleep
        self._jitter = jitter

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make up to `attempts` attempts; raise the last one's error."""
        from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

        shown = _Shown(on_text) if on_text is not None else None
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._attempts),
            retry=retry_if_exception(lambda error: may_retry(error) and not (shown and shown.any)),
            wait=self._wait_s,
            sleep=self._sleep,
            reraise=True,
        )
        return await retrying(self._provider.complete, request, shown)

    async def aclose(self) -> None:
        """Close the provider within."""
        await self._provider.aclose()

    def _wait_s(self, state: "RetryCallState") -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked = getattr(error, "retry_after_s", None) or 0.0
        backoff = min(LONGEST_BACKOFF_S, FIRST_WAIT_S * 2.0 ** (state.attempt_number - 1))
        least = max(asked, backoff)
        return float(least + self._jitter() * max(FIRST_WAIT_S, JITTER_SHARE * least))


def may_retry(error: BaseException) -> bool:
    """Whether another attempt may succeed within reason."""
    if not isinstance(error, ProviderError) or error.stops_run:
        return False
    return error.retryable and (error.retry_after_s or 0.0) <= MAX_WAIT_S


class _Shown:
    """Pass text on and remember that there was some."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self.any = False

    def __call__(self, piece: str) -> None:
        self.any = True
        self._on_text(piece)
