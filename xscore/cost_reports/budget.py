"""The dollars of a turn: an upper bound of each call is set aside in the store before it is sent.

What is set aside plus what is charged never passes the cap, over all tasks and processes that work on the turn. A call
that ended without telling its price stays charged at its bound. What a process had set aside is taken back when it
died, or when its lease ran out. So that not every call waits for the disk, a process sets some calls' worth aside at
once and lends it out; near the cap it takes no more than the next call needs, and there a call waits for those of its
own process in flight, which mostly cost less than their bound, before it is refused. Trade-off: it does not wait for
those of another process, nor for what another holds ready, at most a sixteenth of what was left.
"""

import os
import secrets
import sqlite3
import time
from asyncio import CancelledError, Event, Lock
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from sqlite3 import Connection
from typing import NamedTuple

from xscore.cache.group_commit import GroupCommit
from xscore.cost_reports.ledger import dollars
from xscore.database import making_sense
from xscore.errors import BudgetExhausted, StoreError
from xscore.processes import is_alive

LEASE_S = 3_600.0
"""Half of it is longer than any call's deadline: a lease runs out only under a process that is gone or stuck."""
AHEAD = 16
"""So many calls' worth is set aside beyond what the next call needs,"""
AHEAD_SHARE = 16
"""but no more than this part of the calls that the cap still has room for."""
NOTHING = Decimal(0)


@dataclass(slots=True)
class _Purse:
    """Dollars set aside in one row of the store."""

    leased_until: float
    row: str = field(default_factory=lambda: secrets.token_hex(8))
    room: Decimal = NOTHING
    """Not lent to a call."""
    spare: Decimal = NOTHING
    """Most of the room that is kept for the next calls."""
    lent: int = 0
    """Calls in flight."""
    is_lost: bool = False
    """Another process has taken the row back; the writing thread says so."""

    def surplus(self) -> Decimal:
        """Take out what need not be kept."""
        given_back = max(NOTHING, self.room - (self.spare if self.lent else NOTHING))
        self.room -= given_back
        return given_back


class _Charge(NamedTuple):
    """What is to be written of a settled call."""

    purse: _Purse
    usd: Decimal
    freed: Decimal
    """What is no longer set aside: at most what was, where a host charged beyond the bound."""


