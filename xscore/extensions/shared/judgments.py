"""The local store with a shared server behind it: what one runner paid for, all others find.

A pack is claimed in the local store first, and then at the server. What the server knows is written
to the local store with its reason, so the pack needs no call. Judgments are committed to the local
store first and sent to the server in groups; while it is away they wait, up to `MOST_KEPT`. What
was not sent, because of an outage or a kill, is sent by the store's next turn that reaches the
server (`unsent`).
Trade-offs: a content that is given up stays claimed at the server until its runner has finished the
turn; for `GATHER_S` others see a content as claimed although it is judged.
"""

import asyncio
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Self

from xscore.cache.heartbeat import Heartbeat
from xscore.cache.judgment_store import Claims, JudgmentStore, WriteJudgments
from xscore.cache.keys import FIRST_DRAW, JudgmentKey, judge_key
from xscore.cache.lease import HEARTBEAT_S, LEASE_S
from xscore.extensions.shared.link import ServerLink
from xscore.extensions.shared.server import MOST_AT_ONCE, SharedServer
from xscore.extensions.shared.unsent import UnsentTurns
from xscore.platform.errors import SharedUnavailable, StoreError
from xscore.platform.processes import random_hex
from xscore.platform.text import counted
from xscore.records.judgment import ClaimResult, ClaimState, JudgeIdentity, Judgment

GATHER_S = 0.1
RELEASE_S = 0.5
"""How long a server that has not answered is waited for to release claims."""
CATCH_UP_S = 1.0
"""How long the end of a turn waits for what earlier turns could not send; the rest is sent by the
next one."""
SAMPLED = 64
"""About how many contents are asked for first, as a sample."""
MOST_LOOKED_UP = 5_000
"""Most contents of one request that only reads."""
MOST_KEPT = 50_000
"""Most judgments that wait while the server is away: some 20 MB."""


