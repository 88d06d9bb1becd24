"""What the background process of a store does: bring the index up to date, then finish what a deadline cut short.

Only turns of hooks, servers and `context` are finished: the newest of each thread, not older than a day, each once per
process. It never asks and keeps every cap; where the user set no cap on a day, a turn costs at most what it was
forecast to cost, and all background work of a UTC day `USD_A_DAY`.
Trade-off: a turn is judged again under its own judge alone; one asked with other packing is left to `xscore continue`.
"""

import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.background_lease import BackgroundLease
from xscore.costs.caps import ZERO_USD, spent_in_period
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import TurnOptions
from xscore.pipeline.past_turns import turn_to_continue
from xscore.pipeline.turn import run_turn
from xscore.platform import money
from xscore.platform.clock import DAY_S
from xscore.platform.errors import BudgetExhausted, StoreError, XscoreError
from xscore.platform.paths import RepositoryRoot
from xscore.platform.text import counted
from xscore.records.receipt import Answer
from xscore.settings import BudgetSettings, LoadedSettings
from xscore.store.turns import BACKGROUND, replace_turn

USD_A_DAY = Decimal(1)
"""Most that background work costs in a UTC day where `budget.max_usd_day` is not set."""
INTERRUPTED = 130
_CUT_SHORT = """
    SELECT turn.id, unjudged FROM turn JOIN turn_figures AS figures ON turn_id = turn.id
    WHERE state = 'partial' AND command IN ('hook', 'mcp', 'context') AND abs(:now - started_at) < 86400
    AND json_extract(unjudged_by_cause, '$.deadline') > 0 AND NOT EXISTS (
        SELECT 1 FROM turn AS later WHERE later.thread = turn.thread AND later.started_at > turn.started_at
        AND coalesce(json_extract(later.context, '$.command'), '') <> 'background'
    ) ORDER BY started_at DESC
"""
_SPENT = """
    SELECT coalesce(sum(cost), 0) FROM call WHERE started_at >= :since AND turn_id IN (
        SELECT id FROM turn WHERE started_at >= :since - 86400 AND json_extract(context, '$.command') = 'background'
    )
"""


class WorkDone(Struct):
    """What a process did, for its last line."""

    files: int = 0
    """Files read."""
    judged: int = 0
    turns: int = 0
    """Turns finished."""
    cost_usd: Decimal = ZERO_USD
    """Without calls of unknown price."""


class BackgroundWork:
    """The work of one process that holds the lease of a store."""

    def __init__(
        self,
        root: RepositoryRoot,
        store_id: str,
        loaded: LoadedSettings,
        lease: BackgroundLease,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        budget = replace(loaded.settings.budget, deadline_s=None)
        self._loaded = replace(loaded, settings=replace(loaded.settings, budget=budget))
        self._root, self._store_id, self._lease, self._clock = root, store_id, lease, clock
        self._tried: set[str] = set()
        self.done = WorkDone()
        self.problem = ""
        """What went wrong last."""

    async def catch_up(self) -> bool:
        """Index, then finish turns until none is left; False: it was interrupted. Raises StoreError."""
        await self.index()
        return await self.finish_turns()

    async def index(self) -> None:
        """Bring the index up to date. Raises StoreError."""
        self._lease.say("indexing")
        async with self._pipeline() as pipeline:
            self.done.files += (await pipeline.index()).files.indexed

    async def finish_turns(self) -> bool:
        """Finish the turns that a deadline cut short; False: it was interrupted. Raises StoreError."""
        while True:
            async with self._pipeline() as pipeline:
                turn_id, unjudged = self._next_turn(pipeline.store.connection)
            if not turn_id:
                return True
            self._tried.add(turn_id)
            self._lease.say(f"judging {counted(unjudged, 'memory', 'memories')} of turn {turn_id}")
            try:
                answer = await self._finish(turn_id)
            except StoreError:
                raise
            except XscoreError as error:
                self.problem = f"turn {turn_id} could not be finished: {error.message}"
                continue
            if answer.exit_code == INTERRUPTED:
                return False

    def is_left(self, connection: sqlite3.Connection) -> bool:
        """Whether there is a turn to finish that was not tried."""
        return bool(self._next_turn(connection)[0])

    def _next_turn(self, connection: sqlite3.Connection) -> tuple[str, int]:
        """Return the turn to finish, and how many memories it left; no name: there is none."""
        rows: list[tuple[str, int]] = connection.execute(_CUT_SHORT, {"now": self._clock()}).fetchall()
        return next((row for row in rows if row[0] not in self._tried), ("", 0))

    async def _finish(self, turn_id: str) -> Answer:
        async with self._pipeline() as pipeline:
            parts, connection = pipeline.parts, pipeline.store.connection
            cap = _dollars_left(connection, pipeline.parts.settings.budget, turn_id, now=self._clock())
            if cap is not None and parts.with_cap is not None:
                parts = parts.with_cap(cap)
            parts, turn = turn_to_continue(parts, turn_id, answer=False)
            answer = await run_turn(parts, turn, TurnOptions(answer=False, command=BACKGROUND))
            if not answer.coverage.unjudged:
                replace_turn(connection, turn_id, by=answer.turn_id)
            self.done.cost_usd += spent_in_period(connection, answer.turn_id)
        self.done.judged += answer.coverage.judged
        self.done.turns += not answer.coverage.unjudged
        if answer.coverage.unjudged and answer.exit_code != INTERRUPTED:
            causes = ", ".join(answer.unjudged.by_cause)
            left = counted(answer.coverage.unjudged, "memory is", "memories are")
            self.problem = f"turn {turn_id}: {left} still unjudged ({causes})"
        return answer

    @asynccontextmanager
    async def _pipeline(self) -> "AsyncIterator[Pipeline]":
        """Open the repository, unless its store is gone or another one. Raises StoreError."""
        async with Pipeline.open(self._root.path, self._loaded, clock=self._clock, make=False) as pipeline:
            if pipeline.store.store_id != self._store_id:
                raise StoreError("the store was removed or replaced", hint="Run it again.")
            yield pipeline


def _dollars_left(
    connection: sqlite3.Connection, budget: BudgetSettings, turn_id: str, *, now: float
) -> Decimal | None:
    """Return the most that finishing a turn may cost; None: no limit. Raises BudgetExhausted for nothing."""
    caps = []
    if budget.max_usd is not None:
        caps.append(budget.max_usd - spent_in_period(connection, turn_id))
    if budget.max_usd_day is None:
        (spent,) = connection.execute(_SPENT, {"since": now // DAY_S * DAY_S}).fetchone()
        caps.append(USD_A_DAY - money.dollars_of_picodollars(spent))
        row = connection.execute("SELECT expected_cost FROM turn_figures WHERE turn_id = ?", (turn_id,)).fetchone()
        if row and row[0]:
            caps.append(money.dollars_of_picodollars(row[0]))
    if min(caps, default=USD_A_DAY) <= 0:
        raise BudgetExhausted(
            "nothing is left for background work today", hint="Set budget.max_usd_day to decide how much it may spend."
        )
    return min(caps, default=None)
