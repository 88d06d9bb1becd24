"""Judge what the cache lacks, until the work is done, the deadline comes, or Ctrl-C.

After Ctrl-C, calls in flight have `GRACE_S` to finish. Trade-off: calls that would probably end too
late are not started, so a turn's last seconds are spent waiting.
"""

import asyncio
import heapq
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from decimal import Decimal
from math import inf
from time import monotonic
from typing import Any

from msgspec import Struct, field

from xscore.cache.keys import FIRST_DRAW
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.model_opening import open_model_judge
from xscore.pipeline.pool import Pool, PooledTurn
from xscore.pipeline.resources import TurnResources
from xscore.platform.event_loop import clear_cancellation
from xscore.platform.processes import gc_paused
from xscore.records.calls import Stage
from xscore.records.events import Leader, Observer, Progress
from xscore.records.judgment import (
    STOP_DETAILS,
    UNRELATED_BELOW,
    Judgment,
    Origin,
    Outcome,
    Unjudged,
    UnjudgedCause,
)
from xscore.records.receipt import StageUsage
from xscore.scorer.judge import Judge

CALL_TIME_MARGIN = 1.25
"""Multiple of the 90th percentile of the latest calls that must be left to begin a call.
Without the margin one in ten calls of the last wave would be cut off, and charged."""
POLL_S = 0.25
GRACE_S = 5.0
REPORT_EVERY_S = 0.1
ENDS_ALL = frozenset(
    {
        UnjudgedCause.BUDGET,
        UnjudgedCause.DEADLINE,
        UnjudgedCause.INTERRUPTED,
        UnjudgedCause.PROVIDER,
    }
)
"""Causes that apply to all that is left to judge, in a turn and in a list."""


class NoJudge(Struct, frozen=True):
    """Why there is no judge for candidates that are not in the cache."""

    cause: UnjudgedCause
    detail: str = ""


NONE_NEEDED = NoJudge(UnjudgedCause.PROVIDER)
"""Used where all candidates are known already, so that none of them gets its cause."""


class JudgedPool(Struct, frozen=True):
    """One outcome for each candidate, and whether the user stopped the judging."""

    outcomes: tuple[Outcome, ...]
    interrupted: bool
    usd_shares: Mapping[str, Decimal | None] = {}
    """See `Judge.usd_shares`."""
    warnings: tuple[str, ...] = ()


