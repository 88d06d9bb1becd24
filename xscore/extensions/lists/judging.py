"""Judge a list of any length in flat memory, by the engine that judges lists of questions.

A run of items is a question of its own there: its contents are looked up in the store, the rest
is judged, and its rows are given when all of them are settled. The judges are those of a turn,
with texts from memory and no stored packs: an item has no place among others, so nothing orders
the judging. Reading stays at most `MOST_RUNS` ahead of the caller. After a cap, a deadline or a
failed host, items already in memory are still looked up; an iterator is not read any further.
Trade-off: rows come by runs, so the first of a slow host wait for their neighbours.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from decimal import Decimal
from math import inf
from typing import Any

from msgspec.structs import replace

from xscore.cache.judgments import read_judgments, read_reasons
from xscore.cache.keys import FIRST_DRAW, JudgmentKey, judge_key, turn_key
from xscore.costs.caps import spent_in_period
from xscore.extensions.lists.items import GO_ON, ItemForm, ItemRun, is_in_memory, read_items
from xscore.extensions.lists.results import JudgedItem, ListReceipt
from xscore.pipeline.factories import choose_judge, describe_judge
from xscore.pipeline.judge_description import JudgeDescription, Scale
from xscore.pipeline.known_hosts import remember_host
from xscore.pipeline.list_judging import LiveEnd, QuestionEnd, judge_list
from xscore.pipeline.live_judging import JudgingProgress
from xscore.pipeline.parts import JudgingParts
from xscore.pipeline.pool import pool_among
from xscore.pipeline.question_list import PreparedQuestion, Question
from xscore.pipeline.turn_clock import Deadline
from xscore.platform import tokens
from xscore.platform.errors import (
    ProviderError,
    SourceFailed,
    UsageError,
    XscoreError,
)
from xscore.platform.processes import random_hex
from xscore.platform.text import encodable_text
from xscore.prompts.turn_text import turn_block
from xscore.records.candidates import Candidate
from xscore.records.events import Observer
from xscore.records.judgment import STOP_DETAILS, Outcome, Unjudged, UnjudgedCause
from xscore.records.memory import Kind, Layer
from xscore.records.receipt import Coverage, StageUsage
from xscore.records.turn import Turn
from xscore.settings import Settings
from xscore.store.personal_data import redact_said
from xscore.store.store import Store

RUN_ITEMS = 2_000
"""Items that are looked up and judged as one question."""
MOST_RUNS = 16
"""Most runs that are read before the caller takes their rows."""
FILL_S = 0.25
"""Seconds for which a run is filled from a slow iterator."""
MOST_WITHOUT_MODEL = 100_000
"""Most items of an iterator, which may be endless, that are judged by their words: all are in
memory at once."""


def list_judge(
    settings: Settings, store: Store, text_of: Callable[[str], str]
) -> tuple[JudgeDescription, tuple[str, ...]]:
    """Return the judge that the settings name, and warnings. Raises NoUsableModel, UsageError.

    text_of: content hash of an open item -> its text.
    """
    spec, warnings = choose_judge(settings)
    judge = describe_judge(spec, settings, store=store)
    # Its texts are in no store, so nothing is known about their words.
    return replace(judge, items=text_of, words_weight=0.0), warnings


class ListJudging:
    """One list that is judged. `runs` is called once; the receipt is complete when it has ended."""

    def __init__(
        self,
        question: str,
        items: Any,
        form: ItemForm,
        *,
        settings: Settings,
        observer: Observer,
    ) -> None:
        """Settings name the judge, its rubric and the caps. observer: called with progress."""
        task = redact_said(encodable_text(question), allow_pii=settings.memory.allow_pii).text
        self._turn = Turn(task=task, fresh=True)
        self._given = items
        self.settings: Settings = settings
        self._elements = read_items(items, form, ahead=RUN_ITEMS)
        self._progress = JudgingProgress(observer, len(items) if is_in_memory(items) else 0, 0)
        self._runs: dict[int, ItemRun] = {}
        self._count = 0
        self._is_read = self._is_stopped = False
        self._failure: BaseException | None = None
        self._arrived: asyncio.Queue[tuple[int, list[JudgedItem]] | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(MOST_RUNS)
        self._counts: Counter[tuple[str, str]] = Counter()
        """Rows so far by outcome and cause."""
        self._end = LiveEnd()
        self._job = f"l_{random_hex(8)}"

    @property
    def has_begun(self) -> bool:
        """Whether there is a receipt."""
        return hasattr(self, "_parts")

    async def runs(self, store: Store) -> AsyncGenerator[tuple[int, list[JudgedItem]], None]:
        """Yield the number and the rows of each run of items, in the order in which they are
        settled.

        Ctrl-C and a cancelled task end the judging, and the rows of what was read still come.
        Leaving early lets calls in flight finish for a moment, and keeps what they bought. Raises
        SourceFailed after the last row where reading an item failed, and what `judge_list` raises,
        each with the receipt.
        """
        self._began = time.monotonic()
        parts = self._parts = self._open(store)
        self._key = turn_key(turn_block(self._turn))
        work = asyncio.create_task(self._work())
        work.add_done_callback(lambda _: self._arrived.put_nowait(None))
        try:
            while (run := await self._next(work)) is not None:
                self._room.release()
                self._counts.update([(row.outcome, row.cause) for row in run[1]])
                yield run
            work.result()
        except XscoreError as error:
            error.receipt = self.receipt(spent_in_period(parts.store.connection, self._job))
            raise
        finally:
            self._stop(work)
            if not work.done():
                await asyncio.wait([work])
        if self._failure is not None:
            raise self._source_failed(self._failure)

    def receipt(self, charged: Decimal | None = None) -> ListReceipt:
        """Return the receipt of the rows so far. charged: dollars by the ledger, if judging has
        failed."""
        judge = self._parts.judge
        end = self._end
        causes = Counter[str]()
        for (_, cause), count in self._counts.items():
            causes[cause] += count
        cached = self._counts["cached", ""]
        unjudged = causes.total() - causes[""]
        by_cause = {cause: count for cause, count in causes.items() if cause}
        return ListReceipt(
            question=self._turn.task,
            judge=str(judge.spec),
            by_model=judge.scale is not Scale.WORDS,
            threshold=judge.thresholds.default,
            coverage=Coverage(causes.total(), causes[""] - cached, cached, 0, unjudged),
            unjudged_by_cause=by_cause,
            ended=str(end.cause or ""),
            detail=end.detail,
            spent=end.spent if charged is None else StageUsage(cost_usd=charged),
            seconds=time.monotonic() - self._began,
            warnings=(*self._parts.warnings, *end.remarks),
        )

    def _open(self, store: Store) -> JudgingParts:
        settings = self.settings
        judge, warnings = list_judge(settings, store, self._text)
        return JudgingParts(
            settings=replace(settings, selection=replace(settings.selection, most_redrawn=0)),
            store=store,
            observer=self._progress.observer,
            warnings=warnings,
            judge=judge,
            clock=store.clock,
        )

    async def _next(self, work: "asyncio.Task[None]") -> tuple[int, list[JudgedItem]] | None:
        try:
            return await self._arrived.get()
        except asyncio.CancelledError:
            self._stop(work)
            return await self._arrived.get()

    def _stop(self, work: "asyncio.Task[None]") -> None:
        """Cancel it once: a second cancellation would cut off paid calls in flight."""
        if not self._is_stopped:
            self._is_stopped = True
            work.cancel()

    async def _work(self) -> None:
        deadline = Deadline.of(self._began, self.settings.budget.deadline_s)
        failed: ProviderError | None = None
        async with aclosing(self._questions(deadline)) as questions:
            try:
                self._end = await judge_list(
                    self._parts,
                    self._job,
                    questions,
                    progress=self._progress,
                    on_end=self._end_question,
                    deadline=deadline,
                )
            except ProviderError as error:  # raised below, after the rows of what was read
                self._end = LiveEnd(UnjudgedCause.PROVIDER, error.message)
                failed = error
        remember_host(self._parts.judge)
        progress = self._progress
        judged = self._end.judged
        progress.report(
            judged,
            max(0, progress.candidates - progress.cached - judged),
            self._end.spent,
            final=True,
        )
        for run in list(self._runs.values()):  # not begun, or ended by a host that failed
            if not run.is_redacted:  # reading it was cut off
                self._look_up(run)
            self._pass_on(run)
        while not self._is_read and is_in_memory(self._given):
            run = await self._read(Deadline())
            self._look_up(run)
            self._pass_on(run)
        if failed:
            raise failed

    async def _questions(self, deadline: Deadline) -> AsyncGenerator[PreparedQuestion, None]:
        """Yield the runs with something to judge; the rows of others are returned at once."""
        while not self._is_read:
            await self._room.acquire()
            run = await self._read(deadline)
            self._look_up(run)
            misses = tuple(
                [
                    _candidate(name, text)
                    for name, text in run.texts.items()
                    if name not in run.cached
                ]
            )
            if misses:
                question = Question(id=str(run.number), task=self._turn.task)
                yield PreparedQuestion(
                    self._turn, self._key, pool_among(misses, misses, {}), run.number, question
                )
            else:
                self._pass_on(run)

    async def _read(self, deadline: Deadline) -> ItemRun:
        """Read the next run, empty at the end. An error of the source ends it."""
        run = self._runs[self._count] = ItemRun(self._count, [])
        self._count += 1
        await asyncio.sleep(0)  # Ctrl-C is noticed here, and open runs go on
        reading = asyncio.create_task(self._fill(run))
        try:
            await asyncio.wait([reading], timeout=deadline.judging_left_s())
        finally:
            is_late = reading.cancel()
        if is_late:
            await asyncio.wait([reading], timeout=1)  # it still takes what a thread has read
        self._is_read = is_late or not reading.result()
        if not is_in_memory(self._given):
            self._progress.candidates += len(run.items)
        return run

    async def _fill(self, run: ItemRun) -> bool:
        """Read items into the run; return whether there may be more.

        Exceptions of the caller's iterator are kept.
        """
        size: float = RUN_ITEMS
        until = time.monotonic() + FILL_S
        run_limit = inf
        # Words are weighed by the whole list, however long that takes to read; an iterator may be
        # endless.
        if not self._parts.judge.batches_memories:
            size = until = inf
            run_limit = inf if hasattr(self._given, "__len__") else MOST_WITHOUT_MODEL
        try:
            async for items in self._elements:
                run.items += items
                if len(run.items) > run_limit:
                    raise _too_many_without_model(run)
                if len(run.items) >= size or (run.items and time.monotonic() > until):
                    return True
        except BaseException as error:  # code that is not ours may raise anything
            if isinstance(error, asyncio.CancelledError) and cancellations():
                raise
            self._failure = error
        return False

    def _look_up(self, run: ItemRun) -> None:
        run.redact_items(allow_pii=self.settings.memory.allow_pii)
        judge = self._parts.judge
        connection = self._parts.store.connection
        if judge.stored and run.texts:
            names: JudgmentKey = (self._key, judge_key(judge.identity), FIRST_DRAW)
            run.cached = read_judgments(connection, names, run.texts)
            if run.cached and not judge.identity.is_decision:
                reasons = read_reasons(connection, names, run.cached)
                run.cached = {
                    name: judgment._replace(reason=reasons.get(name, ""))
                    for name, judgment in run.cached.items()
                }
        self._progress.cached += len(run.items) - len(run.texts.keys() - run.cached.keys())

    def _end_question(self, ended: QuestionEnd) -> None:
        self._pass_on(
            self._runs[ended.number],
            {outcome.candidate.id: outcome for outcome in ended.outcomes},
            ended.usd_shares,
        )

    def _pass_on(
        self,
        run: ItemRun,
        results: Mapping[str, Outcome] | None = None,
        usd_shares: Mapping[str, Decimal | None] | None = None,
    ) -> None:
        """Return the rows of a run; items neither cached nor judged get the cause that ended the
        list."""
        cause = self._end.cause or UnjudgedCause.INTERRUPTED
        absent = Unjudged("", cause, self._end.detail or STOP_DETAILS.get(cause, ""))
        del self._runs[run.number]
        if run.items:
            self._arrived.put_nowait(
                (run.number, run.rows(results or {}, usd_shares or {}, absent))
            )
        else:
            self._room.release()

    def _source_failed(self, error: BaseException) -> XscoreError:
        if isinstance(error, XscoreError) and not isinstance(error, SourceFailed):
            failed: XscoreError = error
        else:
            cause = error.__cause__ if isinstance(error, SourceFailed) else error
            words = redact_said(_words_of(cause), allow_pii=self.settings.memory.allow_pii).text
            message = f"reading the next item failed: {type(cause).__name__}: {words}"
            failed = SourceFailed(message, hint=GO_ON)
            failed.__cause__ = cause
        failed.receipt = self.receipt()
        return failed

    def _text(self, name: str) -> str:
        return next(run.texts[name] for run in self._runs.values() if name in run.texts)


def cancellations() -> int:
    """Return how often this task was cancelled."""
    task = asyncio.current_task()
    if task:
        return task.cancelling()
    return 0


def _words_of(error: BaseException | None) -> str:
    try:
        return encodable_text(str(error))
    except BaseException as other:  # `__str__` is not ours either
        return f"its text cannot be shown ({type(other).__name__})"


def _candidate(name: str, text: str) -> Candidate:
    size = tokens.estimate(tokens.size(text), kind=Kind.DOC)
    return Candidate(name, name, Layer.PROJECT, Kind.TEXT, "", "", 0, 0, "", size, 0.0)


def _too_many_without_model(run: ItemRun) -> UsageError:
    del run.items[MOST_WITHOUT_MODEL:]
    message = (
        f"without a model, the first {MOST_WITHOUT_MODEL:,} items of an iterator are judged, and"
        " there are more"
    )
    return UsageError(message, hint="Name a model with `judge=`, or give a list.")
