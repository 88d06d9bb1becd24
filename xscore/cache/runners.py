"""Which processes are at work on a store: each shows a sign of life every few seconds, and is taken out when gone.

Whether one is gone is told by `processes`; of those of this very process it is known here. Trade-off: a wall clock that
jumps by more than the lease makes a living runner look gone for some seconds, and what it is paying for may then be
paid twice.
"""

import os
import secrets
import time
from collections.abc import Callable
from sqlite3 import Connection

from xscore.processes import LEASE_S, Mark, place

_WORKING: set[str] = set()
"""Runners of this very process, which the process id cannot tell apart."""


class Runner:
    """This process, as others see it in the store."""

    def __init__(self, *, lease_s: float = LEASE_S, clock: Callable[[], float] = time.time) -> None:
        self.id = secrets.token_hex(8)
        self._lease_s, self._clock = lease_s, clock
        self._pid, self._place = os.getpid(), place()
        _WORKING.add(self.id)

    def end(self) -> None:
        """Count as gone from now on, also where the store could not be told (a full disk) and the process lives on."""
        _WORKING.discard(self.id)

    def show_life(self, connection: Connection) -> None:
        """Write down that this runner lives. Within an open transaction."""
        connection.execute(
            "INSERT INTO runner (id, pid, place, seen_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
            (self.id, self._pid, self._place, self._clock()),
        )

    def leave(self, connection: Connection) -> None:
        """Take this runner out, and with it whatever it claimed. Within an open transaction."""
        _remove(connection, self.id)

    def bury_others(self, connection: Connection) -> bool:
        """Take out the runners that are gone, with their claims; say whether others live. Within a transaction."""
        others = connection.execute("SELECT id, pid, place, seen_at FROM runner WHERE id <> ?", (self.id,)).fetchall()
        gone = [name for name, *mark in others if not self._lives(name, Mark(*mark))]
        for name in gone:
            _remove(connection, name)
        return len(others) > len(gone)

    def _lives(self, name: str, mark: Mark) -> bool:
        if (mark.pid, mark.place) == (self._pid, self._place) and name not in _WORKING:
            return False
        return mark.lives(here=self._place, now=self._clock(), lease_s=self._lease_s)


def _remove(connection: Connection, runner: str) -> None:
    connection.execute("DELETE FROM claim WHERE runner = ?", (runner,))
    connection.execute("DELETE FROM runner WHERE id = ?", (runner,))
