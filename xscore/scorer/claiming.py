"""Share a turn with other processes on the same store: claim packs before they are sent.

Packs are claimed a few at a time, so that processes split the work; once no more are left than
there are workers, all at once. A pack that another process is judging is deferred and checked again
when nothing else is left. Judgments of the user's own memories stay in the user's store. Trade-off:
the last packs end up to `PAUSE_S` later.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack
from typing import Final, Self

from msgspec import Struct

from xscore.cache.judgment_store import Claims, WriteJudgments
from xscore.records.judgment import ClaimResult, ClaimState, Judgment
from xscore.scorer.packs import Pack
from xscore.scorer.repair import MemoryPiece

PAUSE_S = 0.1
"""Seconds between two checks of deferred packs if none was settled."""
LOOK_AT = 4
"""Packs checked in one transaction, per worker."""
AHEAD = 16
"""Most packs claimed at a time, and no more than half the workers, while more packs than workers
are left."""


class NoClaims:
    """Claims of a single process: everything is its own to judge."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[ClaimResult]:
        """Claim everything."""
        return [ClaimResult(ClaimState.OURS, {}) for _ in packs]

    def release(self, hashes: Iterable[str]) -> None:
        """Do nothing."""


class ClaimNext:
    """A unit of work: claim the next packs."""


CLAIM_NEXT: Final = ClaimNext()


class OpenedPack(Struct, frozen=True):
    """A pack with its texts."""

    pack: Pack
    pieces: tuple[MemoryPiece, ...]
    hashes: Sequence[str]
    """Hashes of all contents that the unit contains, parts included."""


class ClaimedPack(Struct, frozen=True):
    """A unit of work: a pack claimed by us."""

    opened: OpenedPack
    claimed: ClaimResult

    @property
    def is_judged(self) -> bool:
        """Whether other processes have judged all of it."""
        return _is_judged(self.opened.pack, self.claimed)


