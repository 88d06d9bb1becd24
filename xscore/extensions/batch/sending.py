"""Planned requests sent as batches: as many as the vendor's limits, what may wait there, and the caps have room for.

    rendered -> marked, with its dollars set aside -> uploaded -> created

Each arrow but the first is followed by a transaction, so that a kill leaves a batch that `finding` can settle. What has
no room stays planned and goes out when something was collected. Trade-off: an input is rendered before it is known
whether its dollars can still be set aside, because only then are its bytes known.

What is left of a job given over to live calls: what they judged is settled, and the rest is lost to the job.

It sends nothing. Requests at a vendor are left alone: they are paid for.
"""

import io
import sqlite3
from decimal import Decimal
from typing import IO

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.judgments import find_query, known_judgments
from xscore.costs.budget_messages import describe_cap
from xscore.extensions.batch import batch_costs, batch_rows, job_rows
from xscore.extensions.batch import batch_rows as job_steps
from xscore.extensions.batch.batch_rows import Batch
from xscore.extensions.batch.job_context import JobContext, JobLease
from xscore.extensions.batch.job_rows import BatchJob, RequestName
from xscore.extensions.batch.rendering import (
    LEFT_THE_STORE,
    BatchInput,
    BatchRenderer,
    BatchRoom,
    effective_batch_limits,
    open_input_file,
)
from xscore.extensions.batch.vendor import CERTAINLY_NOT_CREATED
from xscore.platform import sqlite_drivers
from xscore.platform.errors import PromptTooLong, ProviderError, RequestRejected, UsageError
from xscore.platform.text import join_sentences
from xscore.scorer.repair import PackPrompt

NOT_JUDGED_LIVE = "interrupted: it was left to live calls, which did not judge it"


def judged_requests(connection: sqlite3.Connection, job: BatchJob, requests: list[RequestName]) -> list[RequestName]:
    """Return those of these requests of which everything is judged."""
    judged = job_steps.judged_questions(connection, job)
    there = [name for name in requests if name[0] in judged]
    asks = job_rows.read_asks(connection, job.id, {ask for _, ask in there}) if there else {}
    return [(question, ask) for question, ask in there if _is_known(connection, job, judged[question], asks[ask])]


def settle_from_cache(lease: JobLease, connection: sqlite3.Connection, job: BatchJob, *, at: float) -> None:
    """Settle what is planned or lost by what the cache has now; what is planned still is given up.

    lease: held. at: Unix seconds. Raises StoreError where another process has taken the job over.
    """
    rows = connection.execute(
        "SELECT question, ask, state FROM job_request WHERE job = ? AND state IN ('planned', 'lost')", (job.id,)
    ).fetchall()
    known = set(judged_requests(connection, job, [(question, ask) for question, ask, _ in rows]))
    rest = {(question, ask): NOT_JUDGED_LIVE for question, ask, state in rows if state == "planned"}
    with lease.step() as opened:
        job_steps.settle_judged_elsewhere(opened, job.id, known)
        batch_rows.lose_requests(opened, job.id, {name: why for name, why in rest.items() if name not in known})
        job_steps.end_job_if_done(opened, job.id, at=at)


def _is_known(connection: sqlite3.Connection, job: BatchJob, turn_key: str, ask: PackPrompt) -> bool:
    names = (turn_key, job.judge, 0)
    query = find_query(connection, names)
    hashes = {piece.content_hash for piece in ask.pieces}
    whole = {piece.memory for piece in ask.pieces}
    if query is None:
        return False
    return any(len(known_judgments(connection, names, query, each)) == len(each) for each in (hashes, whole))


LOST_TEXT = f"unreadable: {LEFT_THE_STORE}"
NOT_SENT = "not created: "
"""Begins the problem of a marked batch of which the vendor certainly has nothing."""
DIVISOR_AFTER_FULL = 2
"""Where a vendor said that too much waits, no more than this part of it is sent from then on."""


