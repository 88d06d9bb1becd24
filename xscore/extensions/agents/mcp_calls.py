"""Run the calls of an MCP client outside its event loop.

A turn reads files and a store, which would keep the server from answering pings and noticing
cancellations; so each call has a thread with an event loop of its own. Trade-off: a cancelled call
that is busy outside its event loop ends only when that is done, and the wait for it is bounded.
"""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from anyio import CancelScope

from xscore.platform.errors import XscoreError, find_xscore_error

Result = TypeVar("Result")
Report = Callable[[float, float | None, str], None]
"""Reports progress: it takes the progress, the total if known, and a message."""
CLOSING_S = 1.5
"""How long a cancelled call is waited for; official clients kill a server after 2 s."""


class Call:
    """What the work of a call knows of it."""

    def __init__(self, *, wants_progress: bool, report: Report) -> None:
        self.wants_progress: bool = wants_progress
        """Whether the client shows progress."""
        self.report: Report = report
        self.is_cancelled: bool = False


class CallThread(Generic[Result]):
    """A thread that does one call."""

    def __init__(self, call: Call, work: Callable[[Call], Coroutine[Any, Any, Result]]) -> None:
        self._call, self._work = call, work
        self._loop = asyncio.get_running_loop()
        self._outcome: asyncio.Future[Result] = self._loop.create_future()
        self._lock = Lock()
        self._stop: Callable[[], object] = lambda: None

    async def run(self) -> Result:
        """Do the work. If this is cancelled, so is the work, whose end is waited for: what was paid
        for is then in the store.

        Raises XscoreError, whatever the work raised.
        """
        Thread(target=self._run, daemon=True).start()
        try:
            return await asyncio.shield(self._outcome)
        except asyncio.CancelledError:
            with self._lock:
                self._call.is_cancelled = True
                self._stop()
            # Without the shield the scope that was cancelled would end this wait at once.
            with CancelScope(shield=True):
                await asyncio.wait([self._outcome], timeout=CLOSING_S)
            raise

    def _run(self) -> None:
        outcome = asyncio.run(self._settled())
        # A turn leaves reference cycles, and automatic collection is rare here.
        gc.collect()
        with suppress(RuntimeError):  # the server has ended meanwhile
            self._loop.call_soon_threadsafe(self._pass_on, outcome)

    async def _settled(self) -> "asyncio.Task[Result]":
        """Return the work's task when it has ended, however it did."""
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(self._work(self._call))
        with self._lock:
            if self._call.is_cancelled:
                task.cancel()
            self._stop = lambda: loop.call_soon_threadsafe(task.cancel)
        await asyncio.wait([task])
        with self._lock:  # no thread may wake a loop that is closed
            self._stop = lambda: None
        return task

    def _pass_on(self, ended: "asyncio.Task[Result]") -> None:
        if self._outcome.done():
            return
        if ended.cancelled():
            self._outcome.cancel()
        elif error := ended.exception():
            self._outcome.set_exception(_as_ours(error))
        else:
            self._outcome.set_result(ended.result())


def _as_ours(error: BaseException) -> XscoreError:
    """Return it as an error of ours; a bug without its text, which may hold anything."""
    ours = find_xscore_error(error)
    if ours is None:
        sys.stderr.write(f"xscore mcp: internal error: {type(error).__name__}: {error}\n")
        ours = XscoreError("internal error: see the server's standard error")
    return ours


class ProgressQueue:
    """Hands progress from a call's thread to the client, in order and before its result."""

    def __init__(self, send: Callable[[float, float | None, str], Awaitable[None]]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Queue[tuple[float, float | None, str] | None] = asyncio.Queue()

    def put(self, progress: float, total: float | None, words: str) -> None:
        """Queue progress, from any thread."""
        with suppress(RuntimeError):  # the server has ended meanwhile
            self._loop.call_soon_threadsafe(self._waiting.put_nowait, (progress, total, words))

    def close(self) -> None:
        """Say that nothing more will come."""
        self._waiting.put_nowait(None)

    async def send_all(self, call: Call) -> None:
        """Send what was queued, until `close`; nothing more once the call is cancelled."""
        while (report := await self._waiting.get()) is not None:
            if call.is_cancelled:
                return
            await self._send(*report)
