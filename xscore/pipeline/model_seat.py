"""The seat of a model that judges in packs: its prompts, its place in the cache, its price. Opened through a desk."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from xscore import tokens
from xscore.cost_reports import ledger
from xscore.cost_reports.duration import Work, duration, typical_latency_s
from xscore.hashing import file_digest
from xscore.memory.store import Store
from xscore.memory.terms import EMBEDDER
from xscore.pipeline.parts import Desk
from xscore.pipeline.pool import Pool
from xscore.providers.catalog import declared
from xscore.providers.hosts import deadline_s, default_concurrency
from xscore.providers.prices import price
from xscore.providers.provider import Provider
from xscore.providers.spec import Spec, connect
from xscore.records import Candidate, Estimate, JudgeEstimate, JudgeIdentity, RateLimits, Turn, Usage
from xscore.scorer.draft import Drafts, JudgeModel
from xscore.scorer.judge import Judge
from xscore.scorer.lexical import priors
from xscore.scorer.model_judge import ModelJudge
from xscore.scorer.packs import assign, profile
from xscore.settings import Settings

TOP = "(top)"


def model_seat(spec: Spec, settings: Settings, *, store: Store) -> "ModelSeat":
    """Seat a model. Raises what `connect` raises."""
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

    def open(self, desk: Desk, turn: Turn, pool: Pool, turn_key: str) -> Judge:
        """Return the judge of this turn; its judgments are committed before it yields them."""
        judging = self.settings.judge
        return ModelJudge(
            desk.wrap(self.provider, rpm=judging.rpm, tpm=judging.tpm, concurrency=self.concurrency),
            self.drafts,
            texts=self.texts,
            write=desk.writer(turn_key, self.identity),
            slots=self.slots(pool),
            priors=priors(turn, pool.candidates, lambda: self.store.vectors(EMBEDDER)),
            known_parts=lambda hashes: {part: pool.known[part] for part in hashes if part in pool.known},
            concurrency=self.concurrency,
            context=judging.context,
        )

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
            Work(plan.calls, plan.input_tokens, plan.output_tokens),
            RateLimits(limits.rpm, limits.tpm),
            latency_s=typical_latency_s(self.store.connection, host=self.host, model=self.drafts.model.name),
            concurrency=self.concurrency,
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
