"""Judge the questions of a list by live calls, several at a time, with one provider, one budget and
one ledger.

Every judgment is committed before its slot is freed, so running the list again resumes it. A
failure of one question need not end the list; a cap, the deadline, Ctrl-C and a host that rejects
everything do. It ranks and writes nothing. Trade-off: several questions are open at once to use all
slots, so an interrupted list leaves some of them half judged.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from decimal import Decimal
from weakref import WeakSet

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.pipeline.judge_prompts import pack_profile
from xscore.pipeline.live_judging import (
    ENDS_ALL,
    JudgedPool,
    JudgingProgress,
    NoJudge,
    judge_pool,
    open_judge,
)
from xscore.pipeline.parts import JudgingParts
from xscore.pipeline.question_list import PreparedQuestion
from xscore.pipeline.resources import TurnResources
from xscore.pipeline.turn_clock import Deadline
from xscore.platform.errors import NoUsableModel, ProviderError
from xscore.platform.event_loop import clear_cancellation
from xscore.platform.text import join_sentences
from xscore.records.calls import Stage
from xscore.records.events import Observer, Progress, TurnEvent
from xscore.records.judgment import Origin, Outcome, Unjudged, UnjudgedCause
from xscore.records.receipt import StageUsage
from xscore.scorer.fanout import StopSignal
from xscore.scorer.replies import ReplyFaults

AHEAD = 2
"""Open another question while fewer than this many prompts wait per call that may be in flight."""
MOST_OPEN = 64
"""Open at most this many questions at once."""
FULL_CHECK_S = 0.05


class QuestionEnd(Struct, frozen=True):
    """The result of judging one question."""

    number: int
    judged: int
    """Candidates paid for in this run."""
    lost: tuple[Unjudged, ...]
    """Candidates without a score for a cause of their own, not because the list ended."""
    outcomes: tuple[Outcome, ...] = ()
    """Outcomes of all its candidates; empty where other processes judged them."""
    usd_shares: Mapping[str, Decimal | None] = {}
    """See `Judge.usd_shares`."""


class LiveEnd(Struct):
    """The end of a list."""

    cause: UnjudgedCause | None = None
    """Why it ended early; None if every question was judged."""
    detail: str = ""
    remarks: list[str] = field(default_factory=list)
    """Warnings about the judge's replies."""
    judged: int = 0
    spent: StageUsage = field(default_factory=StageUsage)
    """Usage of all its calls, probes included."""


async def judge_question(
    parts: JudgingParts,
    resources: TurnResources,
    prepared: PreparedQuestion,
    *,
    observer: Observer | None = None,
    opening: asyncio.Lock | None = None,
) -> JudgedPool:
    """Judge one question's candidates missing from the cache; each gets an outcome. If cancelled,
    judgments are kept.

    opening: held while the judge is opened, so an unknown host is probed once.
    Raises leaves of ProviderError and NoUsableModel if the judge cannot be opened, StoreError if
    judgments cannot be stored.
    """
    judge = await open_judge(parts.judge, resources, prepared, opening=opening)
    settled = await judge_pool(prepared, judge, resources, observer)
    if isinstance(judge, NoJudge):
        return settled
    if (
        judge.identity.is_decision
        and parts.settings.selection.most_redrawn
        and not settled.interrupted
    ):
        from xscore.pipeline.second_draws import draw_again  # only near a threshold

        settled, _ = await draw_again(parts, parts.judge, resources, prepared, settled)
    return replace(settled, warnings=(*judge.warnings(), *settled.warnings))


async def judge_list(
    parts: JudgingParts,
    job: str,
    questions: Iterable[PreparedQuestion] | AsyncIterable[PreparedQuestion],
    *,
    progress: JudgingProgress,
    on_end: Callable[[QuestionEnd], None],
    deadline: Deadline,
) -> LiveEnd:
    """Judge every question's candidates missing from the cache. The calls are recorded under `job`.

    on_end: called after each question that had misses.
    If cancelled, it stops sending, gives calls in flight a moment to finish, and returns. Raises
    what opening the judge raises if nothing was judged before, and StoreError.
    """
    async with parts.open_resources(job) as resources:
        resources.faults = faults = ReplyFaults()
        resources.deadline = deadline
        stop = _ListStop(resources.halt_queued_calls)
        resources.stop_source = stop.new_stop
        run = _ListUnderWay(parts, resources, stop, progress, on_end)
        try:
            await run.judge(
                questions if isinstance(questions, AsyncIterable) else _one_by_one(questions)
            )
        except asyncio.CancelledError:
            # Ctrl-C: what is in flight was paid for, so its judges are stopped, not cut off; each
            # open question keeps what its judge hands on until then.
            clear_cancellation()
            stop.stop_all(UnjudgedCause.INTERRUPTED)
            await run.cancel_open()
        # Also where an observer failed: what is in flight is paid for, and kept while the store is
        # open.
        finally:
            if run.open:
                stop.stop_all(UnjudgedCause.INTERRUPTED)
                await run.cancel_open()
    run.end.cause = stop.cause
    run.end.detail = stop.detail
    run.end.remarks = list(dict.fromkeys([*run.end.remarks, *faults.warnings()]))
    run.end.spent = resources.usage.whole()
    return run.end


async def _one_by_one(questions: Iterable[PreparedQuestion]) -> AsyncIterator[PreparedQuestion]:
    for prepared in questions:
        await asyncio.sleep(0)  # Ctrl-C is noticed here while open questions continue
        yield prepared


