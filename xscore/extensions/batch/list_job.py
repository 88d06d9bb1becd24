"""A list of questions from its estimate to its results by live calls: `batch run` and `rescore`.

A list is one purchase: it is confirmed once, and `budget.max_usd` holds for all of it. Without a file of questions,
`rescore` takes the tasks asked here lately. Trade-off: the index is brought up to date once, so files that change
meanwhile are judged as they were found.
"""

import asyncio
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.extensions.batch import list_plan, ray_engine, results
from xscore.extensions.batch.job_rows import JobCommand
from xscore.extensions.batch.list_plan import ListPlan, ListProgress, confirm_plan, plan_questions, warn_of_plan
from xscore.extensions.batch.results import KnownCauses, QuestionSummary, ResultsFile, check_results_path
from xscore.pipeline.factories import REPLAY_NOTE
from xscore.pipeline.judging import STOP_DETAILS, Deadline, take_back_cancellation
from xscore.pipeline.list_judging import ListResources, LiveEnd, QuestionEnd, judge_list, judge_question
from xscore.pipeline.parts import PipelineParts, TurnResources
from xscore.pipeline.question_list import (
    ListMemories,
    PreparedQuestion,
    fetch_list_memories,
    prepare_questions,
    require_matching_files,
)
from xscore.pipeline.turn import FORECAST_FROM_S
from xscore.platform.database import lenient_text
from xscore.platform.errors import UsageError
from xscore.platform.git import changed_files
from xscore.platform.hashing import digest
from xscore.platform.paths import RepositoryRoot, native_name, portable_name
from xscore.records import Coverage, Outcome, Scope, Stage, StageUsage, Unjudged, UnjudgedCause
from xscore.records.batch import Question, QuestionList


class ListOptions(Struct, frozen=True, kw_only=True):
    """What is wanted of a list beside its judgments."""

    command: JobCommand = "run"
    out: Path | None = None
    questions_file: Path | None = None
    """The file that the list was read from, which results must not overwrite; None: it is from nowhere."""
    actors: int = 0
    """Actors of Ray that judge; 0: this process judges."""
    only: frozenset[str] | None = None
    """Only memories of these files; None: whatever the scope leaves."""
    ranks: bool = True
    """Whether each question is ranked; else it has its account alone."""
    started: float | None = None
    """`time.monotonic()` from which the deadline counts; None: from now."""


class ListReport(Struct, frozen=True, kw_only=True):
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
    """Actors that judged; 1: this process did."""
    lines: tuple[QuestionSummary, ...]
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


async def run_live_list(
    parts: PipelineParts, questions: QuestionList, *, scope: Scope, wishes: ListOptions
) -> ListReport:
    """Judge a list by live calls, rank each question and write the results.

    Raises UsageError where results cannot be written or the estimate is declined, what opening the judge raises where
    nothing was judged, and StoreError.
    """
    started = time.monotonic() if wishes.started is None else wishes.started
    if wishes.out is not None:
        check_results_path(wishes.out, store_dir=parts.store.path.parent, questions=wishes.questions_file)
    if wishes.actors:
        ray_engine.check_ray_usable(parts)
    found, plan = plan_live_list(parts, questions, scope=scope, only=wishes.only)
    confirm_plan(parts, plan)
    run = _ListRun(parts, questions, found, plan, wishes, started)
    await run.go()
    return run.report()


def plan_live_list(
    parts: PipelineParts, questions: QuestionList, *, scope: Scope, only: frozenset[str] | None = None
) -> tuple[ListMemories, ListPlan]:
    """Bring the index up to date, fetch the memories and say what the list would take. Sends nothing."""
    parts.observer.stage("index")
    parts.index()
    parts.observer.stage("pool")
    found = fetch_list_memories(parts, scope, only=only)
    if only is None:
        require_matching_files(found)
    plan = plan_questions(parts, prepare_questions(parts, enumerate(questions.all), found))
    warn_of_plan(parts, plan)
    return found, plan


