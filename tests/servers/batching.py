"""Shared by loopback Batch APIs: batches that advance when polled, never by the clock, and their
faults.

`server.batches` holds the knobs and the counts. A request of a batch is judged by the very code
that answers live calls, and `server.misbehave` spoils it as it would those. Words, paths and files
of a vendor are its own server's.
"""

import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from enum import StrEnum
from math import ceil
from typing import Any, ClassVar

from aiohttp import web
from msgspec import Struct, field

from tests.servers.faults import Fault, cut
from tests.servers.loopback import LoopbackServer

Run = Callable[[dict[str, Any]], Awaitable[tuple[int, dict[str, Any]]]]
"""Judges one request's body; returns status and reply."""


class Step(StrEnum):
    """An operation of a Batch API."""

    UPLOAD = "upload"
    CREATE = "create"
    LOOK = "look"
    LIST = "list"
    CANCEL = "cancel"
    RESULTS = "results"


class BatchFault(StrEnum):
    """A fault of an operation."""

    LOST = "it is done, and the connection closed before its answer"
    BUSY = "429, not done"
    FAILED = "500, not done"
    CUT = "half of the results, then closed"


class Phase(StrEnum):
    """The state of a batch."""

    WORKING = "working"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Outcome(Struct, frozen=True):
    """The result of one request."""

    custom_id: str
    unrun: str = ""
    """`expired` or `cancelled`; empty if it ran."""
    status: int = 200
    reply: dict[str, Any] = field(default_factory=dict)


