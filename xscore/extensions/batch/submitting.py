"""Plan, price, confirm and commit a list of questions as a job. It sends nothing.

Once the job is committed, `machine` takes it further, now or by any later command. Memories of the user's own store are
left out: their judgments belong in that store, and results of a batch are entered in one transaction of one store, with
the money; live judging covers them. Trade-off: if another process commits a job meanwhile, this one has to be planned
again, so that no two pay for the same.
"""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial

from msgspec import Struct

from xscore.cache.judgments import insert_judgments
from xscore.cache.keys import judge_key
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_rows import BatchJob, JobCommand, contents_under_way
from xscore.extensions.batch.list_plan import average_cost, batch_judge_factory, new_job
from xscore.extensions.batch.planning import BatchPlan, BatchPlanner
from xscore.extensions.batch.records import BatchLimits
from xscore.pipeline.model_factory import ModelJudgeFactory
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import (
    QuestionList,
    fetch_list_memories,
    list_caps_left,
    prepare_questions,
    require_matching_files,
)
from xscore.platform import database
from xscore.platform.errors import StoreError
from xscore.platform.processes import gc_paused
from xscore.providers.prices import batch_price, call_price
from xscore.records.reports import CapLeft, Estimate, JudgeEstimate
from xscore.records.turn import Scope

VENDOR_DEADLINE_S = 86_400.0
"""What a vendor takes at most."""


class BatchEstimate(Struct, frozen=True, kw_only=True):
    """What a list takes by batch; tokens and dollars are about right."""

    judge: str
    host: str
    questions: int
    candidates: int
    cached: int
    hit_rate: float | None
    to_judge: int
    repeated: int
    """Candidates of questions that show the judge what an earlier one of the list does: judged there."""
    elsewhere: int
    elsewhere_jobs: tuple[str, ...]
    of_user: int
    """Memories of the user's own store, for each question, that are left out."""
    requests: int
    prompts: int
    batches: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    """At the Batch price, or at the live one where no such price is known; None: the model has none."""
    live_usd: Decimal | None
    caps: tuple[CapLeft, ...]


class JobDraft(Struct, frozen=True, kw_only=True):
    """A job that might be submitted, and what it takes."""

    plan: BatchPlan
    job: BatchJob
    before: frozenset[str]
    """Jobs of the same judge that were under way when it was planned."""
    takes: BatchEstimate

    @property
    def estimate(self) -> Estimate:
        """The same in the form in which the user confirms every estimate."""
        takes = self.takes
        judge = JudgeEstimate(
            candidates=takes.candidates,
            cached=takes.cached,
            to_judge=takes.to_judge,
            calls=takes.requests,
            input_tokens=takes.input_tokens,
            output_tokens=takes.output_tokens,
            cost_usd=takes.cost_usd,
            seconds=VENDOR_DEADLINE_S,
            binding_limit="none",
            host=takes.host,
        )
        return Estimate(judge=judge, primary=None, by_kind={}, by_folder={}, caps=takes.caps)


def draft_job(
    parts: PipelineParts,
    questions: QuestionList,
    *,
    scope: Scope,
    limits: BatchLimits,
    command: JobCommand = "submit",
    only: frozenset[str] | None = None,
) -> JobDraft:
    """Plan a list, with the index as it stands; send and write nothing but the packs of memories.

    limits: those in force. only: paths, as `memories` has it. Raises UsageError for the judge without a model, for a
    scope or a question that cannot be, NothingMatched for a scope that names nothing there is.
    """
    factory, connection = batch_judge_factory(parts), parts.store.connection
    everything = fetch_list_memories(parts, scope, only=only)
    if only is None:
        require_matching_files(everything)
    found, drafts = everything.of_repository(), factory.experienced()
    others = job_rows.jobs_under_way(connection, judge_key(factory.identity))
    planner = BatchPlanner(
        drafts,
        slots=factory.slots,
        texts=factory.texts,
        context=parts.settings.judge.context,
        under_way=contents_under_way(connection, others),
    )
    for prepared in prepare_questions(parts, enumerate(questions.all), found):
        with gc_paused():
            planner.add(prepared)
    plan = planner.plan
    takes = _estimate(parts, plan, factory, limits, others, of_user=len(everything.candidates) - len(found.candidates))
    job = new_job(
        parts,
        drafts,
        command=command,
        digest=questions.digest,
        scope=scope,
        only=only,
        candidates=plan.candidates,
        cached=plan.cached,
    )
    return JobDraft(plan=plan, job=job, before=frozenset(others), takes=takes)


def _estimate(
    parts: PipelineParts,
    plan: BatchPlan,
    factory: ModelJudgeFactory,
    limits: BatchLimits,
    others: Sequence[str],
    *,
    of_user: int,
) -> BatchEstimate:
    model = factory.drafts.model.name
    size = len(plan.requests), plan.input_tokens, plan.output_tokens
    batch_usd = average_cost(*size, partial(batch_price, model, factory.host))
    live_usd = average_cost(*size, partial(call_price, factory.identity.provider, model, factory.host))
    return BatchEstimate(
        judge=str(factory.spec),
        host=factory.identity.host,
        questions=len(plan.questions),
        candidates=plan.candidates,
        cached=plan.cached,
        hit_rate=plan.cached / plan.candidates if plan.candidates else None,
        to_judge=plan.to_judge,
        repeated=plan.repeated,
        elsewhere=plan.elsewhere,
        elsewhere_jobs=tuple(others) if plan.elsewhere else (),
        of_user=of_user,
        requests=len(plan.requests),
        prompts=len(plan.asks),
        batches=_batches(plan, limits),
        input_tokens=plan.input_tokens,
        output_tokens=plan.output_tokens,
        cost_usd=live_usd if batch_usd is None else batch_usd,
        live_usd=live_usd,
        caps=list_caps_left(parts),
    )


def save_job(parts: PipelineParts, draft: JobDraft) -> str:
    """Commit the job and return its id. Raises StoreError where another job was committed since it was planned."""
    with database.transaction(parts.store.connection) as connection:
        if set(job_rows.jobs_under_way(connection, draft.job.judge)) - draft.before:
            raise StoreError(
                "another job was submitted meanwhile", hint="Run it again: what that one asks is left out."
            )
        job_rows.add_job(connection, draft.job, draft.plan.questions, draft.plan.asks, draft.plan.requests)
    return draft.job.id


def save_settled(parts: PipelineParts, draft: JobDraft) -> None:
    """Keep the judgments that the plan found without a call: memories whose parts had all been judged."""
    with database.transaction(parts.store.connection) as connection:
        for question, judgment in draft.plan.settled:
            insert_judgments(connection, [judgment], (question.turn_key, draft.job.judge, 0))


def _batches(plan: BatchPlan, limits: BatchLimits) -> int:
    shares = [len(plan.requests) / limits.requests, plan.bytes / limits.bytes]
    if limits.enqueued_tokens:
        shares.append(plan.input_tokens / limits.enqueued_tokens)
    return -int(-max(shares) // 1)
