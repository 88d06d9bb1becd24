"""Renew the lease of the background process from a separate thread, since indexing keeps the event loop busy.

It stops the work when the store or the repository is gone, or when another process has taken over. Trade-off: a process
that lost its lease while the laptop was asleep goes on judging for some seconds; claims keep it from paying twice.
"""

import asyncio
import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Self

from xscore.cache.background_lease import BackgroundLease
from xscore.cache.lease import HEARTBEAT_S
from xscore.platform.errors import StoreError

GRACE_S = {"taken": 10.0, "gone": 1.0}
"""Seconds for calls in flight to end and be stored; if the store is gone there is nowhere to store them."""
LOOK_EVERY_S = 0.5
"""Seconds between two checks."""


class LeaseKeeper:
    """A context manager for the event loop: it cancels the task that entered it when the lease is lost."""

    def __init__(self, lease: BackgroundLease, *, database: Path, root: Path) -> None:
        self._lease, self._database, self._root = lease, database, root
        self._file = _identity(database)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="xscore-lease", daemon=True)
        self.lost = ""
        """`taken`: another process has the lease. `gone`: the store or the repository is. Empty: it is still held."""

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._loop, self._task = asyncio.get_running_loop(), task
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        beaten = 0.0
        while not self._ended.wait(LOOK_EVERY_S):
            is_gone = _identity(self._database) != self._file or not self._root.is_dir()
            is_due = self._lease.changed.is_set() or time.monotonic() - beaten >= HEARTBEAT_S
            if is_gone or (is_due and not self._beat()):
                self.lost = "gone" if is_gone else "taken"
                self._loop.call_soon_threadsafe(self._task.cancel)
                if not self._ended.wait(GRACE_S[self.lost]):
                    os._exit(0)  # the work did not stop in time; the store survives any exit
                return
            beaten = time.monotonic() if is_due else beaten

    def _beat(self) -> bool:
        try:
            return self._lease.beat()
        except (StoreError, sqlite3.Error):  # a full disk or a long transaction: the next heartbeat may succeed
            return True


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
