"""An event loop with instant waits: instead of sleeping it advances its clock. It does no I/O."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
TURN_S = 1e-8
"""The duration of one loop turn, so that a rounding error cannot stop time."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Time passes only while all tasks wait."""

    def __init__(self) -> None:
        self.now = 1_000.0
        super().__init__(_ClockSelector(self))

    def time(self) -> float:
        """Return the time."""
        return self.now


class _ClockSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._clock = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        assert ready or timeout is not None, "everybody waits for ever"
        self._clock.now += TURN_S if ready or not timeout else max(timeout, TURN_S)
        return ready


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end instantly."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def now() -> float:
    """Return the running loop's time."""
    return asyncio.get_running_loop().time()
