"""Ctrl-C in two steps: the first stops sending and keeps what was paid for, the second ends the
process at once.

SIGTERM counts as a press, so a supervisor that stops the command still gets its receipt. The
handler runs even while the event loop is busy, so the second press always works; before there is a
loop, nothing is paid for, and the first press ends the work. The store survives any other end as it
is. Trade-off: a handler waits for a long call in C (a parse, a pattern, a lock of SQLite), so a
command that must end at once leaves SIGTERM to the system.
"""

import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

from xscore.platform.errors import ExitCode
from xscore.platform.event_loop import canceller_of_task, resume

InterruptibleResult = TypeVar("InterruptibleResult")

STOPPING = (
    "Stopping: sending nothing more, keeping what was paid for. "
    "Press Ctrl-C again to end at once."
)


def run_interruptible(
    work: Coroutine[Any, Any, InterruptibleResult],
    *,
    notify: Callable[[str], None],
    cleanup: Callable[[], None] = lambda: None,
    late_loop: bool = False,
    takes_sigterm: bool = True,
) -> InterruptibleResult:
    """Run `work` to its end; a first SIGINT or SIGTERM cancels it, a second calls `cleanup` and
    ends with 130.

    late_loop: the work awaits `ensure_event_loop` before it uses asyncio.
    takes_sigterm: if not, only SIGINT is a press.
    Raises KeyboardInterrupt if the work was cancelled and returned nothing.
    """
    presses = _InterruptCounter(notify, cleanup)
    signals = (signal.SIGINT, signal.SIGTERM) if takes_sigterm else (signal.SIGINT,)
    before = {taken: signal.signal(taken, presses.on_signal) for taken in signals}
    try:
        if late_loop:
            # Run without asyncio up to the first `ensure_event_loop`. A fully cached turn never
            # gets there: it ends here, with a StopIteration that carries its result, and asyncio is
            # never imported.
            work.send(None)
        return _run_in_loop(presses.run(work))
    except StopIteration as ended:
        result: InterruptibleResult = ended.value
        return result
    finally:
        for taken, handler in before.items():
            signal.signal(taken, handler)


def _run_in_loop(work: Coroutine[Any, Any, InterruptibleResult]) -> InterruptibleResult:
    import asyncio  # only work that waits needs it

    try:
        return asyncio.run(work)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


class _InterruptCounter:
    def __init__(self, notify: Callable[[str], None], cleanup: Callable[[], None]) -> None:
        self._notify = notify
        self._cleanup = cleanup
        self._count = 0
        self._cancel: Callable[[], object] | None = None

    async def run(self, work: Coroutine[Any, Any, InterruptibleResult]) -> InterruptibleResult:
        self._cancel = canceller_of_task()
        return await resume(work)

    def on_signal(self, _signal: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count == 1 and self._cancel is None:
            raise KeyboardInterrupt
        if self._count == 1 and self._cancel is not None:
            self._cancel()
            try:
                self._notify(STOPPING)
            except RuntimeError:
                # The signal landed inside a write to the same stream, which takes no second one.
                os.write(2, f"{STOPPING}\n".encode())
            return
        with suppress(RuntimeError):  # the same; the process ends without it
            self._cleanup()
        os._exit(ExitCode.INTERRUPTED)
