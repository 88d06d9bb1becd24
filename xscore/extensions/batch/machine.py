"""A job taken as far as it goes just now: batches created, looked at and fetched, until only the vendor can go on.

A pass settles what an earlier one left in doubt, looks at what is under way, collects what has ended, and sends what
fits of the planned requests; again while something moved. Every step is one transaction of the store, so that a kill
anywhere leaves a state from which the next pass goes on. One process at a time takes a job further (`job_lease`).
Trade-off: a step that fails ends its kind for this pass, so that a host in trouble is not asked a hundred times over.

Batches that were marked and whose creation was never heard of: found at the vendor, or known not to be there.

OpenAI keeps our mark, so a batch of ours is known for certain. Anthropic keeps none: a batch with as many requests,
created since, that no row of ours names, may be it; once it has ended the ids of its results tell. Only when nothing
there can be ours, and a minute has passed in which a slow vendor may still have listed it, is it created again.
Trade-off: a stranger's batch of the same size is waited for.

What of a job is given up: what a cancelled one has planned, batches that never came to be, batches that are lost.

None of it asks the vendor, so that a job whose host is gone can still be ended. A lost batch may have been billed: what
it may have cost at most is charged. Trade-off: a batch that is given up is never fetched, though it may turn up again.
"""

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from xscore.extensions.batch import batch_costs, batch_rows, job_rows, job_status
from xscore.extensions.batch import batch_rows as job_steps
from xscore.extensions.batch.batch_costs import BatchLedger, BatchPrices, BatchReservation
from xscore.extensions.batch.batch_rows import Batch
from xscore.extensions.batch.collecting import CHUNK, ResultCollector, request_of_custom_id
from xscore.extensions.batch.job_context import JobContext, JobLease
from xscore.extensions.batch.job_rows import BatchJob
from xscore.extensions.batch.sending import NOT_SENT, BatchSender
from xscore.extensions.batch.vendor import BatchHost
from xscore.platform.errors import NoBatchApi, ProviderError, RequestRejected, UnreadableResponse
from xscore.platform.text import join_sentences
from xscore.records.batch import BatchState, JobStatus, VendorBatch
from xscore.settings import BudgetSettings, Settings
from xscore.store.store import Store

OUR_CUSTOM_ID = re.compile(r"xs_[0-9a-f]+_\d+-q\d+-a\d+")
LISTING_DELAY_S = 60.0
"""A vendor lists a batch this long after it was created at the latest."""


async def is_batch_missing(bench: JobContext, batch: Batch) -> bool:
    """Look for a marked batch; enter it where it is found. True: it certainly is not there.

    False also where it may yet turn up: look again later. Raises leaves of ProviderError.
    """
    if batch.problem.startswith(NOT_SENT):
        return True
    found = await bench.host.find(mark=batch.mark, since=bench.since(batch), requests=batch.requests)
    certain = [seen for seen in found if seen.mark == batch.mark]
    known = batch_rows.known_vendor_ids(bench.connection)
    strange = [seen for seen in found if not seen.mark and seen.vendor_id not in known]
    candidates = [] if certain else [await bench.host.look(seen.vendor_id) for seen in strange]
    mine = certain[0] if certain else await _recognised(bench, batch, candidates)
    if mine is not None:
        with bench.lease.step() as connection:
            batch_rows.record_created(connection, batch, mine)
        return False
    may_be_ours = any(seen.state in (BatchState.WORKING, BatchState.CANCELLING) for seen in candidates)
    return not may_be_ours and bench.clock() - batch.marked_at >= LISTING_DELAY_S


async def _recognised(bench: JobContext, batch: Batch, candidates: Sequence[VendorBatch]) -> VendorBatch | None:
    """Return the candidate whose results bear our mark.

    Raises UnreadableResponse where one has results and not an id among them can be read: it may be ours.
    """
    for seen in candidates:
        if seen.state is not BatchState.ENDED:
            continue
        async with aclosing(bench.host.results(seen, model=bench.job.recipe.model.name)) as results:
            ids = 0
            async for result in results:
                ids += bool(result.custom_id)
                if request_of_custom_id(result.custom_id, batch.mark) is not None:
                    return seen
                if OUR_CUSTOM_ID.fullmatch(result.custom_id):
                    break  # another batch of xscore's
        if seen.requests and not ids:
            raise UnreadableResponse(
                f"batch {seen.vendor_id} may be ours, and none of its results can be read",
                hint="The next `xscore batch collect` tries again.",
            )
    return None


CANCELLED_JOB = "interrupted: the job was cancelled"
NEVER_CREATED = "it was given up before the vendor had it"
ABANDONED = "given up as lost, at what it may have cost at most"


