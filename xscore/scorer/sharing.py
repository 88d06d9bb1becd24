"""Sharing a turn with other processes on the same store: packs are claimed before they are sent.

Packs are claimed some at a time, a moment before there is a worker for them, and fewer the fewer are left, so that
processes that ask the same at once share the work to its end. A pack that holds a content which another process is
paying for stays whole and is put aside. When nothing else is left, what was put aside is looked at again and again:
judged by the other, it is taken; given up or left by a dead process, it is ours. It does not know how claims are kept
(`cache.claims`). Trade-off: the last packs end up to `PAUSE_S` later than they could.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from xscore.cache.judgment_store import Claims
from xscore.records import Claimed, Share
from xscore.scorer.packs import Pack
from xscore.scorer.split import Piece

PAUSE_S = 0.1
"""Between two looks at packs of which none was settled."""
LOOK_AT = 4
"""So many times as many packs as there are workers are looked at in one transaction."""
AHEAD = 16
"""So many packs are claimed at a time, but for no more than half of the workers"""
AHEAD_SHARE = 4
"""and no more than this part of those that are left."""


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


class Look:
    """A unit of work: see which packs are ours to judge next."""


LOOK: Final = Look()


@dataclass(frozen=True, slots=True)
class Opened:
    """A pack with what is judged of it."""

    pack: Pack
    pieces: tuple[Piece, ...]
    hashes: Sequence[str]
    """All contents that judging it judges."""


@dataclass(frozen=True, slots=True)
class Ours:
    """A unit of work: a pack that is ours to judge."""

    opened: Opened
    claimed: Claimed


class Waiting:
    """Packs in their order: those that were not looked at yet, and those put aside because others pay for them."""

    def __init__(self, packs: Iterable[Pack], claims: Claims, *, workers: int) -> None:
        self._claims, self._workers = claims, workers
        self._line = deque(packs)
        self._aside: deque[tuple[Pack, Sequence[str]]] = deque()

    def take(self) -> list[Pack]:
        """Take the packs to be claimed next; none: all that are left are aside."""
        most = max(1, min(AHEAD, self._workers // 2, len(self._line) // AHEAD_SHARE))
        return [self._line.popleft() for _ in range(min(most, len(self._line)))]

    async def claim(self, packs: Sequence[Opened]) -> list[Ours]:
        """Claim these packs; return those that are ours or settled now, and put the others aside. Raises StoreError."""
        shares = await self._claims.claim([opened.hashes for opened in packs], at_most=len(packs))
        ours: list[Ours] = []
        for opened, claimed in zip(packs, shares, strict=True):
            if claimed.share is Share.OURS:
                ours.append(Ours(opened, claimed))
            else:
                self._aside.append((opened.pack, opened.hashes))
        return ours

    async def look_aside(self) -> None:
        """Look at the next packs that are aside, and line up those that are ours or settled now.

        Pauses where none is. Raises StoreError.
        """
        batch = [self._aside.popleft() for _ in range(min(len(self._aside), LOOK_AT * self._workers))]
        shares = await self._claims.claim([hashes for _, hashes in batch], at_most=self._workers)
        for (pack, hashes), claimed in zip(batch, shares, strict=True):
            if claimed.share is Share.OURS:
                self._line.append(pack)
            else:
                self._aside.append((pack, hashes))
        if not self._line:
            await asyncio.sleep(PAUSE_S)

    def look(self) -> tuple[Look, ...]:
        """Return the next look, if any packs are left. There is one at a time."""
        return (LOOK,) if self._line or self._aside else ()

    def leave(self) -> list[Pack]:
        """Give back all packs that are left; there will be no further look."""
        left = [*self._line, *(pack for pack, _ in self._aside)]
        self._line.clear()
        self._aside.clear()
        return left
