"""Sharing a turn with other processes on the same store: what they pay for is put aside and looked at last.

A pack that holds a content which another process is paying for stays whole and waits, while the workers go on to the
next; so processes that ask the same at once share the work. When nothing else is left, what was put aside is looked at
again and again, some packs at a time: judged by the other, it is taken; given up or left by a dead process, it is ours.
It does not know how claims are kept (`cache.claims`). Trade-off: the last packs end up to `PAUSE_S` later than they
could.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol, Self

from xscore.records import Claimed, Share
from xscore.scorer.packs import Pack

PAUSE_S = 0.1
"""Between two looks at packs of which none was settled."""
LOOK_AT = 4
"""So many times as many packs as there are workers are looked at in one transaction."""


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


class Alone:
    """The claims of one who shares with nobody: all is theirs to judge."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[Claimed]:
        """Claim everything."""
        return [Claimed(Share.OURS, {}) for _ in packs]

    def release(self, hashes: Iterable[str]) -> None:
        """Give nothing up: nobody waits for it."""


class Rest:
    """A unit of work: look at what was put aside."""


REST: Final = Rest()


class Aside:
    """Packs that others are paying for, in their order, and when to look at them."""

    def __init__(self, claims: Claims, *, workers: int) -> None:
        self._claims, self._workers = claims, workers
        self._packs: deque[tuple[Pack, Sequence[str]]] = deque()
        self._is_last = False
        self._is_called = False

    def units(self, packs: Iterable[Pack]) -> Iterator[Pack | Rest]:
        """Yield the packs, and after them one look at those put aside, if there are any by then."""
        yield from packs
        self._is_last = True
        yield from self.call()

    def put(self, pack: Pack, hashes: Sequence[str]) -> Sequence[Rest]:
        """Put a pack aside; return the look at it where nothing else would bring one."""
        self._packs.append((pack, hashes))
        return self.call()

    def call(self) -> Sequence[Rest]:
        """Return the one look there is at a time, once the other packs have all been begun."""
        if self._is_called or not (self._is_last and self._packs):
            return ()
        self._is_called = True
        return (REST,)

    async def look(self) -> Sequence[Pack | Rest]:
        """Look at the next packs; return those that are ours or settled now, and the next look, if any are left.

        Pauses where none is. Raises StoreError.
        """
        batch = [self._packs.popleft() for _ in range(min(len(self._packs), LOOK_AT * self._workers))]
        shares = await self._claims.claim([hashes for _, hashes in batch], at_most=self._workers)
        ours: list[Pack] = []
        for (pack, hashes), claimed in zip(batch, shares, strict=True):
            if claimed.share is Share.OURS:
                ours.append(pack)
            else:
                self._packs.append((pack, hashes))
        if not ours:
            await asyncio.sleep(PAUSE_S)
        self._is_called = False
        return (*ours, *self.call())

    def leave(self) -> list[Pack]:
        """Give all packs back that are still aside; there will be no further look."""
        left = [pack for pack, _ in self._packs]
        self._packs.clear()
        self._is_called = False
        return left
