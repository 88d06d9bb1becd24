"""Which processes are at work on a store, and whether one still lives.

A runner shows a sign of life every few seconds. It counts as living while its latest one is younger than the lease and,
where it runs in the same place (host and process namespace), its process exists: so one that was killed is noticed at
once, one that is stuck or elsewhere when its lease is over. Trade-off: a wall clock that jumps by more than the lease
makes a living runner look gone for some seconds, and what it is paying for may then be paid twice.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection

LEASE_S = 30.0
"""A runner without a sign of life for so long is taken for gone."""
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
        gone = [name for name, pid, where, seen_at in others if not self._lives(name, pid, where, seen_at)]
        for name in gone:
            _remove(connection, name)
        return len(others) > len(gone)

    def _lives(self, name: str, pid: int, where: str, seen_at: float) -> bool:
        if abs(self._clock() - seen_at) > self._lease_s:  # also a sign from the future: a clock was set back
            return False
        if where != self._place:
            return True
        return name in _WORKING if pid == self._pid else is_alive(pid)


def _remove(connection: Connection, runner: str) -> None:
    connection.execute("DELETE FROM claim WHERE runner = ?", (runner,))
    connection.execute("DELETE FROM runner WHERE id = ?", (runner,))


def place() -> str:
    """Name where a process id of this process means anything: its host and its process namespace."""
    space = ""
    with suppress(OSError):
        space = str(Path("/proc/self/ns/pid").readlink())
    return f"{socket.gethostname()} {space}".rstrip()


def is_alive(pid: int) -> bool:
    """Whether a process of this place is there and has not ended; one nobody has waited for yet has."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:1]
    except OSError:  # no such file system here, or it has just ended; the next look will tell
        return True
    return state not in ([b"Z"], [b"X"])
