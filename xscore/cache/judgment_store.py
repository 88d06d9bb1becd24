"""Which processes are at work on a store: each shows a sign of life every few seconds, and is taken out when gone.

Whether one is gone is told by `processes`; of those of this very process it is known here. Trade-off: a wall clock that
jumps by more than the lease makes a living runner look gone for some seconds, and what it is paying for may then be
paid twice.

Who pays for which content just now, so that processes at work on one store pay for each candidate once.

A pack is claimed whole, in one transaction that also looks whether its contents were judged meanwhile. A claim goes
when its judgments are written (`cache.writer`, in the same transaction), when it is released, and with its runner
(`cache.runners`). Claims are filed as judgments are, under turn and judge, so different tasks never meet.
Trade-off: claims keep nothing right; two runners that both believe they own a content pay twice, and the first wins.

Write-through of paid judgments: `write` returns when they are committed, so that a slot is freed only then.

The claims on what they judge go in the same transaction. The thread and the grouping are `cache.group_commit`'s; this
module only knows whose judgments they are. Trade-off: a pack waits for the disk before the next is sent in its place,
some 0.1 ms against seconds of a call.

The seam to where judgments are kept while they are bought: a writer and claims for each turn and judge.

The store beside the code is the default (`StoredJudgments`); a server that several machines share stands in front of it
elsewhere (`shared.read_through`). What is known of a turn is read before anything is bought, from the store alone.
"""

import asyncio
import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from sqlite3 import Connection, Error
from typing import Protocol, Self

from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgments import WrittenJudgments, find_or_add_query, insert_judgments, known_judgments
from xscore.cache.keys import JudgmentKey, judge_key
from xscore.platform.errors import StoreError
from xscore.platform.processes import LEASE_S, RunnerMark, process_place
from xscore.records import ClaimResult, ClaimState, JudgeIdentity, Judgment

_WORKING: set[str] = set()
"""Runners of this very process, which the process id cannot tell apart."""


class RunnerLease:
    """This process, as others see it in the store."""

    def __init__(self, *, lease_s: float = LEASE_S, clock: Callable[[], float] = time.time) -> None:
        self.id = secrets.token_hex(8)
        self._lease_s, self._clock = lease_s, clock
        self._pid, self._place = os.getpid(), process_place()
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
        _remove_runner(connection, self.id)

    def bury_others(self, connection: Connection) -> bool:
        """Take out the runners that are gone, with their claims; say whether others live. Within a transaction."""
        others = connection.execute("SELECT id, pid, place, seen_at FROM runner WHERE id <> ?", (self.id,)).fetchall()
        gone = [name for name, *mark in others if not self._lives(name, RunnerMark(*mark))]
        for name in gone:
            _remove_runner(connection, name)
        return len(others) > len(gone)

    def _lives(self, name: str, mark: RunnerMark) -> bool:
        if (mark.pid, mark.place) == (self._pid, self._place) and name not in _WORKING:
            return False
        return mark.lives(here=self._place, now=self._clock(), lease_s=self._lease_s)


def _remove_runner(connection: Connection, runner: str) -> None:
    connection.execute("DELETE FROM claim WHERE runner = ?", (runner,))
    connection.execute("DELETE FROM runner WHERE id = ?", (runner,))


HEARTBEAT_S = 5.0

_TAKEN = """
    SELECT content FROM json_each(?) CROSS JOIN claim ON query_id = ? AND content = value WHERE runner <> ?
"""
_TAKE = """
    INSERT INTO claim (query_id, content, runner) SELECT ?, value, ? FROM json_each(?) WHERE true
    ON CONFLICT (query_id, content) DO NOTHING
"""


