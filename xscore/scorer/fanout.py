"""Workers on one iterator: at most as many calls in flight as there are workers, however many units of work there are.

A task per candidate would cost 80 µs and 1.6 kB each; a worker costs that once. Work may turn out to need more work
(the repair ladder), which goes before what is still waiting. After a stop nothing more is begun, and every unit left
is accounted for. It knows nothing of models, and does not cut short what is in flight; cancelling does.
Trade-off: results come in the order in which they settle, in batches, on an unbounded queue.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Generic, TypeVar

from xscore.records import UnjudgedCause

U = TypeVar("U")
R = TypeVar("R")


WORKERS_PER_CALL = 1.25
SPARE_WORKERS = 4


def workers_for(calls_in_flight: int) -> int:
    """Return how many workers keep so many calls in flight while some wait out a backoff or write their judgments."""
    return int(calls_in_flight * WORKERS_PER_CALL) + SPARE_WORKERS


class StopSignal:
    """Whether to begin nothing more, and why; the first cause holds."""

    def __init__(self, halt: Callable[[], None] = lambda: None) -> None:
        """halt: called at the first cause, to hold back what waits to be sent."""
        self.cause: UnjudgedCause | None = None
        self.detail = ""
        self._halt = halt

    def set(self, cause: UnjudgedCause, detail: str = "") -> None:
        """Begin nothing more."""
        if self.cause is None:
            self.cause, self.detail = cause, detail
            self._halt()


async def fan_out(
    units: Iterator[U],
    settle: Callable[[U], Awaitable[tuple[Sequence[R], Sequence[U]]]],
    *,
    workers: int,
    stop: StopSignal,
    unsent: Callable[[U], Sequence[R]],
) -> AsyncGenerator[Sequence[R], None]:
    """Settle every unit; yield the results in batches.

    settle: one unit -> its results, and units of work that it calls for.
    unsent: the results of a unit that is not begun because of a stop.
    An error out of `settle` cancels the rest and is raised, after the batches that came before it.
    """
    line = _WorkQueue(units)
    results: asyncio.Queue[Sequence[R] | None] = asyncio.Queue()

    async def work() -> None:
        while (unit := await line.take()) is not None:
            again: Sequence[U] = ()
            try:
                if stop.cause is None:
                    batch, again = await settle(unit)
                else:
                    batch = unsent(unit)
            finally:
                line.done(again)
            results.put_nowait(batch)

    tasks = [asyncio.create_task(work()) for _ in range(workers)]
    finished = asyncio.gather(*tasks)
    finished.add_done_callback(lambda _: results.put_nowait(None))
    try:
        while (batch := await results.get()) is not None:
            yield batch
        await finished
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(finished, *tasks, return_exceptions=True)


class _WorkQueue(Generic[U]):
    """Units waiting for a worker: those that repair something first."""

    def __init__(self, units: Iterator[U]) -> None:
        self._units = units
        self._again: deque[U] = deque()
        self._busy = 0
        self._idle: deque[asyncio.Future[None]] = deque()

    async def take(self) -> U | None:
        """Give the next unit; wait while a busy worker may still bring more; None at the end."""
        while True:
            unit = self._again.popleft() if self._again else next(self._units, None)
            if unit is not None:
                self._busy += 1
                return unit
            if not self._busy:
                return None
            news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(news)
            await news

    def done(self, again: Sequence[U]) -> None:
        """Take a worker's leave of its unit, and what it calls for; wake as many workers as that is work for."""
        self._again.extend(again)
        self._busy -= 1
        wake = len(again) if self._again or self._busy else len(self._idle)
        while wake > 0 and self._idle:
            news = self._idle.popleft()
            if not news.done():
                news.set_result(None)
                wake -= 1
