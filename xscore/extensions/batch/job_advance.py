"""Advance a job: create, poll and fetch its batches, until only the vendor can continue.

A pass settles what an earlier one left in doubt, polls running batches, collects ended ones, and
sends what fits; it repeats while something changed. Every step is one transaction, so that a kill
leaves a state to resume from. OpenAI stores our mark, so our batches are found by it. Anthropic
stores none: ours are found by the ids in their results. Trade-off: after a failed step no other
step of its kind is tried in this pass, so that a failing host is not asked a hundred times.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache import capabilities
from xscore.extensions.batch import batch_rows, job_rows
from xscore.extensions.batch.batch_rows import job_status
from xscore.extensions.batch.collecting import CHUNK, ResultCollector
from xscore.extensions.batch.job_context import BatchLedger, JobContext, job_lease
from xscore.extensions.batch.job_rows import BatchJob
from xscore.extensions.batch.records import (
    PURPOSES,
    Batch,
    JobStatus,
    StoredBatchState,
    VendorBatch,
    VendorBatchState,
)
from xscore.extensions.batch.sending import BatchSender
from xscore.extensions.batch.vendor_batches import batch_host
from xscore.extensions.batch.vendor_calls import BatchHost
from xscore.platform import database
from xscore.platform.errors import (
    NoBatchApi,
    ProviderError,
    RequestRejected,
    UnreadableResponse,
    UsageError,
)
from xscore.platform.text import join_sentences, one_line
from xscore.providers.provider import Adaptable
from xscore.providers.spec import connect_provider, parse_model_spec
from xscore.settings import Settings
from xscore.store.store import Store

LISTING_DELAY_S = 60.0
"""A vendor lists a batch at most this long after it was created."""
NEVER_CREATED = "the vendor never received it"
ABANDONED = "given up as lost, and charged at its upper bound"
BUSY_ELSEWHERE = "another process is working on this job right now"
RUNNING = (VendorBatchState.WORKING, VendorBatchState.CANCELLING)


async def advance_job(
    store: Store,
    settings: Settings,
    job_id: str,
    *,
    host: BatchHost | None = None,
    forget: bool = False,
    chunk: int = CHUNK,
    clock: Callable[[], float] = time.time,
    note: Callable[[str], None] = lambda _: None,
) -> JobStatus:
    """Advance a job as far as possible without waiting for the vendor, and return its status.

    host: None: that of the job's judge.
    forget: give up batches that the vendor cannot find.
    chunk: results per transaction.
    note: called with each change.
    A failing host raises nothing: the status says so, and earlier steps are kept. Raises
    NothingMatched, StoreError.
    """
    async with job_lease(store.connection, job_id, clock=clock) as lease:
        if not lease:
            return replace(job_status(store.connection, job_id), problem=BUSY_ELSEWHERE)
        job = job_rows.read_job(store.connection, job_id)
        ledger = BatchLedger.of(job, settings)
        context = JobContext(
            store=store, settings=settings, job=job, ledger=ledger, lease=lease, clock=clock
        )
        if not _needs_vendor(context):
            return job_status(store.connection, job_id)
        try:
            reached = host or batch_host_of_job(store, settings, job)
        except (ProviderError, UsageError) as error:
            # With --forget nothing is asked of the vendor, so a lost key or host does not matter.
            if forget:
                return _abandon_open_batches(context)
            return _unusable(context, error)
        try:
            run = _job_pass(context, reached, chunk=chunk, note=note, abandons=forget)
            return await _run_to_rest(run)
        finally:
            # A host that was handed in belongs to the caller.
            if host is None:
                await reached.aclose()


def _job_pass(
    context: JobContext,
    host: BatchHost,
    *,
    chunk: int,
    note: Callable[[str], None],
    abandons: bool,
) -> "_JobPass":
    """Return what advances a job: its requests are of one of two sorts."""
    if context.job.recipe.writes == PURPOSES:
        # Most jobs judge.
        from xscore.extensions.batch.purpose_jobs import PurposeCollector, PurposeRenderer

        sender = BatchSender(context, host, make_renderer=PurposeRenderer)
        collector: ResultCollector = PurposeCollector(
            context, host, chunk=chunk, make_renderer=PurposeRenderer
        )
    else:
        sender = BatchSender(context, host)
        collector = ResultCollector(context, host, chunk=chunk)
    return _JobPass(
        context=context,
        host=host,
        sender=sender,
        collector=collector,
        note=note,
        sends=context.job.stopped_at is None,
        abandons=abandons,
    )


def _unusable(context: JobContext, error: ProviderError | UsageError) -> JobStatus:
    status = job_status(context.connection, context.job.id)
    return replace(status, problem=join_sentences(error.message, error.hint), is_unusable=True)


async def _run_to_rest(run: "_JobPass") -> JobStatus:
    """Repeat the pass while something changes, and end the job if nothing is left of it."""
    context = run.context
    while await run.step_all():
        continue
    with context.transaction() as opened:
        batch_rows.end_job_if_done(opened, context.job.id, at=context.clock())
    return run.status()


def _abandon_open_batches(context: JobContext) -> JobStatus:
    job_id = context.job.id
    for batch in batch_rows.read_batches(context.connection, job_id, only_open=True):
        _abandon_batch(context, batch)
    _needs_vendor(context)
    return job_status(context.connection, job_id)


def batch_host_of_job(store: Store, settings: Settings, job: BatchJob) -> BatchHost:
    """Return the Batch API of a job's judge; nothing is sent yet.

    Raises UsageError where the settings lead to another host now, AuthenticationFailed where there
    is no key for it.
    """
    recipe = job.recipe
    provider = connect_provider(parse_model_spec(job.judge_spec), settings)
    host = batch_host(provider)
    if provider.host != recipe.host:
        name = one_line(provider.name)
        host_now = one_line(provider.host)
        raise UsageError(
            f"job {job.id} is at {one_line(recipe.host)}, and {name} leads to {host_now} now",
            hint=f"Set {name}.base_url as it was when the job was submitted.",
        )
    capability = capabilities.read_capability(
        store.connection, provider=recipe.provider, host=recipe.host, model=recipe.model.name
    )
    if capability is not None and isinstance(provider, Adaptable):
        provider.adopt(capability)  # bodies have the form of live calls
    return host


async def job_status_at_vendor(store: Store, settings: Settings, job: BatchJob) -> JobStatus:
    """Ask for the status of a job's batches, and return the job's; it reports a failing host."""
    problem = ""
    batches = batch_rows.read_batches(store.connection, job.id, only_open=True)
    if created := [batch for batch in batches if batch.state is StoredBatchState.CREATED]:
        try:
            async with aclosing(batch_host_of_job(store, settings, job)) as host:
                for batch in created:
                    vendor_batch = await host.look(batch.vendor_id)
                    with database.transaction(store.connection) as connection:
                        batch_rows.record_status(
                            connection, batch, vendor_batch, at=store.clock()
                        )
        except (ProviderError, UsageError) as error:
            problem = join_sentences(error.message, error.hint)
    return replace(job_status(store.connection, job.id), problem=problem)


def _needs_vendor(context: JobContext) -> bool:
    """Finish what needs no vendor, and return whether the vendor is needed to advance the job."""
    connection = context.connection
    job = context.job
    with context.transaction() as opened:
        batch_rows.lose_planned_if_stopped(opened, job.id)
        batch_rows.end_job_if_done(opened, job.id, at=context.clock())
    is_open = bool(batch_rows.read_batches(connection, job.id, only_open=True))
    return is_open or (
        job.stopped_at is None and bool(job_rows.planned_requests(connection, job.id))
    )


async def _recognised(
    host: BatchHost, batch: Batch, candidates: Sequence[VendorBatch], *, model: str
) -> VendorBatch | None:
    """Return the candidate whose results have our mark.

    Raises UnreadableResponse where no id among a candidate's results can be read: it may be ours.
    """
    for vendor_batch in candidates:
        if vendor_batch.state is not VendorBatchState.ENDED:
            continue
        async with aclosing(host.results(vendor_batch, model=model)) as results:
            ids = 0
            async for result in results:
                ids += bool(result.custom_id)
                if of := batch_rows.parse_custom_id(result.custom_id):
                    if of[0] == batch.mark:
                        return vendor_batch
                    break  # another batch of xscore's
        if vendor_batch.requests and not ids:
            raise UnreadableResponse(
                f"batch {vendor_batch.vendor_id} may be ours, but none of its results can be read",
                hint="The next `xscore batch collect` tries again.",
            )
    return None


def _abandon_batch(context: JobContext, batch: Batch) -> None:
    # The vendor may have run them: they are charged at their bound, then planned again.
    unanswered = job_rows.requests_of_batch(context.connection, batch.job, batch.number)
    with context.transaction() as connection:
        context.ledger.enter_unread(connection, batch, unanswered)
        batch_rows.fail_batch(connection, batch, ABANDONED, counts=True)


class _JobPass(Struct):
    context: JobContext
    host: BatchHost
    sender: BatchSender
    collector: ResultCollector
    note: Callable[[str], None]
    sends: bool
    abandons: bool
    problems: list[ProviderError] = field(default_factory=list)
    skipped: set[int] = field(default_factory=set)
    """Batches to skip in the rest of this pass."""
    running: set[int] = field(default_factory=set)

    async def step_all(self) -> bool:
        """Advance every batch by one step, and send another; False: nothing changed."""
        context = self.context
        with context.transaction() as connection:
            batch_rows.lose_planned_if_stopped(connection, context.job.id)
        moved = False
        for batch in batch_rows.read_batches(
            context.connection, context.job.id, only_open=True
        ):
            if batch.number not in self.skipped:
                moved = await self._try(partial(self._step, batch), batch) or moved
        if self.sends and await self._try(self.sender.send):
            self.note("a batch was sent")
            moved = True
        return moved

    def status(self) -> JobStatus:
        context = self.context
        status = job_status(context.connection, context.job.id)
        repaired = replace(
            self.collector.faults, asked_again=self.sender.asked_again
        ).warnings()
        worst = min(self.problems, key=lambda error: error.retryable, default=None)
        is_lost = isinstance(worst, RequestRejected | UnreadableResponse | NoBatchApi) and bool(
            self.skipped
        )
        forget_hint = ""
        if is_lost:
            cancel = f"`xscore batch cancel {context.job.id} --forget`"
            forget_hint = f"{cancel} gives up the batches that it cannot account for"
        if status.planned:
            status = replace(
                status, held_back=self.sender.held_back, over_budget=self.sender.over_budget
            )
        if worst is not None:
            problem = join_sentences(worst.message, worst.hint, forget_hint)
            status = replace(status, problem=problem, is_unusable=worst.stops_run)
        return replace(status, remarks=(*repaired, *self.collector.unmatched_in_words()))

    async def _try(
        self, step: Callable[[], Awaitable[bool]], batch: Batch | None = None
    ) -> bool:
        try:
            return await step()
        except ProviderError as error:
            if batch is not None and self.abandons and batch.number not in self.running:
                _abandon_batch(self.context, batch)
                return True
            self.problems.append(error)
            if batch is None:
                self.sends = False
            else:
                self.skipped.add(batch.number)
            return False

    async def _step(self, batch: Batch) -> bool:
        match batch.state:
            case StoredBatchState.MARKED:
                return await self._find_marked(batch)
            case StoredBatchState.CREATED:
                return await self._poll(batch)
            case _:
                return await self._collect(batch, await self.host.look(batch.vendor_id))

    async def _find_marked(self, batch: Batch) -> bool:
        """Find a marked batch at the vendor, or give it up if the vendor certainly has none: it is
        then resent."""
        context = self.context
        listed = await self.host.find(
            mark=batch.mark, since=batch.marked_at, requests=batch.requests
        )
        ours = next(
            (vendor_batch for vendor_batch in listed if vendor_batch.mark == batch.mark), None
        )
        may_be_ours = False
        # The vendor keeps no mark: any batch of this size that no job here knows may be ours.
        if ours is None:
            known_ids = batch_rows.known_vendor_ids(context.connection)
            unknown_ids = []
            for vendor_batch in listed:
                if not vendor_batch.mark and vendor_batch.vendor_id not in known_ids:
                    unknown_ids.append(vendor_batch.vendor_id)
            candidates = [await self.host.look(vendor_id) for vendor_id in unknown_ids]
            ours = await _recognised(
                self.host, batch, candidates, model=context.job.recipe.model.name
            )
            # It has no results to tell by yet.
            may_be_ours = any(vendor_batch.state in RUNNING for vendor_batch in candidates)
        if ours is not None:
            with context.transaction() as connection:
                batch_rows.record_created(connection, batch, ours)
            return True
        # `marked_at` is when `create` began, so its timeout counts too.
        may_appear_s = self.host.create_timeout_s(batch.bytes) + LISTING_DELAY_S
        if may_be_ours or context.clock() - batch.marked_at < may_appear_s:
            self.skipped.add(batch.number)
            return False
        with context.transaction() as connection:
            batch_rows.fail_batch(connection, batch, NEVER_CREATED, counts=False)
        return True

    async def _poll(self, batch: Batch) -> bool:
        context = self.context
        vendor_batch = await self.host.look(batch.vendor_id)
        if vendor_batch.state in RUNNING:
            self.running.add(batch.number)
        if (
            context.job.stopped_at is not None
            and vendor_batch.state is VendorBatchState.WORKING
        ):
            vendor_batch = await self.host.cancel(batch.vendor_id)
        now = context.clock()
        with context.transaction() as connection:
            batch = batch_rows.record_status(connection, batch, vendor_batch, at=now)
            context.ledger.renew(connection, batch.mark, now=now)
            if vendor_batch.state is VendorBatchState.ENDED:
                batch = batch_rows.move_batch(connection, batch, StoredBatchState.ENDED)
            elif vendor_batch.state is VendorBatchState.FAILED:
                queue = batch_rows.QUEUE_FULL if vendor_batch.is_queue_full else ""
                problem = queue + (vendor_batch.problem or "it failed at the vendor")
                batch_rows.fail_batch(
                    connection, batch, problem, counts=not vendor_batch.is_queue_full
                )
        if vendor_batch.state is VendorBatchState.ENDED:
            return await self._collect(batch, vendor_batch)
        if vendor_batch.state is VendorBatchState.FAILED:
            self.sends = False  # the next pass tries again
            return True
        self.skipped.add(batch.number)
        return False

    async def _collect(self, batch: Batch, vendor_batch: VendorBatch) -> bool:
        await self.collector.collect(batch, vendor_batch)
        self.note(f"batch {batch.number} is in")
        return True
