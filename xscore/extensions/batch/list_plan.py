"""Plan a list, live or by batch: what judging it would take. Sends nothing.

It adds up sizes and renders no prompt. Questions without any judgment yet need the same packs, so
their forecast is made once, with the length of the first. In a batch, equal questions are judged
once, and candidates that another job is having judged are left to that job. The user's own memories
are left out: their judgments belong in the user's store, and the results of a batch and their
dollars are entered in one transaction of one store. Trade-off: every question is prepared before
the first is judged.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.batch_planner import BatchPlanner
from xscore.extensions.batch.job_rows import (
    JobCommand,
    JobQuestion,
    UnderWay,
)
from xscore.pipeline.estimating import forecast_judging
from xscore.pipeline.factories import with_wire
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import Pool, refuse_empty_scope
from xscore.pipeline.question_list import (
    ListMemories,
    PreparedQuestion,
    QuestionList,
    fetch_list_memories,
    prepare_questions,
)
from xscore.pipeline.room_under_caps import uncapped_judge
from xscore.prompts.turn_text import turn_block
from xscore.providers.decision_hosts import CHAT_OF_OPENAI
from xscore.records.estimates import JudgeEstimate
from xscore.records.turn import Scope, Turn
from xscore.settings.values import NO_FINAL_ROUND


class ListOptions(Struct, frozen=True, kw_only=True):
    """Options of a list."""

    scope: Scope = Scope()
    command: JobCommand = "run"
    """`rescore` only counts each question's judgments; the others rank it too."""
    only: frozenset[str] | None = None
    """Paths of the files to judge; memories of other files are left out."""
    out: Path | None = None
    actors: int = 0
    """Actors of Ray that judge; 0 if this process judges."""
    started: float | None = None
    """`time.monotonic()` from which the deadline counts; None: from now."""


def _job_question(prepared: PreparedQuestion, *, sees: str) -> JobQuestion:
    turn = prepared.turn
    return JobQuestion(
        number=prepared.number,
        name=prepared.question.id,
        task=turn.task,
        errors=turn.errors,
        file=turn.file,
        shown=turn_block(turn, sees=sees) if sees != "task" else "",
        turn_key=prepared.key,
    )


class ListPlan(Struct, kw_only=True):
    """A list, and what judging it would take."""

    questions: QuestionList
    options: ListOptions
    memories: ListMemories
    of_user: int = 0
    """How many memories of the user's own store a batch leaves out for each question."""
    under_way: UnderWay = field(default_factory=dict)
    """What running jobs of the same judge were judging when the list was planned."""
    rows: list[JobQuestion] = field(default_factory=list)
    candidates: int = 0
    cached: int = 0
    to_judge: int = 0
    """Candidates over all questions that the cache lacks and this list judges."""
    repeated: int = 0
    """Candidates that a batch judges once, for an equal question earlier in the list."""
    elsewhere: int = 0
    """Candidates being judged by running batches: live calls would pay for them twice, a batch
    leaves them out."""
    elsewhere_jobs: tuple[str, ...] = ()
    estimate: JudgeEstimate = JudgeEstimate()
    warnings: list[str] = field(default_factory=list)
    """Warnings shown before anything was sent, repeated in the report."""

    def add_up(
        self,
        prepared: Iterable[PreparedQuestion],
        forecast: Callable[[Turn, Pool], JudgeEstimate],
        *,
        batch: BatchPlanner | None = None,
        sees: str = "task",
    ) -> None:
        """Go through the questions once. Raises what preparing them raises.

        forecast: the judge's.
        batch: takes what is to be sent.
        sees: as in settings.
        """
        seen = set[str]()
        unknown = None
        for question in prepared:
            pool = question.pool
            row = _job_question(question, sees=sees if batch else "task")
            self.rows.append(row)
            self.candidates += len(pool.candidates)
            self.cached += len(pool.candidates) - len(pool.misses)
            if batch is not None and row.turn_key in seen:
                self.repeated += len(pool.misses)
                continue
            seen.add(row.turn_key)
            theirs = self._count_elsewhere(question)
            if batch is not None:
                # What another batch judges is left to it: the vendor would bill it twice.
                if theirs:
                    ours = [miss for miss in pool.misses if miss.content_hash not in theirs]
                    pool = replace(pool, misses=tuple(ours))
                batch.add(row.number, pool)
            self.to_judge += len(pool.misses)
            # Questions without any judgment need the same packs: one forecast serves them all.
            if pool.misses is pool.candidates:
                unknown = unknown or forecast(question.turn, pool)
                estimate = unknown
            else:
                estimate = forecast(question.turn, pool)
            self.estimate = estimate + self.estimate

    def _count_elsewhere(self, prepared: PreparedQuestion) -> frozenset[str]:
        """Return the misses of a question that running batches judge."""
        if not self.under_way:
            return frozenset()
        misses = {miss.content_hash for miss in prepared.pool.misses}
        theirs: frozenset[str] = frozenset()
        for job, work in self.under_way.items():
            of_job = misses & work.get(prepared.key, set())
            theirs |= of_job
            if of_job and job not in self.elsewhere_jobs:
                self.elsewhere_jobs += (job,)
        self.elsewhere += len(theirs)
        return theirs


