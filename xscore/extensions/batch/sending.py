"""Send planned requests as batches: as many as the vendor's limits, the queue there and the caps have room for.

    rendered -> marked, with its dollars reserved -> uploaded -> created

Each arrow but the first is followed by a transaction, so that a kill leaves a batch that the machine can settle. What
has no room stays planned and goes out after something was collected. Trade-off: an input is rendered before it is known
whether its dollars can still be reserved, because only then are its bytes known.
"""

import io
import sqlite3
from decimal import Decimal
from functools import cached_property
from typing import IO

from msgspec.structs import replace

from xscore.cache.judgments import read_judgments
from xscore.costs.budget_messages import describe_cap
from xscore.extensions.batch import batch_rows, job_rows
from xscore.extensions.batch.job_context import JobContext
from xscore.extensions.batch.job_rows import BatchJob, RequestName
from xscore.extensions.batch.records import Batch
from xscore.extensions.batch.rendering import (
    LEFT_THE_STORE,
    BatchInput,
    BatchRenderer,
    BatchRoom,
    effective_batch_limits,
    is_encrypted,
    open_input_file,
)
from xscore.extensions.batch.vendor import CERTAINLY_NOT_CREATED
from xscore.platform.errors import PromptTooLong, ProviderError, RequestRejected, UsageError
from xscore.platform.text import join_sentences
from xscore.scorer.repair import PackPrompt

LOST_TEXT = f"unreadable: {LEFT_THE_STORE}"
NOT_SENT = "not created: "
"""Prefix of the problem of a marked batch of which the vendor certainly has nothing."""
DIVISOR_AFTER_FULL = 2
"""After a vendor refused a batch because too much waits, at most this part of it is sent."""


def judged_requests(connection: sqlite3.Connection, job: BatchJob, requests: list[RequestName]) -> list[RequestName]:
    """Return those of these requests of which everything is judged."""
    judged = batch_rows.judged_questions(connection, job)
    there = [name for name in requests if name[0] in judged]
    asks = job_rows.read_asks(connection, job.id, {ask for _, ask in there}) if there else {}
    return [(question, ask) for question, ask in there if _is_judged(connection, job, judged[question], asks[ask])]


def _is_judged(connection: sqlite3.Connection, job: BatchJob, turn_key: str, ask: PackPrompt) -> bool:
    names = (turn_key, job.judge, 0)
    hashes = {piece.content_hash for piece in ask.pieces}
    whole = {piece.memory for piece in ask.pieces}
    return any(len(read_judgments(connection, names, each)) == len(each) for each in (hashes, whole))


