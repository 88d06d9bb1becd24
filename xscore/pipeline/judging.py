"""Settle every candidate: from the cache, or by the judge, or as unjudged with its cause. n in, n out.

Cancelling it (Ctrl-C) does not lose what was paid: the judge is told to stop sending, what is in flight may finish for
`GRACE_S`, and the rest is unjudged. So it is at a deadline, which leaves no grace. The judgments themselves are written
by the judge, before this room sees them.

The deadline of a whole turn: when to begin no more calls, when to cut off, and what is left for the answer.

It is a moment on the monotonic clock, so that a wall clock set back or forth changes nothing. Bringing the index up to
date counts but is not cut short: half an index would judge half a repository and not say so. Trade-off: calls that
would probably end too late are not begun, so the last seconds are spent waiting rather than paying for what is cut off.
"""

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from time import monotonic

from msgspec import Struct

from xscore.pipeline.pool import Pool
from xscore.platform.processes import gc_paused
from xscore.records import (
    Candidate,
    Judgment,
    Leader,
    Observer,
    Origin,
    Outcome,
    Progress,
    StageUsage,
    Turn,
    Unjudged,
    UnjudgedCause,
)
from xscore.scorer.judge import Judge

CLOSING_S = 0.2
"""Kept back for choosing, receipt and closing."""
ANSWER_SHARE = 1 / 3
"""Most of the time left that is kept back for the answering call."""
CALL_TIME_MARGIN = 1.25
"""A call is begun only while so many times the 90th percentile of the latest calls is left; at the percentile itself
one in ten of the last wave would be cut off, and charged."""
POLL_S = 0.25
"""So often the time that calls take is looked at again."""


class Deadline(Struct, frozen=True):
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
    deadline: Deadline,
    work: "asyncio.Task[None]",
    stop: Callable[[UnjudgedCause], None],
    *,
    call_s: Callable[[], float],
) -> bool:
    """Wait for the work; say whether it ended in time. Calls that would not end in time are not begun.

    stop: has no more calls begun. call_s: what nine in ten calls take at most, as seen so far; 0: unknown. What is in
    flight at the deadline is the caller's to cut.
    """
    while not work.done() and (left := deadline.judging_left_s() - CALL_TIME_MARGIN * call_s()) > 0:
        await asyncio.wait([work], timeout=min(left, POLL_S))
    if not work.done():
        stop(UnjudgedCause.DEADLINE)
        await asyncio.wait([work], timeout=deadline.judging_left_s())
    return work.done()


GRACE_S = 5.0
REPORT_EVERY_S = 0.1
STOP_DETAILS = {
    UnjudgedCause.INTERRUPTED: "stopped before it was judged",
    UnjudgedCause.DEADLINE: "the deadline came before it was judged",
    UnjudgedCause.REPLAY: "it is not in the cache, and a replay sends nothing",
}


class JudgingWatch(Struct, frozen=True, kw_only=True):
    """What is looked at, and told, while judging."""

    observer: Observer
    leaders: int
    """How many of the provisional best are told."""
    deadline: Deadline | None = None
    spent: Callable[[], StageUsage] = StageUsage
    """What the judging stage has cost so far."""
    call_s: Callable[[], float] = float
    """What a judging call takes, as seen so far; 0: unknown."""


class NoJudge(Struct, frozen=True):
    """Why there is no judge for what the cache lacks."""

    cause: UnjudgedCause
    detail: str = ""
    """Empty: as always for this cause."""


class JudgedPool(Struct, frozen=True):
    """One outcome a candidate, and whether the user stopped it."""

    outcomes: tuple[Outcome, ...]
    interrupted: bool


async def judge_pool(pool: Pool, judge: Judge | NoJudge, turn: Turn, watched: JudgingWatch) -> JudgedPool:
    """Judge what the cache lacks and give every candidate its outcome."""
    known_as = Origin.CARRIED if turn.continues else Origin.CACHED
    with gc_paused():
        known = Outcome.found(pool.candidates, pool.known, known_as)
        if pool.judged_this_turn:
            known = [_as_judged(outcome, pool.judged_this_turn) for outcome in known]
        if not pool.misses:
            return JudgedPool(tuple([outcome for outcome in known if outcome is not None]), interrupted=False)
    tally = _JudgingProgress(pool, watched)
    ended: UnjudgedCause | None
    elsewhere: AbstractSet[str]
    if isinstance(judge, NoJudge):
        ended, detail, elsewhere = judge.cause, judge.detail, frozenset()
    else:
        ended, detail = await _judge(pool.misses, judge, turn, tally), ""
        elsewhere = judge.judged_elsewhere  # known once it has judged
    tally.report(final=True)
    found = _MissResults(tally.found, elsewhere, ended, detail)
    outcomes = [outcome or found.outcome(one) for one, outcome in zip(pool.candidates, known, strict=True)]
    return JudgedPool(tuple(outcomes), ended is UnjudgedCause.INTERRUPTED)


