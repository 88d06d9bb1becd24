"""Run MCP calls in worker threads (lanes), one call at a time in each, and collect their outcomes.

The serving thread starts and cancels calls and reads their outcomes; a lane's thread only does the
work, so everything sent to the client comes from one thread. Judging has one lane, since turns in
one store would wait for each other anyway. Calls that only read have another, so they never wait
for judging. Trade-off: a cancelled call that is busy outside its event loop (reading files, say)
ends only when that is done.

For a call that is a task, the client gets a handle and fetches the result later. In 2025-11-25 the
client
asks for a task; in 2026-07-28 the server offers one to a client that accepts tasks. Tasks live in
this process only: after a restart the server knows none, and says so. Trade-off: tasks cannot be
listed, since a client that lists them could read results that are not its own.
"""

import gc
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from queue import SimpleQueue
from time import monotonic
from typing import Any, Literal

from msgspec import Struct

from xscore.cli.failures import find_xscore_error
from xscore.extensions.agents.mcp_protocol import (
    RELATED_TASK_KEY,
    Envelope,
    Message,
    Refusal,
    RequestId,
)
from xscore.platform.errors import XscoreError
from xscore.platform.processes import random_hex

JUDGING, READING = "judging", "reading"

Work = Callable[["Call"], Coroutine[Any, Any, dict[str, Any]]]
"""Does a call and returns its result."""


CallOutcome = dict[str, Any] | XscoreError | None
"""How a call ended: its result or its error; None: it was cancelled, or failed by a bug."""


class Call:
    """One running or queued request."""

    def __init__(
        self, request: Message, envelope: Envelope, work: Work, lane: str = READING
    ) -> None:
        assert request.id is not None
        self.request: Message = request
        self.request_id: RequestId = request.id
        self.envelope: Envelope = envelope
        self.lane: str = lane
        self.task_id = ""
        """Id of the task that the client was given instead of an answer."""
        self.is_cancelled: bool = False
        self.progress: tuple[float, float | None, str] | None = None
        """Progress, total and message not sent yet."""
        self.progress_words: str = ""
        self.began: float = monotonic()
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
            return None
        error = task.exception()
        if error is None:
            return task.result()
        known = find_xscore_error(error)
        if known is None:
            sys.stderr.write(f"xscore mcp: internal error: {type(error).__name__}: {error}\n")
        return known


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
            thread = threading.Thread(
                target=self._run, args=(self._waiting[call.lane],), daemon=True
            )
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
        """Wait for running calls to end, `within_s` seconds in all."""
        for queue in self._waiting.values():
            queue.put(None)
        until = monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))

    def _run(self, waiting: "SimpleQueue[Call | None]") -> None:
        while (call := waiting.get()) is not None:
            outcome = None if call.is_cancelled else call.run()
            self._ended.put((call, outcome))
            self._wake()
            if waiting.empty():
                # A turn leaves reference cycles, and automatic collection is rare here.
                gc.collect()


POLL_MS = 1_000
KEEP_MS, LEAST_KEEP_MS, MOST_KEEP_MS = 600_000, 60_000, 3_600_000
"""How long a task is kept after it began: the default, and the least and most that a client may ask
for."""
MOST_TASKS = 64

Status = Literal["working", "completed", "failed", "cancelled"]


class TaskRecord(Struct):
    """One task."""

    id: str
    call: Call
    keep_ms: int
    began_at: float
    changed_at: float
    status: Status = "working"
    result: dict[str, Any] | Refusal | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.status != "working"

    def finish(self, result: dict[str, Any] | Refusal) -> None:
        """Record its result, unless it was cancelled."""
        if self.is_over:
            return
        failed = isinstance(result, Refusal) or (
            result.get("isError") and not self.call.envelope.is_modern
        )
        self.status, self.result, self.changed_at = (
            "failed" if failed else "completed",
            result,
            time.time(),
        )

    def cancel(self) -> None:
        """Stop its call, unless it has ended."""
        if not self.is_over:
            self.status, self.changed_at = "cancelled", time.time()
            self.call.cancel()

    def to_wire(self, envelope: Envelope) -> dict[str, Any]:
        """Return the task in the form of the request's era; the later era includes the result."""
        ttl, poll = ("ttlMs", "pollIntervalMs") if envelope.is_modern else ("ttl", "pollInterval")
        shown: dict[str, Any] = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": _iso(self.began_at),
            "lastUpdatedAt": _iso(self.changed_at),
            ttl: self.keep_ms,
            poll: POLL_MS,
        }
        if self.call.progress_words and not self.is_over:
            shown["statusMessage"] = self.call.progress_words
        if isinstance(self.result, Refusal):
            shown["statusMessage"] = self.result.message
        if envelope.is_modern and isinstance(self.result, Refusal):
            shown["error"] = {"code": self.result.code, "message": self.result.message}
        elif envelope.is_modern and self.result is not None:
            shown["result"] = self.result
        return shown

    def outcome(self) -> Mapping[str, Any] | Refusal:
        """Return the result for `tasks/result`."""
        if isinstance(self.result, Refusal):
            return self.result
        result = self.result or {
            "content": [{"type": "text", "text": "The task was cancelled."}],
            "isError": True,
        }
        return {
            **result,
            "_meta": {**result.get("_meta", {}), RELATED_TASK_KEY: {"taskId": self.id}},
        }


class TaskTable:
    """The tasks of one server."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskRecord] = {}

    @property
    def any_known(self) -> bool:
        """Whether any task is kept that a client may still ask for."""
        self._forget()
        return bool(self._tasks)

    def add(self, call: Call, *, keep_ms: object = None) -> TaskRecord:
        """Make a task for a call. keep_ms: how long the client wants it kept; not trusted, so of
        any type."""
        self._forget()
        wished = (
            keep_ms
            if isinstance(keep_ms, int | float) and not isinstance(keep_ms, bool)
            else KEEP_MS
        )
        kept = int(min(MOST_KEEP_MS, max(LEAST_KEEP_MS, wished)))
        now = time.time()
        task = TaskRecord(random_hex(16), call, kept, began_at=now, changed_at=now)
        call.task_id = task.id
        self._tasks[task.id] = task
        return task

    def find(self, task_id: object) -> TaskRecord | None:
        """Return the task with this id; None if it is unknown or has expired."""
        self._forget()
        return self._tasks.get(task_id) if isinstance(task_id, str) else None

    def _forget(self) -> None:
        over = [task for task in self._tasks.values() if task.is_over]
        stale = [task for task in over if time.time() > task.began_at + task.keep_ms / 1000]
        surplus = over[: max(0, len(self._tasks) - MOST_TASKS)]
        for task in (*stale, *surplus):
            self._tasks.pop(task.id, None)


def _iso(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
