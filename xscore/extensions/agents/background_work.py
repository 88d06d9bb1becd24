"""The work of a store's background process: index, finish turns that a deadline cut short, judge
changes again, and once a day consolidate the memories.

Only turns of hooks, servers and `context` are finished: the newest of each thread, not older than a
day, each once per process. It never asks and keeps every cap; where the user set no cap on a day, a
turn costs at most what it was forecast to cost, and all background work of a UTC day `USD_A_DAY`.
Trade-off: a turn is finished only by the judge that began it; one asked with other packing is left
to `xscore continue`.
"""

import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.background_lease import BackgroundLease
from xscore.costs.caps import ZERO_USD, Caps, cap_status, spent_in_period
from xscore.extensions.agents.background import CHANGES_ASKED
from xscore.extensions.extraction.session_end import extract_sessions
from xscore.extensions.learning.tidying import is_due, tidy
from xscore.pipeline.assembly import with_cap
from xscore.pipeline.build import Pipeline
from xscore.pipeline.known_hosts import remember_host
from xscore.pipeline.live_judging import judge_pool, open_judge
from xscore.pipeline.parts import PipelineParts, TurnOptions
from xscore.pipeline.past_turns import turn_to_continue
from xscore.pipeline.prepare import prepare_turn
from xscore.pipeline.turn import run_turn
from xscore.pipeline.turn_clock import Stopwatch
from xscore.platform import database, money
from xscore.platform.clock import DAY_S
from xscore.platform.errors import (
    BudgetExhausted,
    ExitCode,
    StoreError,
    UsageError,
    XscoreError,
)
from xscore.platform.paths import RepositoryRoot, user_data_dir
from xscore.platform.processes import random_hex
from xscore.platform.text import counted
from xscore.records.events import Observer, StageBegan, TurnEvent
from xscore.records.judgment import Judgment
from xscore.records.receipt import Answer
from xscore.settings import LoadedSettings
from xscore.store import opening
from xscore.store.extracted_facts import unread_sessions
from xscore.store.index_rows import read_index_meta, write_index_meta
from xscore.store.siblings import opened_sibling
from xscore.store.turns import BACKGROUND, replace_turn
from xscore.store.worktrees import enter_worktree

USD_A_DAY = Decimal(1)
"""The most that background work costs in a UTC day if `budget.max_usd_day` is not set."""
RETRY_S = 600.0
"""A turn that could not be finished is tried again after this long, if the process lives."""
_IS_NEWEST = """
    NOT EXISTS (
        SELECT 1 FROM turn AS later WHERE later.thread = turn.thread
          AND later.started_at > turn.started_at
        AND coalesce(json_extract(later.context, '$.command'), '') <> 'background'
    )
"""
"""SQL: whether the turn is the newest that someone asked in its thread."""
_CUT_SHORT = f"""
    SELECT turn.id, unjudged + coalesce(json_extract(body, '$.carried_over.left'), 0)
    FROM turn JOIN turn_figures ON turn_figures.turn_id = turn.id
      JOIN receipt ON receipt.turn_id = turn.id
    WHERE worktree = :worktree AND abs(:now - started_at) < 86400
    AND state IN ('partial', 'failed') AND command IN ('hook', 'mcp', 'context')
    AND (
        json_extract(unjudged_by_cause, '$.deadline') > 0
          OR json_extract(body, '$.carried_over.left') > 0
        OR json_extract(body, '$.files_left') > 0
    ) AND {_IS_NEWEST} ORDER BY started_at DESC
"""
MOST_THREADS = 3
_OPEN_THREADS = f"""
    SELECT turn.id, started_at FROM turn JOIN session USING (thread)
    WHERE worktree = :worktree AND abs(:now - started_at) < 14400
    AND closed_at IS NULL AND task <> '' AND state <> 'running'
    AND coalesce(json_extract(context, '$.command'), '') <> 'background' AND {_IS_NEWEST}
    ORDER BY started_at DESC LIMIT {MOST_THREADS}
"""
"""SQL of the newest turns of the latest four hours."""
_SPENT = """
    SELECT coalesce(sum(cost), 0) FROM call LEFT JOIN turn ON turn.id = turn_id
    WHERE call.started_at >= :since AND (
        substr(turn_id, 1, 2) = 'w_' OR json_extract(context, '$.command') = 'background'
        OR (substr(turn_id, 1, 2) = 't_' AND coalesce(context, '{}') = '{}')
    )
"""
"""SQL of what background work has cost. An erased turn counts as well, so that erasing resets
no cap."""


