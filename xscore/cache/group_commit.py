"""One thread that commits for many tasks: jobs queued during a commit go into the next one.

Jobs run in order, so a call's ledger row is never committed after its judgments; the items for one
`Bulk` are written by a single call, to save thread switches. A failed commit, or a database moved
or replaced under the connection, fails all waiting and later jobs: a run that cannot store what it
pays for must stop. Trade-offs: one bad job fails its group; in a busy run the thread sleeps
`REST_S` after each commit to batch more, which delays each write by as much.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from sqlite3 import Connection
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec import Struct

from xscore.platform import database
from xscore.platform.errors import StoreError, XscoreError
from xscore.store.opening import StoreKeys, connect_store

T = TypeVar("T")
Job = Callable[[Connection], Any]
"""Writes within the group's transaction; it must not begin or end one."""
Bulk = Callable[[Sequence[Any], Connection], None]
"""Writes all items added for it, in order; otherwise like a job."""
BUSY_S = 0.02
"""A run is busy if two commits are closer together than this."""
REST_S = 0.002
_REPLACED = "Run it again: it will use the new store."


class _Task(Struct):
    job: Job | None = None
    bulk: Bulk | None = None
    item: Any = None
    waiter: asyncio.Future[Any] | None = None
    result: Any = None


class GroupCommit:
    """An async context manager around the writing thread and its own connection to the database at
    `path`."""

    def __init__(
        self, path: Path, keys: StoreKeys | None = None, *, create: bool = True
    ) -> None:
        self._path = path
        self._keys = keys
        self._create = create
        self._queue: SimpleQueue[_Task | None] = SimpleQueue()
        self._failure: Exception | None = None
        self._closed = False
        self._handed = self._done = 0
        """Tasks queued, and tasks committed."""
        self.commits: int = 0
        """Transactions so far."""

    async def __aenter__(self) -> Self:
        """Open the connection and start the thread. Raises what `database.connect` raises."""
        self._loop = asyncio.get_running_loop()
        self._connection = connect_store(self._path, self._keys, create=self._create)
        self._file = database.inode_of(self._path)
        self._thread = threading.Thread(target=self._work, name="xscore-writer", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit what is queued, then stop. Raises the failure of a commit without a waiter."""
        self._closed = True
        self._queue.put(None)
        await asyncio.shield(asyncio.to_thread(self._thread.join))
        if self._failure is not None and error is None:
            raise self._failure

    async def submit(self, job: Callable[[Connection], T]) -> T:
        """Run a job and return its result once committed.

        Cancelling the wait does not cancel the job.
        """
        result: T = await self._waited_for(_Task(job))
        return result

    def post(self, job: Job) -> None:
        """Queue a job without waiting. Raises if an earlier commit failed."""
        self._put(_Task(job))

    async def submit_item(
        self, bulk: Callable[[Sequence[T], Connection], None], item: T
    ) -> None:
        """Queue an item for a bulk write, and return once it is committed."""
        await self._waited_for(_Task(bulk=bulk, item=item))

    def post_item(self, bulk: Callable[[Sequence[T], Connection], None], item: T) -> None:
        """Queue an item without waiting. Raises as `post` does."""
        self._put(_Task(bulk=bulk, item=item))

    async def caught_up(self) -> None:
        """Return once everything queued so far is committed.

        Raises the failure of an earlier commit.
        """
        if self._handed > self._done or self._failure is not None:
            await self._waited_for(_Task())

    def _waited_for(self, task: _Task) -> "asyncio.Future[Any]":
        task.waiter = self._loop.create_future()
        self._put(task)
        return task.waiter

    def _put(self, task: _Task) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise StoreError(
                "the writer is closed", hint="This is a bug of xscore; please report it."
            )
        self._handed += 1
        self._queue.put(task)

    def _work(self) -> None:
        try:
            latest = 0.0
            while (group := self._next_group()) is not None:
                self._commit(group)
                before = latest
                latest = time.monotonic()
                if latest - before < BUSY_S:
                    time.sleep(REST_S)
        finally:
            self._connection.close()
            self._abandon()

    def _abandon(self) -> None:
        """Fail tasks still queued after the thread ended, which only a bug can cause."""
        while not self._queue.empty():
            task = self._queue.get()
            self._tell([task] if task is not None else [])

    def _next_group(self) -> list[_Task] | None:
        """Wait for a task and take all queued ones with it; None if the queue is closed."""
        group = []
        task = self._queue.get()
        with suppress(Empty):
            while task is not None:
                group.append(task)
                task = self._queue.get_nowait()
            if group:
                # The mark that closes the queue came with the last tasks; the next call ends by it.
                self._queue.put(None)
        return group or None

    def _commit(self, group: list[_Task]) -> None:
        # Until it is done the commit counts as failed, so no waiter sees a success too early.
        failure: Exception | None = StoreError(
            "the writing thread broke", hint="This is a bug of xscore."
        )
        try:
            # One failure fails all that follow: a run that cannot store what it pays for must stop.
            if self._failure is not None:
                raise self._failure
            with database.transaction(self._connection):
                # Within the transaction, so that no process replaces the file before the commit.
                if database.inode_of(self._path) != self._file:
                    raise StoreError(
                        f"{self._path} was moved or replaced while it was written",
                        hint=_REPLACED,
                    )
                self._run(group)
            self.commits += 1
            self._done += len(group)
            failure = None
        except (XscoreError, sqlite3.Error) as error:
            failure = error
        finally:
            self._failure = failure
            self._tell([task for task in group if task.waiter is not None])

    def _run(self, group: list[_Task]) -> None:
        items: dict[Bulk, list[Any]] = {}
        for task in group:
            if task.bulk is not None:
                items.setdefault(task.bulk, []).append(task.item)
        for task in group:
            if task.job is not None:
                task.result = task.job(self._connection)
            elif task.bulk in items:
                # All items of one kind at once, in the place of the first.
                task.bulk(items.pop(task.bulk), self._connection)

    def _tell(self, tasks: list[_Task]) -> None:
        if tasks:
            with suppress(RuntimeError):  # the loop has closed: no task is waiting
                self._loop.call_soon_threadsafe(_resolve_waiters, tasks, self._failure)


def _resolve_waiters(tasks: list[_Task], failure: Exception | None) -> None:
    for task in tasks:
        waiter = task.waiter
        if waiter is None or waiter.done():
            continue
        if failure is None:
            waiter.set_result(task.result)
        else:
            waiter.set_exception(failure)
