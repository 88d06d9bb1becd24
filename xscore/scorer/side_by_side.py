"""Two judges of one turn side by side: one for the repository's memories, one for the user's own.

Both are the same model; they differ in where judgments are kept, since what is judged of the user's memories stays
in the user's store. Results are handed out as they settle, whichever judge they come from. Trade-off: what settles
while nobody takes it waits in memory, some hundred bytes a result.
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
        """Yield exactly one result for each distinct content hash among the candidates. Raises what either raises."""
        own = [candidate for candidate in candidates if candidate.layer is Layer.USER]
        others = [candidate for candidate in candidates if candidate.layer is not Layer.USER]
        settled: asyncio.Queue[Result | int] = asyncio.Queue()
        feeds = [
            asyncio.create_task(_feed(settled, number, judge.judge(turn, members)))
            for number, (judge, members) in enumerate(((self._repository, others), (self._user, own)))
        ]
        at_work = set(range(len(feeds)))
        try:
            while at_work:
                result = await settled.get()
                if isinstance(result, int):
                    at_work.remove(result)
                    await feeds[result]  # raises what ended it: then nothing more is to be paid for
                else:
                    yield result
        finally:
            for feed in feeds:
                feed.cancel()
            await asyncio.gather(*feeds, return_exceptions=True)

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


async def _feed(settled: "asyncio.Queue[Result | int]", number: int, results: AsyncIterator[Result]) -> None:
    """Hand over one judge's results, and its number when there are no more."""
    try:
        async for result in results:
            settled.put_nowait(result)
    finally:
        settled.put_nowait(number)