class StoredClaims:
    """The claims of one turn by one judge: an async context manager, which releases them all at its end."""

    def __init__(
        self,
        commits: GroupCommit,
        *,
        turn_key: str,
        judge: JudgeIdentity,
        lease_s: float = LEASE_S,
        sign_of_life_s: float = HEARTBEAT_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._commits = commits
        self._names: JudgmentKey = (turn_key, judge_key(judge), 0)
        self._runner = RunnerLease(lease_s=lease_s, clock=clock)
        self._sign_of_life_s = sign_of_life_s

    async def __aenter__(self) -> Self:
        """Begin to show signs of life."""
        self._pulse = asyncio.create_task(self._show_life())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Release everything; where the store can no longer be written, the lease does."""
        self._pulse.cancel()
        await asyncio.gather(self._pulse, return_exceptions=True)
        with suppress(StoreError, Error):
            self._commits.post(self._runner.leave)
        self._runner.end()

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[ClaimResult]:
        """Claim whole packs of content hashes, `at_most` so many that still need judging; one result for each pack.

        Raises StoreError when the claim cannot be written: then nothing may be sent.
        """
        return await self._commits.submit(partial(self._claim, packs, at_most))

    def release(self, hashes: Iterable[str]) -> None:
        """Give contents up without a judgment, so that another runner may take them."""
        given_up = list(hashes)
        if given_up:
            self._commits.post(partial(self._release, given_up))

    def _claim(self, packs: Sequence[Sequence[str]], at_most: int, connection: Connection) -> list[ClaimResult]:
        query = find_or_add_query(connection, self._names)
        self._runner.show_life(connection)
        asked = [content for pack in packs for content in pack]
        known = known_judgments(connection, self._names, query, asked)
        taken: set[str] = set()
        if self._runner.bury_others(connection):
            rows = connection.execute(_TAKEN, (json.dumps(asked), query, self._runner.id)).fetchall()
            taken = {content for (content,) in rows}
        found: list[ClaimResult] = []
        mine: list[str] = []
        for pack in packs:
            left = [content for content in pack if content not in known]
            share = ClaimState.OURS
            if not taken.isdisjoint(left):
                share = ClaimState.THEIRS
            elif left and not at_most:
                share = ClaimState.FREE
            elif left:
                at_most -= 1
                mine += left
            found.append(ClaimResult(share, {content: known[content] for content in pack if content in known}))
        connection.execute(_TAKE, (query, self._runner.id, json.dumps(mine)))
        return found

    def _release(self, hashes: Sequence[str], connection: Connection) -> None:
        query = find_or_add_query(connection, self._names)
        connection.executemany(
            "DELETE FROM claim WHERE query_id = ? AND content = ? AND runner = ?",
            [(query, content, self._runner.id) for content in hashes],
        )

    async def _show_life(self) -> None:
        with suppress(StoreError, Error):  # whoever writes judgments next is told of it
            while True:
                await asyncio.sleep(self._sign_of_life_s)
                self._commits.post(self._runner.show_life)


def settle_claims(connection: Connection, kept: WrittenJudgments) -> None:
    """Take out the claims on contents that are judged now, whoever holds them. Within an open transaction."""
    connection.execute(
        "DELETE FROM claim WHERE query_id = ? AND content IN (SELECT value FROM json_each(?))",
        (kept.query, kept.hashes),
    )


class JudgmentWriter:
    """Keeps the judgments of one turn by one judge."""

    def __init__(self, commits: GroupCommit, *, turn_key: str, judge: JudgeIdentity, sample: int = 0) -> None:
        self._commits = commits
        self._turn_key, self._judge, self._sample = turn_key, judge, sample

    async def write(self, judgments: Sequence[Judgment]) -> None:
        """Return once these are committed. Raises StoreError, and then for every later call, when they cannot be."""
        if judgments:
            await self._commits.keep(self._insert, judgments)

    def _insert(self, batches: Sequence[Sequence[Judgment]], connection: Connection) -> None:
        judgments = [judgment for batch in batches for judgment in batch]
        kept = insert_judgments(connection, judgments, turn_key=self._turn_key, judge=self._judge, sample=self._sample)
        settle_claims(connection, kept)


WriteJudgments = Callable[[Sequence[Judgment]], Awaitable[None]]
"""Returns when these judgments are committed, and the claims on them settled."""


class Claims(Protocol):
    """Who pays for which content just now."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None:
        """Release everything."""
        ...

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[ClaimResult]:
        """Claim whole packs of content hashes, `at_most` so many that still need judging; one result for each pack."""
        ...

    def release(self, hashes: Iterable[str]) -> None:
        """Give contents up without a judgment."""
        ...


class JudgmentStore(Protocol):
    """Where judgments are kept, and claimed before they are bought."""

    def writer(self, turn_key: str, judge: JudgeIdentity) -> WriteJudgments:
        """Return what keeps the judgments of a turn."""
        ...

    def claims(self, turn_key: str, judge: JudgeIdentity) -> Claims:
        """Return what keeps others at work on the same store from paying for the same contents of a turn."""
        ...


class StoredJudgments:
    """The judgments of one SQLite store."""

    def __init__(self, commits: GroupCommit, *, clock: Callable[[], float] = time.time) -> None:
        """Write through this thread. clock: Unix seconds, for the signs of life of claims."""
        self._commits, self._clock = commits, clock

    def writer(self, turn_key: str, judge: JudgeIdentity) -> WriteJudgments:
        """Return what keeps the judgments of a turn."""
        return JudgmentWriter(self._commits, turn_key=turn_key, judge=judge).write

    def claims(self, turn_key: str, judge: JudgeIdentity) -> Claims:
        """Return what keeps processes at work on this store from paying for the same contents of a turn."""
        return StoredClaims(self._commits, turn_key=turn_key, judge=judge, clock=self._clock)
