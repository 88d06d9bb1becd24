"""Write-through of paid judgments: `write` returns when they are committed, so that a slot is freed only then.

The claims on what they judge go in the same transaction. The thread and the grouping are `cache.group_commit`'s; this
module only knows whose judgments they are. Trade-off: a pack waits for the disk before the next is sent in its place,
some 0.1 ms against seconds of a call.
"""

from collections.abc import Sequence
from sqlite3 import Connection

from xscore.cache.claims import settle_claims
from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgments import insert
from xscore.records import JudgeIdentity, Judgment


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
        kept = insert(connection, judgments, turn_key=self._turn_key, judge=self._judge, sample=self._sample)
        settle_claims(connection, kept)