@dataclass(slots=True)
class _Fill:
    """What is to be set aside, and what came of it."""

    purse: _Purse
    needed: Decimal
    """Beside the room there is."""
    call: Decimal
    """Bound of the call it is for."""
    own: frozenset[str]
    """Rows of this process."""
    got: Decimal = NOTHING
    left: Decimal = NOTHING
    """Of the cap, before it."""


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
        self._purse = _Purse(clock() + lease_s)
        self._open: dict[str, tuple[_Purse, Decimal]] = {}
        self._reserved = 0
        self._line = Lock()
        self._settled = Event()

    async def reserve(self, usd: Decimal | None) -> str:
        """Set aside an upper bound (None: unpriced, counts as nothing). Raises BudgetExhausted past the cap.

        What was bought so far is kept first: where it cannot be, StoreError is raised and nothing more is bought.
        """
        await self._commits.caught_up()
        if self._cap is None or not usd:
            return ""
        async with self._line:
            while not (self._is_held() and usd <= self._purse.room):
                await self._more_for(usd)
            self._purse.room -= usd
        self._purse.lent += 1
        self._reserved += 1
        name = f"{self._reserved:x}"
        self._open[name] = (self._purse, usd)
        return name

    async def settle(self, reservation: str, actual: Decimal | None) -> None:
        """Charge what the call cost instead of its bound; None: it did not tell, so the bound stays charged.

        Does not raise where an earlier commit failed: a reply that was paid for is worth having, nothing more can be
        reserved, and what is left set aside keeps the dollars charged.
        """
        if not reservation:
            return
        purse, bound = self._open.pop(reservation)
        charge = bound if actual is None else actual
        held = purse.room + bound
        purse.room = max(NOTHING, held - charge)
        purse.lent -= 1
        freed = held - purse.room + purse.surplus()
        with suppress(StoreError, sqlite3.Error):
            self._commits.add(self._charge, _Charge(purse, charge, freed))
        self._settled.set()
        self._settled = Event()

    def _is_held(self) -> bool:
        """Whether what the purse holds will be set aside for as long as a call takes."""
        return not self._purse.is_lost and self._clock() < self._purse.leased_until - self._lease_s / 2

    async def _more_for(self, usd: Decimal) -> None:
        """Set more aside, or wait for a call in flight. Raises BudgetExhausted where there is none."""
        if not self._is_held():
            self._purse.spare = NOTHING
            self._purse = _Purse(self._clock() + self._lease_s)
        purse, settled = self._purse, self._settled
        own = frozenset(lender.row for lender, _ in self._open.values()) | {purse.row}
        fill = _Fill(purse, usd - purse.room, usd, own)
        try:
            await self._commits.submit(partial(self._set_aside, fill))
        except CancelledError:
            self._commits.post(lambda connection: _take_from(connection, purse, fill.got))
            raise
        if fill.got:
            purse.room += fill.got
            purse.spare = fill.got - fill.needed
        elif self._open or settled.is_set():
            await settled.wait()
        else:
            raise BudgetExhausted(
                f"the next call may cost ${usd}, and {self._rest(fill.left + purse.room)}",
                hint="Raise --max-usd, or narrow the task; what was judged is kept and not paid again.",
            )

    def _rest(self, left: Decimal) -> str:
        """Say what is left; a host can charge more than the bound of a call, and so beyond the cap."""
        if left < 0:
            return f"the turn's ${self._cap} are spent, and ${-left} beyond"
        return f"${left} of the turn's ${self._cap} are left"

    def _set_aside(self, fill: _Fill, connection: Connection) -> None:
        assert self._cap is not None
        row, leased_until = fill.purse.row, self._clock() + self._lease_s
        held = self._held(fill.own, connection)
        fill.left = self._cap - charged(connection, self._turn_id) - sum(held.values(), NOTHING)
        if fill.needed > fill.left:
            return
        further = int((fill.left - fill.needed) / fill.call) // AHEAD_SHARE
        fill.got = fill.needed + min(AHEAD, further) * fill.call
        fill.purse.leased_until = leased_until
        connection.execute(
            "INSERT INTO reservation (id, turn_id, pid, leased_until, amount_usd) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET leased_until = excluded.leased_until, amount_usd = excluded.amount_usd",
            (row, self._turn_id, os.getpid(), leased_until, str(held.get(row, NOTHING) + fill.got)),
        )

    def _held(self, own: frozenset[str], connection: Connection) -> dict[str, Decimal]:
        """Return what is set aside, by row; take back what the dead and the stuck had."""
        rows = connection.execute(
            "SELECT id, pid, leased_until, amount_usd FROM reservation WHERE turn_id = ?", (self._turn_id,)
        ).fetchall()
        others = [row for row in rows if row[0] not in own]  # of our own the clock, set forth, says nothing
        living = {pid for pid in {row[1] for row in others} if is_alive(pid)}
        now = self._clock()
        gone = {name for name, pid, leased_until, _ in others if leased_until < now or pid not in living}
        connection.executemany("DELETE FROM reservation WHERE id = ?", [(row,) for row in gone])
        with making_sense("what is set aside"):
            return {name: dollars(amount) for name, _, _, amount in rows if name not in gone}

    def _charge(self, charges: Sequence[_Charge], connection: Connection) -> None:
        for purse in {charge.purse.row: charge.purse for charge in charges}.values():
            own = [charge for charge in charges if charge.purse is purse]
            _take_from(connection, purse, sum((charge.freed for charge in own), NOTHING))
        whole = charged(connection, self._turn_id) + sum((charge.usd for charge in charges), NOTHING)
        connection.execute(
            "INSERT INTO spending (turn_id, spent_usd) VALUES (?, ?)"
            " ON CONFLICT (turn_id) DO UPDATE SET spent_usd = excluded.spent_usd",
            (self._turn_id, str(whole)),
        )


def charged(connection: Connection, turn_id: str) -> Decimal:
    """Return what the settled calls of a turn have cost. Raises StoreDamaged."""
    row = connection.execute("SELECT spent_usd FROM spending WHERE turn_id = ?", (turn_id,)).fetchone()
    with making_sense("what a turn has cost"):
        return dollars(row[0]) if row else NOTHING


def _take_from(connection: Connection, purse: _Purse, usd: Decimal) -> None:
    """Set so much less aside; a purse whose row is gone is lost."""
    found = connection.execute("SELECT amount_usd FROM reservation WHERE id = ?", (purse.row,)).fetchone()
    if found is None:
        purse.is_lost = True
        return
    with making_sense("what is set aside"):
        left = dollars(found[0]) - usd
    if left > 0:
        connection.execute("UPDATE reservation SET amount_usd = ? WHERE id = ?", (str(left), purse.row))
    else:
        connection.execute("DELETE FROM reservation WHERE id = ?", (purse.row,))
