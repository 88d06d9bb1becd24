"""What a process has judged or given up, on its way to the shared server: grouped, one round trip for many packs.

It is committed to the local store before it comes here, so nobody waits for it but the end of a turn. While the server
is away it is kept, as much as `MOST_KEPT` holds, and sent once it is back. What never got there stays in the local
store alone, is counted, and will be judged again by others. Trade-off: for `GATHER_S` others see a content as being
paid for although it is judged.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from xscore.cache.keys import Names
from xscore.errors import SharedUnavailable
from xscore.records import Judgment
from xscore.shared.link import Link
from xscore.shared.server import SharedServer

GATHER_S = 0.1
MOST_KEPT = 50_000
"""Judgments that wait while the server is away: some 20 MB."""


class Outbox:
    """Judgments and released contents that the server has not been told of."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._judged: dict[Names, list[Judgment]] = {}
        self._released: dict[tuple[Names, str], list[str]] = {}
        self._waiting = 0
        self._unsent = 0
        self._sending: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()
        self._failure: SharedUnavailable | None = None

    def keep(self, names: Names, judgments: Sequence[Judgment]) -> None:
        """Send these soon. Raises SharedUnavailable where the server is required and was found away."""
        if self._failure is not None:
            raise self._failure
        room = max(0, MOST_KEPT - self._waiting)
        self._unsent += len(judgments[room:])
        self._judged.setdefault(names, []).extend(judgments[:room])
        self._waiting += len(judgments[:room])
        self._begin()

    def release(self, names: Names, hashes: Iterable[str], *, runner: str) -> None:
        """Tell soon that these are given up; where the server is away, the lease does."""
        if not self._link.is_away:
            self._released.setdefault((names, runner), []).extend(hashes)
            self._begin()

    async def flush(self) -> None:
        """Send all there is, unless the server is away. Raises SharedUnavailable where it is required."""
        async with self._flushing:
            while self._judged and await self._send_next():
                pass
            released, self._released = self._released, {}
            for (names, runner), hashes in released.items():
                await self._link.ask(_releasing(names, hashes, runner), otherwise=False)

    def remarks(self) -> tuple[str, ...]:
        """Say what the server was not told of."""
        left = self._unsent + self._waiting
        return (f"{left:,} judgments are in the local store alone: the shared server was away",) if left else ()

    async def aclose(self) -> None:
        """Send what is left, as far as the server answers."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        with suppress(SharedUnavailable):
            await self.flush()

    def _begin(self) -> None:
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._judged or self._released:
                await asyncio.sleep(GATHER_S)
                await self._link.until_here()
                await self.flush()
        except SharedUnavailable as error:  # not required, it is asked no more: what is left is remarked on
            self._failure = error if self._link.require else None

    async def _send_next(self) -> bool:
        """Send the judgments of one turn; they stay here until the server has them."""
        names, judgments = next(iter(self._judged.items()))
        sent = list(judgments)
        if not await self._link.ask(_keeping(names, sent), otherwise=False):
            return False
        del judgments[: len(sent)]
        if not judgments:
            del self._judged[names]
        self._waiting -= len(sent)
        return True


def _keeping(names: Names, judgments: Sequence[Judgment]) -> Callable[[SharedServer], Awaitable[bool]]:
    async def request(server: SharedServer) -> bool:
        await server.keep(names, judgments)
        return True

    return request


def _releasing(names: Names, hashes: Sequence[str], runner: str) -> Callable[[SharedServer], Awaitable[bool]]:
    async def request(server: SharedServer) -> bool:
        await server.release(names, hashes, runner=runner)
        return True

    return request
