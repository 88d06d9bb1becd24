"""Measures CPU so that a busy machine cannot fail a test and slower code still does.

Time is CPU of this very thread, with garbage left lying meanwhile, and one run of a few has to keep
to the limit: whatever else the machine does can only add to a run. The limit is never a second of
some machine, but what other work costs in the moment before, such as the same on less input. Work
of other threads is not seen. Where the calls made tell the same, `calls` counts them instead,
without any clock.
"""

import gc
import sys
import time
from collections.abc import Callable

ATTEMPTS = 5
"""How often work is measured until one run keeps to its limit."""


def assert_costs(
    work: Callable[[], object], *, than: Callable[[], object], at_most: float
) -> None:
    """Allow the work N times the CPU of the other, in the best of a few runs of both."""
    ratios: list[float] = []
    while not ratios or (min(ratios) > at_most and len(ratios) < ATTEMPTS):
        least_s = min(_cpu_s(than) for _ in range(2))
        ratios.append(_cpu_s(work) / least_s)
    assert min(ratios) <= at_most, (
        f"{min(ratios):.1f} times the CPU, where {at_most} is the most"
    )


def assert_growth(
    work: Callable[[int], object], *, small: int, large: int, at_most: float
) -> None:
    """Allow the large size N times the CPU of the small one."""
    assert_costs(lambda: work(large), than=lambda: work(small), at_most=at_most)


def calls(work: Callable[[], object]) -> int:
    """Count the function calls of the work, built-in ones included; the same in every run."""
    count_so_far = 0

    def count(_frame: object, event: str, _of: object) -> None:
        nonlocal count_so_far
        count_so_far += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count_so_far


def _cpu_s(work: Callable[[], object]) -> float:
    is_collected = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        work()
        return time.thread_time() - began
    finally:
        if is_collected:
            gc.enable()
