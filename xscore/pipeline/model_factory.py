"""Builds the judge that is a model: its prompts, its identity in the cache, its pace and its
estimates.

The host is probed at the first opening and remembered, because its context length shapes the packs.
Nothing is sent before the turn's resources are open. Trade-off: naming a script or a model file
reads its start.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.keys import FIRST_DRAW
from xscore.extension import implementations
from xscore.pipeline.pool import Pool, PooledTurn
from xscore.platform.errors import UnknownModel
from xscore.platform.text import encodable_text
from xscore.prompts.rubric import CODE_RUBRIC, Rubric, named_rubric
from xscore.providers.catalog import model_settings
from xscore.providers.decision_hosts import DECISION_HOSTS, DECISIONS_OF_OPENAI
from xscore.providers.hosts import default_concurrency
from xscore.providers.provider import Adaptable, Provider
from xscore.providers.spec import ModelSpec, connect_provider, model_name
from xscore.records.calls import Capability, DecisionForm, RateLimits
from xscore.records.events import JudgeEstimate
from xscore.records.judgment import DECISION_ORDER, JudgeIdentity, Thresholds
from xscore.records.memory import Candidate
from xscore.records.turn import Turn
from xscore.settings import Settings
from xscore.store.personal_data import redact_said
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.pipeline.resources import TurnResources
    from xscore.records.reports import Estimate
    from xscore.scorer.drafts import PromptDrafts
    from xscore.scorer.model_judge import ModelJudge
    from xscore.scorer.packs import Pack


def model_judge_factory(
    spec: ModelSpec, settings: Settings, *, store: Store
) -> "ModelJudgeFactory":
    """Return the factory of a model judge. Raises what `connect` raises."""
    provider, judge = connect_provider(spec, settings), settings.judge
    rubric = named_rubric(
        redact_said(encodable_text(judge.rubric), allow_pii=settings.memory.allow_pii).text
    )
    traits, form = model_settings(spec.provider, spec.model), None
    if spec.is_decision:
        form = DecisionForm.SCORE if judge.wire == "decisions-score" else DecisionForm.PREDICATE
    factory = ModelJudgeFactory(
        spec=spec,
        settings=settings,
        store=store,
        provider=provider,
        identity=JudgeIdentity(
            provider=provider.name,
            host=provider.host,
            model=model_name(spec),
            reasoning=traits.reasoning,
            prompt_version=rubric.version(form),
            order=DECISION_ORDER if form else judge.order or traits.order,
            packed=judge.pack_size != 1 and form is None,
        ),
        form=form,
        rubric=rubric,
    )
    if not isinstance(provider, Adaptable):
        return factory
    from xscore.pipeline.probe import known_capability

    known = known_capability(store.connection, provider, factory.identity.model, now=store.clock())
    return factory.knowing(known)


class ModelJudgeFactory(Struct, frozen=True, kw_only=True):
    """A model that judges in packs, before anything is opened.

    A fully cached turn drafts no prompt.
    """

    is_model: ClassVar[bool] = True
    """Its judgments are cached, and may cost money."""
    needs_resources: ClassVar[bool] = True
    spec: ModelSpec
    settings: Settings
    store: Store
    provider: Provider
    """The unwrapped provider, without limits or budget; nothing is sent through it here."""
    identity: JudgeIdentity
    """Everything that may change its scores."""
    form: DecisionForm | None = None
    """Of a decision model's requests; None: it is a chat model."""
    rubric: Rubric = CODE_RUBRIC
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
            # A turn that is all cached drafts none.
            from xscore.pipeline.model_opening import draft_prompts

            self.drafted.append(draft_prompts(self))
        return self.drafted[0]

    def with_drafts(self, drafts: "PromptDrafts") -> "ModelJudgeFactory":
        """Return the factory with other drafts; it is another judge if they may change its
        scores."""
        identity = drafts.identity(provider=self.provider.name, host=self.host)
        return replace(self, drafted=[drafts], identity=identity, forecasts=[])

    def knowing(self, capability: Capability | None) -> "ModelJudgeFactory":
        """Return the factory that knows this of its host: its judge is the model that answers
        there."""
        answered_by = capability.judge if capability and self.spec.is_decision else ""
        identity = replace(self.identity, model=answered_by) if answered_by else self.identity
        return replace(self, capability=capability, identity=identity, drafted=[], forecasts=[])

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

    async def open(
        self, resources: "TurnResources", asked: PooledTurn, sample: int = FIRST_DRAW
    ) -> "ModelJudge":
        """Return the judge of this turn; see `open_model_judge`.

        Raises what `probe.probe_host` raises.
        """
        # A turn that is all cached opens no judge.
        from xscore.pipeline.model_opening import open_model_judge

        return await open_model_judge(self, resources, asked, sample)

    def through_chat(self, resources: "TurnResources", error: UnknownModel) -> "ModelJudgeFactory":
        """Return the same model through chat, where its host has no route for decisions.

        Raises the error else.
        """
        from xscore.pipeline.probe import remember_no_decisions

        if self.spec.provider != DECISIONS_OF_OPENAI:
            raise error
        resources.note(
            f"{self.host} accepts no decision calls for `{self.spec.model}`; it judges through chat"
        )
        remember_no_decisions(
            self.store.connection, self.provider, self.spec.model, at=self.store.clock()
        )
        spec = ModelSpec("openai", self.spec.model)
        return model_judge_factory(spec, self.settings, store=self.store)

    def with_shared_prompts(self) -> "ModelJudgeFactory":
        """Return it with prompts that questions may share: another judge.

        A decision model has none: return itself.
        """
        (layout,) = implementations("shared_prompt_layout", self.settings)
        return (
            self if self.spec.is_decision else self.with_drafts(replace(self.drafts, layout=layout))
        )

    def close(self) -> None:
        """Store what the replies have shown of the host."""
        from xscore.pipeline.probe import remember_host

        remember_host(self)

    def texts(self, candidates: Sequence[Candidate]) -> Mapping[str, str]:
        """Load the texts that the judge is shown."""
        return self.store.texts(candidates, tests=self.settings.judge.tests)

    async def priors(
        self, resources: "TurnResources", turn: Turn, pool: Pool
    ) -> tuple[Mapping[str, float], tuple[str, ...]]:
        """Return what orders the judging, 0..1 by memory id, and warnings."""
        from xscore.pipeline.model_opening import prior_scores

        return await prior_scores(self, resources, turn, pool)

    def slots(self, pool: Pool) -> Mapping[str, tuple[str, int]]:
        """Assign every memory to a pack, the user's own memories separately, and store the
        assignment.

        Done once for all memories of the pool: a forecast and the judge after it use the same
        packs, and so do
        all questions of a list. The part that a follow-up judges would leave these packs nearly
        empty, so it gets none.
        """
        if pool.thread is not None and pool.thread.carried:
            return {}
        name = self.drafts.profile.name
        latest = self.assigned.get(name)
        if latest is None or latest[0].all_candidates is not pool.all_candidates:
            from xscore.pipeline.model_opening import assign_pool

            latest = self.assigned[name] = (pool, assign_pool(self, pool))
        return latest[1]

    def packs(self, pool: Pool) -> "list[Pack]":
        """Return what is to be sent, in packs."""
        from xscore.scorer.packs import packs_to_send

        return packs_to_send(pool.misses, self.slots(pool), self.drafts.profile)

    def estimate(self, turn: Turn, pool: Pool) -> "Estimate":
        """Estimate by drafting every prompt; sends nothing."""
        from xscore.pipeline.estimating import estimate_drafted

        return estimate_drafted(self, turn, pool)

    def forecast(self, turn: Turn, pool: Pool) -> JudgeEstimate:
        """Estimate judging by packs and sizes alone."""
        from xscore.pipeline.estimating import price_work, workload_of

        for of_turn, of_pool, found in self.forecasts:
            if of_turn is turn and of_pool is pool:
                return found
        self.forecasts[:] = [(turn, pool, price_work(self, workload_of(self, turn, pool), pool))]
        return self.forecasts[0][-1]

    def forecast_ways(self, turn: Turn, pool: Pool) -> tuple[JudgeEstimate, ...]:
        """Estimate each way to use this judge, likewise."""
        from xscore.pipeline.estimating import forecast_ways

        return forecast_ways(self, turn, pool)

    @property
    def stated_limits(self) -> RateLimits | None:
        """The limits that the host stated, or else those declared for it."""
        if self.capability and self.capability.limits:
            return self.capability.limits
        return DECISION_HOSTS[self.spec.provider].limits if self.spec.is_decision else None

    def experienced(self) -> "PromptDrafts":
        """Return the drafts with reply lengths learned from the latest replies."""
        from xscore.costs.call_history import output_tokens_per_memory

        model = self.drafts.model
        shown = output_tokens_per_memory(self.store.connection, host=self.host, model=model.name)
        return replace(self.drafts, model=replace(model, reply_tokens=shown))
