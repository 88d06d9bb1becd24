"""Run MCP calls in worker threads (lanes), one call at a time in each, and collect their outcomes.

The serving thread starts and cancels calls and reads their outcomes; a lane's thread only does the work, so everything
sent to the client comes from one thread. Judging has one lane, since turns in one store would wait for each other
anyway. Calls that only read have another, so they never wait for judging. Trade-off: a cancelled call that is busy
outside its event loop (reading files, say) ends only when that is done.
"""

import gc
import sys
import threading
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from time import monotonic
from typing import Any

from msgspec import Struct

from xscore.cli.failures import find_xscore_error
from xscore.extensions.agents.mcp_protocol import Envelope, Message
from xscore.platform.errors import XscoreError

JUDGING, READING = "judging", "reading"

Work = Callable[["Call"], Coroutine[Any, Any, dict[str, Any]]]
"""Does a call and returns its result."""


class CallOutcome(Struct, frozen=True):
    """How a call ended."""

    result: dict[str, Any] | None = None
    error: XscoreError | None = None
    is_bug: bool = False
    """It failed with an error that is not an XscoreError."""


class Call:
    """One running or queued request."""

    def __init__(self, request: Message, envelope: Envelope, work: Work, lane: str = READING) -> None:
        assert request.id is not None
        self.request, self.request_id, self.envelope, self.lane = request, request.id, envelope, lane
        self.task_id = ""
        """Id of the task that the client was given instead of an answer."""
        self.is_cancelled = False
        self.progress: tuple[float, float | None, str] | None = None
        """Progress, total and message not sent yet."""
        self.progress_words = ""
        """The latest progress message."""
        self.began = monotonic()
        self.wake: Callable[[], None] = lambda: None
        """Called when there is progress to collect."""
        self._work = work
        self._lock = threading.Lock()
        self._stop: Callable[[], object] = lambda: None

    def cancel(self) -> None:
        """Stop it; no more calls go to a model, and what was paid for is kept."""
        with self._lock:  # `_settle` must not end and close the loop while this uses it
            self.is_cancelled = True
            self._stop()

    def report(self, progress: float, total: float | None, words: str) -> None:
        """Set the progress to be sent next; only the latest is kept."""
        self.progress, self.progress_words = (progress, total, words), words
        self.wake()

    def run(self) -> CallOutcome:
        """Do the work, in a lane's thread."""
        import asyncio  # the handshake needs no event loop

        return asyncio.run(self._settle())

    async def _settle(self) -> CallOutcome:
        import asyncio

        loop = asyncio.get_running_loop()
        task = asyncio.create_task(self._work(self))
        with self._lock:
            if self.is_cancelled:
                task.cancel()
            self._stop = lambda: loop.call_soon_threadsafe(task.cancel)
        await asyncio.wait([task])
        with self._lock:
            self._stop = lambda: None
        if task.cancelled():
            return CallOutcome()
        error = task.exception()
        if error is None:
            return CallOutcome(task.result())
        known = find_xscore_error(error)
        if known is None:
            sys.stderr.write(f"xscore mcp: internal error: {type(error).__name__}: {error}\n")
        return CallOutcome(error=known, is_bug=known is None)


class CallLanes:
    """Hands calls to the threads that do them, and collects what they report."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """wake: called, in a lane's thread, when there is something to collect."""
        self._wake = wake
        self._waiting: dict[str, SimpleQueue[Call | None]] = {}
        self._ended: SimpleQueue[tuple[Call, CallOutcome]] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def start(self, call: Call) -> None:
        """Queue a call in its lane, whose thread starts with its first call."""
        call.wake = self._wake
        if call.lane not in self._waiting:
            self._waiting[call.lane] = SimpleQueue()
            thread = threading.Thread(target=self._run, args=(self._waiting[call.lane],), daemon=True)
            self._threads.append(thread)
            thread.start()
        self._waiting[call.lane].put(call)

    def collect(self) -> list[tuple[Call, CallOutcome]]:
        """Return the calls that have ended since the last time."""
        found = []
        while not self._ended.empty():
            found.append(self._ended.get())
        return found

    def close(self, within_s: float) -> None:
        """Let running calls end for so many seconds together; the threads are not waited for longer."""
        for queue in self._waiting.values():
            queue.put(None)
        until = monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))

    def _run(self, waiting: "SimpleQueue[Call | None]") -> None:
        while (call := waiting.get()) is not None:
            outcome = CallOutcome() if call.is_cancelled else call.run()
            self._ended.put((call, outcome))
            self._wake()
            if waiting.empty():
                gc.collect()  # a turn leaves reference cycles, and automatic collection is rare here