class StoredBatch(Struct):
    """One stored batch."""

    id: str
    created_at: float
    todo: deque[tuple[str, dict[str, Any]]]
    total: int
    tokens: int
    mark: dict[str, str] = field(default_factory=dict)
    file_id: str = ""
    failure: tuple[str, int | None] | None = None
    """Code and line of the error in its input."""
    phase: Phase = Phase.WORKING
    looks: int = 0
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether its state is final."""
        return self.phase not in (Phase.WORKING, Phase.CANCELLING)


class BatchTable:
    """All batches of one server; attributes may change while it runs."""

    def __init__(self) -> None:
        self.looks_until_done = 2
        """Polls of a batch until it has ended."""
        self.expires_at_look: int | None = None
        """The poll at which a batch expires."""
        self.enqueued_tokens: int | None = None
        """Input tokens of unfinished batches."""
        self.is_silent_about_unrun = False
        """Requests that did not run are missing from the results."""
        self.strays = False
        """Results contain an unknown id, and one id twice."""
        self.fate_of: Callable[[str], str | None] = lambda custom_id: None
        """custom_id -> `expired`, `cancelled`, `errored`, `missing`, or None: it is judged."""
        self.clock: Callable[[], float] = time.time
        self.random = random.Random(6)
        self.all: dict[str, StoredBatch] = {}
        self.created = 0
        self.uploaded = 0
        self.asked: Counter[Step] = Counter()
        """How often each operation was requested, faults included."""
        self.ran: Counter[str] = Counter()
        """custom_id -> how often it ran, over all batches."""
        self._troubles: dict[Step, deque[BatchFault]] = {step: deque() for step in Step}

    def trouble(self, step: Step, trouble: BatchFault, *, times: int = 1) -> None:
        """Queue a fault for the next `times` of this operation."""
        self._troubles[step].extend([trouble] * times)

    def strikes(self, step: Step) -> BatchFault | None:
        """Count an operation, and return its fault."""
        self.asked[step] += 1
        return self._troubles[step].popleft() if self._troubles[step] else None

    def add(
        self, requests: list[tuple[str, dict[str, Any]]], *, tokens: int, name: str
    ) -> StoredBatch:
        """Store a new batch."""
        self.created += 1
        batch = StoredBatch(
            f"{name}_{self.created:04}", self.clock(), deque(requests), len(requests), tokens
        )
        self.all[batch.id] = batch
        return batch

    def waiting_tokens(self) -> int:
        """Return the tokens of unfinished batches."""
        return sum(batch.tokens for batch in self.all.values() if not batch.is_over)

    def page(
        self, entries: list[Any], request: web.Request, *, cursor: str
    ) -> tuple[list[Any], bool]:
        """Return the requested page of the list, newest first, and whether there is more."""
        limit = int(request.query.get("limit", "20"))
        newest = entries[::-1]
        after = request.query.get(cursor)
        start = (
            next((at for at, entry in enumerate(newest, 1) if entry.id == after), 0)
            if after
            else 0
        )
        return newest[start : start + limit], start + limit < len(newest)

    async def advance(self, batch: StoredBatch, run: Run) -> None:
        """Advance a polled batch."""
        if batch.is_over:
            return
        batch.looks += 1
        if batch.failure is not None:
            batch.phase = Phase.FAILED
        elif batch.phase is Phase.CANCELLING:
            self._end(batch, Phase.CANCELLED)
        elif batch.looks == self.expires_at_look:
            self._end(batch, Phase.EXPIRED)
        else:
            last_run = (
                max(1, self.looks_until_done - 1)
                if self.looks_until_done > 2
                else self.looks_until_done
            )
            await self._run(batch, run, ceil(batch.total * min(1.0, batch.looks / last_run)))
            if batch.looks >= self.looks_until_done:
                self._end(batch, Phase.COMPLETED)

    def cancel(self, batch: StoredBatch) -> None:
        """Cancel a batch, effective at the next poll."""
        if batch.phase is Phase.WORKING:
            batch.phase = Phase.CANCELLING

    async def _run(self, batch: StoredBatch, run: Run, upto: int) -> None:
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

    def _end(self, batch: StoredBatch, phase: Phase) -> None:
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


Handler = Callable[[web.Request], Awaitable[web.Response]]


class BatchServer(LoopbackServer):
    """Common to both vendors' Batch APIs, as a mixin for either dialect's server."""

    cursor: ClassVar[str]
    """The query parameter with the last batch of the previous page."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.batches = BatchTable()

    def shown(self, batch: StoredBatch) -> dict[str, Any]:
        """Return a batch as the vendor shows it."""
        raise NotImplementedError

    def shown_page(
        self, data: list[dict[str, Any]], ends: dict[str, Any], *, has_more: bool
    ) -> dict[str, Any]:
        """Return a page of the list of batches. ends: the ids of its first and last, if any."""
        raise NotImplementedError

    def already_over(self, batch: StoredBatch) -> web.Response:
        """Refuse to cancel a batch that has ended."""
        raise NotImplementedError

    def at(
        self, step: Step, handler: Handler
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Apply this operation's fault before or after its handler."""

        async def answered(request: web.Request) -> web.StreamResponse:
            await (request.post() if step is Step.UPLOAD else request.read())
            struck = self.struck(step, request)
            if isinstance(struck, web.Response):
                return struck
            response = await handler(request)
            if response.status != 200 or struck is None:
                return response
            if struck is BatchFault.CUT:
                assert isinstance(response.body, bytes)
                return await cut(request, response.body)
            assert request.transport is not None
            request.transport.abort()
            return web.Response()

        return answered

    def struck(self, step: Step, request: web.Request) -> BatchFault | web.Response | None:
        """Count an operation; return its refusal, or wrap its answer."""
        if not self._key_fits(request):
            return self._wrong_key()
        trouble = self.batches.strikes(step)
        if trouble is BatchFault.BUSY:
            return self._by_status(Fault.RATE_LIMITED)
        return self._by_status(Fault.SERVER_ERROR) if trouble is BatchFault.FAILED else trouble

    async def list_batches(self, request: web.Request) -> web.Response:
        """Return a page of the batches, newest first."""
        page, has_more = self.batches.page(
            list(self.batches.all.values()), request, cursor=self.cursor
        )
        data = [self.shown(batch) for batch in page]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {}
        return web.json_response(self.shown_page(data, ends, has_more=has_more))

    async def look(self, request: web.Request) -> web.Response:
        """Advance and show the batch."""
        batch = self.batches.all.get(request.match_info["id"])
        if batch is None:
            return self.problem(404, "No batch found.", None)
        await self.batches.advance(batch, lambda body: self.judge(request, body))
        return web.json_response(self.shown(batch))

    async def cancel(self, request: web.Request) -> web.Response:
        """Cancel the batch."""
        batch = self.batches.all.get(request.match_info["id"])
        if batch is None:
            return self.problem(404, "No batch found.", None)
        if batch.is_over:
            return self.already_over(batch)
        self.batches.cancel(batch)
        return web.json_response(self.shown(batch))
