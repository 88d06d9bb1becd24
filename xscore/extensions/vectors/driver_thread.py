"""Run a blocking driver beside the event loop, in a thread that keeps no process from ending.

Trade-off: a call that is given up goes on in its thread until the driver's own deadline.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


async def run_beside(work: Callable[[], T]) -> T:
    """Return what the function returns, or raise what it raises."""
    future: Future[T] = Future()
    # It can no longer be cancelled, so the thread may always set its result.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised where it is awaited
            future.set_exception(error)

    Thread(target=run, daemon=True, name="xscore-vectors").start()
    return await asyncio.wrap_future(future)
