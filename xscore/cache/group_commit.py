"""One thread that writes for many tasks: what queues while a commit is under way goes into the next one.

What was handed over before a job is committed with it or before it: the ledger's record of a call never comes after the
judgments it paid for. Jobs run in that order; what is added for one `Bulk` is written by one call of it, because each
statement costs a hand-over between two threads. A failed commit fails everyone who waits and closes the door, because
a run that cannot keep what it pays for must stop paying; so does a database that was moved or replaced under the open
connection, where nobody would find what is written. Trade-offs: one bad job fails its whole group; in a busy run the
thread rests for `REST_S` after each commit, so that the next is for several, and a write takes that much longer.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from sqlite3 import Connection
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec import Struct

from xscore.platform import database
from xscore.platform.errors import StoreError, XscoreError
from xscore.platform.sqlite_drivers import KeySource
from xscore.store.opening import connect_store

T = TypeVar("T")
Job = Callable[[Connection], Any]
"""Writes within the group's transaction; it must not begin or end one."""
Bulk = Callable[[Sequence[Any], Connection], None]
"""Writes all the items that were added for it, in their order; else like a job."""
BUSY_S = 0.02
"""Two commits closer together than this are a busy run."""
REST_S = 0.002
_REPLACED = "Run it again: it goes on in the store that is there now."


class _Task(Struct):
    job: Job | None
    waiter: asyncio.Future[Any] | None
    result: Any = None
    bulk: Bulk | None = None
    item: Any = None


class GroupCommit:
    """An async context manager around the writing thread and its own connection to the database at `path`."""

    def __init__(self, path: Path, keys: KeySource | None = None) -> None:
        self._path, self._keys = path, keys
        self._queue: SimpleQueue[_Task | None] = SimpleQueue()
        self._failure: Exception | None = None
        self._closed = False
        self._handed = self._done = 0
        """Tasks that came, and those that are committed."""
        self.commits = 0
        """Transactions so far."""

    async def __aenter__(self) -> Self:
        """Open the connection and start the thread. Raises what `database.connect` raises."""
        self._loop = asyncio.get_running_loop()
        self._connection = connect_store(self._path, self._keys)
        self._file = self._file_there()
        self._thread = threading.Thread(target=self._work, name="xscore-writer", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit what is queued, then stop. Raises the failure of a commit that nobody waited for."""
        self._closed = True
        self._queue.put(None)
        await asyncio.shield(asyncio.to_thread(self._thread.join))
        if self._failure is not None and error is None:
            raise self._failure

    async def submit(self, job: Callable[[Connection], T]) -> T:
        """Run a job and return its result once it is committed. A cancelled wait does not take the job back."""
        waiter: asyncio.Future[T] = self._loop.create_future()
        self._put(_Task(job, waiter))
        return await waiter

    def post(self, job: Job) -> None:
        """Hand over a job without waiting for it. Raises if an earlier commit failed."""
        self._put(_Task(job, None))

    def post_item(self, bulk: Callable[[Sequence[T], Connection], None], item: T) -> None:
        """Hand over an item, to be written together with others, without waiting for it. Raises as `post` does."""
        self._put(_Task(None, None, bulk=bulk, item=item))

    async def submit_item(self, bulk: Callable[[Sequence[T], Connection], None], item: T) -> None:
        """Hand over an item and return once it is committed."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._put(_Task(None, waiter, bulk=bulk, item=item))
        await waiter

    async def caught_up(self) -> None:
        """Return once all that was handed over so far is committed. Raises the failure of an earlier commit."""
        if self._handed > self._done or self._failure is not None:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._put(_Task(None, waiter))
            await waiter

    def _put(self, task: _Task) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise StoreError("the writer is closed", hint="This is a bug of xscore; please report it.")
        self._handed += 1
        self._queue.put(task)

    def _work(self) -> None:
        try:
            latest = 0.0
            while (group := self._next_group()) is not None:
                self._commit(group)
                before, latest = latest, time.monotonic()
                if latest - before < BUSY_S:
                    time.sleep(REST_S)
        finally:
            self._connection.close()
            self._abandon()

    def _abandon(self) -> None:
        """Tell those still queued, whom only a bug of ours can have left behind."""
        while not self._queue.empty():
            task = self._queue.get()
            self._tell([task] if task is not None else [])

    def _next_group(self) -> list[_Task] | None:
        """Wait for a task, take what queued meanwhile with it; None: no more will come."""
        first = self._queue.get()
        if first is None:
            return None
        group = [first]
        try:
            while True:
                task = self._queue.get_nowait()
                if task is None:
                    self._queue.put(None)
                    return group
                group.append(task)
        except Empty:
            return group

    def _commit(self, group: list[_Task]) -> None:
        failure: Exception | None = StoreError("the writing thread broke", hint="This is a bug of xscore.")
        try:
            if self._failure is not None:
                raise self._failure
            with database.transaction(self._connection):
                if self._file_there() != self._file:
                    raise StoreError(f"{self._path} was moved or replaced while it was written", hint=_REPLACED)
                self._run(group)
            self.commits += 1
            self._done += len(group)
            failure = None
        except (XscoreError, sqlite3.Error) as error:
            failure = error
        finally:
            self._failure = failure
            self._tell([task for task in group if task.waiter is not None])

    def _file_there(self) -> tuple[int, int] | None:
        """Name the file that is at the path just now; about 2 µs."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _run(self, group: list[_Task]) -> None:
        items: dict[Bulk, list[Any]] = {}
        for task in group:
            if task.bulk is not None:
                items.setdefault(task.bulk, []).append(task.item)
        for task in group:
            if task.job is not None:
                task.result = task.job(self._connection)
            elif task.bulk in items:
                task.bulk(items.pop(task.bulk), self._connection)

    def _tell(self, tasks: list[_Task]) -> None:
        if not tasks:
            return
        try:
            self._loop.call_soon_threadsafe(_settle, tasks, self._failure)
        except RuntimeError:  # the loop has closed: nobody is left to tell
            return


def _settle(tasks: list[_Task], failure: Exception | None) -> None:
    for task in tasks:
        waiter = task.waiter
        if waiter is None or waiter.done():
            continue
        if failure is None:
            waiter.set_result(task.result)
        else:
            waiter.set_exception(failure)
