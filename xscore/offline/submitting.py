"""A list of questions taken to a committed job, ready for the machine: planned, priced, agreed to, written.

It sends nothing: once the job is committed, `machine.advance` takes it further, now or by any later command. Memories
of the user's own store are left out of batches: their judgments belong into that store, and what a batch brings is
entered in one transaction of one store, with the money; live judging has them. Trade-off: a job that another process
commits while this one is being agreed to makes this one begin anew, rather than have two pay for the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from xscore import database
from xscore.cache import judgments
from xscore.cache.keys import judge_key
from xscore.cost_reports.reply_size import tokens_a_memory
from xscore.errors import StoreError, UsageError
from xscore.offline import job_rows, ordering
from xscore.offline.agreeing import caps_left
from xscore.offline.job_rows import Command, Job, Recipe
from xscore.offline.plan import Plan, Planner
from xscore.offline.prepared import Memories, memories, prepare, refuse_no_files
from xscore.offline.under_way import under_way
from xscore.pipeline.bulk import made_in_bulk
from xscore.pipeline.model_seat import ModelSeat
from xscore.pipeline.parts import Parts
from xscore.providers.prices import batch_price, price
from xscore.records import CapLeft, Estimate, JudgeEstimate, Scope, Usage
from xscore.records.offline import BatchLimits, Question, Questions
from xscore.scorer.draft import Drafts

VENDORS_TIME_S = 86_400.0
"""What a vendor takes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takes:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A job that might be submitted, and what it takes."""

    plan: Plan
    digest: str
    judge_spec: str
    judge: str
    """Judge key."""
    recipe: Recipe
    of_user: int
    """Memories of the user's own store, for each question, that are left out."""
    before: frozenset[str]
    """Jobs that were under way when it was planned."""
    elsewhere: tuple[str, ...]
    """Of these, those that are having some of it judged."""
    cost_usd: Decimal | None
    """At the Batch price, or at the live one where no such price is known; None: the model has none."""
    live_usd: Decimal | None
    """What live calls would cost."""
    batches: int
    """About so many."""
    caps: tuple[CapLeft, ...]

    @property
    def takes(self) -> "Takes":
        """What it would take, in figures."""
        plan = self.plan
        return Takes(
            judge=self.judge_spec,
            host=self.recipe.host,
            questions=len(plan.questions),
            candidates=plan.candidates,
            cached=plan.cached,
            hit_rate=plan.hit_rate,
            to_judge=plan.to_judge,
            repeated=plan.repeated,
            elsewhere=plan.elsewhere,
            elsewhere_jobs=self.elsewhere,
            of_user=self.of_user,
            requests=len(plan.requests),
            prompts=len(plan.asks),
            batches=self.batches,
            input_tokens=plan.input_tokens,
            output_tokens=plan.output_tokens,
            cost_usd=self.cost_usd,
            live_usd=self.live_usd,
            caps=self.caps,
        )

    @property
    def estimate(self) -> Estimate:
        """The same as other estimates are told, for agreeing to it."""
        told = self.takes
        judge = JudgeEstimate(
            candidates=told.candidates,
            cached=told.cached,
            to_judge=told.to_judge,
            calls=told.requests,
            input_tokens=told.input_tokens,
            output_tokens=told.output_tokens,
            cost_usd=told.cost_usd,
            seconds=VENDORS_TIME_S,
            binding_limit="none",
            host=told.host,
        )
        return Estimate(judge=judge, primary=None, by_kind={}, by_folder={}, caps=told.caps)


def draw_up(
    parts: Parts, questions: Questions, *, scope: Scope, limits: BatchLimits, only: frozenset[str] | None = None
) -> Drawn:
    """Plan a list, with the index as it stands; send and write nothing but the packs of memories.

    limits: those in force. only: paths, as `memories` has it. Raises UsageError for the judge without a model, for a
    scope or a question that cannot be, NothingMatched for a scope that names nothing there is.
    """
    seat, asked = batch_seat(parts), questions.all
    everything = memories(parts, scope, only=only)
    if only is None:
        refuse_no_files(everything)
    found = everything.of_repository()
    drafts, key = experienced(parts, seat), judge_key(seat.identity)
    others = [job.id for job in job_rows.jobs(parts.store.connection, under_way=True) if job.judge == key]
    plan = _plan(parts, replace(seat, drafts=drafts), asked, found, others)
    caps = caps_left(parts)
    if ordering.passes(seat, drafts, plan, caps):
        plan = ordering.best_first(plan, ordering.promise_of(parts, asked, found))
    batch_usd, live_usd = _cost(seat, plan, by_batch=True), _cost(seat, plan, by_batch=False)
    return Drawn(
        plan=plan,
        digest=questions.digest,
        judge_spec=str(seat.spec),
        judge=key,
        recipe=_recipe(parts, seat, drafts, everything.scope, only),
        of_user=len(everything.candidates) - len(found.candidates),
        before=frozenset(others),
        elsewhere=tuple(others) if plan.elsewhere else (),
        cost_usd=live_usd if batch_usd is None else batch_usd,
        live_usd=live_usd,
        batches=_batches(plan, limits),
        caps=caps,
    )


