"""Judge a list of questions by live calls, from estimate to results: `batch run` and `rescore`.

A list is one purchase: it is confirmed once, and `budget.max_usd` holds for all of it. Without a
file of questions, `rescore` takes the recent tasks of the repository. Trade-off: the index is
brought up to date once, so files that change meanwhile are judged as they were found.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_draft import new_job
from xscore.extensions.batch.list_plan import (
    ListOptions,
    ListPlan,
    judge_name,
    plan_live_list,
)
from xscore.extensions.batch.records import ListReport
from xscore.extensions.batch.results import (
    RankedList,
    cached_outcomes,
    check_results_path,
    rank_questions,
)
from xscore.pipeline.factories import REPLAY_NOTE
from xscore.pipeline.judge_description import Scale
from xscore.pipeline.known_hosts import remember_host
from xscore.pipeline.list_judging import LiveEnd, QuestionEnd, judge_list, judge_question
from xscore.pipeline.live_judging import JudgingProgress
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import (
    PreparedQuestion,
    Question,
    QuestionList,
    confirm_list_cost,
    prepare_questions,
)
from xscore.pipeline.turn_clock import Deadline
from xscore.pipeline.turn_judging import FORECAST_FROM_S
from xscore.platform import database
from xscore.platform.clock import DAY_S
from xscore.platform.database import lenient_text
from xscore.platform.errors import UsageError
from xscore.platform.event_loop import clear_cancellation
from xscore.platform.files import is_there
from xscore.platform.git import changed_files
from xscore.platform.hashing import digest
from xscore.platform.paths import RepositoryRoot, native_name, portable_name
from xscore.platform.text import counted, one_line
from xscore.records.judgment import STOP_DETAILS, Outcome, Unjudged, UnjudgedCause
from xscore.records.receipt import Coverage


async def run_live_list(
    parts: PipelineParts, questions: QuestionList, options: ListOptions
) -> ListReport:
    """Judge a list by live calls, rank each question and write the results.

    Raises UsageError where results cannot be written or the estimate is declined, what opening the
    judge raises where nothing was judged, and StoreError.
    """
    started = time.monotonic() if options.started is None else options.started
    if options.out is not None:
        check_results_path(options.out, store_dir=parts.store.path.parent)
    if options.actors:
        # An extra, only with --ray.
        from xscore.extensions.batch.ray_engine import check_ray_usable

        check_ray_usable(parts)
    plan = plan_live_list(parts, questions, options)
    if (
        plan.to_judge
        and parts.judge.paid
        and parts.observer.can_confirm
        and not parts.settings.judge.replay
    ):
        confirm_list_cost(parts, plan.estimate)
    run = _ListRun(parts, plan, started)
    await run.go()
    return run.report()


class _ListRun(Struct):
    parts: PipelineParts
    plan: ListPlan
    started: float
    job: str = ""
    end: LiveEnd = field(default_factory=LiveEnd)
    judged: Counter[int] = field(default_factory=Counter)
    lost: dict[tuple[int, str], Unjudged] = field(default_factory=dict)
    ranked: RankedList = RankedList()

    async def go(self) -> None:
        parts = self.parts
        if parts.judge.stored and self.plan.candidates:
            if not parts.settings.judge.replay:
                self.job = self._save_job()
                await self._judge()
                remember_host(parts.judge)
            elif self.plan.to_judge:
                self.end = LiveEnd(UnjudgedCause.REPLAY, STOP_DETAILS[UnjudgedCause.REPLAY])
        if self.end.cause is UnjudgedCause.INTERRUPTED:
            return
        parts.observer.stage("select")
        try:
            self.ranked = await self._rank()
        except asyncio.CancelledError:
            clear_cancellation()
            self.end = replace(self.end, cause=UnjudgedCause.INTERRUPTED)

    def _save_job(self) -> str:
        """Store the job as ended: nothing is fetched for it later, and the same list again is
        another job."""
        parts = self.parts
        job = new_job(self.plan, parts)
        with database.transaction(parts.store.connection) as connection:
            job_rows.add_job(
                connection, replace(job, ended_at=job.created_at), self.plan.rows, (), ()
            )
        return job.id

    async def _judge(self) -> None:
        if not self.plan.to_judge:
            return
        parts = self.parts
        parts.observer.stage("judge")
        if self.plan.estimate.seconds >= FORECAST_FROM_S:
            parts.observer.on(self.plan.estimate)
        progress = JudgingProgress(parts.observer, self.plan.candidates, self.plan.cached)
        judging = partial(judge_list, parts, self.job, self._prepared())
        if actors := self.plan.options.actors:
            # An extra, only with --ray.
            from xscore.extensions.batch.ray_engine import judge_by_ray

            questions = self.plan.questions.all
            memories = self.plan.memories
            judging = partial(judge_by_ray, parts, self.job, questions, memories, count=actors)
        deadline = Deadline.of(self.started, parts.settings.budget.deadline_s)
        self.end = await judging(progress=progress, on_end=self._took, deadline=deadline)

    def _prepared(self) -> Iterator[PreparedQuestion]:
        return prepare_questions(
            self.parts, enumerate(self.plan.questions.all), self.plan.memories
        )

    def _took(self, ended: QuestionEnd) -> None:
        self.judged[ended.number] += ended.judged
        self.lost |= {(ended.number, miss.content_hash): miss for miss in ended.lost}

    async def _rank(self) -> RankedList:
        parts = self.parts
        cause = self.end.cause or UnjudgedCause.INTERRUPTED
        detail = self.end.detail or STOP_DETAILS.get(cause, "")
        async with AsyncExitStack() as stack:
            resources = None
            if not parts.judge.stored:
                resources = await stack.enter_async_context(parts.open_resources(self.job))

            async def outcomes_of(prepared: PreparedQuestion) -> tuple[Sequence[Outcome], int]:
                if resources is None:
                    return cached_outcomes(prepared, self.lost, cause, detail), self.judged[
                        prepared.number
                    ]
                # The judge without a model costs nothing.
                judged = await judge_question(parts, resources, prepared)
                return judged.outcomes, 0

            options = self.plan.options
            ranks = options.command != "rescore"
            return await rank_questions(
                parts, self._prepared(), outcomes_of, options.out, ranks=ranks
            )

    def report(self) -> ListReport:
        parts = self.parts
        options = self.plan.options
        ranked = self.ranked
        is_ranked = bool(self.ranked.lines)
        coverage = ranked.coverage
        causes = ranked.unjudged_by_cause
        if not is_ranked:  # it was interrupted: use what is known of its questions
            judged = min(self.judged.total(), self.plan.to_judge)
            unjudged = self.plan.to_judge - judged
            coverage = Coverage(self.plan.candidates, judged, self.plan.cached, 0, unjudged)
            if unjudged:
                causes = {str(self.end.cause): unjudged}
            else:
                causes = {}
        of_models = []
        for warning in parts.warnings:
            if self.plan.to_judge or warning != REPLAY_NOTE:
                of_models.append(warning)
        return ListReport(
            job=self.job,
            command=options.command,
            judge=judge_name(parts),
            by_model=parts.judge.scale is not Scale.WORDS,
            questions=len(self.plan.questions.all),
            candidates=self.plan.candidates,
            cached=self.plan.cached,
            coverage=coverage,
            unjudged_by_cause=causes,
            ended=str(self.end.cause or ""),
            detail=self.end.detail,
            spent=self.end.spent,
            seconds=time.monotonic() - self.started,
            workers=options.actors or 1,
            lines=ranked.lines,
            out=str(options.out or "") if is_ranked else "",
            rows=ranked.rows,
            warnings=tuple(dict.fromkeys([*of_models, *self.plan.warnings, *self.end.remarks])),
        )


DAYS = 14
MAX_TASKS = 100
_RECENT = """
    SELECT id, task, context, max(started_at) AS latest FROM turn
    WHERE thread <> '' AND task <> '' AND started_at <= :now
        AND (started_at >= :since OR thread IN (SELECT thread FROM session WHERE closed_at IS NULL))
        AND NOT EXISTS (SELECT 1 FROM turn_figures WHERE turn_id = turn.id AND command = 'eval')
    GROUP BY turn_key ORDER BY latest DESC, id
