"""A job for a vendor before it is submitted: its judge, its price by batch, and its row. Sends
nothing.

Trade-off: if another process commits a job meanwhile, this one has to be planned again, so that
nothing is paid twice.
"""

from decimal import Decimal
from functools import partial
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.batch_planner import BatchPlanner
from xscore.extensions.batch.job_rows import (
    BatchJob,
    JobRecipe,
)
from xscore.extensions.batch.list_plan import ListOptions, ListPlan, plan_list
from xscore.extensions.batch.records import BatchLimits
from xscore.pipeline.describe_model import describe_model_judge
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judge_prompts import estimating_builder
from xscore.pipeline.judged_memories import judged_texts, pack_slots
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import (
    QuestionList,
    confirm_list_cost,
    list_caps_left,
)
from xscore.platform import database
from xscore.platform.clock import DAY_S
from xscore.platform.errors import StoreError, UsageError
from xscore.providers.decision_hosts import DECISIONS_OF_OPENAI
from xscore.providers.prices import PriceList
from xscore.providers.spec import ModelSpec
from xscore.records.calls import Usage
from xscore.records.estimates import CapLeft, JudgeEstimate

ESCAPED = 1.05
"""Average bytes of a prompt's character inside JSON."""
SCHEMA_BYTES = 60
"""Bytes of the reply's schema for each memory."""
FRAME_BYTES = 900
"""Bytes of the rest of a request's line."""


def batch_judge(parts: PipelineParts) -> JudgeDescription:
    """Return the judge that a Batch API has: for a decision model of OpenAI's its chat judge.

    Raises UsageError for the lexical judge.
    """
    if parts.judge.paid:
        if parts.judge.spec.provider == DECISIONS_OF_OPENAI:
            spec = ModelSpec("openai", parts.judge.spec.model)
            return describe_model_judge(spec, parts.settings, store=parts.store)
        return parts.judge
    raise UsageError(
        "the lexical judge has no Batch API, and costs nothing",
        hint="Name a model: --judge provider:model; or `xscore batch run`.",
    )


def batch_cost(parts: PipelineParts, estimate: JudgeEstimate) -> Decimal | None:
    """Return the cost of as many average calls by the Batch API; None if nothing is known about
    it.

    Nothing is known where the calls are not chat prompts, which are all that a Batch API takes.
    """
    judge = parts.judge
    count = estimate.calls
    if not judge.paid or not count:
        return Decimal(0)
    if judge.spec.provider == DECISIONS_OF_OPENAI:
        return None
    average = Usage(
        input_tokens=-(-estimate.input_tokens // count),
        output_tokens=-(-estimate.output_tokens // count),
    )
    call_usd = PriceList(parts.settings.provider.price).batch(
        judge.asked_model, judge.host, average
    )
    if call_usd is None:
        return None
    return call_usd * count


def new_job(plan: ListPlan, parts: PipelineParts) -> BatchJob:
    """Return the job of a list, done by the judge of these parts."""
    judge = batch_judge(parts)
    identity = parts.judge.identity
    builder = estimating_builder(judge)
    settings = parts.settings.judge
    options = plan.options
    reasons_from = settings.reasons_from if settings.reasons == "relevant" else 0.0
    if options.only is None:
        only = None
    else:
        only = tuple(sorted(options.only))
    recipe = JobRecipe(
        provider=identity.provider,
        host=identity.host,
        model=builder.model,
        packs=builder.profile,
        reasons_from=reasons_from,
        sees=settings.sees,
        tests=settings.tests,
        purposes=settings.purposes,
        scope=options.scope,
        only=only,
    )
    return BatchJob(
        id=job_rows.new_job_id(),
        created_at=parts.clock(),
        command=options.command,
        digest=plan.questions.digest,
        judge_spec=str(judge.spec),
        judge=judge_key(identity),
        recipe=recipe,
        max_usd=parts.settings.budget.max_usd,
        candidates=plan.candidates,
        cached=plan.cached,
    )


class JobDraft(Struct, frozen=True, kw_only=True):
    """A job that might be submitted; tokens and dollars are approximate."""

    plan: ListPlan
    planner: BatchPlanner
    job: BatchJob
    batches: int
    cost_usd: Decimal | None
    """Maximum cost at the Batch price, or the live one if that is unknown; None: unpriced."""
    caps: tuple[CapLeft, ...]


def draft_job(
    parts: PipelineParts, questions: QuestionList, options: ListOptions, *, limits: BatchLimits
) -> JobDraft:
    """Plan a list for a vendor; send and write nothing but the index and the packs of memories.

    limits: those in force.
    Raises UsageError for the judge without a model, and what `plan_list` raises.
    """
    judge = batch_judge(parts)
    parts = replace(parts, judge=judge)
    builder = estimating_builder(judge)
    planner = BatchPlanner(
        builder, slots=partial(pack_slots, judge), texts=partial(judged_texts, judge)
    )
    plan = plan_list(parts, questions, options, batch=planner)
    batch_usd = batch_cost(parts, plan.estimate)
    ratio = builder.model.chars_per_token
    return JobDraft(
        plan=plan,
        planner=planner,
        job=new_job(plan, parts),
        batches=_count_batches(len(planner.requests), plan, ratio, limits),
        cost_usd=plan.estimate.cost_usd if batch_usd is None else batch_usd,
        caps=list_caps_left(parts),
    )


def confirm_job(parts: PipelineParts, draft: JobDraft) -> None:
    """Ask once, before a costly job. Raises UsageError when the user declines."""
    estimate = draft.plan.estimate
    judge = replace(estimate, cost_usd=draft.cost_usd, seconds=DAY_S, binding_limit="none")
    confirm_list_cost(parts, judge)


def save_job(parts: PipelineParts, draft: JobDraft) -> str:
    """Commit the job and return its id.

    Raises StoreError if another job was committed since it was planned.
    """
    with database.transaction(parts.store.connection) as connection:
        # Read again under the write lock: two submits at once would both send the same contents.
        under_way = job_rows.contents_under_way(connection, draft.job.judge)
        if under_way.keys() - draft.plan.under_way.keys():
            raise StoreError(
                "another job was submitted meanwhile",
                hint="Run it again; the requests of that job are left out.",
            )
        job_rows.add_job(
            connection,
            draft.job,
            draft.plan.rows,
            draft.planner.prompts,
            draft.planner.requests,
        )
    return draft.job.id


def _count_batches(
    requests: int, plan: ListPlan, chars_per_token: float, limits: BatchLimits
) -> int:
    size = (
        ESCAPED * chars_per_token * plan.estimate.input_tokens
        + SCHEMA_BYTES * plan.to_judge
        + FRAME_BYTES * requests
    )
    return ceil(max(requests / limits.requests, size / limits.bytes))
