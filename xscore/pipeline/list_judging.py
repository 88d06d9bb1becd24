"""Judge the questions of a list by live calls, some at a time, through one line to the host, one budget and one ledger.

Every judgment is committed before its slot is freed, so the same list again goes on from what was judged. What ends one
question need not end the list; a cap, the deadline, Ctrl-C and a host that takes nothing more end all of it. It ranks
and writes nothing. Trade-off: several questions are open at once to keep the line full, so a list that is cut short
leaves some of them half judged.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from weakref import WeakSet

from msgspec import Struct, field

from xscore.pipeline.judging import Deadline, JudgedPool, JudgingWatch, NoJudge, judge_pool, take_back_cancellation
from xscore.pipeline.parts import PipelineParts, TurnResources
from xscore.pipeline.question_list import PreparedQuestion
from xscore.platform.errors import NoUsableModel, ProviderError, XscoreError
from xscore.providers.provider import Provider
from xscore.records import (
    Observer,
    Origin,
    Outcome,
    Progress,
    RateLimits,
    SilentObserver,
    Stage,
    Unjudged,
    UnjudgedCause,
)
from xscore.scorer.fanout import StopSignal

ENDS_ALL = frozenset({UnjudgedCause.BUDGET, UnjudgedCause.DEADLINE, UnjudgedCause.INTERRUPTED, UnjudgedCause.PROVIDER})
"""Causes that hold for every question there is."""


class ListResources:
    """The resources of a turn, shared by all questions of a list: one line to each provider, and one end for all."""

    def __init__(self, resources: TurnResources) -> None:
        self.usage = resources.usage
        self.cause: UnjudgedCause | None = None
        """Why nothing more is begun; None: it goes on."""
        self.detail = ""
        self._resources = resources
        self.writer = resources.writer
        self.claims = resources.claims
        self.user_store_writer = resources.user_store_writer
        self.answering_provider = resources.answering_provider
        self.embedding_provider = resources.embedding_provider
        self.hold_back = resources.hold_back
        self.traffic = resources.traffic
        self.warnings = resources.warnings
        self._lines: list[tuple[Provider, Provider]] = []
        """Providers as connected, each with the line that leads to it."""
        self._stops: WeakSet[StopSignal] = WeakSet()

    def end(self, cause: UnjudgedCause, detail: str = "") -> None:
        """Have no judge begin anything more; the first cause holds."""
        if self.cause is not None:
            return
        self.cause, self.detail = cause, detail
        for stop in list(self._stops):
            stop.set(cause, detail)
        self._resources.hold_back()

    def new_stop(self) -> StopSignal:
        """Return what ends one question's judging, and the list's where the cause holds for all."""
        stop = StopSignal(lambda: self._heard(stop))
        self._stops.add(stop)
        if self.cause is not None:
            stop.set(self.cause, self.detail)
        return stop

    def _heard(self, stop: StopSignal) -> None:
        if stop.cause in ENDS_ALL:
            self.end(stop.cause, stop.detail)

    def judging_provider(
        self,
        provider: Provider,
        *,
        model: str,
        rpm: int | None = None,
        tpm: int | None = None,
        concurrency: int | None = None,
        stated: RateLimits | None = None,
    ) -> Provider:
        """Return the one line to this provider."""
        for connected, line in self._lines:
            if connected is provider:
                return line
        line = self._resources.judging_provider(
            provider, model=model, rpm=rpm, tpm=tpm, concurrency=concurrency, stated=stated
        )
        self._lines.append((provider, line))
        return line


AHEAD = 2
"""Questions are opened until so many times as many prompts wait as may be in flight;"""
MOST_OPEN = 64
"""but no more of them than this."""
FULL_CHECK_S = 0.05


class QuestionEnd(Struct, frozen=True):
    """What became of one question while it was judged here."""

    number: int
    judged: int
    """Candidates that were paid for here."""
    lost: tuple[Unjudged, ...]
    """Those without a score for a cause of their own, and not because the list was ended."""


class LiveEnd(Struct):
    """How a list ended."""

    cause: UnjudgedCause | None = None
    """Why it was ended before its end; None: every question was gone through."""
    detail: str = ""
    remarks: list[str] = field(default_factory=list)
    """What there is to say of the judge's replies."""
    judged: int = 0