def _plan(parts: Parts, seat: ModelSeat, questions: Sequence[Question], found: Memories, others: Sequence[str]) -> Plan:
    """Plan question after question. others: jobs under way, whose work is left to them."""
    planner = Planner(
        seat.drafts,
        slots=seat.slots,
        texts=seat.texts,
        context=parts.settings.judge.context,
        under_way=under_way(parts.store.connection, others),
    )
    for prepared in prepare(parts, enumerate(questions), found):
        with made_in_bulk():
            planner.add(prepared)
    return planner.plan


def _recipe(parts: Parts, seat: ModelSeat, drafts: Drafts, scope: Scope, only: frozenset[str] | None) -> Recipe:
    identity, judge = seat.identity, parts.settings.judge
    return Recipe(
        provider=identity.provider,
        host=identity.host,
        model=drafts.model,
        packs=drafts.profile,
        reasons_from=drafts.reasons_from,
        context=judge.context,
        tests=judge.tests,
        scope=scope,
        only=None if only is None else tuple(sorted(only)),
    )


def keep(parts: Parts, drawn: Drawn, *, command: Command = "submit") -> str:
    """Commit the job and return its id. Raises StoreError where another job was committed since it was planned."""
    plan, store, now = drawn.plan, parts.store, parts.clock()
    job = Job(
        id=job_rows.new_id(),
        created_at=now,
        command=command,
        digest=drawn.digest,
        judge_spec=drawn.judge_spec,
        judge=drawn.judge,
        recipe=drawn.recipe,
        max_usd=parts.settings.budget.max_usd,
        candidates=plan.candidates,
        cached=plan.cached,
    )
    with database.transaction(store.connection):
        others = {one.id for one in job_rows.jobs(store.connection, under_way=True) if one.judge == drawn.judge}
        if others - drawn.before:
            raise StoreError(
                "another job was submitted meanwhile", hint="Run it again: what that one asks is left out."
            )
        job_rows.add_job(store.connection, job, plan.questions, plan.asks, plan.requests)
    return job.id


def keep_settled(parts: Parts, drawn: Drawn) -> None:
    """Keep the judgments that the plan found without a call: memories whose parts had all been judged."""
    with database.transaction(parts.store.connection):
        for question, judgment in drawn.plan.settled:
            identity = drawn.recipe.identity()
            judgments.insert(parts.store.connection, [judgment], turn_key=question.turn_key, judge=identity, sample=0)


def batch_seat(parts: Parts) -> ModelSeat:
    """Return the seat of the model that judges. Raises UsageError for the judge without a model."""
    if isinstance(parts.judge, ModelSeat):
        return parts.judge
    raise UsageError(
        "the lexical judge has no Batch API, and costs nothing",
        hint="Name a model: --judge provider:model; or `xscore batch run --live`.",
    )


def experienced(parts: Parts, seat: ModelSeat) -> Drafts:
    """Return the drafts with what the latest replies have shown of their length."""
    model = seat.drafts.model
    shown = tokens_a_memory(parts.store.connection, host=seat.host, model=model.name)
    return replace(seat.drafts, model=replace(model, reply_tokens=shown))


def _cost(seat: ModelSeat, plan: Plan, *, by_batch: bool) -> Decimal | None:
    """Price the average call and multiply, as a live estimate does."""
    calls, model = len(plan.requests), seat.drafts.model.name
    if not calls:
        return Decimal(0)
    average = Usage(input_tokens=-(-plan.input_tokens // calls), output_tokens=-(-plan.output_tokens // calls))
    if by_batch:
        each = batch_price(model, seat.host, average)
    else:
        each = price(seat.identity.provider, model, seat.host, average)
    return None if each is None else each * calls


def _batches(plan: Plan, limits: BatchLimits) -> int:
    shares = [len(plan.requests) / limits.requests, plan.bytes / limits.bytes]
    if limits.enqueued_tokens:
        shares.append(plan.input_tokens / limits.enqueued_tokens)
    return -int(-max(shares) // 1)
