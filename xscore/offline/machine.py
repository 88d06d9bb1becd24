"""A job taken as far as it goes just now: batches created, looked at and fetched, until only the vendor can go on.

A pass reconciles what an earlier one left in doubt, sends what fits of the planned requests, looks at what is under
way, and collects what has ended; again while something moved. Every step is one transaction of the store, so that a
kill anywhere leaves a state from which the next pass goes on. One process at a time takes a job further (`job_lease`).
"""

import time
from collections.abc import Callable

from xscore.memory.store import Store
from xscore.providers.batch_host import BatchHost
from xscore.records.offline import Standing
from xscore.settings import Settings


async def advance(
    store: Store,
    settings: Settings,
    host: BatchHost,
    job_id: str,
    *,
    clock: Callable[[], float] = time.time,
    note: Callable[[str], None] = lambda _: None,
) -> Standing:
    """Take a job as far as it goes without waiting for the vendor, and say how it stands.

    Raises NothingMatched for an unknown job, JobBusy where another living process is at it, StoreError, and leaves of
    ProviderError where the host cannot be used at all; what was done until then is kept.
    """
    raise NotImplementedError
