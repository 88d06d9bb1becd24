"""Give every candidate an outcome: from the cache, from the judge, or unjudged with its cause. n in, n out.

The judge commits its judgments before this module sees them. The deadline is a moment on the monotonic clock.
Trade-off: what is missing is judged in `live_judging`, so that a turn that is all cached loads none of it.
"""

from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from xscore.pipeline.pool import Pool
from xscore.records.judgment import Origin, Outcome, UnjudgedCause
from xscore.records.turn import Turn

if TYPE_CHECKING:
    import asyncio

CLOSING_S = 0.2
"""Seconds reserved for selection, receipt and closing."""
ANSWER_SHARE = 1 / 3
"""Reserve at most this share of the time left for the answering call."""


class Deadline(Struct, frozen=True):
    """When a turn must be over."""

    at: float
    """Seconds of `time.monotonic`."""
    answer_s: float = 0.0
    """Reserved for the answering call."""

    @classmethod
    def of(cls, started: float, seconds: float | None) -> "Deadline | None":
        """Return the deadline this long after the start; None if there is none."""
        return None if seconds is None else cls(started + seconds)

    def left_s(self) -> float:
        """Seconds left for judging and answering, at least 0."""
        return max(0.0, self.at - CLOSING_S - monotonic())

    def judging_left_s(self) -> float:
        """Seconds left for judging, at least 0."""
        return max(0.0, self.left_s() - self.answer_s)

    def with_answer(self, typical_s: float) -> "Deadline":
        """Reserve the time that an answering call typically takes."""
        return Deadline(self.at, min(typical_s, ANSWER_SHARE * self.left_s()))


ENDS_ALL = frozenset({UnjudgedCause.BUDGET, UnjudgedCause.DEADLINE, UnjudgedCause.INTERRUPTED, UnjudgedCause.PROVIDER})
"""Causes that apply to all that is left to judge, in a turn and in a list."""


def known_outcomes(pool: Pool, turn: Turn) -> list[Outcome | None]:
    """Return the outcome of each candidate that has a judgment, in order; None for one that is to be judged."""
    known = Outcome.from_known(pool.candidates, pool.known, Origin.CARRIED if turn.continues else Origin.CACHED)
    if fresh := pool.judged_this_turn:
        known = [
            one._replace(origin=Origin.JUDGED) if one is not None and one.result.content_hash in fresh else one
            for one in known
        ]
    if pool.thread is not None and pool.thread.carried:
        carried = Outcome.from_known(pool.candidates, pool.thread.carried, Origin.CARRIED)
        known = [one or earlier for one, earlier in zip(known, carried, strict=True)]
    return known


def take_back_cancellation(task: "asyncio.Task[object] | None") -> None:
    """Undo a cancellation: the turn continues with selection and receipt from what it has."""
    if task is not None:
        task.uncancel()