async def settle_without_vendor(
    store: Store, job_id: str, *, send: bool = True, clock: Callable[[], float] = time.time
) -> bool:
    """Give up what can be without the vendor, and say whether the vendor is needed to take the job further.

    send: false means that nothing is to be sent, so that a batch that certainly never came to be is planned again.
    """
    connection = store.connection
    async with JobLease(connection, job_id, clock=clock) as lease:
        if not lease.is_ours:
            return True
        job = job_rows.read_job(connection, job_id)
        sends = send and job.stopped_at is None
        for batch in batch_rows.read_batches(connection, job_id, only_open=True):
            if not sends and batch.state == "marked" and batch.problem.startswith(NOT_SENT):
                replan_uncreated_batch(lease, batch)
        lose_planned_if_cancelled(lease, store, job)
        with lease.step() as opened:
            job_steps.end_job_if_done(opened, job_id, at=clock())
        is_open = bool(batch_rows.read_batches(connection, job_id, only_open=True))
        return is_open or (sends and bool(job_rows.planned_requests(connection, job_id)))


async def abandon_all_batches(
    store: Store, budget: BudgetSettings, job_id: str, *, clock: Callable[[], float] = time.time
) -> None:
    """Give up every batch of a job whose host cannot be used at all."""
    async with JobLease(store.connection, job_id, clock=clock) as lease:
        if not lease.is_ours:
            return
        job = job_rows.read_job(store.connection, job_id)
        for batch in batch_rows.read_batches(store.connection, job_id, only_open=True):
            abandon_batch(lease, store, batch, batch_ledger_of(job, budget))
    await settle_without_vendor(store, job_id, clock=clock)


def batch_ledger_of(job: BatchJob, budget: BudgetSettings) -> BatchLedger:
    """Return what enters the costs of a job's batches."""
    recipe = job.recipe
    tariff = BatchPrices(recipe.provider, recipe.model.name, recipe.host)
    return BatchLedger(tariff, BatchReservation.of(job.id, job.max_usd, budget))


def abandon_batch(lease: JobLease, store: Store, batch: Batch, ledger: BatchLedger) -> None:
    """Give up a batch that may be at the vendor: its requests are charged at their bound, and planned again."""
    left = job_rows.requests_of_batch(store.connection, batch.job, batch.number)
    asks = job_rows.read_asks(store.connection, batch.job, {ask for _, ask in left}) if left else {}
    with lease.step() as connection:
        ledger.enter_unread(connection, batch, {name: len(asks[name[1]].pieces) for name in left})
        batch_rows.record_failed(connection, batch, ABANDONED, counts=True)
        batch_costs.release_reservation(connection, batch.mark)


def replan_uncreated_batch(lease: JobLease, batch: Batch) -> None:
    """Plan again what went with a batch that certainly never came to be."""
    with lease.step() as connection:
        batch_rows.record_failed(connection, batch, NEVER_CREATED, counts=False)
        batch_costs.release_reservation(connection, batch.mark)


def lose_planned_if_cancelled(lease: JobLease, store: Store, job: BatchJob) -> None:
    """Give up what a cancelled job has planned."""
    planned = job_rows.planned_requests(store.connection, job.id) if job.stopped_at is not None else []
    if planned:
        with lease.step() as connection:
            batch_rows.lose_requests(connection, job.id, dict.fromkeys(planned, CANCELLED_JOB))


BUSY_ELSEWHERE = "another process is taking this job further just now"


async def advance_at_vendor(
    store: Store,
    settings: Settings,
    host: BatchHost,
    job_id: str,
    *,
    send: bool = True,
    forget: bool = False,
    chunk: int = CHUNK,
    clock: Callable[[], float] = time.time,
    note: Callable[[str], None] = lambda _: None,
) -> JobStatus:
    """Take a job as far as it goes without waiting for the vendor, and say how it stands.

    send: false sends nothing that was not sent yet. forget: give up batches of which the vendor cannot tell. chunk:
    results entered in one transaction. note: told what moves.
    A host that fails is no exception: it is said in the standing, with all that was done until then kept.
    Raises NothingMatched for an unknown job, StoreError.
    """
    async with JobLease(store.connection, job_id, clock=clock) as lease:
        if not lease.is_ours:
            return replace(job_status.job_status(store.connection, job_id), problem=BUSY_ELSEWHERE)
        job = job_rows.read_job(store.connection, job_id)
        purse = BatchReservation.of(job.id, job.max_usd, settings.budget)
        bench = JobContext(store=store, settings=settings, host=host, job=job, lease=lease, purse=purse, clock=clock)
        machine = _JobPass(bench, note, sends=send and job.stopped_at is None, forgets=forget, chunk=chunk)
        while await machine.moves():
            continue
        with lease.step() as connection:
            job_steps.end_job_if_done(connection, job.id, at=clock())
        return machine.standing()