def plan_list(
    parts: PipelineParts,
    questions: QuestionList,
    options: ListOptions,
    *,
    batch: BatchPlanner | None = None,
) -> ListPlan:
    """Bring the index up to date, fetch the memories and say what the list would take. Sends
    nothing.

    batch: collects the requests.
    Raises UsageError for an invalid scope or question, NothingMatched for a scope that matches
    nothing.
    """
    parts.observer.stage("index")
    parts.index(None)
    parts.observer.stage("pool")
    everything = fetch_list_memories(parts, options.scope, only=options.only)
    if options.only is None:
        refuse_empty_scope(everything.everything, everything.candidates, everything.scope)
    memories = everything.of_repository() if batch else everything
    plan = ListPlan(
        questions=questions,
        options=options,
        memories=memories,
        of_user=len(everything.candidates) - len(memories.candidates),
        under_way=job_rows.contents_under_way(
            parts.store.connection, judge_key(parts.judge.identity)
        ),
    )
    prepared = prepare_questions(parts, enumerate(questions.all), memories)
    plan.add_up(
        prepared,
        partial(forecast_judging, parts.judge),
        batch=batch,
        sees=parts.settings.judge.sees,
    )
    return plan


def plan_live_list(
    parts: PipelineParts, questions: QuestionList, options: ListOptions
) -> ListPlan:
    """Plan a list that is judged live, and warn that no cap applies, that there is no final round,
    and of what running batches also judge."""
    plan = plan_list(parts, questions, options)
    plan.warnings = uncapped_judge(parts) if plan.to_judge else []
    # Rescoring ranks nothing.
    if options.command == "run":
        plan.warnings += remarks_on_final_round(parts)
    for message in plan.warnings:
        parts.observer.note(message)
    if plan.elsewhere:
        job, *_ = plan.elsewhere_jobs
        parts.observer.note(
            f"{plan.elsewhere:,} to judge are under way by batch in"
            f" {', '.join(plan.elsewhere_jobs)}: live calls pay for them again. `xscore batch wait"
            f" {job}` or `xscore batch cancel {job}` first avoids that."
        )
    return plan


def remarks_on_final_round(parts: PipelineParts) -> list[str]:
    """Say that a list is ranked without a final round, where the settings name a model for one."""
    final = parts.settings.selection.final
    if final == NO_FINAL_ROUND:
        return []
    return [
        f"lists skip the final round, so `{final}` (selection.final) is not used here; `xscore"
        " ask` and `xscore ask --batch` use it, and reuse these judgments"
    ]


def judge_name(parts: PipelineParts) -> str:
    """Return the name of a list's judge for the user."""
    return parts.judge.name


def judge_option(parts: PipelineParts) -> str:
    """Return what `--judge` takes for this judge: where `openai:` means decisions, the chat judge
    of the same model has a name of its own."""
    judge = parts.judge
    if judge.paid and with_wire(judge.spec, parts.settings) != judge.spec:
        return f"{CHAT_OF_OPENAI}:{judge.spec.model}"
    return judge.name
