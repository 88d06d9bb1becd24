"""Opens the judge that is a model: its prompts are drafted, its host is probed, the pool is packed
and ordered.

A turn that is all cached needs none of it; `model_factory` names the judge. Trade-off: an unknown
host is probed before the first judging call, which costs one call more.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.cache.judgment_store import untrusted_scores
from xscore.cache.keys import FIRST_DRAW, judge_key
from xscore.costs.call_history import (
    best_cache_ttl_s,
    calls_handled,
    gaps_between_turns_s,
    latest_call_s,
)
from xscore.costs.ledger import learned_chars_per_token
from xscore.pipeline.likeness import find_likeness
from xscore.pipeline.pool import Pool, PooledTurn
from xscore.pipeline.probe import adopt_capability
from xscore.platform import tokens
from xscore.platform.errors import BudgetExhausted, UnknownModel
from xscore.prompts.judge import JudgeModel
from xscore.prompts.rubric import CODE_RUBRIC
from xscore.prompts.turn_text import left_out
from xscore.providers.catalog import model_settings
from xscore.providers.decision_hosts import DECISION_HOSTS, LONGEST_QUESTION
from xscore.providers.hosts import host_deadline_s
from xscore.providers.provider import Provider
from xscore.providers.spec import import_for_judging, model_name
from xscore.records.memory import Layer
from xscore.records.turn import Turn
from xscore.scorer.drafts import (
    ONE_TURN_LAYOUT,
    PromptDrafts,
    PromptLayout,
    chat_layout,
    decision_layout,
)
from xscore.scorer.fanout import workers_for
from xscore.scorer.lexical import fuse_ranks, lexical_priors
from xscore.scorer.model_judge import JudgingPlan, ModelJudge
from xscore.scorer.packs import PackProfile, assign_packs, fit_profile
from xscore.store.store import load_pack_slots, save_pack_slots
from xscore.store.term_vectors import TERM_EMBEDDER

if TYPE_CHECKING:
    from xscore.pipeline.model_factory import ModelJudgeFactory
    from xscore.pipeline.resources import TurnResources

AHEAD_OF_ALL = 2.0
"""Head start of what a follow-up judges first: more than any prior and any untrusted score."""


async def open_model_judge(
    named: "ModelJudgeFactory", resources: "TurnResources", asked: PooledTurn, sample: int
) -> ModelJudge:
    """Return the judge of this turn; its judgments are committed, as this sample, before it yields
    them.

    An unknown host is probed first. Raises what `probe.probe_host` raises.
    """
    turn, turn_key, pool = asked.turn, asked.key, asked.pool
    try:
        factory, wrapped = await with_probed_host(named, resources)
    except UnknownModel as error:
        # Chat is another judge, and this one's answers are not its second ones.
        if sample != FIRST_DRAW:
            raise
        return await named.through_chat(resources, error).open(resources, asked)
    priors: Mapping[str, float] = {}
    warnings: tuple[str, ...] = ()
    if sample == FIRST_DRAW:  # a second one asks about few, whose order is no matter
        priors, warnings = await factory.priors(resources, turn, pool)
        warnings = (*_remarks(factory, turn), *warnings)
    write, claims = await resources.judgment_access(pool.misses, turn_key, factory.identity, sample)
    head_starts = untrusted_scores(
        named.store.connection, (turn_key, judge_key(named.identity), sample)
    )
    if pool.thread is not None:
        head_starts |= dict.fromkeys(pool.thread.first, AHEAD_OF_ALL)
    own, judgments = (
        any(miss.layer is Layer.USER for miss in pool.misses),
        resources.spending.judgments,
    )
    return ModelJudge(
        wrapped,
        factory.drafts,
        JudgingPlan(
            texts=factory.texts,
            write=write,
            claims=claims,
            slots=factory.slots(pool),
            priors=priors,
            known_parts=lambda hashes: {
                part: pool.known[part] for part in hashes if part in pool.known
            },
            concurrency=workers_for(named.concurrency),
            sees=named.settings.judge.sees,
            stop=resources.new_stop(),
            remarks=warnings,
            faults=resources.faults,
            write_as=(
                None
                if own
                else lambda model: judgments.writer(
                    turn_key, replace(factory.identity, model=model)
                )
            ),
            head_starts=head_starts,
        ),
    )


def _remarks(factory: "ModelJudgeFactory", turn: Turn) -> tuple[str, ...]:
    """Say what a reader of this turn's scores should know of the judge."""
    turn_chars = _layout(factory).turn_chars
    unseen = left_out(turn, sees=factory.settings.judge.sees, turn_chars=turn_chars)
    unsteady = ""
    if factory.capability is not None and factory.capability.has_no_steady_name:
        unsteady = (
            f"{factory.host} names a different model in each reply; scores are stored under"
            f" `{factory.spec.model}`"
        )
    return tuple(filter(None, (unseen, unsteady)))