def _as_judged(outcome: Outcome | None, fresh: AbstractSet[str]) -> Outcome | None:
    is_fresh = outcome is not None and outcome.result.content_hash in fresh
    return outcome._replace(origin=Origin.JUDGED) if outcome is not None and is_fresh else outcome


async def _judge(
    misses: Sequence[Candidate], judge: Judge, turn: Turn, tally: "_JudgingProgress"
) -> UnjudgedCause | None:
    """Let the judge work; return what ended it before its end, or None."""
    work = asyncio.create_task(_consume(judge, turn, misses, tally))
    ended: UnjudgedCause | None = None
    try:
        deadline = tally.watched.deadline
        if deadline is None:
            await asyncio.wait([work])
        elif not await work_until(deadline, work, judge.stop, call_s=tally.watched.call_s):
            ended = UnjudgedCause.DEADLINE
    except asyncio.CancelledError:
        ended = UnjudgedCause.INTERRUPTED
        take_back_cancellation(asyncio.current_task())
        judge.stop(UnjudgedCause.INTERRUPTED)
        await asyncio.wait([work], timeout=GRACE_S)
    if not work.done():
        work.cancel()
        await asyncio.wait([work])
    if not work.cancelled():
        work.result()
    return ended


async def _consume(judge: Judge, turn: Turn, misses: Sequence[Candidate], tally: "_JudgingProgress") -> None:
    async for result in judge.judge(turn, misses):
        tally.add(result)


def take_back_cancellation(task: "asyncio.Task[object] | None") -> None:
    """Take back a cancellation: the turn goes on to select and report from what it has."""
    if task is not None:
        task.uncancel()


class _MissResults(Struct, frozen=True):
    """What there is to say of each candidate that no earlier turn judged."""

    judged: Mapping[str, Judgment | Unjudged]
    elsewhere: AbstractSet[str]
    """What another process judged while this turn ran."""
    ended: UnjudgedCause | None
    detail: str

    def outcome(self, candidate: Candidate) -> Outcome:
        result = self.judged.get(candidate.content_hash)
        if result is None:
            cause = self.ended or UnjudgedCause.INTERRUPTED
            result = Unjudged(candidate.content_hash, cause, self.detail or STOP_DETAILS[cause])
        if isinstance(result, Unjudged):
            return Outcome(candidate, result, Origin.UNJUDGED)
        return Outcome(candidate, result, Origin.CACHED if candidate.content_hash in self.elsewhere else Origin.JUDGED)


@dataclass(slots=True)
class _JudgingProgress:
    """Counts what settled and tells the observer now and then."""

    pool: Pool
    watched: JudgingWatch
    found: dict[str, Judgment | Unjudged] = field(default_factory=dict)
    named: dict[str, Candidate] = field(init=False)
    judged: int = 0
    started: float = field(default_factory=monotonic)
    reported: float = 0.0
    best: list[tuple[float, str]] = field(init=False)
    """Heap of the provisional best: (score, content hash)."""

    def __post_init__(self) -> None:
        self.named = {candidate.content_hash: candidate for candidate in self.pool.candidates}
        judged = self.pool.known
        known = [(judged[hash_].score, hash_) for hash_ in self.named if hash_ in judged]
        self.best = heapq.nlargest(self.watched.leaders, known)[::-1]

    def add(self, result: Judgment | Unjudged) -> None:
        self.found[result.content_hash] = result
        if isinstance(result, Judgment):
            self.judged += 1
            push = heapq.heappush if len(self.best) < self.watched.leaders else heapq.heappushpop
            push(self.best, (result.score, result.content_hash))
        if monotonic() - self.reported >= REPORT_EVERY_S:
            self.report()

    def report(self, *, final: bool = False) -> None:
        if not final and not self.found:
            return
        self.reported = monotonic()
        spent, elapsed = self.watched.spent(), self.reported - self.started
        total = len(self.pool.candidates)
        left = len(self.pool.misses) - len(self.found)
        self.watched.observer.progress(
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
