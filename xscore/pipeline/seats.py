"""Who judges and who answers: from settings to seats, before anything is opened or sent.

Without a key and without a word about models, the lexical judge takes the seat and the answerer's stays empty; a model
that was asked for by name and cannot be had is an error (`NoUsableModel`), never a silent other judge.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from xscore import tokens
from xscore.cost_reports import ledger
from xscore.cost_reports.duration import duration, typical_latency_s
from xscore.errors import AuthenticationFailed, NoUsableModel
from xscore.hashing import file_digest
from xscore.memory.store import Store
from xscore.pipeline.parts import AnswerSeat, JudgeSeat
from xscore.pipeline.pool import Pool
from xscore.providers.catalog import declared
from xscore.providers.hosts import deadline_s, default_concurrency
from xscore.providers.prices import price
from xscore.providers.provider import Provider
from xscore.providers.spec import LEXICAL, Spec, connect, parse
from xscore.records import Candidate, Estimate, JudgeEstimate, JudgeIdentity, PrimaryEstimate, Turn, Usage
from xscore.scorer.draft import Drafts, JudgeModel
from xscore.scorer.lexical import IDENTITY as LEXICAL_IDENTITY
from xscore.scorer.model_judge import ModelJudge
from xscore.scorer.packs import assign, profile
from xscore.settings import Settings
from xscore.settings.model import DEFAULT_JUDGE, DEFAULT_PRIMARY

ANSWER_FRAME_TOKENS = 1_500
"""Tokens of the answer prompt beside the bundle: instructions, task, current file."""
TOP = "(top)"


def choose_judge(settings: Settings) -> tuple[Spec, tuple[str, ...]]:
    """Return who judges, and what to say of it. Raises NoUsableModel for a model that was named and cannot be had."""
    spec = parse(settings.judge.model)
    if spec.provider == LEXICAL:
        return spec, ()
    try:
        connect(spec, settings)
    except AuthenticationFailed as error:
        if settings.judge.model != DEFAULT_JUDGE:
            raise NoUsableModel(error.message, hint=error.hint) from error
        return Spec(LEXICAL, ""), ("no model judged: there is no key, so the lexical judge scored",)
    return spec, ()


def choose_answerer(settings: Settings) -> AnswerSeat | None:
    """Return who answers; None where the default has no key. Raises NoUsableModel for a named one that has none."""
    spec = parse(settings.primary.model)
    if spec.provider == LEXICAL:
        raise NoUsableModel("the lexical judge cannot answer", hint="Name a model: --model provider:model.")
    try:
        provider = connect(spec, settings)
    except AuthenticationFailed as error:
        if settings.primary.model != DEFAULT_PRIMARY:
            raise NoUsableModel(error.message, hint=error.hint) from error
        return None
    return AnswerSeat(spec.provider, spec.model, provider.host)


def judge_seat(spec: Spec, settings: Settings, *, store: Store) -> JudgeSeat:
    """Seat the judge of this spec. Raises what `connect` raises."""
    if spec.provider == LEXICAL:
        return LexicalSeat(threshold=settings.selection.lexical_threshold)
    provider = connect(spec, settings)
    drafts = _drafts(spec, settings, provider, store)
    return ModelSeat(
        spec=spec,
        settings=settings,
        store=store,
        drafts=drafts,
        host=provider.host,
        identity=drafts.identity(provider=provider.name, host=provider.host),
        threshold=settings.selection.threshold,
        provider=provider,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalSeat:
    """The judge without a model: costs nothing and sends nothing."""

    threshold: float
    identity: JudgeIdentity = LEXICAL_IDENTITY
    is_model: bool = False

    def estimate(self, turn: Turn, pool: Pool) -> Estimate:
        """Say that judging is free."""
        free = JudgeEstimate(
            candidates=len(pool.candidates),
            cached=0,
            to_judge=len(pool.candidates),
            calls=0,
            input_tokens=0,
            output_tokens=0,
            cost_usd=Decimal(0),
            seconds=0.0,
            binding_limit="none",
            host=self.identity.host,
        )
        return Estimate(judge=free, primary=None, by_kind={}, by_folder={})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSeat:
    """A model that judges in packs."""

    spec: Spec
    settings: Settings
    store: Store
    drafts: Drafts
    host: str
    identity: JudgeIdentity
    threshold: float
    provider: Provider
    """As connected: no limits, no budget; nothing is sent through it here."""
    is_model: bool = True

    @property
    def concurrency(self) -> int:
        """Calls in flight."""
        return self.settings.judge.concurrency or default_concurrency(self.host)

    def slots(self, pool: Pool) -> Mapping[str, tuple[str, int]]:
        """Assign every memory to its pack, and keep the assignment."""
        name = self.drafts.profile.name
        assigned = assign(pool.everything, self.store.slots(name), self.drafts.profile)
        if assigned.moved or assigned.gone:
            self.store.save_slots(name, assigned.slots)
        return assigned.slots

    def texts(self, candidates: Sequence[Candidate]) -> Mapping[str, str]:
        """Load what the judge is shown."""
        return self.store.texts(candidates, tests=self.settings.judge.tests)

    def estimate(self, turn: Turn, pool: Pool) -> Estimate:
        """Draft every prompt and add up; nothing is sent and no prefix-cache discount is assumed."""
        planner = ModelJudge(
            self.provider,
            self.drafts,
            texts=self.texts,
            write=_never,
            slots=self.slots(pool),
            priors={},
            context=self.settings.judge.context,
        )
        plan = planner.plan(turn, pool.misses)
        limits = self.settings.judge
        took = duration(
            calls=plan.calls,
            tokens=plan.input_tokens + plan.output_tokens,
            latency_s=typical_latency_s(self.store.connection, host=self.host, model=self.drafts.model.name),
            concurrency=self.concurrency,
            rpm=limits.rpm,
            tpm=limits.tpm,
        )
        judge = JudgeEstimate(
            candidates=len(pool.candidates),
            cached=len(pool.candidates) - len(pool.misses),
            to_judge=len(pool.misses),
            calls=plan.calls,
            input_tokens=plan.input_tokens,
            output_tokens=plan.output_tokens,
            cost_usd=self._cost(plan.calls, plan.input_tokens, plan.output_tokens),
            seconds=took.seconds,
            binding_limit=took.binding_limit,
            host=self.host,
        )
        return Estimate(
            judge=judge,
            primary=None,
            by_kind=_tokens_by(pool.misses, lambda miss: str(miss.kind)),
            by_folder=_tokens_by(pool.misses, lambda miss: miss.path.split("/", 1)[0] if "/" in miss.path else TOP),
        )

    def _cost(self, calls: int, input_tokens: int, output_tokens: int) -> Decimal | None:
        """Price the average call and multiply, so that long-prompt tiers are not met by the sum."""
        if not calls:
            return Decimal(0)
        average = Usage(input_tokens=-(-input_tokens // calls), output_tokens=-(-output_tokens // calls))
        one = price(self.spec.provider, self.drafts.model.name, self.host, average)
        return None if one is None else one * calls


def answer_estimate(seat: AnswerSeat, settings: Settings) -> PrimaryEstimate:
    """Say what the answering call takes at most; sends nothing."""
    usage = Usage(
        input_tokens=settings.bundle.max_tokens + ANSWER_FRAME_TOKENS, output_tokens=settings.primary.max_output_tokens
    )
    return PrimaryEstimate(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=price(seat.provider, seat.model, seat.host, usage),
        host=seat.host,
    )


def _tokens_by(misses: Sequence[Candidate], group: Callable[[Candidate], str]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for miss in misses:
        counts[group(miss)] += miss.tokens
    return dict(counts.most_common())


async def _never(judgments: object) -> None:
    raise AssertionError("an estimate writes no judgments")


def _drafts(spec: Spec, settings: Settings, provider: Provider, store: Store) -> Drafts:
    judge, traits = settings.judge, declared(spec.provider, spec.model)
    model = JudgeModel(
        name=_model_name(spec),
        reasoning=traits.reasoning,
        reasoning_reserve=traits.reasoning_reserve,
        temperature=traits.temperature,
        max_output_tokens=traits.max_output_tokens,
        order=judge.order or traits.order,
        timeout_s=deadline_s(judge.timeout_s, provider.host),
        chars_per_token=ledger.chars_per_token(store.connection, spec.model) or tokens.MIXED,
    )
    packing = profile(
        cache_floor=traits.cache_floor,
        context_tokens=traits.context_tokens,
        pack_size=judge.pack_size,
        pack_tokens=judge.pack_tokens,
    )
    return Drafts(model, packing, store.secret, judge.reasons_from if judge.reasons == "relevant" else 0.0)


def _model_name(spec: Spec) -> str:
    """Name the model; a script is named by its content as well, so that another script is another judge."""
    if spec.provider != "scripted":
        return spec.model
    return f"{spec.model}@{file_digest(Path(spec.model).read_bytes())[:8]}"
