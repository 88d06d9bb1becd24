"""Builds the judge that is a model: its prompts, its identity in the cache, its pace and its estimates.

The host is probed at the first opening and remembered, because its context length shapes the packs. Nothing is sent
before the turn's resources are open. Trade-off: a script is read whole to name it, which a model is not.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.judgments import untrusted_scores
from xscore.cache.keys import judge_key
from xscore.costs import ledger
from xscore.costs.call_history import (
    Workload,
    best_cache_ttl_s,
    gaps_between_turns_s,
    output_tokens_per_memory,
    typical_latency_s,
)
from xscore.extension import implementations
from xscore.pipeline import probe
from xscore.pipeline.parts import JudgeCalls, TurnResources, find_likeness
from xscore.pipeline.pool import Pool
from xscore.platform import tokens
from xscore.platform.errors import BudgetExhausted
from xscore.platform.hashing import file_digest
from xscore.providers.catalog import model_settings
from xscore.providers.hosts import default_concurrency, host_deadline_s
from xscore.providers.provider import Provider
from xscore.providers.spec import ModelSpec, connect_provider, import_sdk
from xscore.records import Candidate, Capability, Estimate, JudgeEstimate, JudgeIdentity, Layer, RateLimits, Turn
from xscore.scorer.drafts import JudgeModel, PromptDrafts
from xscore.scorer.judge import Judge
from xscore.scorer.packs import assign_packs, choose_profile, packs_to_send
from xscore.settings import Settings
from xscore.store.store import Store, load_pack_slots, save_pack_slots
from xscore.store.term_vectors import TERM_EMBEDDER

if TYPE_CHECKING:
    from xscore.pipeline.estimating import JudgingTerms


def prompt_drafts(
    spec: ModelSpec, settings: Settings, provider: Provider, store: Store, *, context: int | None = None
) -> PromptDrafts:
    """Draft for this model; context: the longest input that its host tells, which stands over the declared one."""
    judge, traits = settings.judge, model_settings(spec.provider, spec.model)
    model = JudgeModel(
        name=_model_name(spec),
        reasoning=traits.reasoning,
        reasoning_reserve=traits.reasoning_reserve,
        temperature=traits.temperature,
        max_output_tokens=traits.max_output_tokens,
        order=judge.order or traits.order,
        timeout_s=host_deadline_s(judge.timeout_s, provider.host),
        chars_per_token=ledger.learned_chars_per_token(
            store.connection, provider=provider.name, host=provider.host, model=spec.model
        )
        or tokens.MIXED,
    )
    packing = choose_profile(
        cache_floor=traits.cache_floor,
        context_tokens=context or traits.context_tokens,
        pack_size=judge.pack_size,
        pack_tokens=judge.pack_tokens,
    )
    return PromptDrafts(model, packing, store.secret, judge.reasons_from if judge.reasons == "relevant" else 0.0)


def _model_name(spec: ModelSpec) -> str:
    """Name the model; a script is named by its content as well, so that another script is another judge."""
    if spec.provider != "scripted":
        return spec.model
    return f"{spec.model}@{file_digest(Path(spec.model).read_bytes())[:8]}"


def model_judge_factory(
    spec: ModelSpec, settings: Settings, *, store: Store, clock: probe.Clock = time.time
) -> "ModelJudgeFactory":
    """Seat a model. clock: Unix seconds, for what is remembered of its host. Raises what `connect` raises."""
    provider = connect_provider(spec, settings)
    drafts = prompt_drafts(spec, settings, provider, store)
    seat = ModelJudgeFactory(
        spec=spec,
        settings=settings,
        store=store,
        drafts=drafts,
        host=provider.host,
        identity=drafts.identity(provider=provider.name, host=provider.host),
        threshold=settings.selection.threshold,
        provider=provider,
        clock=clock,
    )
    return seat.with_capability(probe.known_capability(store.connection, seat.calls, now=clock()))


class ModelJudgeFactory(Struct, frozen=True, kw_only=True):
    """A model that judges in packs."""

    spec: ModelSpec
    settings: Settings
    store: Store
    drafts: PromptDrafts
    host: str
    identity: JudgeIdentity
    threshold: float
    provider: Provider
    """As connected: no limits, no budget; nothing is sent through it here."""
    clock: probe.Clock
    capability: Capability | None = None
    """What the host was found to do; None: not known yet."""
    is_model: bool = True
    assigned: dict[str, tuple[Pool, Mapping[str, tuple[str, int]]]] = field(default_factory=dict)
    """Profile -> the latest pool and its slots."""

    async def open(self, resources: TurnResources, turn: Turn, pool: Pool, turn_key: str) -> Judge:
        """Return the judge of this turn; its judgments are committed before it yields them.

        Where the host is not known yet, it is probed first. Raises what `probe.find_out` raises.
        """
        seat, wrapped = await self.with_probed_host(resources)
        return await seat._judge(resources, wrapped, turn, pool, turn_key)

    async def with_probed_host(self, resources: TurnResources) -> tuple["ModelJudgeFactory", Provider]:
        """Return the factory that knows its host, probed first if needed, and its metered provider.

        Raises what `probe.find_out` raises.
        """
        await import_sdk(self.provider.name)
        judging = self.settings.judge
        stated = self.capability.limits if self.capability else None
        wrapped = resources.judging_provider(
            self.provider,
            model=self.spec.model,
            rpm=judging.rpm,
            tpm=judging.tpm,
            concurrency=self.concurrency,
            stated=stated,
        )
        try:
            known = await probe.adopt_capability(
                self.store.connection, self.calls, wrapped, wanted=judging.probe, clock=self.clock
            )
        except BudgetExhausted:  # then nothing will be judged either, and the receipt says so
            known = None
        return self.with_capability(known)._marking(), wrapped

    def with_shared_prompts(self) -> "ModelJudgeFactory":
        """Return the same model as the judge whose prompts questions may share: another, with judgments of its own."""
        (layout,) = implementations("shared_prompt_layout", self.settings)
        drafts = replace(self.drafts, layout=layout)
        identity = drafts.identity(provider=self.provider.name, host=self.provider.host)
        return replace(self, drafts=drafts, identity=identity)

    def _marking(self) -> "ModelJudgeFactory":
        """Return the seat that has packs kept at the host for as long as the gaps between turns make it pay."""
        traits = model_settings(self.spec.provider, self.spec.model)
        if not traits.cache_writes:
            return self
        model = self.drafts.model
        gaps = gaps_between_turns_s(
            self.store.connection, provider=self.spec.provider, host=self.host, model=model.name, now=self.clock()
        )
        ttl_s = best_cache_ttl_s(gaps, traits.cache_writes, read_factor=traits.cache_read_factor)
        return replace(self, drafts=replace(self.drafts, model=replace(model, prefix_ttl_s=ttl_s)))

    async def _judge(self, resources: TurnResources, wrapped: Provider, turn: Turn, pool: Pool, turn_key: str) -> Judge:
        from xscore.scorer.claiming import TwoStoreJudge  # a turn that is all cached opens no judge
        from xscore.scorer.fanout import workers_for
        from xscore.scorer.model_judge import ModelJudge

        guesses, remarks = await self.guesses(resources, turn, pool)
        judge = partial(
            ModelJudge,
            wrapped,
            self.drafts,
            texts=self.texts,
            slots=self.slots(pool),
            priors=guesses,
            known_parts=lambda hashes: {part: pool.known[part] for part in hashes if part in pool.known},
            concurrency=workers_for(self.concurrency),
            context=self.settings.judge.context,
            stop=resources.new_stop(),
            untrusted_scores=untrusted_scores(self.store.connection, (turn_key, judge_key(self.identity), 0)),
        )
        here = judge(
            write=resources.writer(turn_key, self.identity),
            claims=resources.claims(turn_key, self.identity),
            remarks=remarks,
        )
        if not any(miss.layer is Layer.USER for miss in pool.misses):
            return here
        write, claims = await resources.user_store_writer(turn_key, self.identity)
        return TwoStoreJudge(here, judge(write=write, claims=claims))

    async def guesses(
        self, resources: TurnResources, turn: Turn, pool: Pool
    ) -> tuple[Mapping[str, float], tuple[str, ...]]:
        """Guess by words and likeness how much each candidate matters, 0..1 by memory id; and say what went wrong."""
        from xscore.scorer.lexical import fuse_ranks, lexical_priors

        words = lexical_priors(turn, pool.candidates, lambda: self.store.vectors(TERM_EMBEDDER))
        meaning = await find_likeness(turn, self.settings, store=self.store, resources=resources)
        return fuse_ranks(words, meaning.cosines), meaning.warnings

    def close(self) -> None:
        """Remember what the replies have shown of the host."""
        probe.remember_host(self.store.connection, self.calls, at=self.clock())

    def with_capability(self, capability: Capability | None) -> "ModelJudgeFactory":
        """Return the seat with packs that the host's context holds."""
        if capability is None or capability == self.capability:
            return self
        drafts = prompt_drafts(self.spec, self.settings, self.provider, self.store, context=capability.context_tokens)
        return replace(self, capability=capability, drafts=replace(drafts, layout=self.drafts.layout))

    @property
    def concurrency(self) -> int:
        """Most calls in flight."""
        return self.settings.judge.concurrency or default_concurrency(self.host)

    @property
    def limits(self) -> RateLimits:
        """Limits in force: the user's or those that the host stated, whichever are lower."""
        from xscore.providers.rate_limits import LocalRates

        judging, stated = self.settings.judge, self.capability.limits if self.capability else None
        return LocalRates(rpm=judging.rpm, tpm=judging.tpm, remembered=stated).in_force

    @property
    def calls(self) -> JudgeCalls:
        """How its model is called."""
        return JudgeCalls(
            provider=self.provider, model=self.drafts.model, packs=self.drafts.profile, concurrency=self.concurrency
        )

    def slots(self, pool: Pool) -> Mapping[str, tuple[str, int]]:
        """Assign every memory to its pack, the user's own among themselves, and keep the assignment where they are.

        Done once for what the pool is drawn from: a forecast and the judge after it have the same packs, and so have
        all questions of a list.
        """
        name = self.drafts.profile.name
        latest = self.assigned.get(name)
        if latest is None or latest[0].all_candidates is not pool.all_candidates:
            latest = self.assigned[name] = (pool, self._assigned(pool))
        return latest[1]

    def _assigned(self, pool: Pool) -> Mapping[str, tuple[str, int]]:
        found: dict[str, tuple[str, int]] = {}
        own = [candidate for candidate in pool.all_candidates if candidate.layer is Layer.USER]
        others = [each for each in pool.all_candidates if each.layer is not Layer.USER] if own else pool.all_candidates
        members = (others, own)
        for connection, candidates in zip(self.store.connections_of_a_turn(), members, strict=False):
            name = self.drafts.profile.name
            assigned = assign_packs(candidates, load_pack_slots(connection, name), self.drafts.profile)
            if assigned.moved or assigned.gone:
                save_pack_slots(connection, name, assigned.slots)
            found.update(assigned.slots)
        return found

    def texts(self, candidates: Sequence[Candidate]) -> Mapping[str, str]:
        """Load what the judge is shown."""
        return self.store.texts(candidates, tests=self.settings.judge.tests)

    def estimate(self, turn: Turn, pool: Pool) -> Estimate:
        """Draft every prompt and add up; nothing is sent and no prefix-cache discount is assumed."""
        from xscore.pipeline.estimating import with_breakdown
        from xscore.scorer.model_judge import ModelJudge

        planner = ModelJudge(
            self.provider,
            self.experienced(),
            texts=self.texts,
            write=_write_nothing,
            slots=self.slots(pool),
            priors={},
            context=self.settings.judge.context,
        )
        plans = [planner.plan(turn, misses) for misses in _by_store(pool.misses)]
        work = Workload(
            sum(plan.calls for plan in plans),
            sum(plan.input_tokens for plan in plans),
            sum(plan.output_tokens for plan in plans),
        )
        return with_breakdown(self._writing_terms().estimate(work, pool), pool)

    def forecast(self, turn: Turn, pool: Pool) -> JudgeEstimate:
        """Say about what judging will take, by the packs and the sizes alone."""
        from xscore.pipeline.estimating import forecast_work

        drafts, assigned = self.experienced(), self.slots(pool)
        packs = [pack for misses in _by_store(pool.misses) for pack in packs_to_send(misses, assigned, drafts.profile)]
        return self.priced(forecast_work(drafts, turn, packs, context=self.settings.judge.context), pool)

    def priced(self, work: Workload, pool: Pool) -> JudgeEstimate:
        """Put work for candidates of this pool into minutes and dollars, at the limits in force."""
        return self._terms().estimate(work, pool)

    def experienced(self) -> PromptDrafts:
        """Return the drafts with what the latest replies have shown of their length."""
        model = self.drafts.model
        shown = output_tokens_per_memory(self.store.connection, host=self.host, model=model.name)
        return replace(self.drafts, model=replace(model, reply_tokens=shown))

    def _writing_terms(self) -> "JudgingTerms":
        """Return the terms with what writing to the host's prefix cache will add."""
        asks_for_it = bool(model_settings(self.spec.provider, self.spec.model).cache_writes)
        ttl_s = self._marking().drafts.model.prefix_ttl_s
        return replace(self._terms(), prefix_ttl_s=ttl_s, keeps_unasked=not asks_for_it)

    def _terms(self) -> "JudgingTerms":
        from xscore.pipeline.estimating import JudgingTerms

        model = self.drafts.model.name
        return JudgingTerms(
            provider=self.spec.provider,
            host=self.host,
            model=model,
            limits=self.limits,
            concurrency=self.concurrency,
            latency_s=typical_latency_s(self.store.connection, host=self.host, model=model),
        )


def _by_store(misses: Sequence[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """Part the repository's memories from the user's own: they share no prompt."""
    own = [miss for miss in misses if miss.layer is Layer.USER]
    return ([miss for miss in misses if miss.layer is not Layer.USER] if own else list(misses)), own


async def _write_nothing(judgments: object) -> None:
    raise AssertionError("an estimate writes no judgments")
