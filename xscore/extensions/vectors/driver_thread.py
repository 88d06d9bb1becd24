"""Run a blocking driver without blocking the event loop, in a thread that keeps no process from
ending.

Trade-off: a call that is given up goes on in its thread until the driver's own deadline.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from xscore.platform.daemon_thread import start_in_thread

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T]) -> T:
    """Return what the function returns, or raise what it raises."""
    return await asyncio.wrap_future(start_in_thread(work, name="xscore-vectors"))
