"""The context of one pass over a job, and the lease that lets one process at a time advance it.

A job's row names the process that holds it; a holder that is dead is replaced (`cache.lease`). Each transaction of a
pass checks that the lease is still ours, so a process that was suspended for minutes writes nothing twice.
Trade-off: a process killed in another container holds the job until its lease expires.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from sqlite3 import Connection
from typing import Self

from msgspec import Struct

from xscore.cache.lease import HEARTBEAT_S, Heartbeat, Lease
from xscore.extensions.batch.batch_costs import BatchLedger
from xscore.extensions.batch.job_rows import LIST_HINT, BatchJob
from xscore.extensions.batch.vendor_calls import BatchHost
from xscore.platform import database
from xscore.platform.errors import NothingMatched, StoreError
from xscore.settings import Settings
from xscore.store.store import Store


class JobLease:
    """An async context manager around a pass over one job; `acquired` says whether it may begin."""

    def __init__(self, connection: sqlite3.Connection, job: str, *, clock: Callable[[], float] = time.time) -> None:
        self._connection, self._job = connection, job
        self._lease = Lease(clock)
        self._heartbeat = Heartbeat(self._renew, every_s=HEARTBEAT_S)
        self.acquired = False

    async def __aenter__(self) -> Self:
        """Take the job, unless a living process has it. Raises NothingMatched for no job, StoreError."""
        try:
            with database.transaction(self._connection) as connection:
                self.acquired = self._take(connection)
        except BaseException:
            self._lease.close()
            raise
        self._heartbeat.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Release the job; where the store can no longer be written, the lease runs out."""
        await self._heartbeat.stop()
        with suppress(StoreError, sqlite3.Error), database.transaction(self._connection) as connection:
            connection.execute("UPDATE job SET runner = '' WHERE id = ? AND runner = ?", (self._job, self._lease.id))
            self._lease.release(connection)
        self._lease.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
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
            raise NothingMatched(f"there is no job {self._job}", hint=LIST_HINT)
        self._lease.renew(connection)
        self._lease.reap_dead(connection)
        if row[0] and connection.execute("SELECT 1 FROM runner WHERE id = ?", (row[0],)).fetchone():
            return False
        connection.execute("UPDATE job SET runner = ? WHERE id = ?", (self._lease.id, self._job))
        return True

    async def _renew(self) -> None:
        with database.transaction(self._connection) as connection:
            self._lease.renew(connection)


class JobContext(Struct, frozen=True, kw_only=True):
    """One pass over one job."""

    store: Store
    settings: Settings
    host: BatchHost
    job: BatchJob
    lease: JobLease
    ledger: BatchLedger
    clock: Callable[[], float]

    @property
    def connection(self) -> Connection:
        """For reading; writes go through `lease.transaction`."""
        return self.store.connection
