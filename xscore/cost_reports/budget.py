"""The dollars of a turn: an upper bound of each call is set aside in the store before it is sent.

What is set aside plus what is charged never passes the cap, over all tasks and processes that work on the turn. A call
that ended without telling its price stays charged at its bound. A reservation whose process died, or whose lease ran
out, is taken back. Near the cap a call waits for those of its own process in flight, which mostly cost less than
their bound, before it is refused. Trade-off: it does not wait for those of another process.
"""

import os
import secrets
import sqlite3
import time
from asyncio import CancelledError, Event
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from sqlite3 import Connection

from xscore.cache.group_commit import GroupCommit
from xscore.cache.runners import is_alive
from xscore.errors import BudgetExhausted, StoreError

LEASE_S = 1_800.0
"""Longer than any call's deadline, so that a lease runs out only under a process that is gone or stuck."""


class TurnBudget:
    """The cap of one turn, shared through the store. `cap` None: nothing is capped."""

    def __init__(
        self,
        commits: GroupCommit,
        *,
        turn_id: str,
        cap: Decimal | None,
        clock: Callable[[], float] = time.time,
        lease_s: float = LEASE_S,
    ) -> None:
        self._commits = commits
        self._turn_id = turn_id
        self._cap = cap
        self._clock = clock
        self._lease_s = lease_s
        self._run, self._reserved = secrets.token_hex(8), 0
        self._open: dict[str, Decimal] = {}
        self._settled = Event()

    async def reserve(self, usd: Decimal | None) -> str:
        """Set aside an upper bound (None: unpriced, counts as nothing). Raises BudgetExhausted past the cap."""
        if self._cap is None:
            return ""
        self._reserved += 1
        name, amount = f"{self._run}{self._reserved:x}", usd or Decimal(0)
        settled = self._settled
        while (left := await self._try(name, amount)) is not None:
            if not (self._open or settled.is_set()):
                raise BudgetExhausted(
                    f"the next call may cost ${amount}, and ${left} of the turn's ${self._cap} are left",
                    hint="Raise --max-usd, or narrow the task; what was judged is kept and not paid again.",
                )
            await settled.wait()
            settled = self._settled
        self._open[name] = amount
        return name

    async def settle(self, reservation: str, actual: Decimal | None) -> None:
        """Charge what the call cost instead of its bound; None: it did not tell, so the bound stays charged.

        Does not raise where an earlier commit failed: a reply that was paid for is worth having, nothing more can be
        reserved, and the reservation left behind keeps the dollars charged.
        """
        if reservation:
            bound = self._open.pop(reservation)
            with suppress(StoreError, sqlite3.Error):
                self._commits.post(partial(self._charge, reservation, bound if actual is None else actual))
            self._settled.set()
            self._settled = Event()

    async def _try(self, name: str, amount: Decimal) -> Decimal | None:
        """Return None once the amount is set aside, or what is left where that is too little."""
        try:
            return await self._commits.submit(partial(self._set_aside, name, amount))
        except CancelledError:
            self._commits.post(partial(self._charge, name, Decimal(0)))
            raise

    def _set_aside(self, name: str, amount: Decimal, connection: Connection) -> Decimal | None:
        assert self._cap is not None
        now = self._clock()
        rows = connection.execute(
            "SELECT id, pid, leased_until, amount_usd FROM reservation WHERE turn_id = ?", (self._turn_id,)
        ).fetchall()
        others = (row for row in rows if row[0] not in self._open)  # of our own the clock, set forth, says nothing
        gone = {name for name, pid, leased_until, _ in others if leased_until < now or not is_alive(pid)}
        connection.executemany("DELETE FROM reservation WHERE id = ?", [(row,) for row in gone])
        held = sum((Decimal(row[3]) for row in rows if row[0] not in gone), Decimal(0))
        left = self._cap - charged(connection, self._turn_id) - held
        if amount > left:
            return left
        connection.execute(
            "INSERT INTO reservation (id, turn_id, pid, leased_until, amount_usd) VALUES (?, ?, ?, ?, ?)",
            (name, self._turn_id, os.getpid(), now + self._lease_s, str(amount)),
        )
        return None

    def _charge(self, name: str, amount: Decimal, connection: Connection) -> None:
        connection.execute("DELETE FROM reservation WHERE id = ?", (name,))
        connection.execute(
            "INSERT INTO spending (turn_id, spent_usd) VALUES (?, ?)"
            " ON CONFLICT (turn_id) DO UPDATE SET spent_usd = excluded.spent_usd",
            (self._turn_id, str(charged(connection, self._turn_id) + amount)),
        )


def charged(connection: Connection, turn_id: str) -> Decimal:
    """Return what the settled calls of a turn have cost."""
    row = connection.execute("SELECT spent_usd FROM spending WHERE turn_id = ?", (turn_id,)).fetchone()
    return Decimal(row[0]) if row else Decimal(0)