class PackQueue:
    """Packs in order: waiting ones, and those deferred because another process is judging them."""

    def __init__(self, packs: Iterable[Pack], claims: Claims, *, workers: int) -> None:
        self._claims = claims
        self._workers = workers
        self._waiting = deque(packs)
        self._deferred: deque[tuple[Pack, Sequence[str]]] = deque()
        self._wider_look = 0
        """Packs to check next, where other processes hold most of them; 0: as many as usual."""

    def take_next(self) -> list[Pack]:
        """Return the packs to claim next; empty if only deferred ones are left."""
        count = min(max(self._most(), self._wider_look), len(self._waiting))
        return [self._waiting.popleft() for _ in range(count)]

    async def claim(self, packs: Sequence[OpenedPack]) -> list[ClaimedPack]:
        """Claim some of these packs; return those now ours or judged.

        Packs of other processes are deferred, surplus ones go back to the front. Raises StoreError.
        """
        # The packs in hand are no longer in the queue but count as left: once no more are left than
        # workers, all are claimed at once.
        at_most = self._most(len(packs))
        claims = await self._claims.claim([opened.hashes for opened in packs], at_most=at_most)
        ours: list[ClaimedPack] = []
        free: list[Pack] = []
        for opened, claimed in zip(packs, claims, strict=True):
            if claimed.state is ClaimState.OURS:
                ours.append(ClaimedPack(opened, claimed))
            elif claimed.state is ClaimState.FREE:
                free.append(opened.pack)
            else:
                # Another process is judging it now. It is not waited for: it may be judged, or
                # given up, by the time that nothing else is left.
                self._deferred.append((opened.pack, opened.hashes))
        # The most promising packs come first, and these are still the most promising.
        self._waiting.extendleft(reversed(free))
        # Where others hold most of what was looked at, look at twice as many the next time: with
        # dozens of processes a process would otherwise walk past claimed packs a few at a time.
        is_enough = sum(not pack.is_judged for pack in ours) >= at_most
        self._wider_look = 0 if is_enough else min(2 * len(packs), LOOK_AT * self._workers)
        return ours

    async def check_deferred(self) -> list[tuple[Pack, ClaimResult]]:
        """Check deferred packs; return those judged by others, and queue those now ours.

        Pauses if there is neither. Raises StoreError.
        """
        count = min(len(self._deferred), LOOK_AT * self._workers)
        batch = [self._deferred.popleft() for _ in range(count)]
        claims = await self._claims.claim(
            [hashes for _, hashes in batch], at_most=self._workers
        )
        judged: list[tuple[Pack, ClaimResult]] = []
        for (pack, hashes), claimed in zip(batch, claims, strict=True):
            if _is_judged(pack, claimed):
                judged.append((pack, claimed))
            elif claimed.state is ClaimState.OURS:
                # Its judge was killed or gave it up: it is judged like any other.
                self._waiting.append(pack)
            else:
                self._deferred.append((pack, hashes))
        if not self._waiting and not judged:
            await asyncio.sleep(PAUSE_S)
        return judged

    def next_units(self) -> tuple[ClaimNext, ...]:
        """Return `CLAIM_NEXT` if any packs are left. There is one at a time."""
        if self._waiting or self._deferred:
            return (CLAIM_NEXT,)
        return ()

    def _most(self, taken: int = 0) -> int:
        """Return how many packs to claim at a time. taken: those in hand."""
        unjudged = len(self._waiting) + taken
        if unjudged <= self._workers:
            return max(1, unjudged)
        return max(1, min(AHEAD, self._workers // 2))

    def drain(self) -> list[Pack]:
        """Remove and return all remaining packs."""
        remaining = [*self._waiting, *(pack for pack, _ in self._deferred)]
        self._waiting.clear()
        self._deferred.clear()
        return remaining


def _is_judged(pack: Pack, claimed: ClaimResult) -> bool:
    return all(member.content_hash in claimed.known for member in pack.members)


StoreAccess = tuple[WriteJudgments, Claims]
"""Writer and claims of one store."""


def claim_by_store(
    repository: StoreAccess, user: StoreAccess, contents: AbstractSet[str]
) -> StoreAccess:
    """Combine both stores: the user's own memories (`contents`) are claimed and written in the
    user's."""
    claims = _ClaimsByStore(repository[1], user[1], set(contents))

    async def write(judgments: Sequence[Judgment]) -> None:
        of_repository: list[Judgment] = []
        of_user: list[Judgment] = []
        for judgment in judgments:
            is_own = judgment.content_hash in claims.contents
            (of_user if is_own else of_repository).append(judgment)
        if of_repository:
            await repository[0](of_repository)
        if of_user:
            await user[0](of_user)

    return write, claims


class _ClaimsByStore:
    def __init__(self, repository: Claims, user: Claims, contents: set[str]) -> None:
        self.contents = contents
        """Content hashes of the user's own memories and their parts."""
        self._both = ((False, repository), (True, user))
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for _, claims in self._both:
            await self._stack.enter_async_context(claims)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[ClaimResult]:
        result_at: dict[int, ClaimResult] = {}
        for is_own, claims in self._both:
            # A pack holds memories of one store, so its first content tells whose it is.
            packs_by_place: dict[int, Sequence[str]] = {}
            for place, pack in enumerate(packs):
                if (pack[0] in self.contents) is is_own:
                    packs_by_place[place] = pack
            if not packs_by_place:
                continue
            if is_own:
                # The parts of long memories become known only here, and are written where their
                # memory is.
                for pack in packs_by_place.values():
                    self.contents.update(pack)
            results = await claims.claim(list(packs_by_place.values()), at_most=at_most)
            result_at |= zip(packs_by_place, results, strict=True)
            # Both stores share one limit.
            claimed_here = sum(result.state is ClaimState.OURS for result in results)
            at_most = max(0, at_most - claimed_here)
        return [result_at[place] for place in range(len(packs))]

    def release(self, hashes: Iterable[str]) -> None:
        released = list(hashes)
        for is_own, claims in self._both:
            claims.release(
                content for content in released if (content in self.contents) is is_own
            )
