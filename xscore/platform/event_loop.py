"""An event loop that starts when a coroutine first needs one.

Importing asyncio costs a tenth of a turn that is all cached, which awaits nothing. Trade-off: code
that uses asyncio on the way of such a turn must await `ensure_event_loop` before.
"""

import sys
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

Result = TypeVar("Result")


@coroutine
def ensure_event_loop() -> Generator[None, None, None]:
    """Return within a running event loop: at once if there is one, otherwise when `resume` is
    awaited in one."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        yield


@coroutine
def resume(work: Coroutine[Any, Any, Result]) -> Generator[Any, Any, Result]:
    """Run a coroutine on that waits in `ensure_event_loop`, and return its result."""
    result: Result = yield from work
    return result


def clear_cancellation() -> None:
    """Undo a cancellation of this task, which goes on to report what it has."""
    task = _current_task()
    if task is not None:
        task.uncancel()


def canceller_of_task() -> Callable[[], object]:
    """Return what cancels this task, for a signal handler or another thread to call."""
    task = _current_task()
    assert task is not None
    loop = task.get_loop()
    return lambda: loop.call_soon_threadsafe(task.cancel)


def _current_task() -> "asyncio.Task[Any] | None":
    import asyncio  # a turn that is all cached needs no event loop

    return asyncio.current_task()
