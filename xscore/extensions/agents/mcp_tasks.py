"""MCP tasks: calls for which the client got a handle instead of a result, and fetches the result later.

In 2025-11-25 the client asks for a task; in 2026-07-28 the server offers one to a client that accepts tasks. Tasks live
in this process only: after a restart the server knows none, and says so. Trade-off: tasks cannot be listed, since a
client that lists them could read results that are not its own.
"""

import time
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from xscore.extensions.agents.mcp_calls import Call
from xscore.extensions.agents.mcp_protocol import RELATED_TASK_KEY, Envelope, Refusal
from xscore.platform.processes import random_hex

POLL_MS = 1_000
KEEP_MS, LEAST_KEEP_MS, MOST_KEEP_MS = 600_000, 60_000, 3_600_000
"""How long a task is kept after it began: the default, and the least and most that a client may ask for."""
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

    def finish(self, result: dict[str, Any] | Refusal, *, now: float) -> None:
        """Record its result, unless it was cancelled."""
        if self.is_over:
            return
        failed = isinstance(result, Refusal) or (result.get("isError") and not self.call.envelope.is_modern)
        self.status, self.result, self.changed_at = "failed" if failed else "completed", result, now

    def cancel(self, *, now: float) -> None:
        """Stop its call, unless it has ended. now: Unix seconds."""
        if not self.is_over:
            self.status, self.changed_at = "cancelled", now
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
        result = self.result or {"content": [{"type": "text", "text": "The task was cancelled."}], "isError": True}
        return {**result, "_meta": {**result.get("_meta", {}), RELATED_TASK_KEY: {"taskId": self.id}}}


class TaskTable:
    """The tasks of one server."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskRecord] = {}

    @property
    def any_known(self) -> bool:
        """Whether any task is kept that a client may still ask for."""
        self._forget(time.time())
        return bool(self._tasks)

    def add(self, call: Call, *, keep_ms: object = None) -> TaskRecord:
        """Make a task for a call. keep_ms: how long the client wants it kept; not trusted, so of any type."""
        now = time.time()
        self._forget(now)
        wished = keep_ms if isinstance(keep_ms, int | float) and not isinstance(keep_ms, bool) else KEEP_MS
        kept = int(min(MOST_KEEP_MS, max(LEAST_KEEP_MS, wished)))
        task = TaskRecord(random_hex(16), call, kept, began_at=now, changed_at=now)
        call.task_id = task.id
        self._tasks[task.id] = task
        return task

    def find(self, task_id: object) -> TaskRecord | None:
        """Return the task with this id; None if it is unknown or has expired."""
        self._forget(time.time())
        return self._tasks.get(task_id) if isinstance(task_id, str) else None

    def _forget(self, now: float) -> None:
        over = [task for task in self._tasks.values() if task.is_over]
        stale = [task for task in over if now > task.began_at + task.keep_ms / 1000]
        surplus = over[: max(0, len(self._tasks) - MOST_TASKS)]
        for task in (*stale, *surplus):
            self._tasks.pop(task.id, None)


def _iso(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
