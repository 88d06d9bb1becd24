"""The deadline of a whole turn: when to begin no more calls, when to cut off, and what is left for the answer.

It is a moment on the monotonic clock, so that a wall clock set back or forth changes nothing. Bringing the index up to
date counts but is not cut short: half an index would judge half a repository and not say so. Trade-off: calls that
would probably end too late are not begun, so the last seconds are spent waiting rather than paying for what is cut off.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from xscore.records import Cause

CLOSING_S = 0.2
"""Kept back for choosing, receipt and closing."""
ANSWER_SHARE = 1 / 3
"""Most of the time left that is kept back for the answering call."""
MARGIN = 1.25
"""A call is begun only while so many times the 90th percentile of the latest calls is left; at the percentile itself
one in ten of the last wave would be cut off, and charged."""
GLANCE_S = 0.25
"""So often the time that calls take is looked at again."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a turn is to be over."""

    at: float
    """Seconds of `time.monotonic`."""
    answer_s: float = 0.0
    """Kept back for the answering call."""

    def left_s(self) -> float:
        """Seconds until the turn is to be over, closing deducted; not below 0."""
        return max(0.0, self.at - CLOSING_S - monotonic())

    def judging_left_s(self) -> float:
        """Seconds until judging is to be over; not below 0."""
        return max(0.0, self.left_s() - self.answer_s)

    def with_answer(self, typical_s: float) -> "Deadline":
        """Keep back what an answering call typically takes, at most a third of what is left."""
        return Deadline(self.at, min(typical_s, ANSWER_SHARE * self.left_s()))


async def work_until(
    deadline: Deadline, work: "asyncio.Task[None]", stop: Callable[[Cause], None], *, call_s: Callable[[], float]
) -> bool:
    """Wait for the work; say whether it ended in time. Calls that would not end in time are not begun.

    stop: has no more calls begun. call_s: what nine in ten calls take at most, as seen so far; 0: unknown. What is in
    flight at the deadline is the caller's to cut.
    """
    while not work.done() and (left := deadline.judging_left_s() - MARGIN * call_s()) > 0:
        await asyncio.wait([work], timeout=min(left, GLANCE_S))
    if not work.done():
        stop(Cause.DEADLINE)
        await asyncio.wait([work], timeout=deadline.judging_left_s())
    return work.done()