async def with_probed_host(
    named: "ModelJudgeFactory", resources: "TurnResources"
) -> tuple["ModelJudgeFactory", Provider]:
    """Return the factory that knows its host, probed first if needed, and its metered provider.

    Raises what `probe.probe_host` raises.
    """
    await import_for_judging(named.provider.name)
    connection, model = named.store.connection, named.drafts.model.name
    resources.usage.usual_judging_s = latest_call_s(
        connection, host=named.host, model=model, now=named.store.clock()
    )
    wrapped = resources.judging_provider(
        named.provider,
        model=named.spec.model,
        concurrency=named.concurrency,
        handled=calls_handled(connection, host=named.host, model=model, now=named.store.clock()),
        stated=named.stated_limits,
    )
    try:
        known = await adopt_capability(named, wrapped, left_s=resources.deadline.judging_left_s())
    except BudgetExhausted:  # then nothing will be judged either, and the receipt says so
        known = None
    factory, layout = named, named.drafts.layout
    if known is not None and known != named.capability:
        factory = named.knowing(known)
    drafts = replace(factory.drafts, layout=layout, model=cached_model(factory))
    return replace(factory, drafted=[drafts]), wrapped


def cached_model(factory: "ModelJudgeFactory") -> JudgeModel:
    """Return the model settings with the prefix-cache lifetime that pays off, given the gaps
    between turns."""
    traits, model = model_settings(factory.spec.provider, factory.spec.model), factory.drafts.model
    if not traits.cache_writes:
        return model
    gaps = gaps_between_turns_s(
        factory.store.connection,
        provider=factory.spec.provider,
        host=factory.host,
        model=model.name,
        now=factory.store.clock(),
    )
    ttl_s = best_cache_ttl_s(gaps, traits.cache_writes, read_factor=traits.cache_read_factor)
    return replace(model, prefix_ttl_s=ttl_s)


async def prior_scores(
    factory: "ModelJudgeFactory", resources: "TurnResources", turn: Turn, pool: Pool
) -> tuple[Mapping[str, float], tuple[str, ...]]:
    """Return lexical and embedding priors, 0..1 by memory id, and warnings."""
    known = pool.thread.priors if pool.thread else {}
    words = known or lexical_priors(
        turn, pool.candidates, lambda: factory.store.vectors(TERM_EMBEDDER)
    )
    meaning = await find_likeness(turn, factory.settings, store=factory.store, resources=resources)
    return fuse_ranks(words, meaning.cosines), meaning.warnings


def draft_prompts(factory: "ModelJudgeFactory") -> PromptDrafts:
    """Return how its prompts are made: the model's settings, and packs that fit the host's
    context."""
    judge, traits, host = (
        factory.settings.judge,
        model_settings(factory.spec.provider, factory.spec.model),
        factory.host,
    )
    stated = factory.capability.context_tokens if factory.capability else None
    learned = learned_chars_per_token(
        factory.store.connection,
        provider=factory.provider.name,
        host=host,
        model=factory.spec.model,
    )
    model = JudgeModel(
        name=model_name(factory.spec),
        answered_by=(
            factory.capability.judge if factory.capability and factory.spec.is_decision else ""
        ),
        reasoning=traits.reasoning,
        reasoning_reserve=traits.reasoning_reserve,
        temperature=traits.temperature,
        max_output_tokens=traits.max_output_tokens,
        order=judge.order or traits.order,
        timeout_s=host_deadline_s(judge.timeout_s, host),
        chars_per_token=learned or tokens.MIXED,
    )
    reasons_from = judge.reasons_from if judge.reasons == "relevant" else 0.0
    layout = _layout(factory)
    if layout.is_independent:
        declared = DECISION_HOSTS[factory.spec.provider]
        packing = PackProfile(
            tokens=judge.pack_tokens or declared.fill_tokens,
            size=judge.pack_size or declared.questions,
            longest_piece=min(LONGEST_QUESTION, declared.fill_tokens),
            is_independent=True,
        )
        return PromptDrafts(model, packing, factory.store.secret, reasons_from, layout)
    packing = fit_profile(
        judge.pack_tokens or traits.pack_tokens,
        judge.pack_size or traits.pack_size,
        context_tokens=stated or traits.context_tokens,
    )
    return PromptDrafts(model, packing, factory.store.secret, reasons_from, layout)


def _layout(factory: "ModelJudgeFactory") -> PromptLayout:
    """Return how its requests are made and read."""
    if factory.form is not None:
        return decision_layout(
            factory.form, DECISION_HOSTS[factory.spec.provider].state_chars, factory.rubric
        )
    return ONE_TURN_LAYOUT if factory.rubric is CODE_RUBRIC else chat_layout(factory.rubric)


def assign_pool(factory: "ModelJudgeFactory", pool: Pool) -> Mapping[str, tuple[str, int]]:
    """Assign every memory of a pool to a pack, and store what changed."""
    profile, found = factory.drafts.profile, dict[str, tuple[str, int]]()
    own = [candidate for candidate in pool.all_candidates if candidate.layer is Layer.USER]
    others = (
        [each for each in pool.all_candidates if each.layer is not Layer.USER]
        if own
        else pool.all_candidates
    )
    for connection, members in zip(
        factory.store.connections_of_a_turn(), (others, own), strict=False
    ):
        assigned = assign_packs(members, load_pack_slots(connection, profile.name), profile)
        if assigned.moved or assigned.gone:
            save_pack_slots(connection, profile.name, assigned.slots)
        found.update(assigned.slots)
    return found
