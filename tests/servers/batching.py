"""What loopback Batch APIs share: batches that advance by being looked at, never by the clock, and what goes wrong.

`server.batches` holds the knobs and the counts. A request of a batch is judged by the very code that answers live
calls, and `server.misbehave` spoils it as it would those. Words, paths and files of a vendor are its own server's.
"""

import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from enum import StrEnum
from math import ceil
from typing import Any

from aiohttp import web
from msgspec import Struct, field

Run = Callable[[dict[str, Any]], Awaitable[tuple[int, dict[str, Any]]]]
"""Judges one request's body; gives status and reply."""


class Step(StrEnum):
    """What a client may ask of a Batch API."""

    UPLOAD = "upload"
    CREATE = "create"
    LOOK = "look"
    LIST = "list"
    CANCEL = "cancel"
    RESULTS = "results"


class Trouble(StrEnum):
    """What happens to a step."""

    LOST = "it is done, and the connection closed before its answer"
    BUSY = "429, not done"
    FAILED = "500, not done"
    CUT = "half of the results, then closed"


class Phase(StrEnum):
    """How far a batch is."""

    WORKING = "working"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Outcome(Struct, frozen=True):
    """What became of one request."""

    custom_id: str
    unrun: str = ""
    """`expired` or `cancelled`; empty: it was run."""
    status: int = 200
    reply: dict[str, Any] = field(default_factory=dict)


class KeptBatch(Struct):
    """One batch as the vendor keeps it."""

    id: str
    created_at: float
    todo: deque[tuple[str, dict[str, Any]]]
    total: int
    tokens: int
    mark: dict[str, str] = field(default_factory=dict)
    file_id: str = ""
    failure: tuple[str, int | None] | None = None
    """Code and line of what makes its input unusable."""
    phase: Phase = Phase.WORKING
    looks: int = 0
    cancelled_at_look: int = 0
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more."""
        return self.phase not in (Phase.WORKING, Phase.CANCELLING)


class BatchBook:
    """All batches of one server; attributes may be changed while it runs."""

    def __init__(self) -> None:
        self.looks_until_done = 2
        """Looks at a batch until it has ended."""
        self.looks_until_cancelled = 1
        """Looks after a cancellation until it holds."""
        self.expires_at_look: int | None = None
        """The look at which a batch's time is over."""
        self.enqueued_tokens: int | None = None
        """Input tokens of batches that have not ended."""
        self.is_silent_about_unrun = False
        """Requests that were not run do not appear in the results."""
        self.strays = False
        """Results hold an id that nobody sent, and one of them twice."""
        self.fate_of: Callable[[str], str | None] = lambda custom_id: None
        """custom_id -> `expired`, `cancelled`, `errored`, `missing`, or None: it is judged."""
        self.clock: Callable[[], float] = time.time
        self.random = random.Random(6)
        self.all: dict[str, KeptBatch] = {}
        self.created = 0
        self.uploaded = 0
        self.asked: Counter[Step] = Counter()
        """How often each step was asked for, troubles included."""
        self.ran: Counter[str] = Counter()
        """custom_id -> how often it was run, over all batches."""
        self._troubles: dict[Step, deque[Trouble]] = {step: deque() for step in Step}

    def trouble(self, step: Step, trouble: Trouble, *, times: int = 1) -> None:
        """Queue a trouble for the next `times` of this step."""
        self._troubles[step].extend([trouble] * times)

    def strikes(self, step: Step) -> Trouble | None:
        """Count a step, and return what happens to it."""
        self.asked[step] += 1
        return self._troubles[step].popleft() if self._troubles[step] else None

    def add(self, requests: list[tuple[str, dict[str, Any]]], *, tokens: int, name: str) -> KeptBatch:
        """Keep a new batch."""
        self.created += 1
        batch = KeptBatch(f"{name}_{self.created:04}", self.clock(), deque(requests), len(requests), tokens)
        self.all[batch.id] = batch
        return batch

    def waiting_tokens(self) -> int:
        """Return the tokens of the batches that have not ended."""
        return sum(batch.tokens for batch in self.all.values() if not batch.is_over)

    def page(self, entries: list[Any], request: web.Request, *, cursor: str) -> tuple[list[Any], bool]:
        """Return the page of a list, newest first, that is asked for, and whether there is more."""
        limit = int(request.query.get("limit", "20"))
        newest = entries[::-1]
        after = request.query.get(cursor)
        start = next((at for at, entry in enumerate(newest, 1) if entry.id == after), 0) if after else 0
        return newest[start : start + limit], start + limit < len(newest)

    async def advance(self, batch: KeptBatch, run: Run) -> None:
        """Take a batch further, because it is looked at."""
        if batch.is_over:
            return
        batch.looks += 1
        if batch.failure is not None:
            batch.phase = Phase.FAILED
        elif batch.phase is Phase.CANCELLING:
            if batch.looks - batch.cancelled_at_look >= self.looks_until_cancelled:
                self._end(batch, Phase.CANCELLED)
        elif batch.looks == self.expires_at_look:
            self._end(batch, Phase.EXPIRED)
        else:
            last_run = max(1, self.looks_until_done - 1) if self.looks_until_done > 2 else self.looks_until_done
            await self._run(batch, run, ceil(batch.total * min(1.0, batch.looks / last_run)))
            if batch.looks >= self.looks_until_done:
                self._end(batch, Phase.COMPLETED)

    def cancel(self, batch: KeptBatch) -> None:
        """Have a batch cancelled, from the next looks on."""
        if batch.phase is Phase.WORKING:
            batch.phase, batch.cancelled_at_look = Phase.CANCELLING, batch.looks

    async def _run(self, batch: KeptBatch, run: Run, upto: int) -> None:
        while batch.todo and batch.total - len(batch.todo) < upto:
            custom_id, body = batch.todo.popleft()
            fate = self.fate_of(custom_id)
            if fate in ("expired", "cancelled"):
                batch.outcomes.append(Outcome(custom_id, unrun=fate))
            elif fate == "errored":
                batch.outcomes.append(Outcome(custom_id, status=500))
            else:
                self.ran[custom_id] += 1
                status, reply = await run(body)
                if fate != "missing":
                    batch.outcomes.append(Outcome(custom_id, status=status, reply=reply))

    def _end(self, batch: KeptBatch, phase: Phase) -> None:
        if batch.is_over:
            return
        batch.phase = phase
        if not self.is_silent_about_unrun:
            unrun = "expired" if phase is Phase.EXPIRED else "cancelled"
            batch.outcomes += [Outcome(custom_id, unrun=unrun) for custom_id, _ in batch.todo]
        batch.todo.clear()
        self.random.shuffle(batch.outcomes)
        if self.strays and batch.outcomes:
            batch.outcomes += [batch.outcomes[0], Outcome("nobody-sent-this", unrun="expired")]


async def lost(request: web.Request) -> web.Response:
    """Close the connection instead of answering."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
