"""Wait for a driver's request in a way that no cancellation gets lost.

A driver that waits by `asyncio.wait_for` loses a cancellation that comes as it returns (Python
before 3.12), and then a turn would wait for the server's deadline instead of its own. So the
request has a task of its own, which is cancelled and not awaited. Trade-off: what it holds is
released a moment later.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def cancellable(request: Coroutine[Any, Any, T]) -> T:
    """Return what the request returns, or raise what it raises."""
    task = asyncio.create_task(request)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        task.add_done_callback(_drop_error)
        raise
    return task.result()


def _drop_error(task: "asyncio.Task[Any]") -> None:
    """Keep the event loop from reporting the error of an abandoned request."""
    if not task.cancelled():
        task.exception()
