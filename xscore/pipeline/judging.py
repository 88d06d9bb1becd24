"""Settle every candidate: from the cache, or by the judge, or as unjudged with its cause. n in, n out.

Cancelling it (Ctrl-C) does not lose what was paid: the judge is told to stop sending, what is in flight may finish for
`GRACE_S`, and the rest is unjudged. The judgments themselves are written by the judge, before this room sees them.
"""

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

from xscore.pipeline.pool import Pool
from xscore.records import (
    Candidate,
    Cause,
    Judgment,
    Leader,
    Observer,
    Origin,
    Outcome,
    Progress,
    StageUsage,
    Turn,
    Unjudged,
)
from xscore.scorer.judge import Judge

GRACE_S = 5.0
REPORT_EVERY_S = 0.1
LEADERS = 3

Spent = Callable[[], StageUsage]
"""What the judging stage has cost so far."""


@dataclass(frozen=True, slots=True)
class Settled:
    """One outcome a candidate, and whether the user stopped it."""

    outcomes: tuple[Outcome, ...]
    interrupted: bool


async def settle(pool: Pool, judge: Judge | None, turn: Turn, *, observer: Observer, spent: Spent) -> Settled:
    """Judge what the cache lacks and give every candidate its outcome. judge: None where the cache lacks nothing."""
    tally = _Tally(pool, observer, spent)
    interrupted = False
    if judge is not None and pool.misses:
        work = asyncio.create_task(_consume(judge, turn, pool.misses, tally))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            if work.cancelled():
                raise
            interrupted = True
            forgive(asyncio.current_task())
            judge.stop(Cause.INTERRUPTED)
            await asyncio.wait([work], timeout=GRACE_S)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
    tally.report(final=True)
    return Settled(tuple(_outcome(one, pool.known, tally.found) for one in pool.candidates), interrupted)


async def _consume(judge: Judge, turn: Turn, misses: Sequence[Candidate], tally: "_Tally") -> None:
    async for result in judge.judge(turn, misses):
        tally.add(result)


def forgive(task: "asyncio.Task[object] | None") -> None:
    """Take back a cancellation: the turn goes on to select and report from what it has."""
    if task is not None:
        task.uncancel()


def _outcome(
    candidate: Candidate, known: Mapping[str, Judgment], found: "Mapping[str, Judgment | Unjudged]"
) -> Outcome:
    cached = known.get(candidate.content_hash)
    if cached is not None:
        return Outcome(candidate, cached, Origin.CACHED)
    result = found.get(candidate.content_hash)
    if result is None:
        result = Unjudged(candidate.content_hash, Cause.INTERRUPTED, "stopped before it was judged")
    return Outcome(candidate, result, Origin.JUDGED if isinstance(result, Judgment) else Origin.UNJUDGED)


@dataclass(slots=True)
class _Tally:
    """Counts what settled and tells the observer now and then."""

    pool: Pool
    observer: Observer
    spent: Spent
    found: dict[str, Judgment | Unjudged] = field(default_factory=dict)
    named: dict[str, Candidate] = field(init=False)
    judged: int = 0
    started: float = field(default_factory=monotonic)
    reported: float = 0.0
    best: list[tuple[float, str]] = field(default_factory=list)
    """Heap of the provisional best: (score, content hash)."""

    def __post_init__(self) -> None:
        self.named = {candidate.content_hash: candidate for candidate in self.pool.misses}

    def add(self, result: Judgment | Unjudged) -> None:
        self.found[result.content_hash] = result
        if isinstance(result, Judgment):
            self.judged += 1
            push = heapq.heappush if len(self.best) < LEADERS else heapq.heappushpop
            push(self.best, (result.score, result.content_hash))
        if monotonic() - self.reported >= REPORT_EVERY_S:
            self.report()

    def report(self, *, final: bool = False) -> None:
        if not final and not self.found:
            return
        self.reported = monotonic()
        spent, elapsed = self.spent(), self.reported - self.started
        total = len(self.pool.candidates)
        left = len(self.pool.misses) - len(self.found)
        self.observer.progress(
            Progress(
                candidates=total,
                cached=total - len(self.pool.misses),
                judged=self.judged,
                unjudged=len(self.found) - self.judged,
                calls=spent.calls,
                cost_usd=spent.cost_usd,
                elapsed_s=elapsed,
                seconds_left=elapsed / len(self.found) * left if self.found else None,
                leaders=self._leaders(),
            )
        )

    def _leaders(self) -> tuple[Leader, ...]:
        return tuple(
            Leader(self.named[hash_].path, self.named[hash_].entity, score)
            for score, hash_ in sorted(self.best, reverse=True)
        )
