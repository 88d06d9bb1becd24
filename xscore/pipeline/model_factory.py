"""Builds the judge that is a model: its prompts, its identity in the cache, its pace and its estimates.

The host is probed at the first opening and remembered, because its context length shapes the packs. Nothing is sent
before the turn's resources are open. Trade-off: naming a script or a model file reads its start.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.keys import FIRST_DRAW, judge_key
from xscore.extension import implementations
from xscore.pipeline.parts import JudgeCalls, find_likeness
from xscore.pipeline.pool import Pool
from xscore.platform.errors import BudgetExhausted, UnknownModel
from xscore.prompts.judge import PROMPT_VERSION, left_out
from xscore.providers.catalog import model_settings
from xscore.providers.decision_hosts import DECISION_HOSTS, DECISIONS_OF_OPENAI, LONGEST_QUESTION
from xscore.providers.hosts import default_concurrency, host_deadline_s
from xscore.providers.provider import Adaptable, Provider
from xscore.providers.spec import ModelSpec, connect_provider, import_for_judging, model_name
from xscore.records.calls import Capability, DecisionForm, RateLimits
from xscore.records.judgment import JudgeIdentity, Thresholds
from xscore.records.memory import Candidate, Layer
from xscore.records.reports import Estimate, JudgeEstimate
from xscore.records.turn import Turn
from xscore.settings import Settings
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.pipeline.resources import TurnResources
    from xscore.scorer.drafts import JudgeModel, PromptDrafts, PromptLayout
    from xscore.scorer.model_judge import ModelJudge
    from xscore.scorer.packs import Pack

AHEAD_OF_ALL = 2.0
"""Head start of what a follow-up judges first: more than any prior and any untrusted score."""


def model_judge_factory(
    spec: ModelSpec, settings: Settings, *, store: Store, clock: Callable[[], float] | None = None
) -> "ModelJudgeFactory":
    """Return the factory of a model judge. clock: Unix seconds. Raises what `connect` raises."""
    provider, judge = connect_provider(spec, settings), settings.judge
    traits, layout = model_settings(spec.provider, spec.model), None
    if spec.provider in DECISION_HOSTS:
        from xscore.scorer.drafts import decision_layout

        rates = judge.wire == "decisions-score"
        form = DecisionForm.SCORE if rates else DecisionForm.PREDICATE
        layout = decision_layout(form, DECISION_HOSTS[spec.provider].state_chars)
    factory = ModelJudgeFactory(
        spec=spec,
        settings=settings,
        store=store,
        provider=provider,
        clock=clock or store.clock,
        identity=JudgeIdentity(
            provider=provider.name,
            host=provider.host,
            model=model_name(spec),
            reasoning=traits.reasoning,
            prompt_version=layout.version if layout else PROMPT_VERSION,
            order=layout.only_order if layout else judge.order or traits.order,
            packed=judge.pack_size != 1 and layout is None,
        ),
        layout=layout,
    )
    if not isinstance(provider, Adaptable):
        return factory
    from xscore.pipeline.probe import known_capability

    known = known_capability(store.connection, provider, factory.identity.model, now=factory.clock())
    return factory.knowing(known)


class ModelJudgeFactory(Struct, frozen=True, kw_only=True):
    """A model that judges in packs, before anything is opened. A fully cached turn drafts no prompt."""

    is_model: ClassVar[bool] = True
    """Its judgments are cached, and may cost money."""
    spec: ModelSpec
    settings: Settings
    store: Store
    provider: Provider
    """The unwrapped provider, without limits or budget; nothing is sent through it here."""
    clock: Callable[[], float]
    identity: JudgeIdentity
    """Everything that may change its scores."""
    layout: "PromptLayout | None" = None
    """Of a decision model's requests; None: a chat model's prompts."""
    capability: Capability | None = None
    """What the host can do; None: not known yet."""
    drafted: "list[PromptDrafts]" = field(default_factory=list)
    """The drafts, cached after first use."""
    assigned: dict[str, tuple[Pool, Mapping[str, tuple[str, int]]]] = field(default_factory=dict)
    """Profile -> the latest pool and its slots."""
    forecasts: list[tuple[Turn, Pool, JudgeEstimate]] = field(default_factory=list)
    """The latest forecast: the message about caps and the turn itself ask for the same one."""

    @property
    def drafts(self) -> "PromptDrafts":
        """The settings that shape its prompts, with packs that fit the host's context."""
        if not self.drafted:
            self.drafted.append(self._draft())
        return self.drafted[0]

    def with_drafts(self, drafts: "PromptDrafts") -> "ModelJudgeFactory":
        """Return the factory with other drafts; it is another judge if they may change its scores."""
        identity = drafts.identity(provider=self.provider.name, host=self.host)
        return replace(self, drafted=[drafts], identity=identity, forecasts=[])

    def knowing(self, capability: Capability | None) -> "ModelJudgeFactory":
        """Return the factory that knows this of its host: its judge is the model that answers there."""
        answered_by = capability.judge if capability and self.layout else ""
        identity = replace(self.identity, model=answered_by) if answered_by else self.identity
        return replace(self, capability=capability, identity=identity, drafted=[], forecasts=[])

    def _draft(self) -> "PromptDrafts":
        from xscore.costs.ledger import learned_chars_per_token
        from xscore.platform import tokens
        from xscore.scorer.drafts import JudgeModel, PromptDrafts
        from xscore.scorer.packs import PackProfile, fit_profile

        judge, traits, host = self.settings.judge, model_settings(self.spec.provider, self.spec.model), self.host
        stated = self.capability.context_tokens if self.capability else None
        learned = learned_chars_per_token(
            self.store.connection, provider=self.provider.name, host=host, model=self.spec.model
        )
        model = JudgeModel(
            name=model_name(self.spec),
            answered_by=self.capability.judge if self.capability and self.layout else "",
            reasoning=traits.reasoning,
            reasoning_reserve=traits.reasoning_reserve,
            temperature=traits.temperature,
            max_output_tokens=traits.max_output_tokens,
            order=judge.order or traits.order,
            timeout_s=host_deadline_s(judge.timeout_s, host),
            chars_per_token=learned or tokens.MIXED,
        )
        reasons_from = judge.reasons_from if judge.reasons == "relevant" else 0.0
        if self.layout is not None:
            declared = DECISION_HOSTS[self.spec.provider]
            packing = PackProfile(
                tokens=judge.pack_tokens or declared.fill_tokens,
                size=judge.pack_size or declared.questions,
                longest_piece=min(LONGEST_QUESTION, declared.fill_tokens),
                is_independent=True,
            )
            return PromptDrafts(model, packing, self.store.secret, reasons_from, self.layout)
        packing = fit_profile(
            judge.pack_tokens or traits.pack_tokens,
            judge.pack_size or traits.pack_size,
            context_tokens=stated or traits.context_tokens,
        )
        return PromptDrafts(model, packing, self.store.secret, reasons_from)

    @property
    def thresholds(self) -> Thresholds:
        """The lowest final score that is kept, by kind."""
        return Thresholds.of_table(self.settings.selection.threshold, judge=self.spec.provider)

    @property
    def host(self) -> str:
        """Where the model is."""
        return self.provider.host

    @property
    def concurrency(self) -> int:
        """Most calls in flight."""
        return self.settings.judge.concurrency or default_concurrency(self.host)

    @property
    def calls(self) -> JudgeCalls:
        """How to call its model."""
        drafts = self.drafts
        return JudgeCalls(
            provider=self.provider,
            model=drafts.model,
            packs=drafts.profile,
            concurrency=self.concurrency,
            layout=drafts.layout,
            stated=self.stated_limits,
        )

    async def open(
        self, resources: "TurnResources", turn: Turn, pool: Pool, turn_key: str, sample: int = FIRST_DRAW
    ) -> "ModelJudge":
        """Return the judge of this turn; its judgments are committed, as this sample, before it yields them.

        An unknown host is probed first. Raises what `probe.probe_host` raises.
        """
        from xscore.cache.judgments import untrusted_scores  # a turn that is all cached opens no judge
        from xscore.scorer.claiming import claim_by_store
        from xscore.scorer.fanout import workers_for
        from xscore.scorer.model_judge import ModelJudge

        try:
            factory, wrapped = await self.with_probed_host(resources)
        except UnknownModel as error:
            if sample != FIRST_DRAW:  # chat is another judge, and this one's answers are not its second ones
                raise
            return await self._through_chat(resources, error).open(resources, turn, pool, turn_key)
        priors: Mapping[str, float] = {}
        warnings: tuple[str, ...] = ()
        if sample == FIRST_DRAW:  # a second one asks about few, whose order is no matter
            priors, warnings = await factory.guesses(resources, turn, pool)
            warnings = (*factory.remarks(turn), *warnings)
        named = (turn_key, factory.identity, sample)
        write, claims = resources.writer(*named), resources.claims(*named)
        head_starts = untrusted_scores(self.store.connection, (turn_key, judge_key(self.identity), sample))
        if pool.thread is not None:
            head_starts |= dict.fromkeys(pool.thread.first, AHEAD_OF_ALL)
        own = {miss.content_hash for miss in pool.misses if miss.layer is Layer.USER}
        if own:
            write, claims = claim_by_store((write, claims), await resources.user_store_writer(*named), own)
        return ModelJudge(
            wrapped,
            factory.drafts,
            texts=factory.texts,
            write=write,
            claims=claims,
            slots=factory.slots(pool),
            priors=priors,
            known_parts=lambda hashes: {part: pool.known[part] for part in hashes if part in pool.known},
            concurrency=workers_for(self.concurrency),
            context=self.settings.judge.context,
            stop=resources.new_stop(),
            remarks=warnings,
            write_as=None if own else lambda model: resources.writer(turn_key, replace(factory.identity, model=model)),
            head_starts=head_starts,
        )

    def remarks(self, turn: Turn) -> tuple[str, ...]:
        """Say what a reader of this turn's scores should know of the judge."""
        turn_chars = self.layout.turn_chars if self.layout else None
        unseen = left_out(turn, context=self.settings.judge.context, turn_chars=turn_chars)
        unsteady = ""
        if self.capability is not None and self.capability.has_no_steady_name:
            unsteady = f"{self.host} names a different model in each reply; scores are stored under `{self.spec.model}`"
        return tuple(filter(None, (unseen, unsteady)))

    def _through_chat(self, resources: "TurnResources", error: UnknownModel) -> "ModelJudgeFactory":
        """Return the same model through chat, where its host has no route for decisions. Raises the error else."""
        from xscore.pipeline.probe import remember_no_decisions

        if self.spec.provider != DECISIONS_OF_OPENAI:
            raise error
        resources.note(f"{self.host} takes no decisions by `{self.spec.model}`; it judges through chat")
        remember_no_decisions(self.store.connection, self.provider, self.spec.model, at=self.clock())
        return model_judge_factory(
            ModelSpec("openai", self.spec.model), self.settings, store=self.store, clock=self.clock
        )

    async def with_probed_host(self, resources: "TurnResources") -> tuple["ModelJudgeFactory", Provider]:
        """Return the factory that knows its host, probed first if needed, and its metered provider.

        Raises what `probe.probe_host` raises.
        """
        from xscore.pipeline.probe import adopt_capability

        await import_for_judging(self.provider.name)
        stated = self.stated_limits
        wrapped = resources.judging_provider(
            self.provider, model=self.spec.model, concurrency=self.concurrency, stated=stated
        )
        try:
            known = await adopt_capability(
                self.store.connection,
                self.calls,
                wrapped,
                wanted=self.settings.judge.probe,
                clock=self.clock,
                left_s=resources.judging_left_s(),
            )
        except BudgetExhausted:  # then nothing will be judged either, and the receipt says so
            known = None
        factory, layout = self, self.drafts.layout
        if known is not None and known != self.capability:
            factory = self.knowing(known)
        drafts = replace(factory.drafts, layout=layout, model=factory.cached_model())
        return replace(factory, drafted=[drafts]), wrapped

    def with_shared_prompts(self) -> "ModelJudgeFactory":
        """Return it with prompts that questions may share: another judge. A decision model has none: return itself."""
        (layout,) = implementations("shared_prompt_layout", self.settings)
        return self if self.layout else self.with_drafts(replace(self.drafts, layout=layout))

    def cached_model(self) -> "JudgeModel":
        """Return the model settings with the prefix-cache lifetime that pays off, given the gaps between turns."""
        from xscore.costs.call_history import best_cache_ttl_s, gaps_between_turns_s

        traits, model = model_settings(self.spec.provider, self.spec.model), self.drafts.model
        if not traits.cache_writes:
            return model
        gaps = gaps_between_turns_s(
            self.store.connection, provider=self.spec.provider, host=self.host, model=model.name, now=self.clock()
        )
        ttl_s = best_cache_ttl_s(gaps, traits.cache_writes, read_factor=traits.cache_read_factor)
        return replace(model, prefix_ttl_s=ttl_s)

    async def guesses(
        self, resources: "TurnResources", turn: Turn, pool: Pool
    ) -> tuple[Mapping[str, float], tuple[str, ...]]:
        """Return lexical and embedding priors, 0..1 by memory id, and warnings."""
        from xscore.scorer.lexical import fuse_ranks, lexical_priors
        from xscore.store.term_vectors import TERM_EMBEDDER

        known = pool.thread.priors if pool.thread else {}
        words = known or lexical_priors(turn, pool.candidates, lambda: self.store.vectors(TERM_EMBEDDER))
        meaning = await find_likeness(turn, self.settings, store=self.store, resources=resources)
        return fuse_ranks(words, meaning.cosines), meaning.warnings

    def close(self) -> None:
        """Store what the replies have shown of the host."""
        from xscore.pipeline.probe import remember_host

        remember_host(self.store.connection, self.calls, at=self.clock())

    def texts(self, candidates: Sequence[Candidate]) -> Mapping[str, str]:
        """Load the texts that the judge is shown."""
        return self.store.texts(candidates, tests=self.settings.judge.tests)

    def slots(self, pool: Pool) -> Mapping[str, tuple[str, int]]:
        """Assign every memory to a pack, the user's own memories separately, and store the assignment.

        Done once for all memories of the pool: a forecast and the judge after it use the same packs, and so do
        all questions of a list.
        """
        name = self.drafts.profile.name
        latest = self.assigned.get(name)
        if latest is None or latest[0].all_candidates is not pool.all_candidates:
            latest = self.assigned[name] = (pool, self._assign(pool))
        return latest[1]

    def _assign(self, pool: Pool) -> Mapping[str, tuple[str, int]]:
        from xscore.scorer.packs import assign_packs
        from xscore.store.store import load_pack_slots, save_pack_slots

        profile, found = self.drafts.profile, dict[str, tuple[str, int]]()
        own = [candidate for candidate in pool.all_candidates if candidate.layer is Layer.USER]
        others = [each for each in pool.all_candidates if each.layer is not Layer.USER] if own else pool.all_candidates
        for connection, members in zip(self.store.connections_of_a_turn(), (others, own), strict=False):
            assigned = assign_packs(members, load_pack_slots(connection, profile.name), profile)
            if assigned.moved or assigned.gone:
                save_pack_slots(connection, profile.name, assigned.slots)
            found.update(assigned.slots)
        return found

    def packs(self, pool: Pool) -> "list[Pack]":
        """Return what is to be sent, in packs."""
        from xscore.scorer.packs import packs_to_send

        return packs_to_send(pool.misses, self.slots(pool), self.drafts.profile)

    def estimate(self, turn: Turn, pool: Pool) -> Estimate:
        """Estimate by drafting every prompt; sends nothing."""
        from xscore.pipeline.estimating import estimate_drafted

        return estimate_drafted(self, turn, pool)

    def forecast(self, turn: Turn, pool: Pool) -> JudgeEstimate:
        """Estimate judging by packs and sizes alone."""
        from xscore.pipeline.estimating import forecast_work, price_work

        for of_turn, of_pool, found in self.forecasts:
            if of_turn is turn and of_pool is pool:
                return found
        work = forecast_work(self.experienced(), turn, self.packs(pool), context=self.settings.judge.context)
        self.forecasts[:] = [(turn, pool, price_work(self, work, pool))]
        return self.forecasts[0][-1]

    @property
    def stated_limits(self) -> RateLimits | None:
        """The limits that the host stated, or else those declared for it."""
        if self.capability and self.capability.limits:
            return self.capability.limits
        return DECISION_HOSTS[self.spec.provider].limits if self.layout else None

    def experienced(self) -> "PromptDrafts":
        """Return the drafts with reply lengths learned from the latest replies."""
        from xscore.costs.call_history import output_tokens_per_memory

        model = self.drafts.model
        shown = output_tokens_per_memory(self.store.connection, host=self.host, model=model.name)
        return replace(self.drafts, model=replace(model, reply_tokens=shown))
