"""Plan a list, live or by batch: what it would take, what a batch sends, and its job. Sends nothing.

It adds up sizes and drafts no prompt. Questions without any judgment yet need the same packs, so their forecast is made
once, with the length of the first. In a batch, equal questions are judged once, candidates that another job is having
judged are left to that job, and prompts are those of live calls.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

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
from xscore.pipeline import budget_messages, question_list
from xscore.pipeline.model_factory import ModelJudgeFactory, model_judge_factory
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import Pool
from xscore.pipeline.question_list import PreparedQuestion
from xscore.platform.errors import UsageError
from xscore.prompts.turn_text import turn_block
from xscore.providers.decision_hosts import DECISIONS_OF_OPENAI
from xscore.providers.prices import PriceList
from xscore.providers.spec import ModelSpec
from xscore.records.calls import Usage
from xscore.records.memory import Candidate
from xscore.records.reports import Estimate, JudgeEstimate
from xscore.records.turn import Scope, Turn
from xscore.scorer.drafts import PromptDrafts
from xscore.scorer.judge import Texts
from xscore.scorer.packs import Pack, packs_to_send
from xscore.scorer.repair import MemoryPart, PackPrompt

Slots = Callable[[Pool], Mapping[str, tuple[str, int]]]


class BatchPlanner:
    """Plans one question at a time."""

    def __init__(self, drafts: PromptDrafts, *, slots: Slots, texts: Texts) -> None:
        """slots, texts: from the judge's factory."""
        self.asks: list[PackPrompt] = []
        self.requests: list[RequestName] = []
        self._drafts, self._slots, self._texts = drafts, slots, texts
        self._numbers: dict[tuple[str, ...], int] = {}
        """Asks by name and contents."""
        self._parts: dict[str, tuple[MemoryPart, ...]] = {}
        """Parts of oversized memories by content hash, without texts."""
        self._latest: tuple[Sequence[Candidate], Sequence[int]] = ((), ())
        """The latest misses and their asks: questions of which nothing is known have the same."""

    def add(self, number: int, pool: Pool) -> None:
        """Plan requests for the misses of a question. Raises StoreDamaged."""
        if self._latest[0] is not pool.misses:
            self._latest = pool.misses, list(self._asks(pool))
        self.requests.extend((number, ask) for ask in self._latest[1])

    def _asks(self, pool: Pool) -> Iterator[int]:
        for pack in packs_to_send(pool.misses, self._slots(pool), self._drafts.profile):
            todo: list[MemoryPart] = []
            for member in pack.members:
                pieces = self._pieces(member)
                # a memory whose parts are all known has itself no judgment: its parts are asked for again
                todo += [piece for piece in pieces if piece.content_hash not in pool.known] or pieces
            for ask in self._drafts.asks(pack, todo):
                name = (ask.pack, *(piece.content_hash for piece in ask.pieces))
                if name not in self._numbers:
                    self._numbers[name] = len(self.asks)
                    self.asks.append(ask)
                yield self._numbers[name]

    def _pieces(self, member: Candidate) -> tuple[MemoryPart, ...]:
        """Return the memory, or its parts to judge, without texts; empty if it has left the store."""
        if member.tokens <= self._drafts.profile.tokens:
            return (MemoryPart(member.content_hash, "", "", "", "", member.content_hash),)
        if member.content_hash not in self._parts:
            found = self._drafts.pieces_of(Pack("", (member,)), self._texts([member]))
            self._parts[member.content_hash] = tuple(
                MemoryPart(piece.content_hash, "", "", "", "", piece.memory, piece.parts) for piece in found
            )
        return self._parts[member.content_hash]


def job_question(prepared: PreparedQuestion, *, context: str = "task") -> JobQuestion:
    """Return a question as a job stores it. context: `judge.context`, which may store more than the task."""
    turn, pool = prepared.turn, prepared.pool
    return JobQuestion(
        number=prepared.number,
        name=prepared.question.id,
        turn=Turn(task=turn.task, errors=turn.errors, file=turn.file),
        shown=turn_block(turn, context=context) if context != "task" else "",
        turn_key=prepared.key,
        candidates=len(pool.candidates),
        cached=len(pool.candidates) - len(pool.misses),
    )


