"""The lease that makes one process the background process of a worktree, and that process's status.

One row of `worktree_meta` names the runner (`cache.lease`) that holds the lease and what it is
doing; a dead holder is replaced at once. The process that starts another writes its lease, so
callers that ask at once start only one. Trade-off: a holder whose clock jumps may be replaced; it
notices at its next heartbeat, within seconds, and ends.
"""

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock

import msgspec
from msgspec import Struct

from xscore.cache.lease import Lease, runner_marks
from xscore.platform import database
from xscore.platform.errors import StoreError
from xscore.records.reports import BackgroundStatus
from xscore.store.index_rows import read_index_meta, write_index_meta
from xscore.store.redaction import redact

PROBLEM_CHARS = 300
_HOLDER, _PROBLEM = "background", "background_problem"


class _Holder(Struct):
    runner: str = ""
    doing: str = ""
    since: float = 0.0
    watches: bool = False


def read_background(connection: sqlite3.Connection, *, now: float) -> BackgroundStatus:
    """Return what the background process is doing, and its last problem. now: Unix seconds.

    Raises StoreError.
    """
    holder = _read_holder(connection)
    problem = read_index_meta(connection, _PROBLEM)
    mark = runner_marks(connection).get(holder.runner)
    if mark is None or not mark.lives(now=now):
        return BackgroundStatus(problem=problem)
    return BackgroundStatus(
        pid=mark.pid,
        doing=holder.doing,
        for_s=max(0.0, now - holder.since),
        watches=holder.watches,
        problem=problem,
    )


def lend_lease(connection: sqlite3.Connection, name: str, *, pid: int, now: float) -> None:
    """Write the lease for a process that was just started and will take it by this name.

    Needs an open transaction.
    """
    lease = Lease(lambda: now, name=name, pid=pid)
    lease.renew(connection)
    lease.close()  # it is the other process's
    _write_holder(connection, _Holder(name, "starting", now))


class BackgroundLease:
    """The lease of this process.

    Give it a connection of its own and call `take` first; any thread may use it.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        name: str = "",
        watches: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """name: the lease written for this process, if any.
        watches: keep running when there is nothing to do.
        """
        self._connection = connection
        self._clock = clock
        self._lock = Lock()
        self._lease = Lease(clock, name=name)
        self._holder = _Holder(self._lease.id, "", clock(), watches)
        self.changed: Event = Event()
        """Set while there is a status that no heartbeat has stored yet."""

    def take(self) -> bool:
        """Become the background process; return False if a living one has the lease.

        Raises StoreError.
        """
        # Looked at and written in one transaction: if two try at once, one sees the other.
        with self._lock, database.transaction(self._connection) as connection:
            before = _read_holder(connection).runner
            mark = None
            if before != self._lease.id:
                mark = runner_marks(connection).get(before)
            if mark is not None:
                if mark.lives(now=self._clock()):
                    return False
                self._lease.release(connection, before)
            self._lease.renew(connection)
            _write_holder(connection, self._holder)
            return True

    def say(self, doing: str) -> None:
        """Set what the process is doing; the next `beat` stores it. Empty: it is waiting."""
        if doing != self._holder.doing:
            self._holder = _Holder(self._lease.id, doing, self._clock(), self._holder.watches)
            self.changed.set()

    def beat(self) -> bool:
        """Renew the lease and store the status; return False if another process has the lease.

        Raises StoreError.
        """
        self.changed.clear()
        with self._lock, database.transaction(self._connection) as connection:
            if _read_holder(connection).runner != self._lease.id:
                return False
            self._lease.renew(connection)
            _write_holder(connection, self._holder)
        return True

    def release(
        self, *, unless: Callable[[sqlite3.Connection], bool] = lambda _: False
    ) -> bool:
        """Give up the lease and return True; keep it and return False if there is more to do.
        Raises StoreError.

        unless: whether there is more to do; called inside the transaction, so work that was stored
            just before, by a process that saw this lease as held, is not left behind.
        """
        with self._lock, database.transaction(self._connection) as connection:
            if unless(connection):
                return False
            if _read_holder(connection).runner == self._lease.id:
                write_index_meta(connection, _HOLDER, "")
            self._lease.reap_dead(connection)
            self._lease.release(connection)
        self._lease.close()
        return True

    def end(self, problem: str) -> None:
        """Give up the lease and store in one line what went wrong; empty if nothing did.

        This process then counts as dead, even if the store cannot be written.
        """
        line = redact(" ".join(problem.split())).text[:PROBLEM_CHARS]
        with (
            suppress(StoreError, sqlite3.Error),
            self._lock,
            database.transaction(self._connection) as connection,
        ):
            # Another holder's status stays: it has taken over since.
            if _read_holder(connection).runner in ("", self._lease.id):
                write_index_meta(connection, _HOLDER, "")
                write_index_meta(connection, _PROBLEM, line)
            self._lease.release(connection)
        self._lease.close()


def _read_holder(connection: sqlite3.Connection) -> _Holder:
    """Return the holder; an unreadable row counts as none, and the next holder overwrites it."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(read_index_meta(connection, _HOLDER) or "{}", type=_Holder)
    return _Holder()


def _write_holder(connection: sqlite3.Connection, holder: _Holder) -> None:
    write_index_meta(connection, _HOLDER, msgspec.json.encode(holder).decode())
