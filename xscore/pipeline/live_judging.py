"""Judge what the cache lacks, until the work is done, the deadline comes, or Ctrl-C.

After Ctrl-C, calls in flight have `GRACE_S` to finish. Trade-off: calls that would probably end too late are not
started, so a turn's last seconds are spent waiting.
"""

import asyncio
import heapq
from collections.abc import Callable, Coroutine, Mapping
from decimal import Decimal
from time import monotonic
from typing import Any

from msgspec import Struct

from xscore.pipeline.judging import Deadline, known_outcomes, take_back_cancellation
from xscore.pipeline.pool import Pool
from xscore.platform.processes import gc_paused
from xscore.records.events import Leader, Observer, Progress
from xscore.records.judgment import UNRELATED_BELOW, Judgment, Origin, Outcome, Unjudged, UnjudgedCause
from xscore.records.memory import Candidate
from xscore.records.receipt import StageUsage
from xscore.records.turn import Turn
from xscore.scorer.judge import Judge

CALL_TIME_MARGIN = 1.25
"""Begin a call only if this many times the 90th percentile of the latest calls is left. Without the margin one in ten
calls of the last wave would be cut off, and charged."""
POLL_S = 0.25
GRACE_S = 5.0
REPORT_EVERY_S = 0.1


STOP_DETAILS = {
    UnjudgedCause.INTERRUPTED: "stopped before it was judged",
    UnjudgedCause.DEADLINE: "the deadline came before it was judged",
    UnjudgedCause.REPLAY: "it is not in the cache, and a replay sends nothing",
}


class NoJudge(Struct, frozen=True):
    """Why there is no judge for candidates that are not in the cache."""

    cause: UnjudgedCause
    detail: str = ""


class JudgingWatch(Struct, frozen=True, kw_only=True):
    """Where judging reports to, and what limits it."""

    observer: Observer
    leaders: int
    """How many of the provisional best are reported."""
    deadline: Deadline | None = None
    spent: Callable[[], StageUsage] = StageUsage
    call_s: Callable[[], float] = float
    """The 90th percentile of judging calls so far; 0 if unknown."""


class JudgedPool(Struct, frozen=True):
    """One outcome for each candidate, and whether the user stopped the judging."""

    outcomes: tuple[Outcome, ...]
    interrupted: bool
    paid: Mapping[str, Decimal | None] = {}
    """See `Judge.paid`."""


async def judge_pool(pool: Pool, judge: Judge | NoJudge, turn: Turn, watched: JudgingWatch) -> JudgedPool:
    """Judge candidates missing from the cache and return one outcome per candidate, in order."""
    with gc_paused():
        known = known_outcomes(pool, turn)
    if not pool.misses:
        return JudgedPool(tuple(filter(None, known)), interrupted=False)
    progress = _JudgingProgress(pool, watched)
    ended: UnjudgedCause | None
    if isinstance(judge, NoJudge):
        ended, detail, elsewhere = judge.cause, judge.detail, frozenset[str]()
    else:
        ended, detail = await _judge(judge, turn, progress), ""
        elsewhere = frozenset(judge.judged_elsewhere)
    progress.report(final=True)
    cause = ended or UnjudgedCause.INTERRUPTED
    judged = {hash_: result for hash_, result in progress.found.items() if isinstance(result, Judgment)}
    found = Outcome.from_known(pool.candidates, judged, Origin.JUDGED)

    def settled(candidate: Candidate, outcome: Outcome | None) -> Outcome:
        hash_ = candidate.content_hash
        if outcome is not None:
            return outcome._replace(origin=Origin.CACHED) if hash_ in elsewhere else outcome
        result = progress.found.get(hash_) or Unjudged(hash_, cause, detail or STOP_DETAILS[cause])
        return Outcome(candidate, result, Origin.UNJUDGED)

    outcomes = [
        one or settled(candidate, new) for candidate, one, new in zip(pool.candidates, known, found, strict=True)
    ]
    paid = {} if isinstance(judge, NoJudge) else judge.paid
    return JudgedPool(tuple(outcomes), ended is UnjudgedCause.INTERRUPTED, paid)