async def judge_question(
    parts: PipelineParts,
    resources: TurnResources,
    prepared: PreparedQuestion,
    *,
    observer: Observer | None = None,
    deadline: Deadline | None = None,
    opening: asyncio.Lock | None = None,
    remarks: list[str] | None = None,
) -> JudgedPool:
    """Judge what the cache lacks of one question; every candidate has its outcome. Cancelled, it keeps what was paid.

    resources: of one question; or a `JobDesk`, and then as many at once as one likes. opening: held while the judge is
    opened, so that a host that is not known yet is probed once. Raises leaves of ProviderError and NoUsableModel where
    the judge cannot be opened, StoreError where judgments cannot be kept.
    """
    watched = JudgingWatch(
        observer=observer or SilentObserver(),
        leaders=0,
        deadline=deadline,
        spent=lambda: resources.usage.spent(Stage.JUDGE),
        call_s=lambda: resources.usage.call_s(Stage.JUDGE),
    )
    try:
        async with asyncio.timeout(deadline.judging_left_s() if deadline else None), opening or asyncio.Lock():
            judge = await parts.judge.open(resources, prepared.turn, prepared.pool, prepared.key)
    except TimeoutError:
        return await judge_pool(prepared.pool, NoJudge(UnjudgedCause.DEADLINE), prepared.turn, watched)
    except asyncio.CancelledError:
        take_back_cancellation(asyncio.current_task())
        return await judge_pool(prepared.pool, NoJudge(UnjudgedCause.INTERRUPTED), prepared.turn, watched)
    settled = await judge_pool(prepared.pool, judge, prepared.turn, watched)
    if remarks is not None:
        remarks.extend(judge.warnings())
    return settled


async def judge_list(
    parts: PipelineParts,
    resources: ListResources,
    questions: Iterable[PreparedQuestion],
    *,
    told: Callable[[QuestionEnd], None] = lambda _: None,
    progress: Callable[[int, int], None] = lambda judged, unjudged: None,
    deadline: Deadline | None = None,
) -> LiveEnd:
    """Judge what the cache lacks of every question, and say how it ended.

    told: of each question that had misses, when it is through. progress: how many were judged, and settled without a
    score, so far. Cancelled, it stops sending, lets what is in flight finish for a moment, and returns. Raises what
    opening the judge raises where nothing was judged before, and StoreError.
    """
    run = _ListUnderWay(parts, resources, told, progress, deadline)
    try:
        await run.through(iter(questions))
    except asyncio.CancelledError:
        take_back_cancellation(asyncio.current_task())
        resources.end(UnjudgedCause.INTERRUPTED)
        await run.wind_up()
    except XscoreError:
        resources.end(UnjudgedCause.PROVIDER)
        await run.wind_up()
        raise
    run.end.cause, run.end.detail = resources.cause, resources.detail
    run.end.remarks = list(dict.fromkeys(run.end.remarks))
    return run.end


class _Watcher(SilentObserver):
    """Knows how far one question is."""

    def __init__(self, misses: int, told: Callable[[], None]) -> None:
        self.left, self.judged, self.unjudged, self._told = misses, 0, 0, told

    def progress(self, progress: Progress) -> None:
        """Some judgments settled."""
        self.judged, self.unjudged = progress.judged, progress.unjudged
        self.left = progress.candidates - progress.cached - progress.judged - progress.unjudged
        self._told()


