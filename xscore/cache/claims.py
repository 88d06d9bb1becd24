"""Who pays for which content just now, so that processes at work on one store pay for each candidate once.

A pack is claimed whole, in one transaction that also looks whether its contents were judged meanwhile. A claim goes
when its judgments are written (`cache.writer`, in the same transaction), when it is released, and with its runner
(`cache.runners`). Claims are filed as judgments are, under turn and judge, so different tasks never meet.
Trade-off: claims keep nothing right; two runners that both believe they own a content pay twice, and the first wins.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from sqlite3 import Connection, Error
from typing import Self

from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgments import Kept, enter_query, known_among
from xscore.cache.keys import Names, judge_key
from xscore.cache.runners import Runner
from xscore.errors import StoreError
from xscore.processes import LEASE_S
from xscore.records import Claimed, JudgeIdentity, Share

SIGN_OF_LIFE_S = 5.0

_TAKEN = """
    SELECT content FROM json_each(?) CROSS JOIN claim ON query_id = ? AND content = value WHERE runner <> ?
"""
_TAKE = """
    INSERT INTO claim (query_id, content, runner) SELECT ?, value, ? FROM json_each(?) WHERE true
    ON CONFLICT (query_id, content) DO NOTHING
"""


class Claims:
    """The claims of one turn by one judge: an async context manager, which releases them all at its end."""

    def __init__(
        self,
        commits: GroupCommit,
        *,
        turn_key: str,
        judge: JudgeIdentity,
        lease_s: float = LEASE_S,
        sign_of_life_s: float = SIGN_OF_LIFE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._commits = commits
        self._names: Names = (turn_key, judge_key(judge), 0)
        self._runner = Runner(lease_s=lease_s, clock=clock)
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

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[Claimed]:
        """Claim whole packs of content hashes, `at_most` so many that still need judging; one result for each pack.

        Raises StoreError when the claim cannot be written: then nothing may be sent.
        """
        return await self._commits.submit(partial(self._claim, packs, at_most))

    def release(self, hashes: Iterable[str]) -> None:
        """Give contents up without a judgment, so that another runner may take them."""
        given_up = list(hashes)
        if given_up:
            self._commits.post(partial(self._release, given_up))

    def _claim(self, packs: Sequence[Sequence[str]], at_most: int, connection: Connection) -> list[Claimed]:
        query = enter_query(connection, self._names)
        self._runner.show_life(connection)
        asked = [content for pack in packs for content in pack]
        known = known_among(connection, self._names, query, asked)
        taken: set[str] = set()
        if self._runner.bury_others(connection):
            rows = connection.execute(_TAKEN, (json.dumps(asked), query, self._runner.id)).fetchall()
            taken = {content for (content,) in rows}
        found: list[Claimed] = []
        mine: list[str] = []
        for pack in packs:
            left = [content for content in pack if content not in known]
            share = Share.OURS
            if not taken.isdisjoint(left):
                share = Share.THEIRS
            elif left and not at_most:
                share = Share.FREE
            elif left:
                at_most -= 1
                mine += left
            found.append(Claimed(share, {content: known[content] for content in pack if content in known}))
        connection.execute(_TAKE, (query, self._runner.id, json.dumps(mine)))
        return found

    def _release(self, hashes: Sequence[str], connection: Connection) -> None:
        query = enter_query(connection, self._names)
        connection.executemany(
            "DELETE FROM claim WHERE query_id = ? AND content = ? AND runner = ?",
            [(query, content, self._runner.id) for content in hashes],
        )

    async def _show_life(self) -> None:
        with suppress(StoreError, Error):  # whoever writes judgments next is told of it
            while True:
                await asyncio.sleep(self._sign_of_life_s)
                self._commits.post(self._runner.show_life)


def settle_claims(connection: Connection, kept: Kept) -> None:
    """Take out the claims on contents that are judged now, whoever holds them. Within an open transaction."""
    connection.execute(
        "DELETE FROM claim WHERE query_id = ? AND content IN (SELECT value FROM json_each(?))",
        (kept.query, kept.hashes),
    )
