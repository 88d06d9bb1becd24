"""Run a blocking function in a thread that keeps no process from ending.

Trade-off: what is awaited no longer goes on in its thread until the function returns.
"""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def start_in_thread(work: Callable[[], T], *, name: str) -> Future[T]:
    """Start the function in a daemon thread; its result, or what it raises, is in the future."""
    future: Future[T] = Future()
    # It can no longer be cancelled, so the thread may always set its result.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised where it is awaited
            future.set_exception(error)

    Thread(target=run, daemon=True, name=name).start()
    return future
