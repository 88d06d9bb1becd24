"""A list of questions taken to a committed job: planned, priced, confirmed, written. It sends nothing.

Once the job is committed, `machine` takes it further, now or by any later command. Memories of the user's own store are
left out: their judgments belong in that store, and results of a batch are entered in one transaction of one store, with
the money; live judging covers them. Trade-off: if another process commits a job meanwhile, this one has to be planned
again, so that no two pay for the same.
"""

from collections.abc import Sequence
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache import judgments
from xscore.cache.keys import judge_key
from xscore.extensions.batch import job_rows, planning
from xscore.extensions.batch.job_rows import BatchJob, JobCommand, JobRecipe, contents_under_way
from xscore.extensions.batch.list_plan import recipe_of
from xscore.extensions.batch.planning import BatchPlan, BatchPlanner
from xscore.pipeline.model_factory import ModelJudgeFactory
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import (
    ListMemories,
    fetch_list_memories,
    list_caps_left,
    prepare_questions,
    require_matching_files,
)
from xscore.platform import database
from xscore.platform.errors import StoreError, UsageError
from xscore.platform.processes import gc_paused
from xscore.providers.prices import batch_price, call_price
from xscore.records import CapLeft, Estimate, JudgeEstimate, Scope, Usage
from xscore.records.batch import BatchLimits, Question, QuestionList

VENDOR_DEADLINE_S = 86_400.0
"""What a vendor takes at most."""


class BatchEstimate(Struct, frozen=True, kw_only=True):
    """What a list takes by batch; tokens and dollars are about right."""

    judge: str
    """`provider:model`"""
    host: str
    questions: int
    candidates: int
    """Over all questions."""
    cached: int
    """Of these, what the cache has."""
    hit_rate: float | None
    """Replayed hit rate: the share of candidates that the cache has; None: there are none."""
    to_judge: int
    repeated: int
    """Candidates of questions that show the judge what an earlier one of the list does: judged there."""
    elsewhere: int
    """Candidates that jobs under way are having judged."""
    elsewhere_jobs: tuple[str, ...]
    of_user: int
    """Memories of the user's own store, for each question, that are left out."""
    requests: int
    prompts: int
    """Different ones, but for their question."""
    batches: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    """At the Batch price, or at the live one where no such price is known; None: the model has none."""
    live_usd: Decimal | None
    """What live calls would cost."""
    caps: tuple[CapLeft, ...]
    """What is left of each cap that is set; `run` is that of the job."""


class JobDraft(Struct, frozen=True, kw_only=True):
    """A job that might be submitted, and what it takes."""

    plan: BatchPlan
    digest: str
    judge: str
    """Judge key."""
    recipe: JobRecipe
    before: frozenset[str]
    """Jobs that were under way when it was planned."""
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
    only: frozenset[str] | None = None,
) -> JobDraft:
    """Plan a list, with the index as it stands; send and write nothing but the packs of memories.

    limits: those in force. only: paths, as `memories` has it. Raises UsageError for the judge without a model, for a
    scope or a question that cannot be, NothingMatched for a scope that names nothing there is.
    """
    seat, asked = batch_judge_factory(parts), questions.all
    everything = fetch_list_memories(parts, scope, only=only)
    if only is None:
        require_matching_files(everything)
    found = everything.of_repository()
    drafts, key = seat.experienced(), judge_key(seat.identity)
    others = [job.id for job in job_rows.read_batch_jobs(parts.store.connection, under_way=True) if job.judge == key]
    plan = _plan(parts, replace(seat, drafts=drafts), asked, found, others)
    caps = list_caps_left(parts)
    if planning.exceeds_a_cap(seat, drafts, plan, caps):
        plan = planning.order_by_priority(plan, planning.priority_of_memories(parts, asked, found))
    batch_usd, live_usd = _cost(seat, plan, by_batch=True), _cost(seat, plan, by_batch=False)
    takes = BatchEstimate(
        judge=str(seat.spec),
        host=seat.identity.host,
        questions=len(plan.questions),
        candidates=plan.candidates,
        cached=plan.cached,
        hit_rate=plan.hit_rate,
        to_judge=plan.to_judge,
        repeated=plan.repeated,
        elsewhere=plan.elsewhere,
        elsewhere_jobs=tuple(others) if plan.elsewhere else (),
        of_user=len(everything.candidates) - len(found.candidates),
        requests=len(plan.requests),
        prompts=len(plan.asks),
        batches=_batches(plan, limits),
        input_tokens=plan.input_tokens,
        output_tokens=plan.output_tokens,
        cost_usd=live_usd if batch_usd is None else batch_usd,
        live_usd=live_usd,
        caps=caps,
    )
    recipe = recipe_of(parts, model=drafts.model, packs=drafts.profile, scope=everything.scope, only=only)
    before = frozenset(others)
    return JobDraft(plan=plan, digest=questions.digest, judge=key, recipe=recipe, before=before, takes=takes)


