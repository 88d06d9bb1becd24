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
from xscore.scorer.repair import MemoryPart

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
    pieces: tuple[MemoryPart, ...]
    hashes: Sequence[str]
    """All contents it contains, parts included."""


class ClaimedPack(Struct, frozen=True):
    """A unit of work: a pack claimed by us."""

    opened: OpenedPack
    claimed: ClaimResult

    @property
    def is_settled(self) -> bool:
        """Whether other processes have judged all of it."""
        return _is_settled(self.opened.pack, self.claimed)


class PackQueue:
    """Packs in order: waiting ones, and those deferred because another process is judging them."""

    def __init__(self, packs: Iterable[Pack], claims: Claims, *, workers: int) -> None:
        self._claims, self._workers = claims, workers
        self._line = deque(packs)
        self._aside: deque[tuple[Pack, Sequence[str]]] = deque()
        self._reach = 0
        """Packs to check next; it grows while other processes hold most of them."""

    def take(self) -> list[Pack]:
        """Take the packs to claim next; empty if only deferred ones are left."""
        return [
            self._line.popleft()
            for _ in range(min(max(self._most(), self._reach), len(self._line)))
        ]

    async def claim(self, packs: Sequence[OpenedPack]) -> list[ClaimedPack]:
        """Claim some of these packs; return those now ours or settled.

        Packs of other processes are deferred, surplus ones go back to the front. Raises StoreError.
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
        """Check deferred packs; return those judged by others, and queue those now ours.

        Pauses if there is neither. Raises StoreError.
        """
        batch = [
            self._aside.popleft() for _ in range(min(len(self._aside), LOOK_AT * self._workers))
        ]
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
        """Return `CLAIM_NEXT` if any packs are left. There is one at a time."""
        return (CLAIM_NEXT,) if self._line or self._aside else ()

    def _most(self, taken: int = 0) -> int:
        """Return how many packs to claim at a time."""
        left = len(self._line) + taken
        return max(1, left if left <= self._workers else min(AHEAD, self._workers // 2))

    def leave(self) -> list[Pack]:
        """Remove and return all remaining packs."""
        left = [*self._line, *(pack for pack, _ in self._aside)]
        self._line.clear()
        self._aside.clear()
        return left


def _is_settled(pack: Pack, claimed: ClaimResult) -> bool:
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
        for is_own, (write_here, _) in ((False, repository), (True, user)):
            here = [one for one in judgments if (one.content_hash in claims.contents) is is_own]
            if here:
                await write_here(here)

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
        found: dict[int, ClaimResult] = {}
        for is_own, claims in self._both:
            here = [
                (at, pack) for at, pack in enumerate(packs) if (pack[0] in self.contents) is is_own
            ]
            if is_own:
                self.contents.update(content for _, pack in here for content in pack)
            if here:
                claimed = await claims.claim([pack for _, pack in here], at_most=at_most)
                found |= zip((at for at, _ in here), claimed, strict=True)
                at_most = max(0, at_most - sum(one.share is ClaimState.OURS for one in claimed))
        return [found[at] for at in range(len(packs))]

    def release(self, hashes: Iterable[str]) -> None:
        given_up = list(hashes)
        for is_own, claims in self._both:
            claims.release(content for content in given_up if (content in self.contents) is is_own)