class _ListStop(Struct):
    """Stops the judges of all questions of a list together."""

    halt_queued_calls: Callable[[], None]
    """Cancels the queued calls of all questions."""
    cause: UnjudgedCause | None = None
    """Why nothing more is started; None while running."""
    detail: str = ""
    stops: WeakSet[StopSignal] = field(default_factory=WeakSet)

    def stop_all(self, cause: UnjudgedCause, detail: str = "") -> None:
        """Stop every judge from starting anything more; the first cause is kept."""
        if self.cause is not None:
            return
        self.cause = cause
        self.detail = detail
        for stop in list(self.stops):
            stop.set(cause, detail)
        self.halt_queued_calls()

    def new_stop(self) -> StopSignal:
        """Return the stop of one question's judging, which also stops the list if the cause applies
        to all."""
        stop = StopSignal(
            lambda: self.stop_all(stop.cause, stop.detail) if stop.cause in ENDS_ALL else None
        )
        self.stops.add(stop)
        if self.cause is not None:
            stop.set(self.cause, self.detail)
        return stop


class _QuestionWatch(Observer):
    """Tracks the progress of one question."""

    def __init__(self, misses: int, report: Callable[[], None]) -> None:
        self.left = misses
        self.judged = 0
        self.unjudged = 0
        self._report = report

    def on(self, event: TurnEvent) -> None:
        if isinstance(event, Progress):
            self.judged = event.judged
            self.unjudged = event.unjudged
            self.left = event.candidates - event.cached - event.judged - event.unjudged
            self._report()


class _ListUnderWay(Struct):
    parts: JudgingParts
    resources: TurnResources
    stop: _ListStop
    progress: JudgingProgress
    on_end: Callable[[QuestionEnd], None]
    end: LiveEnd = field(default_factory=LiveEnd)
    unjudged: int = 0
    open: dict[_QuestionWatch, asyncio.Task[None]] = field(default_factory=dict)
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def judge(self, questions: AsyncIterable[PreparedQuestion]) -> None:
        async for prepared in questions:
            if not self.resources.deadline.judging_left_s():
                self.stop.stop_all(UnjudgedCause.DEADLINE)
            while self.open and self.stop.cause is None and self._is_full():
                await self._wait(asyncio.FIRST_COMPLETED, FULL_CHECK_S)
            if self.stop.cause is not None:
                break
            if prepared.pool.misses:
                self._begin(prepared)
        while self.open:
            await self._wait(asyncio.FIRST_COMPLETED, None)

    async def cancel_open(self) -> None:
        """Cancel open questions and collect their results."""
        for task in self.open.values():
            task.cancel()
        # The cause of the end is already recorded.
        await asyncio.gather(*self.open.values(), return_exceptions=True)
        self.open.clear()

    def _is_full(self) -> bool:
        """Return whether enough prompts wait, counting the fewest packs that the open questions
        still need."""
        judge = self.parts.judge
        if not judge.batches_memories or len(self.open) >= MOST_OPEN:
            return True
        pack_size = pack_profile(judge).size
        waiting = sum(-(-watch.left // pack_size) for watch in self.open)
        return waiting >= AHEAD * judge.concurrency

    def _begin(self, prepared: PreparedQuestion) -> None:
        watch = _QuestionWatch(len(prepared.pool.misses), self._report)
        self.open[watch] = asyncio.create_task(self._judge_one(prepared, watch))

    async def _wait(self, until: str, timeout_s: float | None) -> None:
        done, _ = await asyncio.wait(self.open.values(), timeout=timeout_s, return_when=until)
        self.open = {watch: task for watch, task in self.open.items() if task not in done}
        failed: list[BaseException] = []
        for task in done:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                failed.append(error)
        if failed:
            raise failed[0]

    async def _judge_one(self, prepared: PreparedQuestion, watch: _QuestionWatch) -> None:
        """Judge one question and pass its result on at once, however long the next question takes
        to come."""
        try:
            judged = await judge_question(
                self.parts,
                self.resources,
                prepared,
                observer=watch,
                opening=self.opening,
            )
        except (ProviderError, NoUsableModel) as error:
            if not (self.end.judged or any(open_watch.judged for open_watch in self.open)):
                raise
            self.stop.stop_all(
                UnjudgedCause.PROVIDER, join_sentences(error.message, error.hint)
            )
        else:
            self._close(prepared, watch, judged)

    def _close(
        self, prepared: PreparedQuestion, watch: _QuestionWatch, judged_pool: JudgedPool
    ) -> None:
        outcomes = judged_pool.outcomes
        self.end.remarks += judged_pool.warnings
        del self.open[watch]
        absent = [
            outcome.result for outcome in outcomes if isinstance(outcome.result, Unjudged)
        ]
        # The deadline may have come before the judge was opened, and then nothing has reported it.
        if UnjudgedCause.DEADLINE in {unjudged.cause for unjudged in absent}:
            self.stop.stop_all(UnjudgedCause.DEADLINE)
        judged = sum(outcome.origin is Origin.JUDGED for outcome in outcomes)
        self.end.judged += judged
        self.unjudged += watch.unjudged
        lost = [unjudged for unjudged in absent if not self._is_of_the_list(unjudged)]
        self.on_end(
            QuestionEnd(prepared.number, judged, tuple(lost), outcomes, judged_pool.usd_shares)
        )
        self._report()

    def _report(self) -> None:
        judged = self.end.judged + sum(watch.judged for watch in self.open)
        unjudged = self.unjudged + sum(watch.unjudged for watch in self.open)
        self.progress.report(judged, unjudged, self.resources.usage.spent(Stage.JUDGE))

    def _is_of_the_list(self, absent: Unjudged) -> bool:
        """Return whether it has no score because the list ended; a failed call has a message of its
        own."""
        if absent.cause is UnjudgedCause.PROVIDER:
            by_provider = self.stop.cause is UnjudgedCause.PROVIDER
            return by_provider and absent.detail == self.stop.detail
        return absent.cause in ENDS_ALL