class BatchSender(Struct):
    """Creates the batches of one job."""

    bench: JobContext
    held_back: str = ""
    """Why the rest of what is planned was not sent; empty: nothing is held back."""
    over_budget: bool = False
    _rendering: BatchRenderer | None = field(default=None)

    async def send(self) -> bool:
        """Create one batch of planned requests; False: nothing could be sent. Raises leaves of ProviderError."""
        bench = self.bench
        self.held_back, self.over_budget = "", False
        self._drop_known()
        planned = job_rows.planned_requests(bench.connection, bench.job.id)
        if not planned:
            return False
        number = batch_rows.next_number(bench.connection, bench.job.id)
        mark = batch_rows.batch_mark(bench.job.id, number)
        with open_input_file(bench.store) as lines:
            try:
                filled = self._filled(lines, planned, mark)
            except UsageError as error:  # planned for another prompt: what was sent is still collected
                self.held_back = join_sentences(error.message, error.hint)
                return False
            batch = self._marked(filled, number, mark)
            if batch is None:
                return bool(filled.gone)
            await self.bring(batch, lines)
        return True

    async def again(self, batch: Batch) -> bool:
        """Create a batch that was marked and never came to be; False: its job was stopped. Raises like `send`."""
        bench = self.bench
        if job_steps.is_job_stopped(bench.connection, bench.job.id):
            return False
        file_id = batch.file_id or await bench.host.find_file(mark=batch.mark, since=bench.since(batch))
        if file_id:
            await self._create(batch, io.BytesIO(), file_id)
            return True
        with open_input_file(bench.store) as lines:
            requests = job_rows.requests_of_batch(bench.connection, bench.job.id, batch.number)
            filled = self._render().fill(lines, requests, mark=batch.mark)
            with bench.lease.step() as connection:
                batch_rows.lose_requests(connection, bench.job.id, dict.fromkeys(filled.gone, LOST_TEXT))
                batch = batch_rows.record_resized(connection, batch, filled)
                batch_rows.record_omitted(connection, batch, filled)
                if not filled.taken:
                    batch_rows.record_failed(connection, batch, LEFT_THE_STORE, counts=False)
                    batch_costs.release_reservation(connection, batch.mark)
            if filled.taken:
                await self.bring(batch, lines)
        return True

    async def bring(self, batch: Batch, lines: IO[bytes]) -> None:
        """Upload and create a marked batch. Raises leaves of ProviderError."""
        lines.seek(0)
        try:
            file_id = await self.bench.host.upload(lines, mark=batch.mark)
        except CERTAINLY_NOT_CREATED as error:
            self._never_was(batch, error)
            raise
        if file_id:
            with self.bench.lease.step() as connection:
                batch = batch_rows.record_uploaded(connection, batch, file_id)
        lines.seek(0)
        await self._create(batch, lines, file_id)

    async def _create(self, batch: Batch, lines: IO[bytes], file_id: str) -> None:
        try:
            seen = await self.bench.host.create(lines, mark=batch.mark, file_id=file_id, requests=batch.requests)
        except CERTAINLY_NOT_CREATED as error:
            self._never_was(batch, error)
            raise
        with self.bench.lease.step() as connection:
            batch_rows.record_created(connection, batch, seen)

    def _never_was(self, batch: Batch, error: ProviderError) -> None:
        """Note that the vendor has nothing: what may pass later is tried again as it is, the rest is planned anew."""
        with self.bench.lease.step() as connection:
            if error.retryable:
                batch_rows.set_marked_problem(connection, batch, f"{NOT_SENT}{error.kind}")
                return
            counts = isinstance(error, RequestRejected | PromptTooLong)
            batch_rows.record_failed(connection, batch, f"{error.kind}: {error.message}", counts=counts)
            batch_costs.release_reservation(connection, batch.mark)

    def _filled(self, lines: IO[bytes], planned: list[RequestName], mark: str) -> BatchInput:
        bench = self.bench
        limits = effective_batch_limits(
            bench.host.limits, bench.settings.batch, is_sealed=sqlite_drivers.read_note(bench.store.path) is not None
        )
        waiting = batch_rows.enqueued_tokens(bench.connection, bench.job.id)
        learned = self._learned()
        most = [one for one in (limits.enqueued_tokens, learned) if one is not None]
        tightest = bench.purse.tightest(bench.connection, now=bench.clock())
        room = BatchRoom(
            tokens=max(0, min(most) - waiting) if most else None,
            usd=None if tightest is None else max(Decimal(0), tightest.left_usd),
        )
        filled = self._render().fill(lines, planned, mark=mark, limits=limits, room=room)
        if not filled.taken and filled.full_of == "tokens" and learned is not None and not waiting:
            one, room = replace(limits, requests=1), room._replace(tokens=limits.enqueued_tokens)
            filled = self._render().fill(lines, planned, mark=mark, limits=one, room=room)
        if not filled.taken and filled.full_of:
            self._hold_back(filled.full_of, waiting, learned)
        return filled

    def _marked(self, filled: BatchInput, number: int, mark: str) -> Batch | None:
        """Enter a batch and set its dollars aside, in one transaction; None: there is nothing to send."""
        bench = self.bench
        with bench.lease.step() as connection:
            batch_rows.lose_requests(connection, bench.job.id, dict.fromkeys(filled.gone, LOST_TEXT))
            now = bench.clock()
            if not filled.taken or job_steps.is_job_stopped(connection, bench.job.id):
                return None
            if not bench.purse.set_aside(connection, mark, filled.most_usd or Decimal(0), now=now):
                self._hold_back("dollars")  # another process has spent meanwhile
                return None
            batch = Batch(
                job=bench.job.id,
                number=number,
                mark=mark,
                state="marked",
                marked_at=now,
                requests=len(filled.taken),
                bytes=filled.bytes,
                input_tokens=filled.input_tokens,
            )
            batch_rows.insert_batch(connection, batch, filled.taken)
            batch_rows.record_omitted(connection, batch, filled)
            return batch

    def _hold_back(self, full_of: str, waiting: int = 0, learned: int | None = None) -> None:
        if full_of == "dollars":
            tightest = self.bench.purse.tightest(self.bench.connection, now=self.bench.clock())
            self.held_back = "no request fits " + (describe_cap(tightest) if tightest else "the caps")
            self.over_budget = True
        elif full_of == "tokens" and learned is not None:
            self.held_back = f"{waiting:,} input tokens wait at the vendor, which had no room for more"
        elif full_of == "tokens":
            self.held_back = f"{waiting:,} input tokens wait at the vendor, and no more may (batch.enqueued_tokens)"
        else:
            self.held_back = f"not one request fits a batch's limit of {full_of} (batch.max_{full_of})"

    def _learned(self) -> int | None:
        """Return how much may wait by what the vendor refused to let wait; None: it refused nothing."""
        refused = batch_rows.smallest_refused_tokens(self.bench.connection, self.bench.job.id)
        return None if refused is None else refused // DIVISOR_AFTER_FULL

    def _drop_known(self) -> None:
        """Settle planned requests of which everything was judged meanwhile, by a turn say."""
        bench = self.bench
        known = judged_requests(bench.connection, bench.job, job_rows.planned_requests(bench.connection, bench.job.id))
        if known:
            with bench.lease.step() as connection:
                job_steps.settle_judged_elsewhere(connection, bench.job.id, known)

    def _render(self) -> BatchRenderer:
        if self._rendering is None:
            self._rendering = BatchRenderer(self.bench.store, self.bench.host, self.bench.job)
        return self._rendering
