"""A driver around a driver that notes when each request began and how it ended, for traces.

A deadline of ours counts as `cancelled`, since the driver does not know why it is stopped.
Trade-off: if a turn has more requests than `MOST_CALLS`, the later ones are not noted.
"""

import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from xscore.extensions.shared.cancellation import cancellable
from xscore.extensions.shared.server import ServerDriver, server_host
from xscore.platform.errors import XscoreError
from xscore.records.calls import ServerCall

MOST_CALLS = 5_000
T = TypeVar("T")


class TimedDriver:
    """Notes the requests of another driver. See `shared.server.ServerDriver`."""

    def __init__(
        self, driver: ServerDriver, calls: list[ServerCall], *, system: str, url: str
    ) -> None:
        """calls: each request is added to them."""
        self.name: str = driver.name
        self._driver = driver
        self._calls = calls
        self._system = system
        self._host = server_host(url)

    async def describe(self) -> str:
        """Return the server's name in a few words."""
        return await cancellable(self._driver.describe())

    async def run(self, script: str, *terms: object) -> Sequence[Any]:
        """Run a script, and note it by its name."""
        return await self._noted(script, self._driver.run(script, *terms))

    async def erase(
        self, contents: Sequence[str], turns: Sequence[tuple[str, Sequence[str]]]
    ) -> int:
        """Erase contents, and note it."""
        return await self._noted("erase", self._driver.erase(contents, turns))

    async def aclose(self) -> None:
        """Release connections."""
        await cancellable(self._driver.aclose())

    async def _noted(self, operation: str, request: Coroutine[Any, Any, T]) -> T:
        began = time.monotonic()
        started_at = time.time()
        error = "cancelled"
        try:
            answer = await cancellable(request)
            error = ""
            return answer
        except XscoreError as failure:
            error = failure.kind
            raise
        finally:
            if len(self._calls) < MOST_CALLS:
                call = ServerCall(
                    system=self._system,
                    operation=operation,
                    host=self._host,
                    started_at=started_at,
                    duration_s=time.monotonic() - began,
                    error=error,
                )
                self._calls.append(call)