class _ListRun(Struct):
    """One list under way."""

    parts: PipelineParts
    questions: QuestionList
    found: ListMemories
    plan: ListPlan
    wishes: ListOptions
    started: float
    job: str = ""
    end: LiveEnd = field(default_factory=LiveEnd)
    judged: Counter[int] = field(default_factory=Counter)
    """By question, what was judged here."""
    lost: dict[tuple[int, str], Unjudged] = field(default_factory=dict)
    lines: Sequence[QuestionSummary] = ()
    rows: int = 0

    async def go(self) -> None:
        parts = self.parts
        calls = parts.judge.calls
        if parts.judge.is_model and calls is not None and self.plan.candidates:
            if parts.settings.judge.replay:
                self.end = (
                    LiveEnd(UnjudgedCause.REPLAY, STOP_DETAILS[UnjudgedCause.REPLAY])
                    if self.plan.to_judge
                    else LiveEnd()
                )
            else:
                self.job = list_plan.insert_live_job(
                    parts,
                    self.plan,
                    command=self.wishes.command,
                    digest=self.questions.digest,
                    scope=self.found.scope,
                    only=self.wishes.only,
                )
                await self._judge()
                parts.judge.close()
                list_plan.end_live_job(parts, self.job)
        if self.end.cause is UnjudgedCause.INTERRUPTED:
            return
        parts.observer.stage("select")
        try:
            await self._rank()
        except asyncio.CancelledError:
            take_back_cancellation(asyncio.current_task())
            self.end = replace(self.end, cause=UnjudgedCause.INTERRUPTED)
            self.lines = ()

    async def _judge(self) -> None:
        if not self.plan.to_judge:
            return
        parts = self.parts
        parts.observer.stage("judge")
        if self.plan.estimate is not None and self.plan.estimate.seconds >= FORECAST_FROM_S:
            parts.observer.forecast(self.plan.estimate)
        progress, deadline = ListProgress(parts.observer, self.plan.candidates, self.plan.cached), self._deadline()
        if self.wishes.actors:
            self.end = await ray_engine.judge_by_ray(
                parts,
                self.job,
                self.questions.all,
                self.found,
                count=self.wishes.actors,
                told=self._took,
                progress=progress,
                deadline=deadline,
            )
        else:
            self.end = await self._judge_here(progress, deadline)

    async def _judge_here(self, progress: ListProgress, deadline: Deadline | None) -> LiveEnd:
        async with self.parts.open_resources(self.job) as resources:
            return await judge_list(
                self.parts,
                ListResources(resources),
                prepare_questions(self.parts, enumerate(self.questions.all), self.found),
                told=self._took,
                progress=lambda judged, unjudged: progress.report(judged, unjudged, resources.usage.spent(Stage.JUDGE)),
                deadline=deadline,
            )

    def _took(self, ended: QuestionEnd) -> None:
        self.judged[ended.number] += ended.judged
        self.lost |= {(ended.number, one.content_hash): one for one in ended.lost}

    async def _rank(self) -> None:
        known = KnownCauses(lost=self.lost)
        if self.end.cause is not None:
            known = KnownCauses(
                lost=self.lost, cause=self.end.cause, detail=self.end.detail or STOP_DETAILS.get(self.end.cause, "")
            )
        async with AsyncExitStack() as stack:
            resources = None
            if not self.parts.judge.is_model:
                resources = await stack.enter_async_context(self.parts.open_resources(self.job))

            async def settle(prepared: PreparedQuestion) -> Sequence[Outcome]:
                return await self._settled(prepared, known, resources)

            with ResultsFile(self.wishes.out) as file:

                def keep(rows: Sequence[results.ResultRow]) -> None:
                    self.rows += len(rows)
                    file.add(rows)

                questions = prepare_questions(self.parts, enumerate(self.questions.all), self.found)
                self.lines = await results.rank_questions(
                    self.parts, questions, settle, keep if self.wishes.ranks else None, judged=self.judged
                )

    async def _settled(
        self, prepared: PreparedQuestion, known: KnownCauses, resources: TurnResources | None
    ) -> Sequence[Outcome]:
        if resources is None:
            return results.cached_outcomes(prepared, known)
        return (
            await judge_question(self.parts, resources, prepared)
        ).outcomes  # the judge without a model costs nothing

    def _deadline(self) -> Deadline | None:
        seconds = self.parts.settings.budget.deadline_s
        return None if seconds is None else Deadline(self.started + seconds)

    def report(self) -> ListReport:
        """Sum up. Raises StoreDamaged."""
        parts, identity = self.parts, self.parts.judge.identity
        causes: Counter[str] = Counter()
        for line in self.lines:
            causes.update(line.unjudged_by_cause)
        coverage = results.total_coverage(self.lines) if self.lines else self._cut_short(causes)
        return ListReport(
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
            spent=list_plan.spent_by_job(parts.store.connection, self.job),
            seconds=time.monotonic() - self.started,
            workers=self.wishes.actors or 1,
            lines=tuple(self.lines),
            out=str(self.wishes.out or "") if self.lines else "",
            rows=self.rows if self.lines else 0,
            warnings=tuple(dict.fromkeys([*self._said_of_seats(), *self.plan.warnings, *self.end.remarks])),
        )

    def _said_of_seats(self) -> list[str]:
        return [said for said in self.parts.warnings if self.plan.to_judge or said != REPLAY_NOTE]

    def _cut_short(self, causes: Counter[str]) -> Coverage:
        """Account for a list that was interrupted, by what was told of its questions."""
        judged = min(self.judged.total(), self.plan.to_judge)
        unjudged = self.plan.to_judge - judged
        if unjudged:
            causes[str(self.end.cause)] += unjudged
        return Coverage(self.plan.candidates, judged, self.plan.cached, 0, unjudged)


