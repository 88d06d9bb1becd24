"""An event loop that starts when a coroutine first needs one.

Importing asyncio costs a tenth of a turn that is all cached, which awaits nothing. Trade-off: code
that uses asyncio on the way of such a turn must await `ensure_event_loop` before.
"""

import sys
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


@coroutine
def ensure_event_loop() -> Generator[None, None, None]:
    """Return within a running event loop: at once if there is one, else when `resume` is awaited in
    one."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        yield


@coroutine
def resume(work: Coroutine[Any, Any, Result]) -> Generator[Any, Any, Result]:
    """Run a coroutine on that waits in `ensure_event_loop`, and return its result."""
    result: Result = yield from work
    return result


def take_back_cancellation() -> None:
    """Undo a cancellation of this task, which goes on to report what it has."""
    import asyncio  # a turn that is all cached needs no event loop

    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
