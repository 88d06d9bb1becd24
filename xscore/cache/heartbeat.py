"""The heartbeat of a lease: a task that renews it while its process works.

Who only looks at leases, such as `status`, needs neither this nor an event loop. Trade-off: it
beats only while the event loop runs, so a process that blocks its loop for longer than a lease
looks dead.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from sqlite3 import Error

from xscore.cache.lease import HEARTBEAT_S
from xscore.platform.errors import StoreError


class Heartbeat:
    """Calls `beat` every `every_s` seconds from `start` to `stop`.

    Store errors skip a beat; the next regular write reports them.
    """

    def __init__(
        self, beat: Callable[[], Awaitable[None]], *, every_s: float = HEARTBEAT_S
    ) -> None:
        self._beat = beat
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the heartbeat in the running event loop."""
        self._task = asyncio.create_task(self._loop())

    async def stop(self) -> None:
        """Stop the heartbeat and wait for its end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _loop(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            with suppress(StoreError, Error):
                await self._beat()
