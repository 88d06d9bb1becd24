"""The local store with a shared server behind it: what one of its runners was paid for, all the others find.

A pack is claimed in the local store first, and what is ours there at the server. What the server knows is written to
the local store with its reason and settles the pack without a call; from then on the local store answers. Judgments go
to the local store first, as without a server, and from there to the server (`outbox`). While the server is away the
local store's word holds (`link`). A pack that is judged in a prompt that was shared belongs to whoever claimed it.
Trade-off: each runner of a turn asks for each pack of it at least once.
"""

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Self

from xscore.cache.claims import SIGN_OF_LIFE_S
from xscore.cache.judgment_store import Claims, JudgmentStore, Write
from xscore.cache.keys import Names, judge_key
from xscore.errors import SharedUnavailable
from xscore.processes import LEASE_S
from xscore.records import Claimed, JudgeIdentity, Judgment, Share
from xscore.shared.link import Link
from xscore.shared.outbox import Outbox
from xscore.shared.server import SharedServer


class ReadThrough:
    """A `JudgmentStore` of two levels."""

    def __init__(self, local: JudgmentStore, link: Link, *, lease_s: float = LEASE_S) -> None:
        """lease_s: without a sign of life for so long a runner's claims at the server are taken over."""
        self._local, self._link, self._lease_s = local, link, lease_s
        self._outbox = Outbox(link)

    def writer(self, turn_key: str, judge: JudgeIdentity) -> Write:
        """Return what keeps the judgments of a turn: awaited, they are in the local store and on their way."""
        write, names = self._local.writer(turn_key, judge), (turn_key, judge_key(judge), 0)

        async def write_both(judgments: Sequence[Judgment]) -> None:
            await write(judgments)
            self._outbox.keep(names, judgments)

        return write_both

    def claims(self, turn_key: str, judge: JudgeIdentity) -> Claims:
        """Return what keeps all who share the server from paying for the same contents of a turn."""
        return SharedClaims(
            self._local.claims(turn_key, judge),
            self._local.writer(turn_key, judge),
            link=self._link,
            outbox=self._outbox,
            names=(turn_key, judge_key(judge), 0),
            lease_s=self._lease_s,
        )

    def remarks(self) -> tuple[str, ...]:
        """Say for the receipt what was not shared."""
        return self._outbox.remarks()

    async def aclose(self) -> None:
        """Send what the server was not told of yet."""
        await self._outbox.aclose()


class SharedClaims:
    """The claims of one turn by one judge, at both levels. See `cache.judgment_store.Claims`."""

    def __init__(
        self, local: Claims, write_here: Write, *, link: Link, outbox: Outbox, names: Names, lease_s: float = LEASE_S
    ) -> None:
        self._local, self._write_here = local, write_here
        self._link, self._outbox, self._names, self._lease_s = link, outbox, names, lease_s
        self._runner = secrets.token_hex(8)
        self._held: set[str] = set()
        """Claimed at the server and not given up."""
        self._has_asked = False
        """The server may count us as at work, also where its answer was not waited for."""

    async def __aenter__(self) -> Self:
        """Begin to show signs of life."""
        await self._local.__aenter__()
        self._pulse = asyncio.create_task(self._show_life())
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Tell the server what was judged, then release everything; where it cannot be told, the lease does.

        Raises SharedUnavailable where the server is required and was not told; the local store has it all the same.
        """
        self._pulse.cancel()
        await asyncio.gather(self._pulse, return_exceptions=True)
        try:
            await self._told(is_failing=raised[:1] not in ((), (None,)))
        finally:
            await self._local.__aexit__(*raised)

    async def _told(self, *, is_failing: bool) -> None:
        try:
            await self._outbox.flush()
        except SharedUnavailable:
            if not is_failing:  # what failed first is what ends the run
                raise
        if self._has_asked:
            with suppress(SharedUnavailable):
                await self._link.ask(self._leave, otherwise=None)

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[Claimed]:
        """Claim whole packs. Raises StoreError, and SharedUnavailable where the server is required and away.

        All are claimed here, since only the server can tell which of them still need judging; the surplus is let go.
        """
        found = await self._local.claim(packs, at_most=len(packs))
        ours = [at for at, one in enumerate(found) if one.share is Share.OURS and len(one.known) < len(packs[at])]
        if not ours:
            return found
        lacking = [[content for content in packs[at] if content not in found[at].known] for at in ours]
        self._has_asked = True
        told = await self._link.ask(lambda server: self._claim(server, lacking, at_most), otherwise=None)
        if told is None:
            told = [Claimed(Share.OURS if number < at_most else Share.FREE, {}) for number in range(len(ours))]
        else:
            self._held.update(*(asked for asked, one in zip(lacking, told, strict=True) if one.share is Share.OURS))
        known = {content: judgment for one in told for content, judgment in one.known.items()}
        if known:
            await self._write_here(list(known.values()))
            self._held.difference_update(known)
        for at, there in zip(ours, told, strict=True):
            found[at] = Claimed(there.share, {**found[at].known, **there.known} if there.known else found[at].known)
        self._local.release(
            content
            for asked, there in zip(lacking, told, strict=True)
            if there.share is not Share.OURS
            for content in asked
            if content not in there.known
        )
        return found

    def release(self, hashes: Iterable[str]) -> None:
        """Give contents up without a judgment, at both levels."""
        given_up = list(hashes)
        if not given_up:
            return
        self._local.release(given_up)
        held = self._held.intersection(given_up)
        if held:
            self._held -= held
            self._outbox.release(self._names, held, runner=self._runner)

    async def _claim(self, server: SharedServer, packs: Sequence[Sequence[str]], at_most: int) -> list[Claimed]:
        return await server.claim(self._names, packs, at_most=at_most, runner=self._runner, lease_s=self._lease_s)

    async def _leave(self, server: SharedServer) -> None:
        await server.leave(self._runner)

    async def _show_life(self) -> None:
        with suppress(SharedUnavailable):  # whoever claims next is told of it
            while True:
                await asyncio.sleep(min(SIGN_OF_LIFE_S, self._lease_s / 3))
                if self._held:
                    await self._link.ask(
                        lambda server: server.show_life(self._runner, lease_s=self._lease_s), otherwise=None
                    )
