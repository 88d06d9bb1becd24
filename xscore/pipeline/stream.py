"""One turn as a stream of its events, the receipt last.

The turn never waits for its reader: unread reports of progress are joined into one, and so are
pieces of the answer, so that no judgment is lost and at most a few events wait. Trade-off: a
slow reader sees fewer, larger ones.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from msgspec.structs import replace

from xscore.platform.event_loop import clear_cancellation
from xscore.records.events import AnswerText, Progress, TurnEvent
from xscore.records.receipt import Answer


class EventStream:
    """A turn that is being streamed."""

    def __init__(self, turn: Coroutine[Any, Any, Answer]) -> None:
        self._unread = deque[TurnEvent]()
        self._arrived = asyncio.Event()
        self._work = asyncio.create_task(turn)
        self._work.add_done_callback(lambda _: self._arrived.set())
        self._is_stopped = False

    def take(self, event: TurnEvent) -> None:
        """Keep an event until it is read."""
        joined = None
        if self._unread:
            joined = _joined(self._unread[-1], event)
        if joined is None:
            self._unread.append(event)
        else:
            self._unread[-1] = joined
        self._arrived.set()

    async def read(self) -> AsyncGenerator[TurnEvent, None]:
        """Yield the events, then the receipt.

        A cancellation ends the turn and is taken back: its receipt comes.
        """
        while True:
            while self._unread:
                yield self._unread.popleft()
            if self._work.done():
                break
            # Nothing is awaited between the look at the events and this, so none is missed.
            self._arrived.clear()
            try:
                await self._arrived.wait()
            except asyncio.CancelledError:
                clear_cancellation()
                self._is_stopped = True
                self._work.cancel()
        yield self._work.result()

    async def stop(self) -> None:
        """End the turn as Ctrl-C does, and wait for its end."""
        if not (self._is_stopped or self._work.done()):
            self._is_stopped = True
            self._work.cancel()
        await asyncio.wait([self._work])
        if not self._work.cancelled():
            # Marks its error as seen: the reader has had it, or has left.
            self._work.exception()


def _joined(earlier: TurnEvent, later: TurnEvent) -> TurnEvent | None:
    """Return both as one event; None if they are of different kinds."""
    match earlier, later:
        case Progress(), Progress():
            return replace(later, settled=earlier.settled + later.settled)
        case AnswerText(one), AnswerText(other):
            return AnswerText(one + other)
    return None
