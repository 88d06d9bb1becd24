"""Two judges of one turn side by side: one for the repository's memories, one for the user's own.

Both are the same model; they differ in where judgments are kept, since what is judged of the user's memories stays
in the user's store. The user's are few, so they are judged while the others are, and handed out after them. Trade-off:
a failure to keep one of theirs is noticed when the others are done.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet

from xscore.records import Candidate, Cause, Judgment, Layer, Turn, Unjudged
from xscore.scorer.judge import Judge

Result = Judgment | Unjudged


class SideBySide:
    """See `scorer.judge.Judge`."""

    def __init__(self, repository: Judge, user: Judge) -> None:
        self.identity, self.is_model = repository.identity, repository.is_model
        self._repository, self._user = repository, user

    async def judge(self, turn: Turn, candidates: Sequence[Candidate]) -> AsyncIterator[Result]:
        """Yield exactly one result for each distinct content hash among the candidates."""
        own = [candidate for candidate in candidates if candidate.layer is Layer.USER]
        others = [candidate for candidate in candidates if candidate.layer is not Layer.USER]
        beside = asyncio.create_task(_all_of(self._user, turn, own))
        try:
            async for result in self._repository.judge(turn, others):
                yield result
            for result in await beside:
                yield result
        finally:
            if not beside.done():
                beside.cancel()
            await asyncio.wait([beside])

    @property
    def elsewhere(self) -> AbstractSet[str]:
        """Contents among the results that another process was paid for meanwhile."""
        return self._repository.elsewhere | self._user.elsewhere

    def remarks(self) -> tuple[str, ...]:
        """Say what was wrong with replies so far."""
        return (*self._repository.remarks(), *self._user.remarks())

    def stop(self, cause: Cause) -> None:
        """Send nothing more."""
        self._repository.stop(cause)
        self._user.stop(cause)


async def _all_of(judge: Judge, turn: Turn, candidates: Sequence[Candidate]) -> list[Result]:
    return [result async for result in judge.judge(turn, candidates)] if candidates else []
