"""What a list would take by live calls, and what the store keeps of one that is judged live. Sends nothing.

Sizes alone are added up; no prompt is drafted. Questions of which nothing is known yet need the same packs, so their
forecast is made once: the first one's length stands for all of them. The row of a live list is ended as soon as it is
written, because there is nothing to fetch for it: the same list again is another job.
"""

import sqlite3
import time
from collections.abc import Iterable, Mapping
from decimal import Decimal

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_rows import BatchJob, JobCommand, JobQuestion, JobRecipe, contents_under_way
from xscore.pipeline import budget_messages, question_list
from xscore.pipeline.judging import REPORT_EVERY_S
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import PreparedQuestion
from xscore.platform.database import damage_if_invalid, transaction
from xscore.providers.prices import batch_price
from xscore.records import Estimate, JudgeEstimate, Observer, Progress, Scope, StageUsage, Usage
from xscore.scorer.drafts import JudgeModel
from xscore.scorer.packs import PackProfile
from xscore.store.turn_history import TOKEN_COLUMNS, VALID_CALL_SQL, dollars_from_row, parse_count, usage_from_row

_SPENT = f"""
    SELECT sum(outcome = 'ok'), count(*), iif(count(cost) = count(*), sum(cost), NULL), max(estimated),
        {", ".join(f"sum({name})" for name in TOKEN_COLUMNS)}
    FROM call WHERE turn_id = ? AND {VALID_CALL_SQL}
"""


class ListPlan(Struct):
    """What a list would take."""

    rows: list[JobQuestion] = field(default_factory=list)
    """Each question as it is to be judged, with what the cache has of it."""
    candidates: int = 0
    cached: int = 0
    elsewhere: int = 0
    """Of those to judge, what batches under way are having judged: it would be paid for twice."""
    elsewhere_jobs: tuple[str, ...] = ()
    estimate: JudgeEstimate | None = None
    """Over all questions; None: there is no question."""
    warnings: list[str] = field(default_factory=list)
    """What the user was warned of before anything was sent; the report repeats it."""

    @property
    def to_judge(self) -> int:
        """Candidates, over all questions, that the cache lacks."""
        return self.candidates - self.cached

    @property
    def hit_rate(self) -> float | None:
        """Replayed hit rate: the share of candidates that the cache had; None: there are none."""
        return self.cached / self.candidates if self.candidates else None


def plan_questions(parts: PipelineParts, questions: Iterable[PreparedQuestion]) -> ListPlan:
    """Go through the questions once and add up. Raises what preparing raises."""
    plan, others = ListPlan(), _jobs_under_way(parts)
    unknown: JudgeEstimate | None = None
    for prepared in questions:
        pool = prepared.pool
        cached = len(pool.candidates) - len(pool.misses)
        plan.rows.append(
            JobQuestion(
                number=prepared.number,
                name=prepared.question.id,
                turn=replace(prepared.turn, file_text="", diff="", changed=()),
                turn_key=prepared.key,
                candidates=len(pool.candidates),
                cached=cached,
            )
        )
        plan.candidates += len(pool.candidates)
        plan.cached += cached
        _count_elsewhere(plan, prepared, others)
        if pool.misses is pool.candidates:
            found = unknown = unknown or parts.judge.forecast(prepared.turn, pool)
        else:
            found = parts.judge.forecast(prepared.turn, pool)
        plan.estimate = found if plan.estimate is None else plan.estimate + found
    return plan


