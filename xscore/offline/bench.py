"""What one pass over a job works with: the store, the vendor, the job, its lease, and what it may spend."""

from collections.abc import Callable
from dataclasses import dataclass
from sqlite3 import Connection

from xscore.memory.store import Store
from xscore.offline.batch_money import Purse
from xscore.offline.batch_rows import Batch
from xscore.offline.job_lease import JobLease
from xscore.offline.job_rows import Job
from xscore.providers.batch_host import BatchHost
from xscore.settings import Settings

CLOCK_SKEW_S = 600.0
"""A vendor's clock may be so far behind ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One pass over one job."""

    store: Store
    settings: Settings
    host: BatchHost
    job: Job
    lease: JobLease
    purse: Purse
    clock: Callable[[], float]
    """Unix seconds."""

    @property
    def connection(self) -> Connection:
        """To read on; what is written goes through `lease.step`."""
        return self.store.connection

    @staticmethod
    def since(batch: Batch) -> float:
        """Return from when on a batch may have been created, by the vendor's clock."""
        return batch.marked_at - CLOCK_SKEW_S
