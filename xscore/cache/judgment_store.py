"""The seam to where judgments are kept while they are bought: a writer and claims for each turn and judge.

The store beside the code is the default (`StoredJudgments`); a server that several machines share stands in front of it
elsewhere (`shared.read_through`). What is known of a turn is read before anything is bought, from the store alone.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, Self

from xscore.cache.claims import Claims as StoredClaims
from xscore.cache.group_commit import GroupCommit
from xscore.cache.writer import JudgmentWriter
from xscore.records import Claimed, JudgeIdentity, Judgment

Write = Callable[[Sequence[Judgment]], Awaitable[None]]
"""Returns when these judgments are committed, and the claims on them settled."""


class Claims(Protocol):
    """Who pays for which content just now."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None:
        """Release everything."""
        ...

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[Claimed]:
        """Claim whole packs of content hashes, `at_most` so many that still need judging; one result for each pack."""
        ...

    def release(self, hashes: Iterable[str]) -> None:
        """Give contents up without a judgment."""
        ...


class JudgmentStore(Protocol):
    """Where judgments are kept, and claimed before they are bought."""

    def writer(self, turn_key: str, judge: JudgeIdentity) -> Write:
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

    def writer(self, turn_key: str, judge: JudgeIdentity) -> Write:
        """Return what keeps the judgments of a turn."""
        return JudgmentWriter(self._commits, turn_key=turn_key, judge=judge).write

    def claims(self, turn_key: str, judge: JudgeIdentity) -> Claims:
        """Return what keeps processes at work on this store from paying for the same contents of a turn."""
        return StoredClaims(self._commits, turn_key=turn_key, judge=judge, clock=self._clock)
