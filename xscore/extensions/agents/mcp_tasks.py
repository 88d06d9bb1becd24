"""Tasks: calls whose client took a handle for an answer, and asks for the result when it likes.

In 2025-11-25 the client asks for a task; in 2026-07-28 the server gives one to a client that takes them. They live in
this process: one that is started again knows none, and says so. Trade-off: there is no list of tasks, since whoever
could list them could read results that are not its own.
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
"""How long a task is known after it began: usually, and within which bounds a client may choose."""
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
        """Whether nothing more happens to it."""
        return self.status != "working"

    def finish(self, result: dict[str, Any] | Refusal, *, now: float) -> None:
        """Record its result; one that was cancelled stays so."""
        if self.is_over:
            return
        failed = isinstance(result, Refusal) or (result.get("isError") and not self.call.envelope.is_modern)
        self.status, self.result, self.changed_at = "failed" if failed else "completed", result, now

    def cancel(self, *, now: float) -> None:
        """Stop its call, unless it is over."""
        if not self.is_over:
            self.status, self.changed_at = "cancelled", now
            self.call.cancel()

    def to_wire(self, envelope: Envelope) -> dict[str, Any]:
        """Return the task as its era writes it; in the later one with its result."""
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
        """Return the result as `tasks/result` gives it."""
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
        """Whether a client may still ask for a task."""
        self._forget(time.time())
        return bool(self._tasks)

    def add(self, call: Call, *, keep_ms: object = None) -> TaskRecord:
        """Make a task of a call. keep_ms: what the client wishes."""
        now = time.time()
        self._forget(now)
        wished = keep_ms if isinstance(keep_ms, int | float) and not isinstance(keep_ms, bool) else KEEP_MS
        kept = int(min(MOST_KEEP_MS, max(LEAST_KEEP_MS, wished)))
        task = TaskRecord(random_hex(16), call, kept, began_at=now, changed_at=now)
        call.task_id = task.id
        self._tasks[task.id] = task
        return task

    def find(self, task_id: object) -> TaskRecord | None:
        """Return the task of this id, if it is known."""
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