"""


def recent_tasks(parts: PipelineParts) -> QuestionList:
    """Return the recently asked tasks, newest first, each once, and note how many they are."""
    connection = parts.store.connection
    now = parts.clock()
    with lenient_text(connection):
        rows = connection.execute(_RECENT, {"now": now, "since": now - DAYS * DAY_S}).fetchall()
    questions = [
        _task_question(*map(str, row[:3]), root=parts.root) for row in rows[:MAX_TASKS]
    ]
    beyond = len(rows) - len(questions)
    name = digest(
        "rescore",
        *(f"{question.task}\n{question.errors}\n{question.file}" for question in questions),
    )
    tasks = counted(len(questions), "recent task")
    note = f"{tasks}: of open sessions, and of the last {DAYS} days"
    if beyond:
        note += f"; {beyond} older ones are left out, the newest {MAX_TASKS} are taken"
    parts.observer.note(note)
    return QuestionList(tuple(questions), name)


def edited_files(parts: PipelineParts, *, since: str = "") -> frozenset[str]:
    """Return the files that differ from a revision, or from the last commit, including new ones;
    note how many.

    Raises UsageError where git cannot tell.
    """
    root = parts.root
    paths = None
    if root.is_git:
        paths = changed_files(root.path, since or "HEAD")
    if paths is None:
        description = "what has changed"
        if since:
            description = f"what has changed since {since}"
        raise UsageError(
            f"git cannot tell {description} in {root.path}",
            hint="Name an existing revision, or use --all.",
        )
    description = "files with uncommitted changes"
    if since:
        description = f"files that differ from {one_line(since)}"
    parts.observer.note(f"{description}: {len(paths):,}")
    return frozenset(map(portable_name, paths))


def _task_question(turn_id: str, task: str, context: str, *, root: RepositoryRoot) -> Question:
    try:
        fields = json.loads(context)
        file = str(fields.get("file", ""))
        errors = str(fields.get("errors", ""))
    except (ValueError, AttributeError):
        file = errors = ""
    has_file = bool(file) and is_there(root.path / native_name(file))
    return Question(
        id=turn_id,
        task=task,
        errors=errors,
        file=str(root.path / native_name(file)) if has_file else "",
    )
