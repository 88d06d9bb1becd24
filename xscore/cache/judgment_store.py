"""Where judgments are kept while they are bought: a writer and claims for each turn and judge.

A pack is claimed whole, in one transaction that also checks whether its contents were judged meanwhile. A claim ends
when its judgments are written (in the same transaction), on release, or with its lease. The local store is the default;
a shared server wraps it (`shared.judgments`). Trade-off: claims save money but do not guarantee it: two runners that
both hold a content pay twice, and the first result wins.
"""

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from sqlite3 import Connection, Error
from typing import TYPE_CHECKING, Protocol, Self

from xscore.cache.judgments import find_or_add_query, insert_judgments, read_judgments
from xscore.cache.keys import FIRST_DRAW, judge_key
from xscore.cache.lease import HEARTBEAT_S, Heartbeat, Lease
from xscore.platform.errors import StoreError
from xscore.records.judgment import ClaimResult, ClaimState, JudgeIdentity, Judgment

if TYPE_CHECKING:
    from xscore.cache.group_commit import GroupCommit
    from xscore.cache.judgments import WrittenJudgments
    from xscore.cache.keys import JudgmentKey

_TAKEN = """
    SELECT content FROM json_each(?) CROSS JOIN claim ON query_id = ? AND content = value WHERE runner <> ?
"""
_TAKE = """
    INSERT INTO claim (query_id, content, runner) SELECT ?, value, ? FROM json_each(?) WHERE true
    ON CONFLICT (query_id, content) DO NOTHING
"""
WriteJudgments = Callable[[Sequence[Judgment]], Awaitable[None]]
"""Returns once these judgments are committed and their claims removed."""


class Claims(Protocol):
    """Which runner is judging which content."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None:
        """Release everything."""
        ...

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[ClaimResult]:
        """Claim whole packs of content hashes, at most that many that still need judging; one result for each pack."""
        ...

    def release(self, hashes: Iterable[str]) -> None:
        """Give contents up without a judgment, so that another runner may take them."""
        ...


class JudgmentStore(Protocol):
    """Stores judgments, and claims contents before they are sent."""

    def writer(self, turn_key: str, judge: JudgeIdentity, sample: int = FIRST_DRAW) -> WriteJudgments:
        """Return the writer of a turn's judgments."""
        ...

    def claims(self, turn_key: str, judge: JudgeIdentity, sample: int = FIRST_DRAW) -> Claims:
        """Return the claims that keep other processes from judging the same contents of a turn."""
        ...


class StoredJudgments:
    """The judgments of one SQLite store."""

    def __init__(self, commits: "GroupCommit", *, clock: Callable[[], float] = time.time) -> None:
        """Write through this thread. clock: Unix seconds, for the lease of claims."""
        self._commits, self._clock = commits, clock

    def writer(self, turn_key: str, judge: JudgeIdentity, sample: int = FIRST_DRAW) -> WriteJudgments:
        """Return the writer of a turn's judgments, which returns once they are committed.

        It raises StoreError if they cannot be written, and then at every later call.
        """
        names = (turn_key, judge_key(judge), sample)

        def insert(batches: Sequence[Sequence[Judgment]], connection: Connection) -> None:
            judgments = [judgment for batch in batches for judgment in batch]
            settle_claims(connection, insert_judgments(connection, judgments, names))

        async def write(judgments: Sequence[Judgment]) -> None:
            if judgments:
                await self._commits.submit_item(insert, judgments)

        return write

    def claims(self, turn_key: str, judge: JudgeIdentity, sample: int = FIRST_DRAW) -> Claims:
        """Return the claims that keep other processes from judging the same contents of a turn."""
        return StoredClaims(self._commits, turn_key=turn_key, judge=judge, sample=sample, clock=self._clock)


def settle_claims(connection: Connection, kept: "WrittenJudgments") -> None:
    """Remove all claims on contents that are now judged. Within an open transaction."""
    connection.execute(
        "DELETE FROM claim WHERE query_id = ? AND content IN (SELECT value FROM json_each(?))",
        (kept.query, kept.hashes),
    )


class StoredClaims:
    """The claims of one turn by one judge: an async context manager that releases them all on exit."""

    def __init__(
        self,
        commits: "GroupCommit",
        *,
        turn_key: str,
        judge: JudgeIdentity,
        sample: int = FIRST_DRAW,
        heartbeat_s: float = HEARTBEAT_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._commits = commits
        self._names: JudgmentKey = (turn_key, judge_key(judge), sample)
        self._lease = Lease(clock)
        self._heartbeat = Heartbeat(self._renew, every_s=heartbeat_s)

    async def __aenter__(self) -> Self:
        """Start the heartbeat."""
        self._heartbeat.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Release everything, and what killed processes left; if the store cannot be written, the lease expires."""
        await self._heartbeat.stop()
        with suppress(StoreError, Error):
            self._commits.post(self._leave)
        self._lease.close()

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[ClaimResult]:
        """Claim whole packs of content hashes, at most that many that still need judging; one result for each pack.

        Raises StoreError when the claim cannot be written: then nothing may be sent.
        """
        return await self._commits.submit(partial(self._claim, packs, at_most))

    def release(self, hashes: Iterable[str]) -> None:
        """Give contents up without a judgment, so that another runner may take them."""
        given_up = list(hashes)
        if given_up:
            self._commits.post(partial(self._release, given_up))

    async def _renew(self) -> None:
        self._commits.post(self._lease.renew)

    def _leave(self, connection: Connection) -> None:
        self._lease.reap_dead(connection)
        self._lease.release(connection)

    def _claim(self, packs: Sequence[Sequence[str]], at_most: int, connection: Connection) -> list[ClaimResult]:
        query = find_or_add_query(connection, self._names)
        self._lease.renew(connection)
        asked = [content for pack in packs for content in pack]
        known = read_judgments(connection, self._names, asked)
        taken: set[str] = set()
        if self._lease.reap_dead(connection):
            rows = connection.execute(_TAKEN, (json.dumps(asked), query, self._lease.id)).fetchall()
            taken = {content for (content,) in rows}
        found: list[ClaimResult] = []
        mine: list[str] = []
        for pack in packs:
            left = [content for content in pack if content not in known]
            state = ClaimState.OURS
            if not taken.isdisjoint(left):
                state = ClaimState.THEIRS
            elif left and not at_most:
                state = ClaimState.FREE
            elif left:
                at_most -= 1
                mine += left
            found.append(ClaimResult(state, {content: known[content] for content in pack if content in known}))
        connection.execute(_TAKE, (query, self._lease.id, json.dumps(mine)))
        return found

    def _release(self, hashes: Sequence[str], connection: Connection) -> None:
        query = find_or_add_query(connection, self._names)
        connection.executemany(
            "DELETE FROM claim WHERE query_id = ? AND content = ? AND runner = ?",
            [(query, content, self._lease.id) for content in hashes],
        )