class WorkDone(Struct):
    """Totals for the report line."""

    files: int = 0
    judged: int = 0
    turns: int = 0
    cost_usd: Decimal = ZERO_USD
    """Dollars spent, without calls of unknown price."""


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
        self._root = root
        self._store_id = store_id
        self._lease = lease
        self._clock = clock
        self._tried = dict[str, float]()
        """Turn -> when it was last tried, on the clock of `time.monotonic`."""
        self._sessions_tried = set[tuple[str, float]]()
        """Thread and time of the last word of sessions that were over when they were read for
        facts."""
        self.done: WorkDone = WorkDone()
        self.problem: str = ""

    async def catch_up(self) -> bool:
        """Index, finish turns until none is left, judge changes if a hook asked for that, then tidy
        the memories if that is due.

        False: it was interrupted. Raises StoreError.
        """
        await self.index()
        if not await self.finish_turns():
            return False
        with self._reading() as connection:
            is_asked = bool(read_index_meta(connection, CHANGES_ASKED))
        if is_asked and not await self.judge_changes():
            return False
        await self.extract()
        await self.tidy()
        return True

    async def extract(self) -> None:
        """Keep the facts of sessions that are over. Raises StoreError."""
        if self._loaded.settings.memory.extract == "off":
            return
        with self._reading() as connection:
            unread = unread_sessions(connection)
        if not unread:
            return
        self._sessions_tried |= {(session.thread, session.last_at) for session in unread}
        self._lease.say("reading sessions that are over")
        async with self._pipeline() as pipeline:
            settings = pipeline.parts.settings
            try:
                parts = _within_caps(pipeline.parts, f"w_{random_hex(8)}", now=self._clock())
                settings = parts.settings
            except BudgetExhausted:  # the rules cost nothing
                settings = replace(settings, memory=replace(settings.memory, extractor=""))
            try:
                sessions = await extract_sessions(pipeline.store, settings, now=self._clock())
            except UsageError as error:
                self.problem = f"facts of sessions: {error.message}"
                return
        problems = [session.problem for session in sessions if session.problem]
        if problems:
            self.problem = f"facts of sessions: {problems[-1]}"

    async def tidy(self) -> None:
        """Consolidate the memories, at most once a day. Raises StoreError."""
        with self._reading() as connection:
            if not is_due(connection, now=self._clock()):
                return
        self._lease.say("tidying the memories")
        async with self._pipeline() as pipeline:
            tidy(pipeline.store, pipeline.parts.settings.memory, now=self._clock())

    async def index(self) -> None:
        """Bring the index up to date. Raises StoreError."""
        self._lease.say("indexing")
        async with self._pipeline() as pipeline:
            self.done.files += (await pipeline.index()).files.indexed

    async def finish_turns(self) -> bool:
        """Finish the turns that a deadline cut short; False if it was interrupted.

        Raises StoreError.
        """
        while True:
            async with self._pipeline() as pipeline:
                turn_id, unjudged = self._next_turn(pipeline.store.connection)
            if not turn_id:
                return True
            self._tried[turn_id] = time.monotonic()
            self._lease.say(
                f"judging {counted(unjudged, 'memory', 'memories')} of turn {turn_id}"
            )
            try:
                answer = await self._finish(turn_id)
            except StoreError:
                raise
            except XscoreError as error:
                self.problem = f"turn {turn_id} could not be finished: {error.message}"
                continue
            if answer.exit_code == ExitCode.INTERRUPTED:
                return False

    def rest(self) -> None:
        """Report that there is nothing to do now."""
        self._lease.say("")

    def has_turns(self) -> bool:
        """Whether there is a turn to finish. Raises StoreError."""
        with self._reading() as connection:
            return self.is_left(connection)

    def known_paths(self) -> frozenset[str]:
        """Return the paths of files that the index has read. Raises StoreError."""
        with self._reading() as connection:
            read = connection.execute(
                "SELECT path FROM file WHERE excluded = '' OR file_hash <> ''"
            )
            return frozenset(path for (path,) in read.fetchall())

    @contextmanager
    def _reading(self) -> "Iterator[sqlite3.Connection]":
        keys = opening.key_source(user_data_dir(self._loaded.settings.store.user_data_dir))
        with closing(
            database.open_unchecked(self._root.store_file, keys, read_only=True)
        ) as connection:
            enter_worktree(connection, self._root.worktree)
            yield connection

    def is_left(self, connection: sqlite3.Connection) -> bool:
        """Whether there is a turn to finish that was not just tried, changes to judge, or a session
        to read that has ended meanwhile."""
        if self._next_turn(connection)[0] or read_index_meta(connection, CHANGES_ASKED):
            return True
        if self._loaded.settings.memory.extract == "off":
            return False
        for session in unread_sessions(connection):
            was_tried = (session.thread, session.last_at) in self._sessions_tried
            if session.is_over and not was_tried:
                return True
        return False

    def _next_turn(self, connection: sqlite3.Connection) -> tuple[str, int]:
        """Return the turn to finish, and how many memories it left; an empty name: none."""
        rows: list[tuple[str, int]] = connection.execute(
            _CUT_SHORT, self._asked_here()
        ).fetchall()
        since = time.monotonic() - RETRY_S
        return next((row for row in rows if self._tried.get(row[0], since) <= since), ("", 0))

    def _asked_here(self) -> dict[str, float | str]:
        """Return what finds the turns of this worktree: those of another would be judged with other
        code."""
        return {"now": self._clock(), "worktree": self._root.worktree}

    async def _finish(self, turn_id: str) -> Answer:
        async with self._pipeline() as pipeline:
            parts = pipeline.parts
            connection = pipeline.store.connection
            parts = _within_caps(parts, turn_id, now=self._clock())
            parts, turn = turn_to_continue(parts, turn_id, answer=False)
            answer = await run_turn(parts, turn, TurnOptions(answer=False, command=BACKGROUND))
            if not answer.partial:
                replace_turn(connection, turn_id, by=answer.turn_id)
            self.done.cost_usd += spent_in_period(connection, answer.turn_id)
        self.done.judged += answer.coverage.judged
        self.done.turns += not answer.partial
        if answer.coverage.unjudged and answer.exit_code != ExitCode.INTERRUPTED:
            causes = ", ".join(answer.unjudged.by_cause)
            unjudged = counted(answer.coverage.unjudged, "memory is", "memories are")
            self.problem = f"turn {turn_id}: {unjudged} still unjudged ({causes})"
        return answer

    async def judge_changes(self) -> bool:
        """Judge what has changed since the latest question of each open thread; False if it was
        interrupted.

        Raises StoreError.
        """
        async with self._pipeline() as pipeline:
            connection = pipeline.store.connection
            with database.transaction(connection):
                write_index_meta(connection, CHANGES_ASKED, "")
            threads = connection.execute(_OPEN_THREADS, self._asked_here()).fetchall()
        for turn_id, asked_at in threads:
            try:
                if not await self._judge_changes_of(turn_id, asked_at):
                    return False
            except StoreError:
                raise
            except XscoreError as error:
                self.problem = (
                    f"changes since turn {turn_id} could not be judged: {error.message}"
                )
        return True

    async def _judge_changes_of(self, turn_id: str, asked_at: float) -> bool:
        run_id = f"w_{random_hex(8)}"
        async with self._pipeline() as pipeline:
            parts = pipeline.parts
            connection = pipeline.store.connection
            parts = _within_caps(parts, run_id, now=self._clock())
            parts, turn = turn_to_continue(parts, turn_id, answer=False, even_done=True)
            prepared = prepare_turn(
                parts, replace(turn, continues=""), Stopwatch(), continues_session=False
            )
            changed = tuple(
                [miss for miss in prepared.pool.misses if miss.updated_at > asked_at]
            )
            if not (changed and parts.judge.stored):
                return True
            self._lease.say(
                f"judging {counted(len(changed), 'changed memory', 'changed memories')}"
            )
            narrowed = replace(
                prepared, pool=replace(prepared.pool, candidates=changed, misses=changed)
            )
            async with parts.open_resources(run_id) as resources:
                judge = await open_judge(parts.judge, resources, narrowed)
                judged = await judge_pool(narrowed, judge, resources, parts.observer)
            remember_host(parts.judge)
            self.done.cost_usd += spent_in_period(connection, run_id)
        self.done.judged += sum(
            isinstance(outcome.result, Judgment) for outcome in judged.outcomes
        )
        return not judged.interrupted

    @asynccontextmanager
    async def _pipeline(self) -> "AsyncIterator[Pipeline]":
        """Open the repository, unless its store was removed or replaced. Raises StoreError."""
        async with Pipeline.open(
            self._root.path,
            self._loaded,
            observer=_StoreWatch(self._root),
            clock=self._clock,
            make=False,
        ) as pipeline:
            if pipeline.store.store_id != self._store_id:
                raise StoreError(
                    "the store was removed or replaced", hint="Start `xscore watch` again."
                )
            yield pipeline


