"""Share a turn with other processes on the same store: claim packs before they are sent.

Packs are claimed a few at a time, fewer towards the end, so that processes split the work. A pack that another process
is paying for is put aside and looked at again when nothing else is left. `TwoStoreJudge` runs two judges side by side,
because judgments of the user's own memories stay in the user's store. Trade-off: the last packs end `PAUSE_S` later.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Self

from msgspec import Struct

from xscore.cache.judgment_store import Claims
from xscore.records import Candidate, ClaimResult, ClaimState, Judgment, Layer, Turn, Unjudged, UnjudgedCause
from xscore.scorer.judge import Judge
from xscore.scorer.packs import Pack
from xscore.scorer.repair import MemoryPart

PAUSE_S = 0.1
"""Between two looks at packs of which none was settled."""
LOOK_AT = 4
"""So many times as many packs as there are workers are looked at in one transaction."""
AHEAD = 16
"""So many packs are claimed at a time, but for no more than half of the workers"""
AHEAD_SHARE = 4
"""and no more than this part of those that are left."""


class NoClaims:
    """The claims of one who shares with nobody: all is theirs to judge."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[ClaimResult]:
        """Claim everything."""
        return [ClaimResult(ClaimState.OURS, {}) for _ in packs]

    def release(self, hashes: Iterable[str]) -> None:
        """Give nothing up: nobody waits for it."""


class ClaimNext:
    """A unit of work: see which packs are ours to judge next."""


CLAIM_NEXT: Final = ClaimNext()


class OpenedPack(Struct, frozen=True):
    """A pack with what is judged of it."""

    pack: Pack
    pieces: tuple[MemoryPart, ...]
    hashes: Sequence[str]
    """All contents that judging it judges."""


class ClaimedPack(Struct, frozen=True):
    """A unit of work: a pack that is ours to judge."""

    opened: OpenedPack
    claimed: ClaimResult

    @property
    def is_settled(self) -> bool:
        """Whether others have judged all of it."""
        return _is_settled(self.opened.pack, self.claimed)


class PackQueue:
    """Packs in their order: those that were not looked at yet, and those put aside because others pay for them."""

    def __init__(self, packs: Iterable[Pack], claims: Claims, *, workers: int) -> None:
        self._claims, self._workers = claims, workers
        self._line = deque(packs)
        self._aside: deque[tuple[Pack, Sequence[str]]] = deque()
        self._reach = 0
        """So many packs are looked at for what is ours: ever more where others were there before."""

    def take(self) -> list[Pack]:
        """Take the packs to be looked at next; none: all that are left are aside."""
        return [self._line.popleft() for _ in range(min(max(self._most(), self._reach), len(self._line)))]

    async def claim(self, packs: Sequence[OpenedPack]) -> list[ClaimedPack]:
        """Claim of these packs as many as a moment's work; return those that are ours or settled now.

        What others pay for is put aside, and what is too much for now goes back to the front. Raises StoreError.
        """
        most = self._most(len(packs))
        shares = await self._claims.claim([opened.hashes for opened in packs], at_most=most)
        ours: list[ClaimedPack] = []
        free: list[Pack] = []
        for opened, claimed in zip(packs, shares, strict=True):
            if claimed.share is ClaimState.OURS:
                ours.append(ClaimedPack(opened, claimed))
            elif claimed.share is ClaimState.FREE:
                free.append(opened.pack)
            else:
                self._aside.append((opened.pack, opened.hashes))
        self._line.extendleft(reversed(free))
        found = sum(not one.is_settled for one in ours)
        self._reach = 0 if found >= most else min(2 * len(packs), LOOK_AT * self._workers)
        return ours

    async def look_aside(self) -> list[tuple[Pack, ClaimResult]]:
        """Look at the next packs that are aside; return those that others have judged, and line up those that are ours.

        Pauses where there is neither. Raises StoreError.
        """
        batch = [self._aside.popleft() for _ in range(min(len(self._aside), LOOK_AT * self._workers))]
        shares = await self._claims.claim([hashes for _, hashes in batch], at_most=self._workers)
        settled: list[tuple[Pack, ClaimResult]] = []
        for (pack, hashes), claimed in zip(batch, shares, strict=True):
            if _is_settled(pack, claimed):
                settled.append((pack, claimed))
            elif claimed.share is ClaimState.OURS:
                self._line.append(pack)
            else:
                self._aside.append((pack, hashes))
        if not self._line and not settled:
            await asyncio.sleep(PAUSE_S)
        return settled

    def look(self) -> tuple[ClaimNext, ...]:
        """Return the next look, if any packs are left. There is one at a time."""
        return (CLAIM_NEXT,) if self._line or self._aside else ()

    def _most(self, taken: int = 0) -> int:
        """How many packs are claimed at a time: a moment's work, and fewer the fewer are left with those taken."""
        return max(1, min(AHEAD, self._workers // 2, (len(self._line) + taken) // AHEAD_SHARE))

    def leave(self) -> list[Pack]:
        """Give back all packs that are left; there will be no further look."""
        left = [*self._line, *(pack for pack, _ in self._aside)]
        self._line.clear()
        self._aside.clear()
        return left


def _is_settled(pack: Pack, claimed: ClaimResult) -> bool:
    return all(member.content_hash in claimed.known for member in pack.members)


Result = Judgment | Unjudged


class TwoStoreJudge:
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
    def judged_elsewhere(self) -> AbstractSet[str]:
        """Contents among the results that another process was paid for meanwhile."""
        return self._repository.judged_elsewhere | self._user.judged_elsewhere

    def warnings(self) -> tuple[str, ...]:
        """Say what was wrong with replies so far."""
        return (*self._repository.warnings(), *self._user.warnings())

    def stop(self, cause: UnjudgedCause) -> None:
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