class _ListUnderWay(Struct):
    """One list under way."""

    parts: PipelineParts
    resources: ListResources
    told: Callable[[QuestionEnd], None]
    progress: Callable[[int, int], None]
    deadline: Deadline | None
    end: LiveEnd = field(default_factory=LiveEnd)
    unjudged: int = 0
    open: "dict[asyncio.Task[JudgedPool], tuple[PreparedQuestion, _Watcher]]" = field(default_factory=dict)
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def through(self, questions: Iterator[PreparedQuestion]) -> None:
        for prepared in questions:
            await asyncio.sleep(0)  # Ctrl-C is met here, and those under way go on
            self._look_at_the_clock()
            while self.open and self.resources.cause is None and self._is_full():
                await self._wait(asyncio.FIRST_COMPLETED, FULL_CHECK_S)
            if self.resources.cause is not None:
                break
            if prepared.pool.misses:
                self._begin(prepared)
        while self.open:
            await self._wait(asyncio.FIRST_COMPLETED, None)

    async def wind_up(self) -> None:
        """Cut short what is under way, and take what comes of it."""
        for task in self.open:
            task.cancel()
        while self.open:
            try:
                await self._wait(asyncio.ALL_COMPLETED, None)
            except XscoreError:
                continue  # what ended the run is told already

    def _look_at_the_clock(self) -> None:
        if self.deadline is not None and not self.deadline.judging_left_s():
            self.resources.end(UnjudgedCause.DEADLINE)

    def _is_full(self) -> bool:
        """Whether enough prompts wait: by the least number of packs that the open questions still need."""
        calls = self.parts.judge.calls
        if calls is None or len(self.open) >= MOST_OPEN:
            return True
        waiting = sum(-(-watcher.left // calls.packs.size) for _, watcher in self.open.values())
        return waiting >= AHEAD * calls.concurrency

    def _begin(self, prepared: PreparedQuestion) -> None:
        watcher = _Watcher(len(prepared.pool.misses), self._tell)
        work = judge_question(
            self.parts,
            self.resources,
            prepared,
            observer=watcher,
            deadline=self.deadline,
            opening=self.opening,
            remarks=self.end.remarks,
        )
        self.open[asyncio.create_task(work)] = (prepared, watcher)

    async def _wait(self, until: str, timeout_s: float | None) -> None:
        done, _ = await asyncio.wait(self.open, timeout=timeout_s, return_when=until)
        for task in done:
            prepared, watcher = self.open.pop(task)
            self._took_leave(prepared, watcher, task)

    def _took_leave(self, prepared: PreparedQuestion, watcher: _Watcher, task: "asyncio.Task[JudgedPool]") -> None:
        if task.cancelled():
            return
        try:
            settled = task.result()
        except (ProviderError, NoUsableModel) as error:
            if not (self.end.judged or any(one.judged for _, one in self.open.values())):
                raise
            self.resources.end(UnjudgedCause.PROVIDER, f"{error.message.rstrip('.')}. {error.hint}".strip())
            return
        if any(
            isinstance(one.result, Unjudged) and one.result.cause is UnjudgedCause.DEADLINE for one in settled.outcomes
        ):
            self.resources.end(UnjudgedCause.DEADLINE)  # the judge was still to be opened
        ended = self._ended(prepared.number, settled.outcomes)
        self.end.judged += ended.judged
        self.unjudged += watcher.unjudged
        self.told(ended)
        self._tell()

    def _tell(self) -> None:
        open_ = [watcher for _, watcher in self.open.values()]
        judged = self.end.judged + sum(watcher.judged for watcher in open_)
        self.progress(judged, self.unjudged + sum(watcher.unjudged for watcher in open_))

    def _ended(self, number: int, outcomes: Iterable[Outcome]) -> QuestionEnd:
        judged, lost = 0, []
        for outcome in outcomes:
            judged += outcome.origin is Origin.JUDGED
            if isinstance(outcome.result, Unjudged) and not self._is_of_the_list(outcome.result):
                lost.append(outcome.result)
        return QuestionEnd(number, judged, tuple(lost))

    def _is_of_the_list(self, absent: Unjudged) -> bool:
        """Whether it has no score because the list was ended; a call that failed alone has words of its own."""
        if absent.cause is UnjudgedCause.PROVIDER:
            return self.resources.cause is UnjudgedCause.PROVIDER and absent.detail == self.resources.detail
        return absent.cause in ENDS_ALL
