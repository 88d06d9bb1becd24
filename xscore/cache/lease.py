"""The lease by which processes at work on one store know of each other, and its heartbeat.

A process enters itself in table `runner`, renews the entry every few seconds, and removes those that are gone with
whatever they claimed. `platform.processes` tells whether a process is gone; of this very process it is known here.
Trade-off: a wall clock that jumps by more than the lease makes a living runner look dead for some seconds, and what it
is paying for may then be paid twice.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from sqlite3 import Connection, Error

from xscore.platform.errors import StoreError
from xscore.platform.processes import LEASE_S, RunnerMark, process_place

HEARTBEAT_S = 5.0
_HELD: set[str] = set()
"""Leases that this very process holds, which the process id cannot tell apart."""


class Lease:
    """This process, as others see it in the store. Every method that takes a connection needs an open transaction."""

    def __init__(self, *, lease_s: float = LEASE_S, clock: Callable[[], float] = time.time) -> None:
        self.id = secrets.token_hex(8)
        self._lease_s, self._clock = lease_s, clock
        self._pid, self._place = os.getpid(), process_place()
        _HELD.add(self.id)

    def renew(self, connection: Connection) -> None:
        """Write down that this process is alive."""
        connection.execute(
            "INSERT INTO runner (id, pid, place, seen_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
            (self.id, self._pid, self._place, self._clock()),
        )

    def release(self, connection: Connection) -> None:
        """Remove this process from the store, with everything it claimed."""
        _remove_runner(connection, self.id)

    def close(self) -> None:
        """Count as gone from now on, even if `release` could not be written (a full disk) and the process lives on."""
        _HELD.discard(self.id)

    def reap_dead(self, connection: Connection) -> bool:
        """Remove the runners that are gone, with their claims. Returns whether others are alive."""
        others = connection.execute("SELECT id, pid, place, seen_at FROM runner WHERE id <> ?", (self.id,)).fetchall()
        dead = [name for name, *mark in others if not self._is_alive(name, RunnerMark(*mark))]
        for name in dead:
            _remove_runner(connection, name)
        return len(others) > len(dead)

    def _is_alive(self, name: str, mark: RunnerMark) -> bool:
        if (mark.pid, mark.place) == (self._pid, self._place) and name not in _HELD:
            return False
        return mark.lives(here=self._place, now=self._clock(), lease_s=self._lease_s)


class Heartbeat:
    """Calls `beat` every `every_s` seconds from `start` to `stop`.

    A store that is busy or away misses a beat; whoever writes to it next gets the error.
    """

    def __init__(self, beat: Callable[[], Awaitable[None]], *, every_s: float = HEARTBEAT_S) -> None:
        self._beat, self._every_s = beat, every_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to beat, within a running event loop."""
        self._task = asyncio.create_task(self._loop())

    async def stop(self) -> None:
        """End it and wait until it has ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _loop(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            with suppress(StoreError, Error):
                await self._beat()


def _remove_runner(connection: Connection, runner: str) -> None:
    connection.execute("DELETE FROM claim WHERE runner = ?", (runner,))
    connection.execute("DELETE FROM runner WHERE id = ?", (runner,))
