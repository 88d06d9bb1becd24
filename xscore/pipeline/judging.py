"""Settle every candidate: from the cache, or by the judge, or as unjudged with its cause. n in, n out.

Cancelling it (Ctrl-C) does not lose what was paid: the judge is told to stop sending, what is in flight may finish for
`GRACE_S`, and the rest is unjudged. So it is at a deadline, which leaves no grace. The judgments themselves are written
by the judge, before this room sees them.
"""

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from time import monotonic

from xscore.pipeline.bulk import made_in_bulk
from xscore.pipeline.deadline import Deadline, work_until
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
STOPPED = {
    Cause.INTERRUPTED: "stopped before it was judged",
    Cause.DEADLINE: "the deadline came before it was judged",
    Cause.REPLAY: "it is not in the cache, and a replay sends nothing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is looked at, and told, while judging."""

    observer: Observer
    leaders: int
    """How many of the provisional best are told."""
    deadline: Deadline | None = None
    spent: Callable[[], StageUsage] = StageUsage
    """What the judging stage has cost so far."""
    call_s: Callable[[], float] = float
    """What a judging call takes, as seen so far; 0: unknown."""


@dataclass(frozen=True, slots=True)
class NoJudge:
    """Why there is no judge for what the cache lacks."""

    cause: Cause
    detail: str = ""
    """Empty: as always for this cause."""


@dataclass(frozen=True, slots=True)
class Settled:
    """One outcome a candidate, and whether the user stopped it."""

    outcomes: tuple[Outcome, ...]
    interrupted: bool


async def settle(pool: Pool, judge: Judge | NoJudge, turn: Turn, watched: Watched) -> Settled:
    """Judge what the cache lacks and give every candidate its outcome."""
    known_as = Origin.CARRIED if turn.continues else Origin.CACHED
    with made_in_bulk():
        known = Outcome.found(pool.candidates, pool.known, known_as)
        if pool.fresh:
            known = [_as_judged(outcome, pool.fresh) for outcome in known]
        if not pool.misses:
            return Settled(tuple([outcome for outcome in known if outcome is not None]), interrupted=False)
    tally = _Tally(pool, watched)
    ended: Cause | None
    elsewhere: AbstractSet[str]
    if isinstance(judge, NoJudge):
        ended, detail, elsewhere = judge.cause, judge.detail, frozenset()
    else:
        ended, detail = await _judge(pool.misses, judge, turn, tally), ""
        elsewhere = judge.elsewhere  # known once it has judged
    tally.report(final=True)
    found = _Found(tally.found, elsewhere, ended, detail)
    outcomes = [outcome or found.outcome(one) for one, outcome in zip(pool.candidates, known, strict=True)]
    return Settled(tuple(outcomes), ended is Cause.INTERRUPTED)


def _as_judged(outcome: Outcome | None, fresh: AbstractSet[str]) -> Outcome | None:
    is_fresh = outcome is not None and outcome.result.content_hash in fresh
    return outcome._replace(origin=Origin.JUDGED) if outcome is not None and is_fresh else outcome


async def _judge(misses: Sequence[Candidate], judge: Judge, turn: Turn, tally: "_Tally") -> Cause | None:
    """Let the judge work; return what ended it before its end, or None."""
    work = asyncio.create_task(_consume(judge, turn, misses, tally))
    ended: Cause | None = None
    try:
        deadline = tally.watched.deadline
        if deadline is None:
            await asyncio.wait([work])
        elif not await work_until(deadline, work, judge.stop, call_s=tally.watched.call_s):
            ended = Cause.DEADLINE
    except asyncio.CancelledError:
        ended = Cause.INTERRUPTED
        forgive(asyncio.current_task())
        judge.stop(Cause.INTERRUPTED)
        await asyncio.wait([work], timeout=GRACE_S)
    if not work.done():
        work.cancel()
        await asyncio.wait([work])
    if not work.cancelled():
        work.result()
    return ended


async def _consume(judge: Judge, turn: Turn, misses: Sequence[Candidate], tally: "_Tally") -> None:
    async for result in judge.judge(turn, misses):
        tally.add(result)


def forgive(task: "asyncio.Task[object] | None") -> None:
    """Take back a cancellation: the turn goes on to select and report from what it has."""
    if task is not None:
        task.uncancel()


@dataclass(frozen=True, slots=True)
class _Found:
    """What there is to say of each candidate that no earlier turn judged."""

    judged: Mapping[str, Judgment | Unjudged]
    elsewhere: AbstractSet[str]
    """What another process judged while this turn ran."""
    ended: Cause | None
    detail: str

    def outcome(self, candidate: Candidate) -> Outcome:
        result = self.judged.get(candidate.content_hash)
        if result is None:
            cause = self.ended or Cause.INTERRUPTED
            result = Unjudged(candidate.content_hash, cause, self.detail or STOPPED[cause])
        if isinstance(result, Unjudged):
            return Outcome(candidate, result, Origin.UNJUDGED)
        return Outcome(candidate, result, Origin.CACHED if candidate.content_hash in self.elsewhere else Origin.JUDGED)


@dataclass(slots=True)
class _Tally:
    """Counts what settled and tells the observer now and then."""

    pool: Pool
    watched: Watched
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
