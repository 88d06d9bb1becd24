"""What a list would take by live calls: candidates, what the cache has, calls, tokens, dollars. Sends nothing.

It goes by sizes (`forecast`), no prompt is drafted. Questions of which nothing is known yet need the same packs, so
their forecast is made once. Trade-off: of such questions the first one's length stands for all.

What the store keeps of a list that is judged live: its row with what the cache had, and what its calls came to.

Judgments are the cache's, calls the ledger's, both under the job's id. The row is ended as soon as it is written, since
nobody has anything to fetch for it: the same list again is another job. It decides nothing.

Where a whole list stands, told as a turn tells it: counts over all its questions, calls, dollars and time.
"""

import sqlite3
import time
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_rows import BatchJob, JobCommand, JobQuestion, JobRecipe, contents_under_way
from xscore.pipeline import budget_messages, question_list
from xscore.pipeline.parts import JudgeCalls, PipelineParts
from xscore.pipeline.question_list import PreparedQuestion
from xscore.platform.database import damage_if_invalid, transaction
from xscore.providers.prices import batch_price
from xscore.records import Estimate, JudgeEstimate, Observer, Progress, Scope, StageUsage, Usage
from xscore.store.turn_history import TOKEN_COLUMNS, VALID_CALL_SQL, dollars_from_row, parse_count, usage_from_row


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
    """Summed up; None: there is no question."""
    warnings: list[str] = field(default_factory=list)
    """What was said of it before anything was sent, and belongs into the account as well."""

    @property
    def to_judge(self) -> int:
        """Candidates, over all questions, that somebody is to be paid for."""
        return self.candidates - self.cached

    @property
    def hit_rate(self) -> float | None:
        """Replayed hit rate: the share of candidates that the cache had; None: there are none."""
        return self.cached / self.candidates if self.candidates else None


def plan_questions(parts: PipelineParts, questions: Iterable[PreparedQuestion]) -> ListPlan:
    """Go through the questions once and add up. Raises what preparing raises."""
    plan, others = ListPlan(), _OtherJobs.of(parts)
    unknown: JudgeEstimate | None = None
    whole: JudgeEstimate | None = None
    for prepared in questions:
        pool = prepared.pool
        hits = len(pool.candidates) - len(pool.misses)
        turn = replace(prepared.turn, file_text="", diff="", changed=())
        plan.rows.append(
            JobQuestion(
                number=prepared.number,
                name=prepared.question.id,
                turn=turn,
                turn_key=prepared.key,
                candidates=len(pool.candidates),
                cached=hits,
            )
        )
        plan.candidates += len(pool.candidates)
        plan.cached += hits
        others.meet(plan, prepared)
        if pool.misses is pool.candidates:
            found = unknown = unknown or parts.judge.forecast(prepared.turn, pool)
        else:
            found = parts.judge.forecast(prepared.turn, pool)
        whole = found if whole is None else _sum_estimates(whole, found)
    plan.estimate = whole
    return plan


class _OtherJobs(Struct, frozen=True):
    """Jobs under way of the same judge, and the contents they are having judged by turn key."""

    work: Mapping[str, Mapping[str, frozenset[str]]]

    @classmethod
    def of(cls, parts: PipelineParts) -> "_OtherJobs":
        connection, key = parts.store.connection, judge_key(parts.judge.identity)
        found = job_rows.read_batch_jobs(connection, under_way=True) if parts.judge.is_model else []
        return cls({job.id: contents_under_way(connection, [job.id]) for job in found if job.judge == key})

    def meet(self, plan: ListPlan, prepared: PreparedQuestion) -> None:
        """Count what of a question is under way."""
        met: set[str] = set()
        for job, work in self.work.items():
            contents = work.get(prepared.key, frozenset())
            theirs = {miss.content_hash for miss in prepared.pool.misses if miss.content_hash in contents}
            if theirs and job not in plan.elsewhere_jobs:
                plan.elsewhere_jobs += (job,)
            met |= theirs
        plan.elsewhere += len(met)


def warn_of_plan(parts: PipelineParts, plan: ListPlan) -> None:
    """Say, before anything is paid for, that no cap holds, and what batches under way are having judged."""
    plan.warnings = budget_messages.uncapped_judge(parts) if plan.to_judge else []
    for message in plan.warnings:
        parts.observer.note(message)
    if not plan.elsewhere:
        return
    job, *_ = plan.elsewhere_jobs
    parts.observer.note(
        f"{plan.elsewhere:,} to judge are under way by batch in {', '.join(plan.elsewhere_jobs)}: live calls pay for"
        f" them again. `xscore batch wait {job}` or `xscore batch cancel {job}` first spares that."
    )


