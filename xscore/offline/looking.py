"""A look at a job's batches at their vendor: what it says is noted, and nothing else moves."""

from dataclasses import replace

from xscore import database
from xscore.errors import ProviderError, UsageError
from xscore.memory.store import Store
from xscore.offline import batch_rows, standing
from xscore.offline.job_host import host_of
from xscore.offline.job_rows import Job
from xscore.records.offline import Standing
from xscore.settings import Settings
from xscore.wording import sentences


async def look(store: Store, settings: Settings, job: Job) -> Standing:
    """Ask how a job's batches are, and return how it stands. A host that fails or cannot be used is said in it."""
    waiting = [one for one in batch_rows.batches(store.connection, job.id, only_open=True) if one.state == "created"]
    problem = ""
    if waiting:
        try:
            host = host_of(store, settings, job)
            try:
                for batch in waiting:
                    found = await host.look(batch.vendor_id)
                    with database.transaction(store.connection) as connection:
                        batch_rows.seen(connection, batch, found, at=store.clock())
            finally:
                await host.aclose()
        except (ProviderError, UsageError) as error:
            problem = sentences(error.message, error.hint)
    return replace(standing.of_job(store.connection, job.id), problem=problem)
