"""Plan, price, confirm and commit a list of questions as a job. It sends nothing.

After that `machine` advances the job. The user's own memories are left out: their judgments belong in the user's store,
and the results of a batch and their dollars are entered in one transaction of one store. Live calls judge them.
Trade-off: if another process commits a job meanwhile, this one has to be planned again, so that nothing is paid twice.
"""

from decimal import Decimal
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_rows import BatchJob, JobCommand
from xscore.extensions.batch.list_plan import (
    BatchPlanner,
    ListPlan,
    batch_cost,
    batch_judge_factory,
    new_job,
    plan_list,
)
from xscore.extensions.batch.records import BatchLimits
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import refuse_empty_scope
from xscore.pipeline.question_list import (
    QuestionList,
    fetch_list_memories,
    list_caps_left,
    prepare_questions,
)
from xscore.platform import database
from xscore.platform.errors import StoreError
from xscore.records.reports import CapLeft, Estimate
from xscore.records.turn import Scope

VENDOR_DEADLINE_S = 86_400.0
"""What a vendor takes at most."""
ESCAPED = 1.05
"""Bytes that a character of a prompt takes inside JSON, on average."""
SCHEMA_BYTES = 60
"""What the schema of the reply says of each memory,"""
FRAME_BYTES = 900
"""and what else stands in the line of a request."""


class JobDraft(Struct, frozen=True, kw_only=True):
    """A job that might be submitted, and what it takes; tokens and dollars are about right."""

    plan: ListPlan
    asked: BatchPlanner
    job: BatchJob
    before: frozenset[str]
    """Jobs of the same judge that were under way when it was planned."""
    of_user: int
    """Memories of the user's own store, for each question, that are left out."""
    batches: int
    cost_usd: Decimal | None
    """At the Batch price, or at the live one where no such price is known; None: the model has none."""
    live_usd: Decimal | None
    caps: tuple[CapLeft, ...]

    @property
    def estimate(self) -> Estimate:
        """What it takes, in the form in which the user confirms every estimate."""
        assert self.plan.estimate is not None, "a list without a question is not confirmed"
        judge = replace(self.plan.estimate, cost_usd=self.cost_usd, seconds=VENDOR_DEADLINE_S, binding_limit="none")
        return Estimate(judge=judge, primary=None, by_kind={}, by_folder={}, caps=self.caps)


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
    parts = replace(parts, judge=factory)
    everything = fetch_list_memories(parts, scope, only=only)
    if only is None:
        refuse_empty_scope(everything.everything, everything.candidates, everything.scope)
    found, drafts = everything.of_repository(), factory.experienced()
    others = job_rows.contents_under_way(connection, judge_key(factory.identity))
    asked = BatchPlanner(drafts, slots=factory.slots, texts=factory.texts)
    plan = plan_list(
        prepare_questions(parts, enumerate(questions.all), found),
        parts.judge.forecast,
        others,
        batch=asked,
        context=parts.settings.judge.context,
    )
    job = new_job(parts, drafts, command=command, digest=questions.digest, scope=scope, only=only, plan=plan)
    estimate = plan.estimate
    live_usd = estimate.cost_usd if estimate else Decimal(0)
    batch_usd = batch_cost(parts, estimate) if estimate else Decimal(0)
    return JobDraft(
        plan=plan,
        asked=asked,
        job=job,
        before=frozenset(others),
        of_user=len(everything.candidates) - len(found.candidates),
        batches=_count_batches(len(asked.requests), plan, drafts.model.chars_per_token, limits),
        cost_usd=live_usd if batch_usd is None else batch_usd,
        live_usd=live_usd,
        caps=list_caps_left(parts),
    )


def save_job(parts: PipelineParts, draft: JobDraft) -> str:
    """Commit the job and return its id. Raises StoreError where another job was committed since it was planned."""
    with database.transaction(parts.store.connection) as connection:
        if job_rows.contents_under_way(connection, draft.job.judge).keys() - draft.before:
            raise StoreError(
                "another job was submitted meanwhile", hint="Run it again: what that one asks is left out."
            )
        job_rows.add_job(connection, draft.job, draft.plan.rows, draft.asked.asks, draft.asked.requests)
    return draft.job.id


def _count_batches(requests: int, plan: ListPlan, chars_per_token: float, limits: BatchLimits) -> int:
    """Return about how many batches a list takes."""
    size = ESCAPED * chars_per_token * plan.input_tokens + SCHEMA_BYTES * plan.to_judge + FRAME_BYTES * requests
    return ceil(max(requests / limits.requests, size / limits.bytes))
