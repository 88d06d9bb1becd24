"""A list of questions taken from its estimate to its results by live calls: `batch run --live` and `rescore --live`.

One purchase: the list is estimated and agreed to once, and `budget.max_usd` holds for all of it, over all its workers.
What ends it early is told with the command to go on, which is the same again. Trade-off: the index is brought up to
date once, so files that change meanwhile are judged as they were found.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from xscore.offline import live_rows, ray_engine, results
from xscore.offline.job_desk import JobDesk
from xscore.offline.job_progress import JobProgress
from xscore.offline.job_rows import Command
from xscore.offline.live import LiveEnd, QuestionEnd, judge_all, judge_live
from xscore.offline.live_plan import LivePlan, confirm, plan_live, warn
from xscore.offline.prepared import Memories, Prepared, memories, prepare, refuse_no_files
from xscore.offline.results import Known, QuestionLine
from xscore.offline.results_file import ResultsFile, check_place
from xscore.offline.workers import judge_by_workers
from xscore.pipeline.ask import WORTH_A_FORECAST_S
from xscore.pipeline.deadline import Deadline
from xscore.pipeline.judging import STOPPED, forgive
from xscore.pipeline.parts import Desk, Parts
from xscore.pipeline.seats import REPLAYS
from xscore.records import Cause, Coverage, Outcome, Scope, Stage, StageUsage, Unjudged
from xscore.records.offline import Questions


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWishes:
    """What is wanted of a list beside its judgments."""

    command: Command = "run"
    out: Path | None = None
    questions_file: Path | None = None
    """The file that the list was read from, which results must not overwrite; None: it is from nowhere."""
    workers: int = 1
    engine: str = ""
    """`ray`: actors of Ray judge, so many as there are workers; empty: this process, or processes of this machine."""
    only: frozenset[str] | None = None
    """Only memories of these files; None: whatever the scope leaves."""
    ranks: bool = True
    """Whether each question is ranked; else it has its account alone."""
    started: float | None = None
    """`time.monotonic()` from which the deadline counts; None: from now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What came of a list."""

    job: str
    """`b_…`; empty: nothing was to be paid for, as with the judge without a model."""
    command: str
    judge: str
    is_model: bool
    questions: int
    candidates: int
    """Over all questions, when it was planned."""
    cached: int
    """Of these, what the cache had."""
    coverage: Coverage
    unjudged_by_cause: dict[str, int]
    ended: str
    """Why it ended early; empty: it did not."""
    detail: str
    spent: StageUsage
    seconds: float
    workers: int
    lines: tuple[QuestionLine, ...]
    """Empty where it was interrupted."""
    out: str
    """The file of results that was written; empty: none."""
    rows: int
    warnings: tuple[str, ...]

    @property
    def hit_rate(self) -> float | None:
        """Replayed hit rate."""
        return self.cached / self.candidates if self.candidates else None

    @property
    def exit_code(self) -> int:
        """What the command ends with."""
        nothing = self.coverage.candidates > 0 and self.coverage.unjudged == self.coverage.candidates
        early = {"interrupted": 130, "budget": 4, "provider": 3, "deadline": 1}.get(self.ended)
        return early or (3 if nothing else 1 if self.coverage.unjudged else 0)


async def run_list(parts: Parts, questions: Questions, *, scope: Scope, wishes: JobWishes) -> JobReport:
    """Judge a list by live calls, rank each question and write the results.

    Raises UsageError where results cannot be written or the estimate is declined, what opening the judge raises where
    nothing was judged, and StoreError.
    """
    started = time.monotonic() if wishes.started is None else wishes.started
    if wishes.out is not None:
        check_place(wishes.out, store_dir=parts.store.path.parent, questions=wishes.questions_file)
    if wishes.engine:
        ray_engine.check(parts)
    found, plan = plan_list(parts, questions, scope=scope, only=wishes.only)
    confirm(parts, plan)
    run = _ListRun(parts, questions, found, plan, wishes, started)
    await run.go()
    return run.report()


def plan_list(
    parts: Parts, questions: Questions, *, scope: Scope, only: frozenset[str] | None = None
) -> tuple[Memories, LivePlan]:
    """Bring the index up to date, fetch the memories and say what the list would take. Sends nothing."""
    parts.observer.stage("index")
    parts.index()
    parts.observer.stage("pool")
    found = memories(parts, scope, only=only)
    if only is None:
        refuse_no_files(found)
    plan = plan_live(parts, prepare(parts, enumerate(questions.all), found))
    warn(parts, plan)
    return found, plan


@dataclass(slots=True)
class _ListRun:
    """One list under way."""

    parts: Parts
    questions: Questions
    found: Memories
    plan: LivePlan
    wishes: JobWishes
    started: float
    job: str = ""
    end: LiveEnd = field(default_factory=LiveEnd)
    judged: Counter[int] = field(default_factory=Counter)
    """By question, what was judged here."""
    lost: dict[tuple[int, str], Unjudged] = field(default_factory=dict)
    lines: Sequence[QuestionLine] = ()
    rows: int = 0

    async def go(self) -> None:
        parts = self.parts
        calls = parts.judge.calls
        if parts.judge.is_model and calls is not None and self.plan.candidates:
            if parts.settings.judge.replay:
                self.end = LiveEnd(Cause.REPLAY, STOPPED[Cause.REPLAY]) if self.plan.to_judge else LiveEnd()
            else:
                command, digest = self.wishes.command, self.questions.digest
                scope, only = self.found.scope, self.wishes.only
                self.job = live_rows.enter(
                    parts, calls, self.plan, command=command, digest=digest, scope=scope, only=only
                ).id
                await self._judge()
                parts.judge.close()
                live_rows.finish(parts, self.job)
        if self.end.cause is Cause.INTERRUPTED:
            return
        parts.observer.stage("select")
        try:
            await self._rank()
        except asyncio.CancelledError:
            forgive(asyncio.current_task())
            self.end = replace(self.end, cause=Cause.INTERRUPTED)
            self.lines = ()

    async def _judge(self) -> None:
        if not self.plan.to_judge:
            return
        parts = self.parts
        parts.observer.stage("judge")
        if self.plan.estimate is not None and self.plan.estimate.seconds >= WORTH_A_FORECAST_S:
            parts.observer.forecast(self.plan.estimate)
        progress, deadline = JobProgress(parts.observer, self.plan), self._deadline()
        if self.wishes.engine:
            self.end = await ray_engine.judge_by_ray(
                parts,
                self.job,
                self.questions.all,
                self.found,
                count=self.wishes.workers,
                told=self._took,
                progress=progress,
                deadline=deadline,
            )
        elif self.wishes.workers > 1:
            self.end = await judge_by_workers(
                parts,
                self.job,
                self.questions.all,
                self.found.scope,
                count=self.wishes.workers,
                only=self.wishes.only,
                told=self._took,
                progress=progress,
                deadline=deadline,
            )
        else:
            self.end = await self._judge_here(progress, deadline)

    async def _judge_here(self, progress: JobProgress, deadline: Deadline | None) -> LiveEnd:
        async with self.parts.open_desk(self.job) as desk:
            return await judge_all(
                self.parts,
                JobDesk(desk),
                prepare(self.parts, enumerate(self.questions.all), self.found),
                told=self._took,
                progress=lambda judged, unjudged: progress.tell(judged, unjudged, desk.tab.spent(Stage.JUDGE)),
                deadline=deadline,
            )

    def _took(self, ended: QuestionEnd) -> None:
        self.judged[ended.number] += ended.judged
        self.lost |= {(ended.number, one.content_hash): one for one in ended.lost}

    async def _rank(self) -> None:
        known = Known(lost=self.lost)
        if self.end.cause is not None:
            known = Known(
                lost=self.lost, cause=self.end.cause, detail=self.end.detail or STOPPED.get(self.end.cause, "")
            )
        async with AsyncExitStack() as stack:
            desk = None
            if not self.parts.judge.is_model:
                desk = await stack.enter_async_context(self.parts.open_desk(self.job))

            async def settle(prepared: Prepared) -> Sequence[Outcome]:
                return await self._settled(prepared, known, desk)

            with ResultsFile(self.wishes.out) as file:

                def keep(rows: Sequence[results.Row]) -> None:
                    self.rows += len(rows)
                    file.add(rows)

                questions = prepare(self.parts, enumerate(self.questions.all), self.found)
                self.lines = await results.rank_all(
                    self.parts, questions, settle, keep if self.wishes.ranks else None, judged=self.judged
                )

    async def _settled(self, prepared: Prepared, known: Known, desk: Desk | None) -> Sequence[Outcome]:
        if desk is None:
            return results.outcomes(prepared, known)
        return (await judge_live(self.parts, desk, prepared)).outcomes  # the judge without a model costs nothing

    def _deadline(self) -> Deadline | None:
        seconds = self.parts.settings.budget.deadline_s
        return None if seconds is None else Deadline(self.started + seconds)

    def report(self) -> JobReport:
        """Sum up. Raises StoreDamaged."""
        parts, identity = self.parts, self.parts.judge.identity
        causes: Counter[str] = Counter()
        for line in self.lines:
            causes.update(line.unjudged_by_cause)
        coverage = results.coverage_of(self.lines) if self.lines else self._cut_short(causes)
        return JobReport(
            job=self.job,
            command=self.wishes.command,
            judge=f"{identity.provider}:{identity.model}" if parts.judge.is_model else "lexical",
            is_model=parts.judge.is_model,
            questions=len(self.questions.all),
            candidates=self.plan.candidates,
            cached=self.plan.cached,
            coverage=coverage,
            unjudged_by_cause=dict(causes.most_common()),
            ended=str(self.end.cause or ""),
            detail=self.end.detail,
            spent=live_rows.spent(parts.store.connection, self.job),
            seconds=time.monotonic() - self.started,
            workers=self.wishes.workers,
            lines=tuple(self.lines),
            out=str(self.wishes.out or "") if self.lines else "",
            rows=self.rows if self.lines else 0,
            warnings=tuple(dict.fromkeys([*self._said_of_seats(), *self.plan.warnings, *self.end.remarks])),
        )

    def _said_of_seats(self) -> list[str]:
        return [said for said in self.parts.warnings if self.plan.to_judge or said != REPLAYS]

    def _cut_short(self, causes: Counter[str]) -> Coverage:
        """Account for a list that was interrupted, by what was told of its questions."""
        judged = min(self.judged.total(), self.plan.to_judge)
        unjudged = self.plan.to_judge - judged
        if unjudged:
            causes[str(self.end.cause)] += unjudged
        return Coverage(self.plan.candidates, judged, self.plan.cached, 0, unjudged)
