"""The lease of a process on a store, by which processes see each other.

A process adds itself to table `runner`, renews the row every few seconds, and removes dead runners
with their claims. A runner is alive while its heartbeat is younger than the lease and, on this
host, its process exists: a killed runner is noticed at once, a stuck or remote one when its lease
expires. Leases of this process are tracked here.
Trade-off: a wall clock that jumps by more than the lease makes a live runner look dead for some
seconds, so its calls may be paid for twice.
"""

import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection, Error

from msgspec import Struct

from xscore.platform import database
from xscore.platform.errors import StoreError
from xscore.platform.processes import is_alive, process_place, random_hex
from xscore.platform.sqlite_drivers import KeySource

HEARTBEAT_S = 5.0
LEASE_S = 30.0
"""A runner without a heartbeat for this long counts as gone."""
_HELD: set[str] = set()
"""Leases of this process, which its process id cannot distinguish."""


class RunnerMark(Struct, frozen=True):
    """A runner's row in table `runner`."""

    pid: int
    place: str
    seen_at: float
    """Unix seconds."""

    def lives(self, *, now: float) -> bool:
        """Whether the runner is still alive, as far as this place can tell."""
        # Also a heartbeat from the future: a clock was set back.
        if abs(now - self.seen_at) > LEASE_S:
            return False
        return self.place != process_place() or is_alive(self.pid)


def runner_marks(connection: Connection) -> dict[str, RunnerMark]:
    """Return the marks of all runners by id. Raises StoreDamaged."""
    rows = connection.execute("SELECT id, pid, place, seen_at FROM runner").fetchall()
    with database.damage_if_invalid("a runner"):
        return {
            name: RunnerMark(int(pid), str(place), float(seen_at))
            for name, pid, place, seen_at in rows
        }


class Lease:
    """The row of this process in the store. Methods with a connection need an open transaction."""

    def __init__(
        self, clock: Callable[[], float] = time.time, *, name: str = "", pid: int = 0
    ) -> None:
        """name: a lease that the parent process wrote for this one.
        pid: that of a process just started, to write it.
        """
        self.id: str = name or random_hex(8)
        self._clock = clock
        self._pid = pid or os.getpid()
        self._place = process_place()
        _HELD.add(self.id)

    def renew(self, connection: Connection) -> None:
        """Write the heartbeat."""
        connection.execute(
            "INSERT INTO runner (id, pid, place, seen_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
            (self.id, self._pid, self._place, self._clock()),
        )

    def release(self, connection: Connection, runner: str = "") -> None:
        """Remove this runner, or another one, with its claims."""
        connection.execute("DELETE FROM claim WHERE runner = ?", (runner or self.id,))
        connection.execute("DELETE FROM runner WHERE id = ?", (runner or self.id,))

    def close(self) -> None:
        """Count as dead from now on, even if `release` failed (a full disk) and the process lives
        on."""
        _HELD.discard(self.id)

    def reap_dead(self, connection: Connection) -> bool:
        """Remove dead runners with their claims; return whether others are alive."""
        marks = runner_marks(connection)
        marks.pop(self.id, None)
        dead = [name for name, mark in marks.items() if not self._is_alive(name, mark)]
        for name in dead:
            self.release(connection, name)
        return len(marks) > len(dead)

    def _is_alive(self, name: str, mark: RunnerMark) -> bool:
        # The mark is this very process's, which no longer holds it: closed without a `release`.
        if (mark.pid, mark.place) == (self._pid, self._place) and name not in _HELD:
            return False
        return mark.lives(now=self._clock())


def refuse_busy_store(path: Path, keys: KeySource) -> None:
    """Raise StoreError while a running process is judging with the database at `path`."""
    try:
        with closing(database.open_unchecked(path, keys)) as connection:
            marks = runner_marks(connection)
    except (StoreError, Error):  # unreadable: any writer will notice that its file is gone
        return
    for mark in marks.values():
        if mark.lives(now=time.time()):
            where = "" if mark.place == process_place() else f" on {mark.place}"
            raise StoreError(
                f"{path} is in use: process {mark.pid}{where} is judging with it, and what it pays"
                " for would be lost",
                hint=(
                    "Wait for it to end, or stop it with Ctrl-C (nothing paid for is lost), then"
                    " run it again."
                ),
            )
