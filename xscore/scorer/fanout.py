"""A worker pool on one iterator, which bounds the calls in flight for any number of units of work.

A task per candidate would cost 80 µs and 1.6 kB each; a worker costs that once. A unit may produce
follow-up units (the repair ladder), which go first. After a stop nothing more is started, and every
remaining unit is accounted for. It knows nothing of models and does not abort calls in flight;
cancelling does.
Trade-off: results come in completion order, in batches, on an unbounded queue.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Generic, TypeVar

from xscore.records.judgment import UnjudgedCause

U = TypeVar("U")
R = TypeVar("R")


WORKERS_PER_CALL = 1.25
SPARE_WORKERS = 4


def workers_for(calls_in_flight: int) -> int:
    """Return the workers needed for this many calls in flight while some wait for a backoff or a
    commit."""
    return int(calls_in_flight * WORKERS_PER_CALL) + SPARE_WORKERS


class StopSignal:
    """Whether to start nothing more, and why; the first cause wins."""

    def __init__(self, halt: Callable[[], None] = lambda: None) -> None:
        """halt: called once, to stop requests that wait to be sent."""
        self.cause: UnjudgedCause | None = None
        self.detail: str = ""
        self._halt = halt

    def set(self, cause: UnjudgedCause, detail: str = "") -> None:
        """Start nothing more."""
        if self.cause is None:
            self.cause = cause
            self.detail = detail
            self._halt()


async def fan_out(
    units: Iterator[U],
    work_on: Callable[[U], Awaitable[tuple[Sequence[R], Sequence[U]]]],
    *,
    workers: int,
    stop: StopSignal,
    unsent: Callable[[U], Sequence[R]],
) -> AsyncGenerator[Sequence[R], None]:
    """Work on every unit; yield the results in batches.

    work_on: one unit -> its results and follow-up units.
    unsent: the results of a unit that is not started because of a stop.
    An error in `work_on` cancels the rest and is raised after the earlier batches.
    """
    queue = _WorkQueue(units)
    results: asyncio.Queue[Sequence[R] | None] = asyncio.Queue()

    async def work() -> None:
        while (unit := await queue.take()) is not None:
            follow_ups: Sequence[U] = ()
            try:
                if stop.cause is None:
                    batch, follow_ups = await work_on(unit)
                else:
                    batch = unsent(unit)
            finally:
                # Also after an error: others would wait for its follow-ups for ever.
                queue.done(follow_ups)
            results.put_nowait(batch)

    tasks = [asyncio.create_task(work()) for _ in range(workers)]
    finished = asyncio.gather(*tasks)
    # A None behind the last results ends the loop below, also when a worker has failed.
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
    """Units waiting for a worker, follow-ups first."""

    def __init__(self, units: Iterator[U]) -> None:
        self._units = units
        self._again: deque[U] = deque()
        self._busy = 0
        self._idle: deque[asyncio.Future[None]] = deque()

    async def take(self) -> U | None:
        """Return the next unit; wait while a busy worker may add more; None at the end."""
        while True:
            unit = self._again.popleft() if self._again else next(self._units, None)
            if unit is not None:
                self._busy += 1
                return unit
            if not self._busy:
                return None
            wake_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(wake_up)
            await wake_up

    def done(self, follow_ups: Sequence[U]) -> None:
        """Mark a unit done and queue its follow-ups; wake as many idle workers."""
        self._again.extend(follow_ups)
        self._busy -= 1
        if self._again or self._busy:
            wake = len(follow_ups)
        else:
            # The last busy worker is done and nothing is queued: wake every idle worker, so that
            # each sees the end.
            wake = len(self._idle)
        while wake > 0 and self._idle:
            wake_up = self._idle.popleft()
            if not wake_up.done():
                wake_up.set_result(None)
                wake -= 1