class _StoreWatch(Observer):
    """Ends a turn whose store was removed while it indexed, since opening the store to write would
    make a new one."""

    def __init__(self, root: RepositoryRoot) -> None:
        self._root = root

    def on(self, event: TurnEvent) -> None:
        """Raise StoreError if a stage begins and there is no store now."""
        if isinstance(event, StageBegan) and not self._root.store_file.exists():
            raise StoreError("the store was removed", hint="Start `xscore watch` again.")


def _within_caps(parts: PipelineParts, turn_id: str, *, now: float) -> PipelineParts:
    """Return the parts with this turn's remaining budget.

    Raises BudgetExhausted if there is none.
    """
    connection = parts.store.connection
    budget = parts.settings.budget
    caps = []
    for cap in cap_status(connection, Caps.of(budget), now=now, turn_id=turn_id):
        caps.append(cap.left_usd)
    if budget.max_usd_day is None:
        caps.append(USD_A_DAY - _spent_today(parts, now=now))
        row = connection.execute(
            "SELECT expected_cost FROM turn_figures WHERE turn_id = ?", (turn_id,)
        ).fetchone()
        if row and row[0]:
            caps.append(money.dollars_of_picodollars(row[0]))
    if not caps:
        return parts
    if min(caps) <= 0:
        raise BudgetExhausted(
            "its cap, or the day's, is used up",
            hint="budget.max_usd_day sets what all work of a day may cost.",
        )
    return with_cap(parts, min(caps))


def _spent_today(parts: PipelineParts, *, now: float) -> Decimal:
    """Return what background work has cost today, in all worktrees and clones."""
    since = {"since": now // DAY_S * DAY_S}
    spent = [parts.store.connection.execute(_SPENT, since).fetchone()[0]]
    for store in parts.store.siblings():
        with suppress(StoreError), opened_sibling(store) as sibling:
            spent.append(sibling.execute(_SPENT, since).fetchone()[0])
    return sum(map(money.dollars_of_picodollars, spent), ZERO_USD)
