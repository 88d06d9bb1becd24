"""What a process has judged or given up, on its way to the shared server: grouped, one round trip for many packs.

It is committed to the local store before it comes here, so nobody waits for it but the end of a turn. While the server
is away it is kept, as much as `MOST_KEPT` holds, and sent once it is back. What never got there stays in the local
store alone, is counted, and will be judged again by others. Trade-off: for `GATHER_S` others see a content as being
paid for although it is judged.

The local store with a shared server behind it: what one of its runners was paid for, all the others find.

A pack is claimed in the local store first, and what is ours there at the server. What the server knows is written to
the local store with its reason and settles the pack without a call; from then on the local store answers. Judgments go
to the local store first, as without a server, and from there to the server (`outbox`). While the server is away the
local store's word holds (`link`). A pack that is judged in a prompt that was shared belongs to whoever claimed it.
Trade-off: each runner of a turn asks for each pack of it at least once.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Self

from xscore.cache.judgment_store import Claims, JudgmentStore, WriteJudgments
from xscore.cache.keys import JudgmentKey, judge_key
from xscore.cache.lease import HEARTBEAT_S, Heartbeat
from xscore.extensions.shared.link import ServerLink
from xscore.extensions.shared.server import SharedServer
from xscore.platform.errors import SharedUnavailable
from xscore.platform.processes import LEASE_S
from xscore.records import ClaimResult, ClaimState, JudgeIdentity, Judgment

GATHER_S = 0.1
MOST_KEPT = 50_000
"""Judgments that wait while the server is away: some 20 MB."""


class Outbox:
    """Judgments and released contents that the server has not been told of."""

    def __init__(self, link: ServerLink) -> None:
        self._link = link
        self._judged: dict[JudgmentKey, list[Judgment]] = {}
        self._released: dict[tuple[JudgmentKey, str], list[str]] = {}
        self._waiting = 0
        self._unsent = 0
        self._sending: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()
        self._failure: SharedUnavailable | None = None

    def keep(self, names: JudgmentKey, judgments: Sequence[Judgment]) -> None:
        """Send these soon. Raises SharedUnavailable where the server is required and was found away."""
        if self._failure is not None:
            raise self._failure
        room = max(0, MOST_KEPT - self._waiting)
        self._unsent += len(judgments[room:])
        self._judged.setdefault(names, []).extend(judgments[:room])
        self._waiting += len(judgments[:room])
        self._begin()

    def release(self, names: JudgmentKey, hashes: Iterable[str], *, runner: str) -> None:
        """Tell soon that these are given up; where the server is away, the lease does."""
        if not self._link.is_away:
            self._released.setdefault((names, runner), []).extend(hashes)
            self._begin()

    async def flush(self) -> None:
        """Send all there is, unless the server is away. Raises SharedUnavailable where it is required."""
        async with self._flushing:
            while self._judged and await self._send_next():
                pass
            released, self._released = self._released, {}
            for (names, runner), hashes in released.items():
                await self._link.ask(_release_request(names, hashes, runner), otherwise=False)

    def warnings(self) -> tuple[str, ...]:
        """Say what the server was not told of."""
        left = self._unsent + self._waiting
        return (f"{left:,} judgments are in the local store alone: the shared server was away",) if left else ()

    async def aclose(self) -> None:
        """Send what is left, as far as the server answers."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        with suppress(SharedUnavailable):
            await self.flush()

    def _begin(self) -> None:
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._judged or self._released:
                await asyncio.sleep(GATHER_S)
                await self._link.until_here()
                await self.flush()
        except SharedUnavailable as error:  # not required, it is asked no more: what is left is remarked on
            self._failure = error if self._link.require else None

    async def _send_next(self) -> bool:
        """Send the judgments of one turn; they stay here until the server has them."""
        names, judgments = next(iter(self._judged.items()))
        sent = list(judgments)
        if not await self._link.ask(_keep_request(names, sent), otherwise=False):
            return False
        del judgments[: len(sent)]
        if not judgments:
            del self._judged[names]
        self._waiting -= len(sent)
        return True


