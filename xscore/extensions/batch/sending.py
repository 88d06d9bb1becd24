"""Send planned requests as batches: as many as the vendor's limits, the queue there and the caps have room for.

    rendered -> marked, with its dollars reserved -> uploaded and created

There is one transaction before the vendor is called and one after, so a kill in between leaves a marked batch, which
the next pass looks for at the vendor. Requests without room stay planned and are sent after something was collected.
Trade-off: an input is rendered before its dollars are reserved, because its size is only known then.
"""

from decimal import Decimal
from functools import cached_property
from typing import IO

from msgspec.structs import replace

from xscore.cache.judgments import read_judgments
from xscore.costs.caps import describe_cap
from xscore.extensions.batch import batch_rows, job_rows
from xscore.extensions.batch.job_context import JobContext
from xscore.extensions.batch.job_rows import RequestName
from xscore.extensions.batch.records import Batch
from xscore.extensions.batch.rendering import BatchInput, BatchRenderer, batch_limits, open_input_file
from xscore.extensions.batch.vendor_batches import CERTAINLY_NOT_CREATED
from xscore.platform.errors import PromptTooLong, RequestRejected, UsageError
from xscore.platform.text import join_sentences
from xscore.scorer.repair import PackPrompt

LOST_TEXT = "unreadable: it left the store before it was judged"
DIVISOR_AFTER_FULL = 2
"""After a vendor refused a batch because too much waits, at most this part of it is sent."""


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
        return BatchRenderer(self.context.store, self.context.host, self.context.job, self.context.ledger.prices)

    async def send(self) -> bool:
        """Create one batch of planned requests; False: nothing could be sent. Raises leaves of ProviderError."""
        context = self.context
        self.held_back, self.over_budget = "", False
        planned = self._not_judged(job_rows.planned_requests(context.connection, context.job.id))
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
                return bool(filled.erased or filled.incomplete)
            await self._create(batch, lines)
            self.asked_again += filled.repeats
        return True

    def _not_judged(self, planned: list[RequestName]) -> list[RequestName]:
        """Settle requests of which everything was judged meanwhile, by a turn say; return the others."""
        connection, job = self.context.connection, self.context.job
        keys = batch_rows.judged_questions(connection, job)
        asks = job_rows.read_asks(connection, job.id, {ask for question, ask in planned if question in keys})
        judged = {
            (question, ask)
            for question, ask in planned
            if question in keys and self._is_judged(keys[question], asks[ask])
        }
        if judged:
            with self.context.lease.transaction() as connection:
                batch_rows.settle_requests(connection, job.id, judged)
        return [name for name in planned if name not in judged]

    def _is_judged(self, turn_key: str, ask: PackPrompt) -> bool:
        names = (turn_key, self.context.job.judge, 0)
        ways = {piece.content_hash for piece in ask.pieces}, {piece.memory for piece in ask.pieces}
        return any(len(read_judgments(self.context.connection, names, hashes)) == len(hashes) for hashes in ways)

    async def _create(self, batch: Batch, lines: IO[bytes]) -> None:
        host = self.context.host
        try:
            lines.seek(0)
            file_id = await host.upload(lines, mark=batch.mark)
            lines.seek(0)
            with self.context.lease.transaction() as connection:  # the upload may have taken long
                batch = batch_rows.update_batch(connection, batch, "marked", marked_at=self.context.clock())
            seen = await host.create(lines, mark=batch.mark, file_id=file_id, requests=batch.requests)
        except CERTAINLY_NOT_CREATED as error:
            counts = isinstance(
                error, RequestRejected | PromptTooLong
            )  # the input is at fault, which time will not mend
            with self.context.lease.transaction() as connection:
                batch_rows.fail_batch(connection, batch, f"{error.kind}: {error.message}", counts=counts)
            raise
        with self.context.lease.transaction() as connection:
            batch_rows.record_created(connection, batch, seen, file_id=file_id)

    def _render(self, lines: IO[bytes], planned: list[RequestName], mark: str) -> BatchInput:
        context = self.context
        limits = batch_limits(context.host.limits, context.settings.batch, context.store)
        refused = batch_rows.smallest_refused(context.connection, context.job.id)
        if refused is not None:  # the vendor's queue was full: send less, and one batch at a time
            if batch_rows.read_batches(context.connection, context.job.id, only_open=True):
                self.held_back = "the vendor had no room for more"
                return BatchInput()
            limits = replace(limits, requests=max(1, min(limits.requests, refused // DIVISOR_AFTER_FULL)))
        tightest = context.ledger.tightest_cap(context.connection, now=context.clock())
        usd = None if tightest is None else max(Decimal(0), tightest.left_usd)
        filled = self._renderer.fill(lines, planned, mark=mark, limits=replace(limits, usd=usd))
        if not filled.taken and filled.limit:
            self._hold_back(filled.limit)
        return filled

    def _mark(self, filled: BatchInput, number: int, mark: str) -> Batch | None:
        """Record a batch and reserve its dollars, in one transaction; None: there is nothing to send."""
        context = self.context
        with context.lease.transaction() as connection:
            batch_rows.lose_requests(connection, context.job.id, dict.fromkeys(filled.erased, LOST_TEXT))
            for ask, found in filled.incomplete.items():
                job_rows.replan_without_text(connection, context.job.id, ask, found, cause=LOST_TEXT)
            now = context.clock()
            if not filled.taken or batch_rows.is_job_stopped(connection, context.job.id):
                return None
            if not context.ledger.reserve(connection, mark, filled.most_usd or Decimal(0), now=now):
                self._hold_back("dollars")  # another process has spent in the meantime
                return None
            size = len(filled.taken), filled.bytes, filled.input_tokens
            batch = Batch(context.job.id, number, mark, "marked", now, *size)
            batch_rows.insert_batch(connection, batch, filled.taken)
            return batch

    def _hold_back(self, limit: str) -> None:
        if limit == "dollars":
            tightest = self.context.ledger.tightest_cap(self.context.connection, now=self.context.clock())
            self.held_back = "no request fits " + (describe_cap(tightest) if tightest else "the caps")
            self.over_budget = True
        else:
            self.held_back = f"not one request fits a batch's limit of {limit} (batch.max_{limit})"
