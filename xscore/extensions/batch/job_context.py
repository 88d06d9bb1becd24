"""One process at a time takes a job further: who does is noted in the job's row, and shows signs of life.

Whether the one noted still lives is told as for claims (`cache.lease`). Each transaction of a pass checks that it is
still us, so that a process that was stopped for minutes and taken for dead enters nothing twice when it wakes.
Trade-off: a process killed in another container holds the job for as long as its latest sign of life is believed.

What one pass over a job works with: the store, the vendor, the job, its lease, and what it may spend.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from sqlite3 import Connection
from types import TracebackType
from typing import Self

from msgspec import Struct

from xscore.cache.lease import HEARTBEAT_S, Heartbeat, Lease
from xscore.extensions.batch.batch_costs import BatchReservation
from xscore.extensions.batch.batch_rows import Batch
from xscore.extensions.batch.job_rows import BatchJob
from xscore.extensions.batch.vendor import BatchHost
from xscore.platform import database
from xscore.platform.errors import NothingMatched, StoreError
from xscore.platform.processes import LEASE_S
from xscore.settings import Settings
from xscore.store.store import Store


class JobLease:
    """An async context manager around a pass over one job; `is_ours` says whether it may begin."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        job: str,
        *,
        clock: Callable[[], float] = time.time,
        lease_s: float = LEASE_S,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._connection, self._job = connection, job
        self._lease = Lease(lease_s=lease_s, clock=clock)
        self._heartbeat = Heartbeat(self._renew, every_s=heartbeat_s)
        self.is_ours = False

    async def __aenter__(self) -> Self:
        """Take the job, unless a living process has it. Raises NothingMatched for no job, StoreError."""
        try:
            with database.transaction(self._connection) as connection:
                self.is_ours = self._take(connection)
        except BaseException:
            self._lease.close()
            raise
        self._heartbeat.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the job go; where the store can no longer be written, the lease does."""
        await self._heartbeat.stop()
        with suppress(StoreError, sqlite3.Error), database.transaction(self._connection) as connection:
            connection.execute("UPDATE job SET runner = '' WHERE id = ? AND runner = ?", (self._job, self._lease.id))
            self._lease.release(connection)
        self._lease.close()

    @contextmanager
    def step(self) -> Iterator[sqlite3.Connection]:
        """Hold one transaction of this pass. Raises StoreError where another process has taken the job over."""
        with database.transaction(self._connection) as connection:
            row = connection.execute("SELECT runner FROM job WHERE id = ?", (self._job,)).fetchone()
            if row is None or row[0] != self._lease.id:
                raise StoreError(
                    f"job {self._job} was taken over by another process, or is gone",
                    hint="Run the command again: it goes on from what is in the store.",
                )
            yield connection

    def _take(self, connection: sqlite3.Connection) -> bool:
        row = connection.execute("SELECT runner FROM job WHERE id = ?", (self._job,)).fetchone()
        if row is None:
            raise NothingMatched(f"there is no job {self._job}", hint="`xscore batch list` shows what there is.")
        self._lease.renew(connection)
        self._lease.reap_dead(connection)
        if row[0] and connection.execute("SELECT 1 FROM runner WHERE id = ?", (row[0],)).fetchone():
            return False
        connection.execute("UPDATE job SET runner = ? WHERE id = ?", (self._lease.id, self._job))
        return True

    async def _renew(self) -> None:
        with database.transaction(self._connection) as connection:
            self._lease.renew(connection)


CLOCK_SKEW_S = 600.0
"""A vendor's clock may be so far behind ours."""


class JobContext(Struct, frozen=True, kw_only=True):
    """One pass over one job."""

    store: Store
    settings: Settings
    host: BatchHost
    job: BatchJob
    lease: JobLease
    purse: BatchReservation
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