def _keep_request(names: JudgmentKey, judgments: Sequence[Judgment]) -> Callable[[SharedServer], Awaitable[bool]]:
    async def request(server: SharedServer) -> bool:
        await server.keep(names, judgments)
        return True

    return request


def _release_request(
    names: JudgmentKey, hashes: Sequence[str], runner: str
) -> Callable[[SharedServer], Awaitable[bool]]:
    async def request(server: SharedServer) -> bool:
        await server.release(names, hashes, runner=runner)
        return True

    return request


class SharedJudgmentStore:
    """A `JudgmentStore` of two levels."""

    def __init__(self, local: JudgmentStore, link: ServerLink, *, lease_s: float = LEASE_S) -> None:
        """lease_s: without a sign of life for so long a runner's claims at the server are taken over."""
        self._local, self._link, self._lease_s = local, link, lease_s
        self._outbox = Outbox(link)

    def writer(self, turn_key: str, judge: JudgeIdentity) -> WriteJudgments:
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

    def warnings(self) -> tuple[str, ...]:
        """Say for the receipt what was not shared."""
        return self._outbox.warnings()

    async def aclose(self) -> None:
        """Send what the server was not told of yet."""
        await self._outbox.aclose()


class SharedClaims:
    """The claims of one turn by one judge, at both levels. See `cache.judgment_store.Claims`."""

    def __init__(
        self,
        local: Claims,
        write_here: WriteJudgments,
        *,
        link: ServerLink,
        outbox: Outbox,
        names: JudgmentKey,
        lease_s: float = LEASE_S,
    ) -> None:
        self._local, self._write_here = local, write_here
        self._link, self._outbox, self._names, self._lease_s = link, outbox, names, lease_s
        self._runner = secrets.token_hex(8)
        self._heartbeat = Heartbeat(self._renew, every_s=min(HEARTBEAT_S, lease_s / 3))
        self._held: set[str] = set()
        """Claimed at the server and not given up."""
        self._has_asked = False
        """The server may count us as at work, also where its answer was not waited for."""

    async def __aenter__(self) -> Self:
        """Begin to show signs of life."""
        await self._local.__aenter__()
        self._heartbeat.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Tell the server what was judged, then release everything; where it cannot be told, the lease does.

        Raises SharedUnavailable where the server is required and was not told; the local store has it all the same.
        """
        await self._heartbeat.stop()
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

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[ClaimResult]:
        """Claim whole packs. Raises StoreError, and SharedUnavailable where the server is required and away.

        All are claimed here, since only the server can tell which of them still need judging; the surplus is let go.
        """
        found = await self._local.claim(packs, at_most=len(packs))
        ours = [at for at, one in enumerate(found) if one.share is ClaimState.OURS and len(one.known) < len(packs[at])]
        if not ours:
            return found
        lacking = [[content for content in packs[at] if content not in found[at].known] for at in ours]
        self._has_asked = True
        told = await self._link.ask(lambda server: self._claim(server, lacking, at_most), otherwise=None)
        if told is None:
            told = [
                ClaimResult(ClaimState.OURS if number < at_most else ClaimState.FREE, {}) for number in range(len(ours))
            ]
        else:
            self._held.update(
                *(asked for asked, one in zip(lacking, told, strict=True) if one.share is ClaimState.OURS)
            )
        known = {content: judgment for one in told for content, judgment in one.known.items()}
        if known:
            await self._write_here(list(known.values()))
            self._held.difference_update(known)
        for at, there in zip(ours, told, strict=True):
            found[at] = ClaimResult(there.share, {**found[at].known, **there.known} if there.known else found[at].known)
        self._local.release(
            content
            for asked, there in zip(lacking, told, strict=True)
            if there.share is not ClaimState.OURS
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

    async def _claim(self, server: SharedServer, packs: Sequence[Sequence[str]], at_most: int) -> list[ClaimResult]:
        return await server.claim(self._names, packs, at_most=at_most, runner=self._runner, lease_s=self._lease_s)

    async def _leave(self, server: SharedServer) -> None:
        await server.leave(self._runner)

    async def _renew(self) -> None:
        if self._held:
            await self._link.ask(lambda server: server.show_life(self._runner, lease_s=self._lease_s), otherwise=None)