def _plan(
    parts: PipelineParts,
    seat: ModelJudgeFactory,
    questions: Sequence[Question],
    found: ListMemories,
    others: Sequence[str],
) -> BatchPlan:
    """Plan question after question. others: jobs under way, whose work is left to them."""
    planner = BatchPlanner(
        seat.drafts,
        slots=seat.slots,
        texts=seat.texts,
        context=parts.settings.judge.context,
        under_way=contents_under_way(parts.store.connection, others),
    )
    for prepared in prepare_questions(parts, enumerate(questions), found):
        with gc_paused():
            planner.add(prepared)
    return planner.plan


def save_job(parts: PipelineParts, drawn: JobDraft, *, command: JobCommand = "submit") -> str:
    """Commit the job and return its id. Raises StoreError where another job was committed since it was planned."""
    plan, store, now = drawn.plan, parts.store, parts.clock()
    job = BatchJob(
        id=job_rows.new_job_id(),
        created_at=now,
        command=command,
        digest=drawn.digest,
        judge_spec=drawn.takes.judge,
        judge=drawn.judge,
        recipe=drawn.recipe,
        max_usd=parts.settings.budget.max_usd,
        candidates=plan.candidates,
        cached=plan.cached,
    )
    with database.transaction(store.connection):
        others = {
            one.id for one in job_rows.read_batch_jobs(store.connection, under_way=True) if one.judge == drawn.judge
        }
        if others - drawn.before:
            raise StoreError(
                "another job was submitted meanwhile", hint="Run it again: what that one asks is left out."
            )
        job_rows.add_job(store.connection, job, plan.questions, plan.asks, plan.requests)
    return job.id


def save_settled(parts: PipelineParts, drawn: JobDraft) -> None:
    """Keep the judgments that the plan found without a call: memories whose parts had all been judged."""
    with database.transaction(parts.store.connection):
        for question, judgment in drawn.plan.settled:
            identity = drawn.recipe.identity()
            judgments.insert_judgments(
                parts.store.connection, [judgment], turn_key=question.turn_key, judge=identity, sample=0
            )


def batch_judge_factory(parts: PipelineParts) -> ModelJudgeFactory:
    """Return the seat of the model that judges. Raises UsageError for the judge without a model."""
    if isinstance(parts.judge, ModelJudgeFactory):
        return parts.judge
    raise UsageError(
        "the lexical judge has no Batch API, and costs nothing",
        hint="Name a model: --judge provider:model; or `xscore batch run --live`.",
    )


def _cost(seat: ModelJudgeFactory, plan: BatchPlan, *, by_batch: bool) -> Decimal | None:
    """Price the average call and multiply, as a live estimate does."""
    calls, model = len(plan.requests), seat.drafts.model.name
    if not calls:
        return Decimal(0)
    average = Usage(input_tokens=-(-plan.input_tokens // calls), output_tokens=-(-plan.output_tokens // calls))
    if by_batch:
        each = batch_price(model, seat.host, average)
    else:
        each = call_price(seat.identity.provider, model, seat.host, average)
    return None if each is None else each * calls


def _batches(plan: BatchPlan, limits: BatchLimits) -> int:
    shares = [len(plan.requests) / limits.requests, plan.bytes / limits.bytes]
    if limits.enqueued_tokens:
        shares.append(plan.input_tokens / limits.enqueued_tokens)
    return -int(-max(shares) // 1)