@dataclass(slots=True)
class _JobPass:
    """One pass over a job."""

    bench: JobContext
    note: Callable[[str], None]
    sends: bool
    forgets: bool
    chunk: int
    sender: BatchSender = field(init=False)
    collector: ResultCollector = field(init=False)
    ledger: BatchLedger = field(init=False)
    problems: list[ProviderError] = field(default_factory=list)
    spared: set[int] = field(default_factory=set)
    """Batches that are left alone for the rest of this pass."""
    working: set[int] = field(default_factory=set)
    """Batches that the vendor knows, and has not ended."""

    def __post_init__(self) -> None:
        job = self.bench.job
        self.ledger = batch_ledger_of(job, self.bench.settings.budget)
        self.sender = BatchSender(self.bench)
        self.collector = ResultCollector(self.bench.store, self.bench.lease, job, self.ledger, chunk=self.chunk)

    async def moves(self) -> bool:
        """Take every batch one step further, and send another; False: nothing moved."""
        lose_planned_if_cancelled(self.bench.lease, self.bench.store, self.bench.job)
        moved = False
        for batch in batch_rows.read_batches(self.bench.connection, self.bench.job.id, only_open=True):
            if batch.number not in self.spared:
                moved = await self._tried(partial(self._step, batch), batch) or moved
        if self.sends:
            moved = await self._tried(self._send) or moved
        return moved

    def standing(self) -> JobStatus:
        """Say how the job stands after this pass."""
        found = job_status.job_status(self.bench.connection, self.bench.job.id)
        faults = self.collector.verdicts.faults.in_words()
        said = (f"the judge's replies needed mending: {faults}",) if faults else ()
        worst = min(self.problems, key=lambda error: error.retryable, default=None)
        return replace(
            found,
            held_back=self.sender.held_back if found.planned else "",
            over_budget=self.sender.over_budget and bool(found.planned),
            problem=join_sentences(worst.message, worst.hint, self._way_out(worst)) if worst else "",
            is_unusable=worst is not None and worst.stops_run,
            remarks=(*said, *self.collector.strays.in_words()),
        )

    def _way_out(self, worst: ProviderError) -> str:
        """Say how to end a job whose batch may never be told of."""
        is_lost = isinstance(worst, RequestRejected | UnreadableResponse | NoBatchApi) and bool(self.spared)
        return f"`xscore batch cancel {self.bench.job.id} --forget` gives up what it cannot tell of" if is_lost else ""

    async def _tried(self, step: Callable[[], Awaitable[bool]], batch: Batch | None = None) -> bool:
        """Take a step; where the host fails, leave its batch alone for the rest of the pass, or send nothing more."""
        try:
            return await step()
        except ProviderError as error:
            if batch is not None and self.forgets and batch.number not in self.working:
                abandon_batch(self.bench.lease, self.bench.store, batch, self.ledger)
                return True
            self.problems.append(error)
            self.spared |= {batch.number} if batch is not None else set()
            self.sends = self.sends and batch is not None
            return False

    async def _send(self) -> bool:
        moved = await self.sender.send()
        if moved:
            self.note("a batch was sent")
        return moved

    async def _step(self, batch: Batch) -> bool:
        match batch.state:
            case "marked":
                return await self._settle(batch)
            case "created":
                return await self._look(batch)
            case _:
                return await self._collect(batch, await self.bench.host.look(batch.vendor_id))

    async def _settle(self, batch: Batch) -> bool:
        """Settle whether a marked batch is there, and create it where it is not."""
        self.spared.add(batch.number)
        if not await is_batch_missing(self.bench, batch):
            is_found = any(
                one.number == batch.number and one.state != "marked"
                for one in batch_rows.read_batches(self.bench.connection, batch.job, only_open=True)
            )
            self.spared -= {batch.number} if is_found else set()
            return is_found
        if self.sends:
            is_settled = await self.sender.again(batch)
            self.spared -= {batch.number} if is_settled else set()
            return is_settled
        if self.bench.job.stopped_at is not None:
            replan_uncreated_batch(self.bench.lease, batch)
            return True
        return False

    async def _look(self, batch: Batch) -> bool:
        seen = await self.bench.host.look(batch.vendor_id)
        if seen.state in (BatchState.WORKING, BatchState.CANCELLING):
            self.working.add(batch.number)
        if self.bench.job.stopped_at is not None and seen.state is BatchState.WORKING:
            seen = await self.bench.host.cancel(batch.vendor_id)
        now = self.bench.clock()
        with self.bench.lease.step() as connection:
            batch_rows.record_status(connection, batch, seen, at=now)
            batch_costs.renew_reservation(connection, batch.mark, now=now)
            if seen.state is BatchState.ENDED:
                batch_rows.record_ended(connection, batch)
        if seen.state is BatchState.ENDED:
            return await self._collect(replace(batch, state="ended"), seen)
        if seen.state is BatchState.FAILED:
            is_full = "rate_limited" in seen.tells
            problem = f"{batch_rows.QUEUE_FULL}{seen.problem}" if is_full else seen.problem or "it failed at the vendor"
            self._fail(batch, problem, counts=not is_full)
            self.sends = False  # the next pass tries again
            return True
        self.spared.add(batch.number)
        return False

    async def _collect(self, batch: Batch, seen: VendorBatch) -> bool:
        await self.collector.collect(batch, self.bench.host, seen)
        self.note(f"batch {batch.number} is in")
        return True

    def _fail(self, batch: Batch, problem: str, *, counts: bool) -> None:
        with self.bench.lease.step() as connection:
            batch_rows.record_failed(connection, batch, problem, counts=counts)
            batch_costs.release_reservation(connection, batch.mark)