DAYS = 14
MAX_TASKS = 100
DAY_S = 86_400.0
_RECENT = """
    SELECT id, task, context, turn_key FROM turn
    WHERE thread <> '' AND task <> '' AND started_at <= :now
        AND (started_at >= :since OR thread IN (SELECT thread FROM session WHERE closed_at IS NULL))
        AND NOT EXISTS (SELECT 1 FROM turn_figures WHERE turn_id = turn.id AND command = 'eval')
    ORDER BY started_at DESC, id
"""


class RecentTasks(Struct, frozen=True):
    """What was asked lately."""

    questions: QuestionList
    beyond: int
    """Older tasks that are left out, since there are more than `MOST`."""

    def in_words(self) -> str:
        """Say how many and by which rule."""
        count = len(self.questions.all)
        said = f"{count} recent task{'s' if count != 1 else ''}: of open sessions, and of the last {DAYS} days"
        return said + (
            f"; {self.beyond} older ones are left out, the newest {MAX_TASKS} are taken" if self.beyond else ""
        )


def recent_tasks(connection: sqlite3.Connection, root: RepositoryRoot, *, now: float) -> RecentTasks:
    """Return the tasks that were asked lately, the newest first, each once. now: Unix seconds."""
    found: dict[str, Question] = {}
    beyond = 0
    with lenient_text(connection):
        for turn_id, task, context, key in connection.execute(_RECENT, {"now": now, "since": now - DAYS * DAY_S}):
            if key in found:
                continue
            if len(found) == MAX_TASKS:
                beyond += 1
                continue
            found[key] = _task_question(str(turn_id), str(task), str(context), root)
    name = digest("rescore", *(f"{one.task}\n{one.errors}\n{one.file}" for one in found.values()))
    return RecentTasks(QuestionList(tuple(found.values()), name), beyond)


def edited_files(root: RepositoryRoot, *, since: str = "") -> frozenset[str]:
    """Return the files that differ from a revision, or from what was committed last; new ones among them.

    Raises UsageError where git cannot tell.
    """
    found = changed_files(root.path, since or "HEAD") if root.is_git else None
    if found is None:
        what = f"what has changed since {since}" if since else "what has changed"
        raise UsageError(
            f"git does not tell {what} in {root.path}", hint="Name a revision that is there, or take everything: --all."
        )
    return frozenset(map(portable_name, found))


def _task_question(turn_id: str, task: str, context: str, root: RepositoryRoot) -> Question:
    try:
        known = json.loads(context)
        file, errors = str(known.get("file", "")), str(known.get("errors", ""))
    except (ValueError, AttributeError):
        file = errors = ""
    is_there = bool(file) and (root.path / native_name(file)).exists()
    return Question(id=turn_id, task=task, errors=errors, file=str(root.path / native_name(file)) if is_there else "")
