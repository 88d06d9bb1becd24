"""A job taken as far as it goes just now: batches created, looked at and fetched, until only the vendor can go on.

A pass settles what an earlier one left in doubt, looks at what is under way, collects what has ended, and sends what
fits of the planned requests; again while something moved. Every step is one transaction of the store, so that a kill
anywhere leaves a state from which the next pass goes on. One process at a time takes a job further (`job_lease`).
Trade-off: a step that fails ends its kind for this pass, so that a host in trouble is not asked a hundred times over.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial

from xscore.errors import NoBatchApi, ProviderError, RequestRejected, UnreadableResponse
from xscore.memory.store import Store
from xscore.offline import batch_money, batch_rows, job_rows, job_steps, standing
from xscore.offline.batch_ledger import BatchLedger
from xscore.offline.batch_money import Purse
from xscore.offline.batch_rows import Batch
from xscore.offline.bench import Bench
from xscore.offline.collecting import CHUNK, Collector
from xscore.offline.finding import is_missing
from xscore.offline.job_lease import JobLease
from xscore.offline.letting_go import forget, give_up_planned, ledger_of, never_was
from xscore.offline.sending import Sender
from xscore.providers.batch_host import BatchHost
from xscore.records.offline import BatchSeen, BatchState, Standing
from xscore.settings import Settings
from xscore.wording import sentences

BUSY = "another process is taking this job further just now"


async def advance(
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
) -> Standing:
    """Take a job as far as it goes without waiting for the vendor, and say how it stands.

    send: false sends nothing that was not sent yet. forget: give up batches of which the vendor cannot tell. chunk:
    results entered in one transaction. note: told what moves.
    A host that fails is no exception: it is said in the standing, with all that was done until then kept.
    Raises NothingMatched for an unknown job, StoreError.
    """
    async with JobLease(store.connection, job_id, clock=clock) as lease:
        if not lease.is_ours:
            return replace(standing.of_job(store.connection, job_id), problem=BUSY)
        job = job_rows.job(store.connection, job_id)
        purse = Purse.of(job.id, job.max_usd, settings.budget)
        bench = Bench(store=store, settings=settings, host=host, job=job, lease=lease, purse=purse, clock=clock)
        machine = _Pass(bench, note, sends=send and job.stopped_at is None, forgets=forget, chunk=chunk)
        while await machine.moves():
            continue
        with lease.step() as connection:
            job_steps.end_if_done(connection, job.id, at=clock())
        return machine.standing()


@dataclass(slots=True)
class _Pass:
    """One pass over a job."""

    bench: Bench
    note: Callable[[str], None]
    sends: bool
    forgets: bool
    chunk: int
    sender: Sender = field(init=False)
    collector: Collector = field(init=False)
    ledger: BatchLedger = field(init=False)
    problems: list[ProviderError] = field(default_factory=list)
    spared: set[int] = field(default_factory=set)
    """Batches that are left alone for the rest of this pass."""
    working: set[int] = field(default_factory=set)
    """Batches that the vendor knows, and has not ended."""

    def __post_init__(self) -> None:
        job = self.bench.job
        self.ledger = ledger_of(job, self.bench.settings.budget)
        self.sender = Sender(self.bench)
        self.collector = Collector(self.bench.store, self.bench.lease, job, self.ledger, chunk=self.chunk)

    async def moves(self) -> bool:
        """Take every batch one step further, and send another; False: nothing moved."""
        give_up_planned(self.bench.lease, self.bench.store, self.bench.job)
        moved = False
        for batch in batch_rows.batches(self.bench.connection, self.bench.job.id, only_open=True):
            if batch.number not in self.spared:
                moved = await self._tried(partial(self._step, batch), batch) or moved
        if self.sends:
            moved = await self._tried(self._send) or moved
        return moved

    def standing(self) -> Standing:
        """Say how the job stands after this pass."""
        found = standing.of_job(self.bench.connection, self.bench.job.id)
        faults = self.collector.verdicts.faults.in_words()
        said = (f"the judge's replies needed mending: {faults}",) if faults else ()
        worst = min(self.problems, key=lambda error: error.retryable, default=None)
        return replace(
            found,
            held_back=self.sender.held_back if found.planned else "",
            over_budget=self.sender.over_budget and bool(found.planned),
            problem=sentences(worst.message, worst.hint, self._way_out(worst)) if worst else "",
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
                forget(self.bench.lease, self.bench.store, batch, self.ledger)
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
        if not await is_missing(self.bench, batch):
            is_found = any(
                one.number == batch.number and one.state != "marked"
                for one in batch_rows.batches(self.bench.connection, batch.job, only_open=True)
            )
            self.spared -= {batch.number} if is_found else set()
            return is_found
        if self.sends:
            is_settled = await self.sender.again(batch)
            self.spared -= {batch.number} if is_settled else set()
            return is_settled
        if self.bench.job.stopped_at is not None:
            never_was(self.bench.lease, batch)
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
            batch_rows.seen(connection, batch, seen, at=now)
            batch_money.renew(connection, batch.mark, now=now)
            if seen.state is BatchState.ENDED:
                batch_rows.ended(connection, batch)
        if seen.state is BatchState.ENDED:
            return await self._collect(replace(batch, state="ended"), seen)
        if seen.state is BatchState.FAILED:
            is_full = "rate_limited" in seen.tells
            problem = f"{batch_rows.FULL}{seen.problem}" if is_full else seen.problem or "it failed at the vendor"
            self._fail(batch, problem, counts=not is_full)
            self.sends = False  # the next pass tries again
            return True
        self.spared.add(batch.number)
        return False

    async def _collect(self, batch: Batch, seen: BatchSeen) -> bool:
        await self.collector.collect(batch, self.bench.host, seen)
        self.note(f"batch {batch.number} is in")
        return True

    def _fail(self, batch: Batch, problem: str, *, counts: bool) -> None:
        with self.bench.lease.step() as connection:
            batch_rows.failed(connection, batch, problem, counts=counts)
            batch_money.give_back(connection, batch.mark)