class BatchSender:
    """Creates the batches of one job."""

    def __init__(self, context: JobContext) -> None:
        self.context = context
        self.held_back = ""
        """Why planned requests were not sent; empty if all were."""
        self.over_budget = False
        self.asked_again = 0
        """Prompts sent beyond the first of their pack."""

    @cached_property
    def _renderer(self) -> BatchRenderer:
        return BatchRenderer(self.context.store, self.context.host, self.context.job)

    async def send(self) -> bool:
        """Create one batch of planned requests; False: nothing could be sent. Raises leaves of ProviderError."""
        context = self.context
        self.held_back, self.over_budget = "", False
        planned = job_rows.planned_requests(context.connection, context.job.id)
        known = set(judged_requests(context.connection, context.job, planned))
        if known:  # everything of these was judged meanwhile, by a turn say
            with context.lease.transaction() as connection:
                batch_rows.settle_requests(connection, context.job.id, known)
            planned = [name for name in planned if name not in known]
        if not planned:
            return False
        number = batch_rows.next_number(context.connection, context.job.id)
        mark = batch_rows.batch_mark(context.job.id, number)
        with open_input_file(context.store) as lines:
            try:
                filled = self._render(lines, planned, mark)
            except UsageError as error:  # planned for another prompt: what was sent is still collected
                self.held_back = join_sentences(error.message, error.hint)
                return False
            batch = self._mark(filled, number, mark)
            if batch is None:
                return bool(filled.missing)
            await self._create(batch, lines)
        return True

    async def send_again(self, batch: Batch) -> bool:
        """Create a batch that was marked but never created; False: its job was stopped. Raises like `send`."""
        context = self.context
        if batch_rows.is_job_stopped(context.connection, context.job.id):
            return False
        if batch.file_id:
            await self._create(batch, io.BytesIO(), file_id=batch.file_id)
            return True
        with open_input_file(context.store) as lines:
            requests = job_rows.requests_of_batch(context.connection, context.job.id, batch.number)
            filled = self._renderer.fill(lines, requests, mark=batch.mark)
            with context.lease.transaction() as connection:
                batch_rows.lose_requests(connection, context.job.id, dict.fromkeys(filled.missing, LOST_TEXT))
                sizes = {"requests": len(filled.taken), "bytes": filled.bytes, "input_tokens": filled.input_tokens}
                batch = batch_rows.update_batch(connection, batch, "marked", **sizes, problem="")
                batch_rows.record_omitted(connection, batch, filled.omitted)
                if not filled.taken:
                    batch_rows.fail_batch(connection, batch, LEFT_THE_STORE, counts=False)
            if filled.taken:
                await self._create(batch, lines)
        return True

    async def _create(self, batch: Batch, lines: IO[bytes], *, file_id: str = "") -> None:
        context = self.context
        try:
            if not file_id:
                lines.seek(0)
                file_id = await context.host.upload(lines, mark=batch.mark)
                if file_id:
                    with context.lease.transaction() as connection:
                        batch = batch_rows.update_batch(connection, batch, "marked", file_id=file_id)
            lines.seek(0)
            seen = await context.host.create(lines, mark=batch.mark, file_id=file_id, requests=batch.requests)
        except CERTAINLY_NOT_CREATED as error:
            self._settle_uncreated(batch, error)
            raise
        with context.lease.transaction() as connection:
            batch_rows.record_created(connection, batch, seen)
        self.asked_again += batch_rows.count_follow_ups(context.connection, batch)

    def _settle_uncreated(self, batch: Batch, error: ProviderError) -> None:
        with self.context.lease.transaction() as connection:
            if error.retryable:
                batch_rows.update_batch(connection, batch, "marked", problem=f"{NOT_SENT}{error.kind}")
                return
            counts = isinstance(error, RequestRejected | PromptTooLong)
            batch_rows.fail_batch(connection, batch, f"{error.kind}: {error.message}", counts=counts)

    def _render(self, lines: IO[bytes], planned: list[RequestName], mark: str) -> BatchInput:
        context = self.context
        limits = effective_batch_limits(
            context.host.limits, context.settings.batch, encrypted=is_encrypted(context.store)
        )
        waiting = batch_rows.enqueued_tokens(context.connection, context.job.id)
        refused = batch_rows.smallest_refused_tokens(context.connection, context.job.id)
        learned = None if refused is None else refused // DIVISOR_AFTER_FULL
        most = [one for one in (limits.enqueued_tokens, learned) if one is not None]
        tightest = context.ledger.tightest_cap(context.connection, now=context.clock())
        room = BatchRoom(
            tokens=max(0, min(most) - waiting) if most else None,
            usd=None if tightest is None else max(Decimal(0), tightest.left_usd),
        )
        filled = self._renderer.fill(lines, planned, mark=mark, limits=limits, room=room)
        if not filled.taken and filled.limit == "tokens" and learned is not None and not waiting:
            # what we learned leaves room for no request at all: try a single one
            one, room = replace(limits, requests=1), room._replace(tokens=limits.enqueued_tokens)
            filled = self._renderer.fill(lines, planned, mark=mark, limits=one, room=room)
        if not filled.taken and filled.limit:
            self._hold_back(filled.limit, waiting, learned)
        return filled

    def _mark(self, filled: BatchInput, number: int, mark: str) -> Batch | None:
        """Record a batch and reserve its dollars, in one transaction; None: there is nothing to send."""
        context = self.context
        with context.lease.transaction() as connection:
            batch_rows.lose_requests(connection, context.job.id, dict.fromkeys(filled.missing, LOST_TEXT))
            now = context.clock()
            if not filled.taken or batch_rows.is_job_stopped(connection, context.job.id):
                return None
            if not context.ledger.reserve(connection, mark, filled.most_usd or Decimal(0), now=now):
                self._hold_back("dollars")  # another process has spent in the meantime
                return None
            size = len(filled.taken), filled.bytes, filled.input_tokens
            batch = Batch(context.job.id, number, mark, "marked", now, *size)
            batch_rows.insert_batch(connection, batch, filled.taken)
            batch_rows.record_omitted(connection, batch, filled.omitted)
            return batch

    def _hold_back(self, limit: str, waiting: int = 0, learned: int | None = None) -> None:
        if limit == "dollars":
            tightest = self.context.ledger.tightest_cap(self.context.connection, now=self.context.clock())
            self.held_back = "no request fits " + (describe_cap(tightest) if tightest else "the caps")
            self.over_budget = True
        elif limit == "tokens":
            why = "which had no room for more" if learned is not None else "and no more may (batch.enqueued_tokens)"
            self.held_back = f"{waiting:,} input tokens wait at the vendor, {why}"
        else:
            self.held_back = f"not one request fits a batch's limit of {limit} (batch.max_{limit})"
