"""Ctrl-C in two steps: the first stops sending and lets the pipeline keep what was paid for, the second ends at once.

SIGTERM is taken like a press: a supervisor that stops the command gets its receipt as well. The handler runs even while
the event loop is busy, so the second press always works. The store survives any other end as it is.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

from xscore.cli.failures import INTERRUPTED

InterruptibleResult = TypeVar("InterruptibleResult")

STOPPING = "Stopping: nothing more is sent, what was paid for is kept. Once more ends at once."


def run_interruptible(
    work: Coroutine[Any, Any, InterruptibleResult], *, say: Callable[[str], None], leave: Callable[[], None]
) -> InterruptibleResult:
    """Run `work` to its end; a first SIGINT or SIGTERM cancels it, a second calls `leave` and ends with 130.

    Raises KeyboardInterrupt where the work was cancelled and gave nothing back.
    """
    presses = _InterruptCounter(say, leave)
    before = {taken: signal.signal(taken, presses.pressed) for taken in (signal.SIGINT, signal.SIGTERM)}
    try:
        return asyncio.run(presses.attended(work))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for taken, handler in before.items():
            signal.signal(taken, handler)


class _InterruptCounter:
    """Counts presses of Ctrl-C for one run."""

    def __init__(self, say: Callable[[str], None], leave: Callable[[], None]) -> None:
        self._say = say
        self._leave = leave
        self._count = 0
        self._cancel: Callable[[], object] | None = None

    async def attended(self, work: Coroutine[Any, Any, InterruptibleResult]) -> InterruptibleResult:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        assert task is not None
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        return await work

    def pressed(self, _signal: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count == 1 and self._cancel is not None:
            self._cancel()
            self._speak(lambda: self._say(STOPPING))
            return
        self._speak(self._leave)
        os._exit(INTERRUPTED)

    def _speak(self, words: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the signal may land inside a write to the very same stream
            words()