class JudgingProgress(Struct):
    """Reports at intervals how far the judging of a pool, or of a whole list, has come."""

    observer: Observer
    candidates: int
    cached: int
    started: float = field(default_factory=monotonic)
    reported: float = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the latest report is old enough for another."""
        return monotonic() - self.reported >= REPORT_EVERY_S

    def report(
        self,
        judged: int,
        unjudged: int,
        spent: StageUsage,
        *,
        leaders: tuple[Leader, ...] = (),
        settled: tuple[Outcome, ...] = (),
        final: bool = False,
    ) -> None:
        """Report the candidates judged and settled without a score so far, and what they cost.

        settled: since the last report.
        final: report it however soon after another.
        """
        if not (final or self.is_due):
            return
        self.reported = monotonic()
        elapsed_s = self.reported - self.started
        done = judged + unjudged
        remaining = max(0, self.candidates - self.cached - done)
        self.observer.on(
            Progress(
                candidates=self.candidates,
                cached=self.cached,
                judged=judged,
                unjudged=unjudged,
                calls=spent.calls,
                cost_usd=spent.cost_usd,
                elapsed_s=elapsed_s,
                seconds_left=elapsed_s / done * remaining if done else None,
                leaders=leaders,
                settled=settled,
            )
        )


async def open_judge(
    described: JudgeDescription,
    resources: TurnResources,
    pooled: PooledTurn,
    *,
    draw: int = FIRST_DRAW,
    opening: asyncio.Lock | None = None,
) -> Judge | NoJudge:
    """Open a described judge before the deadline; Ctrl-C is taken back.

    draw: which of its judgments of these contents are to be made.
    opening: held meanwhile, so that an unknown host is probed once. Raises leaves of ProviderError
        and NoUsableModel.
    """
    try:
        async with (
            asyncio.timeout(resources.deadline.judging_left_s()),
            opening or nullcontext(),
        ):
            return await _open(described, resources, pooled, draw)
    except TimeoutError:
        return NoJudge(UnjudgedCause.DEADLINE)
    except asyncio.CancelledError:
        clear_cancellation()
        return NoJudge(UnjudgedCause.INTERRUPTED)


async def _open(
    described: JudgeDescription, resources: TurnResources, pooled: PooledTurn, draw: int
) -> Judge:
    """Open a model or the lexical judge."""
    if not described.paid:
        # Words come this way only with an embedder, or shared with a server.
        from xscore.pipeline.lexical_opening import open_lexical_judge

        return await open_lexical_judge(described, resources, pooled)
    return await open_model_judge(described, resources, pooled, draw)


async def judge_pool(
    pooled: PooledTurn,
    judge: Judge | NoJudge,
    resources: TurnResources | None,
    observer: Observer | None = None,
    *,
    leaders: int = 0,
) -> JudgedPool:
    """Judge candidates missing from the cache and return one outcome per candidate, in order.

    resources: None if nothing may be sent.
    leaders: how many of the best so far to report to the observer.
    """
    pool = pooled.pool
    with gc_paused():
        known_outcomes = pool.known_outcomes(pooled.turn)
    if not pool.misses:
        return JudgedPool(tuple(filter(None, known_outcomes)), interrupted=False)
    collected = _Collected(pool, observer or Observer(), resources, leaders)
    ended: UnjudgedCause | None
    usd_shares: Mapping[str, Decimal | None] = {}
    if isinstance(judge, NoJudge):
        ended = judge.cause
        detail = judge.detail
        elsewhere = frozenset[str]()
    else:
        assert resources is not None
        ended = await _collect_from(judge, pooled, resources, collected)
        detail = ""
        elsewhere = frozenset(judge.judged_elsewhere)
        usd_shares = judge.usd_shares
    collected.report(final=True)
    cause = ended or UnjudgedCause.INTERRUPTED
    detail = detail or STOP_DETAILS[cause]
    # Nobody is lost: what has neither a score nor a cause of its own gets the cause of the end.
    outcomes: list[Outcome] = []
    for candidate, known_outcome in zip(pool.candidates, known_outcomes, strict=True):
        hash_ = candidate.content_hash
        result = collected.results.get(hash_)
        if known_outcome is not None:
            outcomes.append(known_outcome)
        elif isinstance(result, Judgment):
            origin = Origin.CACHED if hash_ in elsewhere else Origin.JUDGED
            outcomes.append(Outcome(candidate, result, origin))
        else:
            absent = result or Unjudged(hash_, cause, detail)
            outcomes.append(Outcome(candidate, absent, Origin.UNJUDGED))
    return JudgedPool(tuple(outcomes), ended is UnjudgedCause.INTERRUPTED, usd_shares)


async def _collect_from(
    judge: Judge, pooled: PooledTurn, resources: TurnResources, collected: "_Collected"
) -> UnjudgedCause | None:
    """Let the judge work; return what cut it short, or None."""

    async def consume() -> None:
        results = judge.judge(pooled.turn, pooled.pool.misses)
        async for result in results:
            try:
                collected.add(result)
            # An observer failed: what is in flight is paid for, and kept before that is raised.
            except BaseException:
                judge.stop(UnjudgedCause.INTERRUPTED)
                async for _ in results:
                    pass
                raise

    return await work_until_stopped(consume(), resources, stop=judge.stop)


async def work_until_stopped(
    judging: Coroutine[Any, Any, None],
    resources: TurnResources,
    *,
    stop: Callable[[UnjudgedCause], None],
) -> UnjudgedCause | None:
    """Judge until the deadline or Ctrl-C; return what cut it short, or None. Raises what judging
    raises.

    stop: prevents further calls.
    """
    work = asyncio.create_task(judging)
    ended: UnjudgedCause | None = None
    try:
        await _wait_until_deadline(work, resources, stop)
        ended = None if work.done() else UnjudgedCause.DEADLINE
    except asyncio.CancelledError:
        # Ctrl-C ends the judging and not the turn, which goes on to its receipt. Calls in flight
        # are paid for, so they get a moment to arrive.
        ended = UnjudgedCause.INTERRUPTED
        clear_cancellation()
        stop(UnjudgedCause.INTERRUPTED)
        await asyncio.wait([work], timeout=GRACE_S)
    if not work.done():
        # Waited for, so that nothing of it writes while the turn goes on.
        work.cancel()
        await asyncio.wait([work])
    if not work.cancelled():
        # Raises what the judging raised.
        work.result()
    return ended


async def _wait_until_deadline(
    work: asyncio.Task[None], resources: TurnResources, stop: Callable[[UnjudgedCause], None]
) -> None:
    deadline = resources.deadline
    usage = resources.usage
    while not work.done():
        # A call that begins now ends in time only if about the time of one is left.
        left_s = deadline.judging_left_s() - CALL_TIME_MARGIN * usage.call_s(Stage.JUDGE)
        if left_s <= 0:
            break
        # Without a deadline nothing is polled; with one, calls may have become slower meanwhile.
        timeout_s = None if left_s == inf else min(left_s, POLL_S)
        await asyncio.wait([work], timeout=timeout_s)
    if not work.done():
        stop(UnjudgedCause.DEADLINE)
        await asyncio.wait([work], timeout=deadline.judging_left_s())


class _Collected:
    """Collects the results of one pool and reports progress now and then."""

    def __init__(
        self, pool: Pool, observer: Observer, resources: TurnResources | None, leaders: int
    ) -> None:
        self.resources = resources
        self.leaders = leaders
        in_pool = len(pool.candidates)
        self.progress = JudgingProgress(observer, in_pool, in_pool - len(pool.misses))
        self.results: dict[str, Judgment | Unjudged] = {}
        self.named = {candidate.content_hash: candidate for candidate in pool.candidates}
        self.judged = 0
        self.unreported: list[Judgment | Unjudged] = []
        hashes = [hash_ for hash_ in self.named if hash_ in pool.known]
        scores = [(pool.known[hash_].score, hash_) for hash_ in hashes]
        self.best = heapq.nlargest(leaders, scores)[::-1]
        """Heap of the provisional best: (score, content hash)."""

    def add(self, result: Judgment | Unjudged) -> None:
        self.results[result.content_hash] = result
        self.unreported.append(result)
        if isinstance(result, Judgment):
            self.judged += 1
            leader = (result.score, result.content_hash)
            if len(self.best) < self.leaders:
                heapq.heappush(self.best, leader)
            else:
                heapq.heappushpop(self.best, leader)
        if self.progress.is_due:
            self.report()

    def report(self, *, final: bool = False) -> None:
        leaders: list[Leader] = []
        for score, hash_ in sorted(self.best, reverse=True):
            if score >= UNRELATED_BELOW:
                candidate = self.named[hash_]
                name = candidate.entity or candidate.kind
                leaders.append(Leader(candidate.path, name, score))
        settled: list[Outcome] = []
        for result in self.unreported:
            origin = Origin.JUDGED if isinstance(result, Judgment) else Origin.UNJUDGED
            settled.append(Outcome(self.named[result.content_hash], result, origin))
        self.unreported.clear()
        if self.resources:
            spent = self.resources.usage.spent(Stage.JUDGE)
        else:
            spent = StageUsage()
        self.progress.report(
            self.judged,
            len(self.results) - self.judged,
            spent,
            leaders=tuple(leaders),
            settled=tuple(settled),
            final=final,
        )


def unjudged_causes(outcomes: Sequence[Outcome]) -> set[UnjudgedCause]:
    """Return why candidates are unjudged."""
    results = [outcome.result for outcome in outcomes]
    return {result.cause for result in results if isinstance(result, Unjudged)}