class SharedJudgmentStore:
    """A `JudgmentStore` of two levels."""

    def __init__(
        self,
        local: JudgmentStore,
        link: ServerLink,
        *,
        lease_s: float = LEASE_S,
        notes: UnsentTurns | None = None,
    ) -> None:
        """lease_s: a runner's claims at the server are taken over after this long without a
            heartbeat.
        notes: which turns the server may lack judgments of; None if nothing remembers them.
        """
        self.local: JudgmentStore = local
        self.link: ServerLink = link
        self.lease_s: float = lease_s
        self._unsent: dict[JudgmentKey, list[Judgment]] = {}
        self._waiting = 0
        self._dropped = 0
        """Number of judgments beyond `MOST_KEPT` that were not sent."""
        self._sending: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()
        self._failure: SharedUnavailable | None = None
        self._notes = notes
        self._catching_up: asyncio.Task[None] | None = None

    def writer(
        self, turn_key: str, judge: JudgeIdentity, draw: int = FIRST_DRAW
    ) -> WriteJudgments:
        """Return the writer of a turn's judgments: to the local store, and in the background to the
        server."""
        write = self.local.writer(turn_key, judge, draw)
        names = (turn_key, judge_key(judge), draw)

        async def write_both(judgments: Sequence[Judgment]) -> None:
            if judgments and self._notes is not None:
                # A note that cannot be written costs a second payment, not the turn.
                with suppress(StoreError, sqlite3.Error):
                    self._notes.note(names)
            await write(judgments)
            self._send_soon(names, judgments)

        return write_both

    def claims(self, turn_key: str, judge: JudgeIdentity, draw: int = FIRST_DRAW) -> Claims:
        """Return the claims that keep all who share the server from paying for the same contents of
        a turn."""
        return SharedClaims(self, turn_key, judge, draw)

    async def judgments_on_server(
        self, turn_key: str, judge: JudgeIdentity, hashes: Sequence[str], draw: int
    ) -> dict[str, Judgment]:
        """Return what the server has of these contents, by content hash; stored here by then.

        A few are asked for first: where none of them is known, the rest is left to the claims. So
        is everything where the server shows no sign of life yet.
        Raises StoreError, and SharedUnavailable where it is required and away.
        """
        names = (turn_key, judge_key(judge), draw)
        judgments: dict[str, Judgment] = {}
        nothing: dict[str, Judgment] = {}
        if not hashes or not await self.link.answers_soon():
            return judgments
        # Spread over all, since neighbours are judged together.
        step = max(1, len(hashes) // SAMPLED)
        sampled = set(hashes[::step])
        not_sampled = [content for content in hashes if content not in sampled]
        for part in (list(sampled), not_sampled):
            for start in range(0, len(part), MOST_LOOKED_UP):
                contents = part[start : start + MOST_LOOKED_UP]
                judgments |= await self.link.ask(
                    partial(_judged, names=names, contents=contents), otherwise=nothing
                )
            if not judgments:
                break
        if judgments:
            await self.local.writer(turn_key, judge, draw)(list(judgments.values()))
        self.catch_up_soon()
        return judgments

    async def flush(self) -> None:
        """Send all that waits, unless the server is away.

        Raises SharedUnavailable if it is required and away.
        """
        async with self._flushing:
            while self._unsent and await self._send_next():
                pass

    @property
    def unsent_count(self) -> int:
        """How many judgments the server was not sent."""
        return self._dropped + self._waiting

    def warnings(self) -> tuple[str, ...]:
        """Return a warning for the receipt about what was not shared."""
        unsent = self.unsent_count
        if unsent:
            return (
                (
                    "only in the local store, since the shared server was unreachable:"
                    f" {counted(unsent, 'judgment')}"
                ),
            )
        return ()

    def catch_up_soon(self) -> None:
        """Begin to send what earlier turns of this store could not, once the server answers."""
        can_ask = self.link.has_answered and not self.link.is_unavailable
        if can_ask and self._notes is not None and self._catching_up is None:
            self._catching_up = asyncio.create_task(self._catch_up(self._notes))

    async def aclose(self) -> None:
        """Send what is left, as far as the server answers."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        with suppress(SharedUnavailable):
            await self.flush()
        if self._notes is None:
            return
        if self._catching_up is not None:
            await asyncio.wait({self._catching_up}, timeout=CATCH_UP_S)
            self._catching_up.cancel()
            await asyncio.gather(self._catching_up, return_exceptions=True)
        with suppress(StoreError, sqlite3.Error):
            if self._waiting or self._dropped:
                self._notes.leave_own()
            else:
                self._notes.forget_own()

    async def _catch_up(self, notes: UnsentTurns) -> None:
        with suppress(SharedUnavailable, StoreError, sqlite3.Error):
            for turn in notes.left_by_others():
                judgments = notes.judgments(turn)
                for start in range(0, len(judgments), MOST_AT_ONCE):
                    part = judgments[start : start + MOST_AT_ONCE]
                    if not await self._store_there(turn.names, part):
                        return
                notes.sent(turn)

    async def _store_there(self, names: JudgmentKey, judgments: Sequence[Judgment]) -> bool:
        return await self.link.tell(lambda server: server.store_judgments(names, judgments))

    def _send_soon(self, names: JudgmentKey, judgments: Sequence[Judgment]) -> None:
        """Queue judgments for the server.

        Raises SharedUnavailable if it is required and was found away.
        """
        if self._failure is not None:
            raise self._failure
        # While the server is away the queue is bounded; what is dropped is in the local store.
        kept = judgments[: max(0, MOST_KEPT - self._waiting)]
        self._unsent.setdefault(names, []).extend(kept)
        self._waiting += len(kept)
        self._dropped += len(judgments) - len(kept)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._unsent:
                await asyncio.sleep(GATHER_S)
                await self.link.wait_until_back()
                await self.flush()
        # A server that is not required is asked no more, and a warning says what is left.
        except SharedUnavailable as error:
            self._failure = error if self.link.require else None

    async def _send_next(self) -> bool:
        """Send the judgments of one turn; they stay here until the server has them."""
        names, judgments = next(iter(self._unsent.items()))
        # A copy: turns append more while this request is on its way. No more than fit its deadline.
        sent = judgments[:MOST_AT_ONCE]
        if not await self._store_there(names, sent):
            return False
        del judgments[: len(sent)]
        if not judgments:
            del self._unsent[names]
        self._waiting -= len(sent)
        return True


async def _judged(
    server: SharedServer, *, names: JudgmentKey, contents: Sequence[str]
) -> dict[str, Judgment]:
    return await server.judged(names, contents)


class SharedClaims:
    """The claims of one turn by one judge, at both levels. See `cache.judgment_store.Claims`."""

    def __init__(
        self,
        store: SharedJudgmentStore,
        turn_key: str,
        judge: JudgeIdentity,
        draw: int = FIRST_DRAW,
    ) -> None:
        self._store = store
        self._link = store.link
        self._local = store.local.claims(turn_key, judge, draw)
        self._write_here = store.local.writer(turn_key, judge, draw)
        self._names: JudgmentKey = (turn_key, judge_key(judge), draw)
        self._runner = random_hex(8)
        self._lease_s = store.lease_s
        self._heartbeat = Heartbeat(self._renew, every_s=min(HEARTBEAT_S, self._lease_s / 3))
        self._has_asked = False
        """Whether the server may hold claims of this runner, even if its answer never came."""

    async def __aenter__(self) -> Self:
        """Begin the heartbeat."""
        await self._local.__aenter__()
        self._heartbeat.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Send what was judged, then release all claims; if the server is away, the lease releases
        them.

        Raises SharedUnavailable if the server is required and was not told; the local store has
        everything.
        """
        await self._heartbeat.stop()
        try:
            await self._leave(is_failing=raised[:1] not in ((), (None,)))
        finally:
            await self._local.__aexit__(*raised)

    async def _leave(self, *, is_failing: bool) -> None:
        try:
            await self._store.flush()
        except SharedUnavailable:
            if not is_failing:  # what failed first is what ends the run
                raise
        finally:
            if self._has_asked:
                # The lease releases them, too: a turn at its deadline does not wait for a server
                # that never said anything.
                limit_s = None if self._link.has_answered else RELEASE_S
                with suppress(SharedUnavailable, TimeoutError):
                    async with asyncio.timeout(limit_s):
                        await self._link.tell(
                            lambda server: server.release_runner(self._runner)
                        )

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[ClaimResult]:
        """Claim whole packs. Raises StoreError, and SharedUnavailable if the server is required and
        away.

        All are claimed locally first, since only the server knows which still need judging; the
        rest is released.
        """
        local = await self._local.claim(packs, at_most=len(packs))
        ours: list[int] = []
        for at, result in enumerate(local):
            if result.state is ClaimState.OURS and len(result.known) < len(packs[at]):
                ours.append(at)
        if not ours:
            return local
        lacking = [
            [content for content in packs[at] if content not in local[at].known] for at in ours
        ]
        at_server = await self._claim_there(lacking, at_most)
        server_judgments: dict[str, Judgment] = {}
        for result in at_server:
            server_judgments.update(result.known)
        # Others paid for these: stored here, the next turn asks no server for them.
        if server_judgments:
            await self._write_here(list(server_judgments.values()))
        surplus: list[str] = []
        for at, hashes, result in zip(ours, lacking, at_server, strict=True):
            local[at] = ClaimResult(result.state, {**local[at].known, **result.known})
            # Another machine judges it, or it is beyond at_most: others here may claim it again.
            if result.state is not ClaimState.OURS:
                surplus += (content for content in hashes if content not in result.known)
        if surplus:
            self._local.release(surplus)
        return local

    def release(self, hashes: Iterable[str]) -> None:
        """Give contents up without a judgment."""
        self._local.release(hashes)

    async def _claim_there(
        self, packs: Sequence[Sequence[str]], at_most: int
    ) -> list[ClaimResult]:
        """Claim at the server; while it is away, the local claims count."""
        self._has_asked = True
        alone = []
        for at in range(len(packs)):
            alone.append(ClaimResult(ClaimState.OURS if at < at_most else ClaimState.FREE, {}))
        names = self._names
        runner = self._runner
        lease_s = self._lease_s
        results = await self._link.ask(
            lambda server: server.claim(
                names, packs, at_most=at_most, runner=runner, lease_s=lease_s
            ),
            otherwise=alone,
        )
        self._store.catch_up_soon()
        return results

    async def _renew(self) -> None:
        if self._has_asked:
            await self._link.tell(
                lambda server: server.heartbeat(self._runner, lease_s=self._lease_s)
            )
