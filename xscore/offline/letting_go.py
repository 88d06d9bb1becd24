"""What of a job is given up: what a cancelled one has planned, batches that never came to be, batches that are lost.

None of it asks the vendor, so that a job whose host is gone can still be ended. A lost batch may have been billed: what
it may have cost at most is charged. Trade-off: a batch that is given up is never fetched, though it may turn up again.
"""

import time
from collections.abc import Callable

from xscore.memory.store import Store
from xscore.offline import batch_money, batch_rows, job_rows, job_steps
from xscore.offline.batch_ledger import BatchLedger
from xscore.offline.batch_money import Purse, Tariff
from xscore.offline.batch_rows import Batch
from xscore.offline.job_lease import JobLease
from xscore.offline.job_rows import Job
from xscore.offline.sending import NOT_SENT
from xscore.settings import BudgetSettings

STOPPED = "interrupted: the job was cancelled"
NEVER_WAS = "it was given up before the vendor had it"
FORGOTTEN = "given up as lost, at what it may have cost at most"


async def settle_here(store: Store, job_id: str, *, send: bool = True, clock: Callable[[], float] = time.time) -> bool:
    """Give up what can be without the vendor, and say whether the vendor is needed to take the job further.

    send: false means that nothing is to be sent, so that a batch that certainly never came to be is planned again.
    """
    connection = store.connection
    async with JobLease(connection, job_id, clock=clock) as lease:
        if not lease.is_ours:
            return True
        job = job_rows.job(connection, job_id)
        sends = send and job.stopped_at is None
        for batch in batch_rows.batches(connection, job_id, only_open=True):
            if not sends and batch.state == "marked" and batch.problem.startswith(NOT_SENT):
                never_was(lease, batch)
        give_up_planned(lease, store, job)
        with lease.step() as opened:
            job_steps.end_if_done(opened, job_id, at=clock())
        is_open = bool(batch_rows.batches(connection, job_id, only_open=True))
        return is_open or (sends and bool(job_rows.planned(connection, job_id)))


async def forget_all(
    store: Store, budget: BudgetSettings, job_id: str, *, clock: Callable[[], float] = time.time
) -> None:
    """Give up every batch of a job whose host cannot be used at all."""
    async with JobLease(store.connection, job_id, clock=clock) as lease:
        if not lease.is_ours:
            return
        job = job_rows.job(store.connection, job_id)
        for batch in batch_rows.batches(store.connection, job_id, only_open=True):
            forget(lease, store, batch, ledger_of(job, budget))
    await settle_here(store, job_id, clock=clock)


def ledger_of(job: Job, budget: BudgetSettings) -> BatchLedger:
    """Return what enters the costs of a job's batches."""
    recipe = job.recipe
    tariff = Tariff(recipe.provider, recipe.model.name, recipe.host)
    return BatchLedger(tariff, Purse.of(job.id, job.max_usd, budget))


def forget(lease: JobLease, store: Store, batch: Batch, ledger: BatchLedger) -> None:
    """Give up a batch that may be at the vendor: its requests are charged at their bound, and planned again."""
    left = job_rows.of_batch(store.connection, batch.job, batch.number)
    asks = job_rows.asks(store.connection, batch.job, {ask for _, ask in left}) if left else {}
    with lease.step() as connection:
        ledger.enter_unread(connection, batch, {name: len(asks[name[1]].pieces) for name in left})
        batch_rows.failed(connection, batch, FORGOTTEN, counts=True)
        batch_money.give_back(connection, batch.mark)


def never_was(lease: JobLease, batch: Batch) -> None:
    """Plan again what went with a batch that certainly never came to be."""
    with lease.step() as connection:
        batch_rows.failed(connection, batch, NEVER_WAS, counts=False)
        batch_money.give_back(connection, batch.mark)


def give_up_planned(lease: JobLease, store: Store, job: Job) -> None:
    """Give up what a cancelled job has planned."""
    planned = job_rows.planned(store.connection, job.id) if job.stopped_at is not None else []
    if planned:
        with lease.step() as connection:
            batch_rows.lost(connection, job.id, dict.fromkeys(planned, STOPPED))