async def _judge(judge: Judge, turn: Turn, progress: "_JudgingProgress") -> UnjudgedCause | None:
    """Let the judge work; return what cut it short, or None."""

    async def consume() -> None:
        results = judge.judge(turn, progress.pool.misses)
        async for result in results:
            try:
                progress.add(result)
            except BaseException:  # an observer failed: what is in flight is paid for, and kept before that is raised
                judge.stop(UnjudgedCause.INTERRUPTED)
                async for _ in results:
                    pass
                raise

    watched = progress.watched
    return await settle_work(consume(), stop=judge.stop, deadline=watched.deadline, call_s=watched.call_s)


async def settle_work(
    judging: Coroutine[Any, Any, None],
    *,
    stop: Callable[[UnjudgedCause], None],
    deadline: Deadline | None,
    call_s: Callable[[], float],
) -> UnjudgedCause | None:
    """Judge until the deadline or Ctrl-C; return what cut it short, or None. Raises what judging raises.

    stop: prevents further calls. call_s: as in `work_until`.
    """
    work = asyncio.create_task(judging)
    ended: UnjudgedCause | None = None
    try:
        if deadline is None:
            await asyncio.wait([work])
        elif not await work_until(deadline, work, stop, call_s=call_s):
            ended = UnjudgedCause.DEADLINE
    except asyncio.CancelledError:
        ended = UnjudgedCause.INTERRUPTED
        take_back_cancellation(asyncio.current_task())
        stop(UnjudgedCause.INTERRUPTED)
        await asyncio.wait([work], timeout=GRACE_S)
    if not work.done():
        work.cancel()
        await asyncio.wait([work])
    if not work.cancelled():
        work.result()
    return ended


async def work_until(
    deadline: Deadline,
    work: asyncio.Task[None],
    stop: Callable[[UnjudgedCause], None],
    *,
    call_s: Callable[[], float],
) -> bool:
    """Wait for the work; return whether it ended in time. The caller cancels what is still in flight.

    stop: prevents further calls.
    call_s: the 90th percentile of call times so far; 0 if unknown.
    """
    while not work.done() and (left := deadline.judging_left_s() - CALL_TIME_MARGIN * call_s()) > 0:
        await asyncio.wait([work], timeout=min(left, POLL_S))
    if not work.done():
        stop(UnjudgedCause.DEADLINE)
        await asyncio.wait([work], timeout=deadline.judging_left_s())
    return work.done()


class _JudgingProgress:
    """Collects results and reports progress to the observer now and then."""

    def __init__(self, pool: Pool, watched: JudgingWatch) -> None:
        self.pool, self.watched = pool, watched
        self.found: dict[str, Judgment | Unjudged] = {}
        self.named = {candidate.content_hash: candidate for candidate in pool.candidates}
        self.judged, self.started, self.reported = 0, monotonic(), 0.0
        self.unreported: list[Judgment | Unjudged] = []
        known = [(pool.known[hash_].score, hash_) for hash_ in self.named if hash_ in pool.known]
        self.best = heapq.nlargest(watched.leaders, known)[::-1]
        """Heap of the provisional best: (score, content hash)."""

    def add(self, result: Judgment | Unjudged) -> None:
        self.found[result.content_hash] = result
        self.unreported.append(result)
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
        left = len(self.pool.misses) - len(self.found)
        best = [one for one in sorted(self.best, reverse=True) if one[0] >= UNRELATED_BELOW]
        leaders = [(self.named[hash_], score) for score, hash_ in best]
        settled = [
            Outcome(self.named[one.content_hash], one, Origin.JUDGED if isinstance(one, Judgment) else Origin.UNJUDGED)
            for one in self.unreported
        ]
        self.unreported.clear()
        self.watched.observer.on(
            Progress(
                candidates=len(self.pool.candidates),
                cached=len(self.pool.candidates) - len(self.pool.misses),
                judged=self.judged,
                unjudged=len(self.found) - self.judged,
                calls=spent.calls,
                cost_usd=spent.cost_usd,
                elapsed_s=elapsed,
                seconds_left=elapsed / len(self.found) * left if self.found else None,
                leaders=tuple(Leader(one.path, one.entity, score) for one, score in leaders),
                settled=tuple(settled),
            )
        )