class ListPlan(Struct):
    """What a list would take."""

    rows: list[JobQuestion] = field(default_factory=list)
    candidates: int = 0
    cached: int = 0
    to_judge: int = 0
    """Candidates, over all questions, that the cache lacks and this list has judged."""
    repeated: int = 0
    """By batch: candidates of questions that show the judge what an earlier one of the list does: judged there."""
    elsewhere: int = 0
    """Candidates that running batches judge: live calls would pay for them twice, a batch leaves them out."""
    elsewhere_jobs: tuple[str, ...] = ()
    estimate: JudgeEstimate | None = None
    warnings: list[str] = field(default_factory=list)
    """What the user was warned of before anything was sent; the report repeats it."""

    @property
    def hit_rate(self) -> float | None:
        """Replayed hit rate: the share of candidates that the cache had; None: there are none."""
        return self.cached / self.candidates if self.candidates else None

    @property
    def input_tokens(self) -> int:
        """About how many tokens are sent; 0 for a list without a question."""
        return self.estimate.input_tokens if self.estimate else 0

    @property
    def output_tokens(self) -> int:
        """About how many tokens come back."""
        return self.estimate.output_tokens if self.estimate else 0

    def count_elsewhere(self, prepared: PreparedQuestion, others: UnderWay) -> frozenset[str]:
        """Return the misses of a question that running batches judge."""
        misses = {miss.content_hash for miss in prepared.pool.misses} if others else set[str]()
        theirs = {job: misses & work.get(prepared.key, set()) for job, work in others.items()}
        self.elsewhere_jobs += tuple(job for job, met in theirs.items() if met and job not in self.elsewhere_jobs)
        found = frozenset[str]().union(*theirs.values())
        self.elsewhere += len(found)
        return found


def plan_list(
    questions: Iterable[PreparedQuestion],
    forecast: Callable[[Turn, Pool], JudgeEstimate],
    others: UnderWay,
    *,
    batch: BatchPlanner | None = None,
    context: str = "task",
) -> ListPlan:
    """Go through the questions once and add up. Raises what preparing raises.

    forecast: the judge's. others: what running batches judge. batch: takes what is to be sent. context: as in settings.
    """
    plan, seen = ListPlan(), set[str]()
    unknown: JudgeEstimate | None = None
    for prepared in questions:
        pool, row = prepared.pool, job_question(prepared, context=context if batch else "task")
        plan.rows.append(row)
        plan.candidates += row.candidates
        plan.cached += row.cached
        if batch is not None and row.turn_key in seen:
            plan.repeated += len(pool.misses)
            continue
        seen.add(row.turn_key)
        theirs = plan.count_elsewhere(prepared, others)
        if batch is not None:
            if theirs:
                pool = replace(pool, misses=tuple(one for one in pool.misses if one.content_hash not in theirs))
            batch.add(row.number, pool)
        plan.to_judge += len(pool.misses)
        if pool.misses is pool.candidates:
            found = unknown = unknown or forecast(prepared.turn, pool)
        else:
            found = forecast(prepared.turn, pool)
        plan.estimate = found if plan.estimate is None else plan.estimate + found
    return plan


def warn_of_plan(parts: PipelineParts, plan: ListPlan) -> None:
    """Warn, before anything is paid for, that no cap applies, and what running batches also judge."""
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
    """Return the cost of as many average calls by the Batch API; None where the tables state no such price."""
    calls, host, count = parts.judge.calls, parts.judge.identity.host, estimate.calls
    if calls is None or not count:
        return Decimal(0)
    average = Usage(input_tokens=-(-estimate.input_tokens // count), output_tokens=-(-estimate.output_tokens // count))
    each = PriceList(parts.settings.provider.price).batch(calls.model.name, host, average)
    return None if each is None else each * count


def new_job(
    parts: PipelineParts,
    drafts: PromptDrafts,
    *,
    command: JobCommand,
    digest: str,
    scope: Scope,
    only: frozenset[str] | None,
    plan: ListPlan,
) -> BatchJob:
    """Return the job of a list that the judge of these parts does. only: paths."""
    identity, judge = parts.judge.identity, parts.settings.judge
    recipe = JobRecipe(
        provider=identity.provider,
        host=identity.host,
        model=drafts.model,
        packs=drafts.profile,
        reasons_from=judge.reasons_from if judge.reasons == "relevant" else 0.0,
        context=judge.context,
        tests=judge.tests,
        scope=scope,
        only=None if only is None else tuple(sorted(only)),
    )
    return BatchJob(
        id=job_rows.new_job_id(),
        created_at=parts.clock(),
        command=command,
        digest=digest,
        judge_spec=str(batch_judge_factory(parts).spec),
        judge=judge_key(identity),
        recipe=recipe,
        max_usd=parts.settings.budget.max_usd,
        candidates=plan.candidates,
        cached=plan.cached,
    )


def judge_name(parts: PipelineParts) -> str:
    """Name the judge of a list for the user."""
    identity = parts.judge.identity
    return f"{identity.provider}:{identity.model}" if parts.judge.is_model else "lexical"


def batch_judge_factory(parts: PipelineParts) -> ModelJudgeFactory:
    """Return the model's judge factory. Raises UsageError for the lexical judge."""
    if isinstance(parts.judge, ModelJudgeFactory):
        if parts.judge.spec.provider == DECISIONS_OF_OPENAI:  # its Batch API takes chat prompts, and no decisions
            spec = ModelSpec("openai", parts.judge.spec.model)
            return model_judge_factory(spec, parts.settings, store=parts.store, clock=parts.clock)
        return parts.judge
    raise UsageError(
        "the lexical judge has no Batch API, and costs nothing",
        hint="Name a model: --judge provider:model; or `xscore batch run`.",
    )