def confirm_plan(parts: PipelineParts, plan: ListPlan) -> None:
    """Ask once, before a costly list. Raises UsageError when the user declines."""
    if not (plan.to_judge and plan.estimate and parts.judge.is_model and parts.observer.can_confirm):
        return
    if parts.settings.judge.replay:
        return
    caps = question_list.list_caps_left(parts)
    question_list.confirm_list_cost(
        parts, Estimate(judge=plan.estimate, primary=None, by_kind={}, by_folder={}, caps=caps)
    )


def batch_cost(parts: PipelineParts, estimate: JudgeEstimate) -> Decimal | None:
    """Return the dollars by the vendor's Batch API; None where the tables state no such price."""
    calls = parts.judge.calls
    if not estimate.calls or calls is None:
        return Decimal(0)
    average = Usage(
        input_tokens=-(-estimate.input_tokens // estimate.calls),
        output_tokens=-(-estimate.output_tokens // estimate.calls),
    )
    each = batch_price(calls.model.name, parts.judge.identity.host, average)
    return None if each is None else each * estimate.calls


def _sum_estimates(one: JudgeEstimate, other: JudgeEstimate) -> JudgeEstimate:
    longest = max(one, other, key=lambda each: each.seconds)
    unpriced = one.cost_usd is None or other.cost_usd is None
    return replace(
        longest,
        candidates=one.candidates + other.candidates,
        cached=one.cached + other.cached,
        to_judge=one.to_judge + other.to_judge,
        calls=one.calls + other.calls,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cost_usd=None if unpriced else (one.cost_usd or Decimal(0)) + (other.cost_usd or Decimal(0)),
        seconds=one.seconds + other.seconds,
    )


_SPENT = f"""
    SELECT sum(outcome = 'ok'), count(*), iif(count(cost) = count(*), sum(cost), NULL), max(estimated),
        {", ".join(f"sum({name})" for name in TOKEN_COLUMNS)}
    FROM call WHERE turn_id = ? AND {VALID_CALL_SQL}
"""


class LiveJobId(NamedTuple):
    """A job that was entered."""

    id: str
    judge: str
    """`provider:model`"""


def insert_live_job(
    parts: PipelineParts,
    calls: JudgeCalls,
    plan: ListPlan,
    *,
    command: JobCommand,
    digest: str,
    scope: Scope,
    only: frozenset[str] | None = None,
) -> LiveJobId:
    """Write the job of a list that is about to be judged live, and deal its id. scope, only: as `memories` has them."""
    identity, settings, now = parts.judge.identity, parts.settings, parts.clock()
    recipe = JobRecipe(
        provider=identity.provider,
        host=identity.host,
        model=calls.model,
        packs=calls.packs,
        reasons_from=settings.judge.reasons_from if settings.judge.reasons == "relevant" else 0.0,
        context=settings.judge.context,
        tests=settings.judge.tests,
        scope=scope,
        only=None if only is None else tuple(sorted(only)),
    )
    job = BatchJob(
        id=job_rows.new_job_id(),
        created_at=now,
        command=command,
        digest=digest,
        judge_spec=f"{identity.provider}:{identity.model}",
        judge=judge_key(identity),
        recipe=recipe,
        max_usd=settings.budget.max_usd,
        candidates=plan.candidates,
        cached=plan.cached,
    )
    with transaction(parts.store.connection) as connection:
        job_rows.add_job(connection, job, plan.rows, (), ())
        _end(connection, job.id, now)
    return LiveJobId(job.id, job.judge_spec)


def end_live_job(parts: PipelineParts, job_id: str) -> None:
    """Write down when it ended."""
    with transaction(parts.store.connection) as connection:
        _end(connection, job_id, parts.clock())


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


def _end(connection: sqlite3.Connection, job_id: str, at: float) -> None:
    connection.execute("UPDATE job SET ended_at = ? WHERE id = ?", (at, job_id))


PROGRESS_INTERVAL_S = 0.1


class ListProgress(Struct):
    """Tells the observer now and then."""

    observer: Observer
    plan: ListPlan
    started: float = field(default_factory=time.monotonic)
    told_at: float = 0.0

    def tell(self, judged: int, unjudged: int, spent: StageUsage) -> None:
        """Say that so many were judged, and settled without a score, for so much.

        Processes that take over from one another settle the same candidate twice; no more is told than there is.
        """
        judged = min(judged, self.plan.to_judge)
        unjudged = min(unjudged, self.plan.to_judge - judged)
        now = time.monotonic()
        if now - self.told_at < PROGRESS_INTERVAL_S:
            return
        self.told_at = now
        elapsed, settled = now - self.started, judged + unjudged
        left = max(0, self.plan.to_judge - settled)
        self.observer.progress(
            Progress(
                candidates=self.plan.candidates,
                cached=self.plan.cached,
                judged=judged,
                unjudged=unjudged,
                calls=spent.calls,
                cost_usd=spent.cost_usd,
                elapsed_s=elapsed,
                seconds_left=elapsed / settled * left if settled else None,
                leaders=(),
            )
        )
