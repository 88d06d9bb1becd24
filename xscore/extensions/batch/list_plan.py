"""Plan a list, live or by batch: its estimate, a batch's requests, and its job. Sends nothing.

It adds up sizes and renders no prompt. Questions without any judgment yet need the same packs, so
their forecast is made once, with the length of the first. In a batch, equal questions are judged
once, candidates that another job is having judged are left to that job, and prompts are those of
live calls. The user's own memories are left out: their judgments belong in the user's store, and
the results of a batch and their dollars are entered in one transaction of one store. Trade-off: if
another process commits a job meanwhile, this one has to be planned again, so that nothing is paid
twice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from math import ceil
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_rows import (
    BatchJob,
    JobCommand,
    JobQuestion,
    JobRecipe,
    RequestName,
    UnderWay,
)
from xscore.extensions.batch.records import BatchLimits
from xscore.pipeline.describe_model import describe_model_judge
from xscore.pipeline.estimating import forecast_judging
from xscore.pipeline.factories import with_wire
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judge_prompts import estimating_builder
from xscore.pipeline.judged_memories import judged_texts, pack_slots
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import Pool, refuse_empty_scope
from xscore.pipeline.question_list import (
    ListMemories,
    PreparedQuestion,
    QuestionList,
    confirm_list_cost,
    fetch_list_memories,
    list_caps_left,
    prepare_questions,
)
from xscore.pipeline.room_under_caps import uncapped_judge
from xscore.platform import database
from xscore.platform.clock import DAY_S
from xscore.platform.errors import StoreError, UsageError
from xscore.prompts.turn_text import turn_block
from xscore.providers.decision_hosts import CHAT_OF_OPENAI, DECISIONS_OF_OPENAI
from xscore.providers.prices import PriceList
from xscore.providers.spec import ModelSpec
from xscore.records.calls import Usage
from xscore.records.candidates import Candidate
from xscore.records.estimates import CapLeft, JudgeEstimate
from xscore.records.turn import Scope, Turn
from xscore.scorer.judge import Texts
from xscore.scorer.packs import Pack, packs_to_send
from xscore.scorer.prompt_builder import PromptBuilder
from xscore.scorer.repair import MemoryPiece, PackPrompt
from xscore.settings.values import NO_FINAL_ROUND

Slots = Callable[[Pool], Mapping[str, tuple[str, int]]]


class ListOptions(Struct, frozen=True, kw_only=True):
    """Options of a list."""

    scope: Scope = Scope()
    command: JobCommand = "run"
    """`rescore` only counts each question's judgments; the others rank it too."""
    only: frozenset[str] | None = None
    """Paths; memories of other files are left out."""
    out: Path | None = None
    actors: int = 0
    """Actors of Ray that judge; 0: this process judges."""
    started: float | None = None
    """`time.monotonic()` from which the deadline counts; None: from now."""


class BatchPlanner:
    """Plans one question at a time."""

    def __init__(self, builder: PromptBuilder, *, slots: Slots, texts: Texts) -> None:
        """Take the slots and texts of the judge."""
        self.prompts: list[PackPrompt] = []
        self.requests: list[RequestName] = []
        self._builder = builder
        self._slots = slots
        self._texts = texts
        self._numbers: dict[tuple[str, ...], int] = {}
        """Asks by name and contents."""
        self._parts: dict[str, tuple[MemoryPiece, ...]] = {}
        """Parts of oversized memories by content hash, without texts."""
        self._latest: tuple[Sequence[Candidate], Sequence[int]] = ((), ())
        """The latest misses and their prompts: questions without any judgment share them."""

    def add(self, number: int, pool: Pool) -> None:
        """Plan requests for the misses of a question. Raises StoreDamaged."""
        if self._latest[0] is not pool.misses:
            self._latest = pool.misses, list(self._prompt_numbers(pool))
        self.requests.extend((number, prompt) for prompt in self._latest[1])

    def _prompt_numbers(self, pool: Pool) -> Iterator[int]:
        for pack in packs_to_send(pool.misses, self._slots(pool), self._builder.profile):
            to_ask: list[MemoryPiece] = []
            for member in pack.members:
                pieces = self._pieces(member)
                unknown = [piece for piece in pieces if piece.content_hash not in pool.known]
                # A memory whose parts are all known has itself no judgment: its parts are asked
                # for again.
                to_ask += unknown or pieces
            for prompt in self._builder.prompts_of(pack, to_ask):
                name = (prompt.pack, *(piece.content_hash for piece in prompt.pieces))
                if name not in self._numbers:
                    self._numbers[name] = len(self.prompts)
                    self.prompts.append(prompt)
                yield self._numbers[name]

    def _pieces(self, member: Candidate) -> tuple[MemoryPiece, ...]:
        """Return the memory, or its parts to judge, without texts; empty if it is no longer
        stored."""
        if member.tokens <= self._builder.profile.tokens:
            return (job_rows.piece_without_text(member.content_hash),)
        if member.content_hash not in self._parts:
            pieces = self._builder.pieces_of(Pack("", (member,)), self._texts([member]))
            self._parts[member.content_hash] = tuple(
                job_rows.piece_without_text(piece.content_hash, piece.memory, piece.parts)
                for piece in pieces
            )
        return self._parts[member.content_hash]


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
    """Memories of the user's own store, for each question, that a batch leaves out."""
    under_way: UnderWay = field(default_factory=dict)
    """What running jobs of the same judge were judging when it was planned."""
    rows: list[JobQuestion] = field(default_factory=list)
    candidates: int = 0
    cached: int = 0
    to_judge: int = 0
    """Candidates over all questions that the cache lacks and this list judges."""
    repeated: int = 0
    """By batch: candidates of questions equal to an earlier one of the list, judged there."""
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

    def new_job(self, parts: PipelineParts) -> BatchJob:
        """Return the job of this list, done by the judge of these parts."""
        judge = batch_judge(parts)
        identity = parts.judge.identity
        builder = estimating_builder(judge)
        settings = parts.settings.judge
        options = self.options
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
            digest=self.questions.digest,
            judge_spec=str(judge.spec),
            judge=judge_key(identity),
            recipe=recipe,
            max_usd=parts.settings.budget.max_usd,
            candidates=self.candidates,
            cached=self.cached,
        )


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


def plan_live_list(parts: PipelineParts, questions: QuestionList, options: ListOptions) -> ListPlan:
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


def batch_cost(parts: PipelineParts, estimate: JudgeEstimate) -> Decimal | None:
    """Return the cost of as many average calls by the Batch API; None if nothing is known of it.

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


ESCAPED = 1.05
"""Average bytes of a prompt's character inside JSON."""
SCHEMA_BYTES = 60
"""Bytes of the reply's schema for each memory,"""
FRAME_BYTES = 900
"""and of the rest of a request's line."""


class JobDraft(Struct, frozen=True, kw_only=True):
    """A job that might be submitted; tokens and dollars are approximate."""

    plan: ListPlan
    planner: BatchPlanner
    job: BatchJob
    batches: int
    cost_usd: Decimal | None
    """At the Batch price, or the live one if unknown; None: unpriced."""
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
    return JobDraft(
        plan=plan,
        planner=planner,
        job=plan.new_job(parts),
        batches=_count_batches(len(planner.requests), plan, builder.model.chars_per_token, limits),
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
            connection, draft.job, draft.plan.rows, draft.planner.prompts, draft.planner.requests
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