def _jobs_under_way(parts: PipelineParts) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return the jobs of the same judge, and the contents they are having judged by turn key."""
    connection, key = parts.store.connection, judge_key(parts.judge.identity)
    found = job_rows.read_batch_jobs(connection, under_way=True) if parts.judge.is_model else []
    return {job.id: contents_under_way(connection, [job.id]) for job in found if job.judge == key}


def _count_elsewhere(
    plan: ListPlan, prepared: PreparedQuestion, others: Mapping[str, Mapping[str, frozenset[str]]]
) -> None:
    misses = {miss.content_hash for miss in prepared.pool.misses} if others else set[str]()
    theirs = {job: misses & work.get(prepared.key, frozenset()) for job, work in others.items()}
    plan.elsewhere_jobs += tuple(job for job, met in theirs.items() if met and job not in plan.elsewhere_jobs)
    plan.elsewhere += len(set[str]().union(*theirs.values()))


def warn_of_plan(parts: PipelineParts, plan: ListPlan) -> None:
    """Say, before anything is paid for, that no cap holds, and what batches under way are having judged."""
    plan.warnings = budget_messages.uncapped_judge(parts) if plan.to_judge else []
    for message in plan.warnings:
        parts.observer.note(message)
    if plan.elsewhere:
        job, *_ = plan.elsewhere_jobs
        parts.observer.note(
            f"{plan.elsewhere:,} to judge are under way by batch in {', '.join(plan.elsewhere_jobs)}: live calls pay"
            f" for them again. `xscore batch wait {job}` or `xscore batch cancel {job}` first avoids that."
        )


def confirm_plan(parts: PipelineParts, plan: ListPlan) -> None:
    """Ask once, before a costly list. Raises UsageError when the user declines."""
    if not (plan.to_judge and plan.estimate and parts.judge.is_model and parts.observer.can_confirm):
        return
    if not parts.settings.judge.replay:
        caps = question_list.list_caps_left(parts)
        estimate = Estimate(judge=plan.estimate, primary=None, by_kind={}, by_folder={}, caps=caps)
        question_list.confirm_list_cost(parts, estimate)


def batch_cost(parts: PipelineParts, estimate: JudgeEstimate) -> Decimal | None:
    """Return the cost by the vendor's Batch API; None where the tables state no such price."""
    calls = parts.judge.calls
    if not estimate.calls or calls is None:
        return Decimal(0)
    average = Usage(
        input_tokens=-(-estimate.input_tokens // estimate.calls),
        output_tokens=-(-estimate.output_tokens // estimate.calls),
    )
    each = batch_price(calls.model.name, parts.judge.identity.host, average)
    return None if each is None else each * estimate.calls


def recipe_of(
    parts: PipelineParts,
    *,
    model: JudgeModel,
    packs: PackProfile,
    scope: Scope,
    only: frozenset[str] | None,
) -> JobRecipe:
    """Return the recipe of a job that this judge does. only: paths."""
    identity, judge = parts.judge.identity, parts.settings.judge
    return JobRecipe(
        provider=identity.provider,
        host=identity.host,
        model=model,
        packs=packs,
        reasons_from=judge.reasons_from if judge.reasons == "relevant" else 0.0,
        context=judge.context,
        tests=judge.tests,
        scope=scope,
        only=None if only is None else tuple(sorted(only)),
    )


def insert_live_job(
    parts: PipelineParts,
    plan: ListPlan,
    *,
    command: JobCommand,
    digest: str,
    scope: Scope,
    only: frozenset[str] | None = None,
) -> str:
    """Write the job of a list that is about to be judged live, and return its id. only: paths."""
    identity, calls, now = parts.judge.identity, parts.judge.calls, parts.clock()
    assert calls is not None
    job = BatchJob(
        id=job_rows.new_job_id(),
        created_at=now,
        command=command,
        digest=digest,
        judge_spec=f"{identity.provider}:{identity.model}",
        judge=judge_key(identity),
        recipe=recipe_of(parts, model=calls.model, packs=calls.packs, scope=scope, only=only),
        max_usd=parts.settings.budget.max_usd,
        candidates=plan.candidates,
        cached=plan.cached,
    )
    with transaction(parts.store.connection) as connection:
        job_rows.add_job(connection, job, plan.rows, (), ())
    end_live_job(parts, job.id)
    return job.id


def end_live_job(parts: PipelineParts, job_id: str) -> None:
    """Enter when a live job ended."""
    with transaction(parts.store.connection) as connection:
        connection.execute("UPDATE job SET ended_at = ? WHERE id = ?", (parts.clock(), job_id))


def spent_by_job(connection: sqlite3.Connection, job_id: str) -> StageUsage:
    """Add up the calls of a job, whichever process made them. Raises StoreDamaged."""
    calls, attempts, cost, estimated, *tokens = connection.execute(_SPENT, (job_id,)).fetchone()
    if not attempts:
        return StageUsage()
    with damage_if_invalid("the calls of a job"):
        return StageUsage(
            calls=parse_count(calls),
            attempts=parse_count(attempts),
            usage=usage_from_row(tokens),
            cost_usd=dollars_from_row(cost),
            estimated=bool(estimated),
        )


class ListProgress(Struct):
    """Reports the progress of a whole list now and then."""

    observer: Observer
    candidates: int
    cached: int
    started: float = field(default_factory=time.monotonic)
    reported: float = 0.0

    def report(self, judged: int, unjudged: int, spent: StageUsage) -> None:
        """Report the candidates judged and settled without a score so far, and what they cost."""
        now = time.monotonic()
        if now - self.reported < REPORT_EVERY_S:
            return
        self.reported = now
        elapsed, settled = now - self.started, judged + unjudged
        left = max(0, self.candidates - self.cached - settled)
        self.observer.progress(
            Progress(
                candidates=self.candidates,
                cached=self.cached,
                judged=judged,
                unjudged=unjudged,
                calls=spent.calls,
                cost_usd=spent.cost_usd,
                elapsed_s=elapsed,
                seconds_left=elapsed / settled * left if settled else None,
                leaders=(),
            )
        )
