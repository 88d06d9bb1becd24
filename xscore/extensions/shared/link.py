"""One process's link to the shared server: deadlines, retries, and what happens while it is away.

A request has `timeout_s` in all, with retries for a server that is just restarting. One that
has not answered this process yet is knocked at first, during the turn's work and before a
driver is loaded (`knock`); the first request waits a little for its answer, and the run has the
server as soon as it comes. Where it was away in the minutes before, it is waited for only
`NEAR_S`. A server that does not answer, or sends invalid replies, is away: the run continues
without it at once, and it is tried in the background until it answers. A warning of the receipt
says so; a note says it at once if the run has had the server, or once the outage has lasted,
and another that it answers again. If it is required, an outage ends the run instead. A server
that returns damaged judgments is not asked again in this run. Trade-off: without it several
machines may pay for the same judgment.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from xscore.extensions.shared.server import SIGN_OF_LIFE_SHARE, SharedServer, too_slow
from xscore.pipeline.server_contacts import BegunKnock
from xscore.platform.errors import SharedUnavailable, StoreDamaged, XscoreError

T = TypeVar("T")


AGAIN_S = 0.1
"""Delay between two tries of one request."""
NEAR_S = 0.04
"""How long a turn waits for a sign of life after an outage, or for what it can do without."""
LOOK_AGAIN_S = 2.0
"""Delay before a server that went away is tried again; it doubles each time."""
LOOK_SELDOM_S = 60.0
"""The longest such delay."""
_START_IT = (
    "Start it, or run without --require-shared (shared.require) to continue with only the local"
    " store."
)


class ServerLink:
    """A shared server as one process sees it."""

    def __init__(
        self,
        open_server: Callable[[], SharedServer],
        *,
        require: bool,
        timeout_s: float,
        note: Callable[[str], None] = lambda _: None,
        look_again_s: float = LOOK_AGAIN_S,
        knock: BegunKnock | None = None,
        was_away: str = "",
        patience_s: float | None = None,
    ) -> None:
        """open_server: called at the first request.
        note: tells the user that the server is away, or back.
        knock: is asked for a sign of life before a driver is loaded; None if nothing is.
        was_away: why the server was away in the minutes before, in another process; empty if it
            was not.
        patience_s: how long the first request waits for that sign of life, after which it is
            looked for in the background; None: as long as a knock takes.
        """
        self.require = require
        self.is_unavailable: bool = False
        self._open_server = open_server
        self._timeout_s = timeout_s
        self._note = note
        self._look_again_s = look_again_s
        self._server: SharedServer | None = None
        self._looking: asyncio.Task[None] | None = None
        self._why = ""
        self._knock = knock
        self._was_away = was_away
        self._patience_s = patience_s
        self._has_answered = False
        self._has_failed = False
        """Whether a request failed, and not only the wait for a sign of life."""
        self._user_was_told = False
        """Whether the user was told of this outage while the run goes on."""

    @property
    def problem(self) -> str:
        """Why the server is away now; empty if it is not, or it was never asked."""
        return self._why if self.is_unavailable else ""

    @property
    def has_answered(self) -> bool:
        """Whether the server has answered this process."""
        return self._has_answered

    @property
    def has_failed(self) -> bool:
        """Whether a request failed; False: the server was at most late with its sign of life."""
        return self._has_failed

    async def answers_soon(self) -> bool:
        """Whether the server can be asked without waiting long to find out that it is away."""
        if self.require or self._has_answered:
            return not self.is_unavailable
        if self._was_away:
            await self._find_again()
            return not self.is_unavailable
        try:
            await self._reach(NEAR_S)
        except SharedUnavailable:
            # The first claim waits as long as it must, and says what is wrong.
            return False
        return True

    async def ask(self, request: Callable[[SharedServer], Awaitable[T]], otherwise: T) -> T:
        """Return the server's answer; while it is away, return `otherwise` at once.

        Raises SharedUnavailable if the server is required and away.
        """
        if self._was_away and not self.require:
            await self._find_again()
        if self.is_unavailable:
            if self.require:
                raise SharedUnavailable(self._why, hint=_START_IT)
            return otherwise
        try:
            return await self._tried(request)
        except (SharedUnavailable, StoreDamaged) as error:
            if not self.is_unavailable:
                # One that was not waited for any longer may answer in a moment.
                is_late = self._knock is not None and self._knock.is_under_way
                self._lose(error, first_pause_s=0.0 if is_late else None)
            if self.require:
                raise SharedUnavailable(
                    error.message, hint=f"{error.hint} {_START_IT}".strip()
                ) from error
            return otherwise

    async def tell(self, request: Callable[[SharedServer], Awaitable[object]]) -> bool:
        """Return whether the server did it. Raises SharedUnavailable if it is required and away."""

        async def done(server: SharedServer) -> bool:
            await request(server)
            return True

        return await self.ask(done, otherwise=False)

    async def wait_until_back(self) -> None:
        """Wait while the server is away.

        Raises SharedUnavailable if it is not tried again in this run.
        """
        if not self.is_unavailable:
            return
        if self._looking is None:
            raise SharedUnavailable(self._why, hint=_START_IT)
        await asyncio.shield(self._looking)

    def warnings(self) -> tuple[str, ...]:
        """Return a warning for the receipt if the server was away."""
        why = self._why.rstrip(".")
        if why:
            return (f"{why}; what was missing was judged with the local store alone",)
        return ()

    async def aclose(self) -> None:
        """Stop trying it, and release its connections."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if self._server is not None:
            with suppress(SharedUnavailable, TimeoutError):
                async with asyncio.timeout(self._timeout_s):
                    await self._server.aclose()

    async def _reach(self, at_most_s: float | None) -> None:
        """Wait for a sign of life; None: as long as a knock takes. Raises SharedUnavailable."""
        if self._knock is not None:
            await self._knock.wait(at_most_s)

    async def _find_again(self) -> None:
        """After an outage: use the server if it is back; otherwise go on at once without it."""
        try:
            await self._reach(NEAR_S)
            # Outside the deadline: on a busy machine the import of a driver takes longer.
            server = self._opened()
            async with asyncio.timeout(self._timeout_s / SIGN_OF_LIFE_SHARE):
                await server.check()
            self._was_away = ""
            self._has_answered = True
        except (SharedUnavailable, TimeoutError):
            # Another request may have come to this meanwhile.
            problem, self._was_away = self._was_away, ""
            if problem:
                self._lose(SharedUnavailable(problem), first_pause_s=0.0)

    async def _tried(self, request: Callable[[SharedServer], Awaitable[T]]) -> T:
        server = await self._reached()
        latest: SharedUnavailable | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    try:
                        answer = await request(server)
                        self._has_answered = True
                        return answer
                    except SharedUnavailable as error:
                        self._has_failed = True
                        # One that has answered may be restarting.
                        if not (self._has_answered or self.require):
                            raise
                        latest = error
                    await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            self._has_failed = True
            if latest is not None:
                raise latest from None
            raise too_slow(f"the shared server {server.name}", self._timeout_s) from None

    async def _reached(self) -> SharedServer:
        """Return the server, once it shows a sign of life. Raises SharedUnavailable."""
        if not (self._has_answered or self.require):
            await self._reach(self._patience_s)
        return self._opened()

    def _opened(self) -> SharedServer:
        if self._server is None:
            self._server = self._open_server()
        return self._server

    def _lose(self, error: XscoreError, *, first_pause_s: float | None = None) -> None:
        """Go on without the server, and look for it. first_pause_s: before the first look."""
        self.is_unavailable = True
        self._why = error.message
        self._looking = None
        if self.require:
            return
        # At the beginning of a turn the receipt's line is enough, unless it lasts.
        is_damaged = isinstance(error, StoreDamaged)
        if self._has_answered or is_damaged:
            self._say_away()
        if not is_damaged:
            self._looking = asyncio.create_task(self._look_for(first_pause_s))

    def _say_away(self) -> None:
        if not self._user_was_told:
            self._user_was_told = True
            self._note(f"{self._why.rstrip('.')}; continuing with only the local store")

    async def _look_for(self, first_pause_s: float | None) -> None:
        pause_s = self._look_again_s if first_pause_s is None else first_pause_s
        while True:
            await asyncio.sleep(pause_s)
            with suppress(SharedUnavailable):
                await self._reach(None)
                if await self._checks():
                    self._has_answered = True
                    self.is_unavailable = False
                    break
            if pause_s:
                self._say_away()
            pause_s = min(2 * pause_s, LOOK_SELDOM_S) if pause_s else self._look_again_s
        if self._user_was_told:
            self._user_was_told = False
            self._note(f"the shared server {self._opened().name} answers again")

    async def _checks(self) -> bool:
        """Whether the server answers a request."""
        server = self._opened()
        try:
            async with asyncio.timeout(self._timeout_s):
                await server.check()
        except (SharedUnavailable, TimeoutError):
            self._has_failed = True
            return False
        return True
