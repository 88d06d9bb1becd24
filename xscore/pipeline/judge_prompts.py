"""How the prompts of a model judge are made: their layout, their packs, and the builder of both.

Pure but for two look-ups in the store: how many characters a token of this model has had, and how
long its replies were. Trade-off: a builder is made for each use, since it is cheaper than keeping
one up to date with what is learned of the host.
"""

from msgspec.structs import replace

from xscore.costs.call_history import (
    best_cache_ttl_s,
    gaps_between_turns_s,
    output_tokens_per_memory,
)
from xscore.costs.ledger import learned_chars_per_token
from xscore.pipeline.judge_description import JudgeDescription
from xscore.platform import tokens
from xscore.prompts.judge import JudgeModel
from xscore.prompts.rubric import CODE_RUBRIC
from xscore.providers.catalog import ModelSettings, model_settings
from xscore.providers.decision_hosts import DECISION_HOSTS, LONGEST_QUESTION
from xscore.providers.hosts import host_deadline_s
from xscore.scorer.packs import PackProfile, fit_profile
from xscore.scorer.prompt_builder import (
    ONE_TURN_LAYOUT,
    PromptBuilder,
    PromptLayout,
    chat_layout,
    decision_layout,
)


def declared_of(judge: JudgeDescription) -> ModelSettings:
    """Return what the catalog declares of the judge's model."""
    return model_settings(judge.spec.provider, judge.spec.model)


def prompt_layout(judge: JudgeDescription) -> PromptLayout:
    """Return how its requests are made and read."""
    if judge.shared_layout is not None:
        return judge.shared_layout
    layout = _layout_of_one_turn(judge)
    if judge.mark:
        layout = replace(layout, version=f"{layout.version}{judge.mark}")
    return layout


def _layout_of_one_turn(judge: JudgeDescription) -> PromptLayout:
    rubric = judge.rubric or CODE_RUBRIC
    if judge.form is not None:
        turn_chars = DECISION_HOSTS[judge.spec.provider].state_chars
        return decision_layout(judge.form, turn_chars, rubric)
    if rubric is CODE_RUBRIC:
        return ONE_TURN_LAYOUT
    return chat_layout(rubric)


def pack_profile(judge: JudgeDescription) -> PackProfile:
    """Return how large its packs are, at most half of what its host holds."""
    settings = judge.settings.judge
    if judge.form is not None:
        declared = DECISION_HOSTS[judge.spec.provider]
        return PackProfile(
            tokens=settings.pack_tokens or declared.fill_tokens,
            size=settings.pack_size or declared.questions,
            longest_piece=min(LONGEST_QUESTION, declared.fill_tokens),
            is_independent=True,
        )
    model = declared_of(judge)
    return fit_profile(
        settings.pack_tokens or model.pack_tokens,
        settings.pack_size or model.pack_size,
        context_tokens=context_tokens(judge),
    )


def context_tokens(judge: JudgeDescription) -> int:
    """Return how many tokens a prompt and its reply may have, as the host states or as declared."""
    stated = judge.capability.context_tokens if judge.capability else None
    return stated or declared_of(judge).context_tokens


def prompt_builder(judge: JudgeDescription) -> PromptBuilder:
    """Return how its prompts are made."""
    settings = judge.settings.judge
    return PromptBuilder(
        _model(judge),
        pack_profile(judge),
        judge.code_secret or judge.store.secret,
        settings.reasons_from if settings.reasons == "relevant" else 0.0,
        prompt_layout(judge),
        settings.isolates,
    )


def _model(judge: JudgeDescription) -> JudgeModel:
    settings = judge.settings.judge
    declared = declared_of(judge)
    capability = judge.capability
    learned = learned_chars_per_token(
        judge.store.connection,
        provider=judge.connected().name,
        host=judge.host,
        model=judge.spec.model,
    )
    return JudgeModel(
        name=judge.asked_model,
        answered_by=capability.judge if capability and judge.spec.is_decision else "",
        reasoning=declared.reasoning,
        reasoning_reserve=declared.reasoning_reserve,
        temperature=declared.temperature,
        max_output_tokens=declared.max_output_tokens,
        order=settings.order or declared.order,
        timeout_s=host_deadline_s(settings.timeout_s, judge.host),
        chars_per_token=learned or tokens.MIXED,
    )


def estimating_builder(judge: JudgeDescription) -> PromptBuilder:
    """Return the same with the length of its latest replies, for an estimate."""
    builder = prompt_builder(judge)
    shown = output_tokens_per_memory(
        judge.store.connection, host=judge.host, model=judge.asked_model
    )
    return replace(builder, model=replace(builder.model, reply_tokens=shown))


def caching_builder(judge: JudgeDescription) -> PromptBuilder:
    """Return the same with the prefix-cache lifetime that pays off, for sending."""
    builder = prompt_builder(judge)
    return replace(builder, model=replace(builder.model, prefix_ttl_s=prefix_ttl_s(judge)))


def prefix_ttl_s(judge: JudgeDescription) -> int:
    """Return for how long to ask the host to keep prompts, given the gaps between turns; 0 if
    it is not asked."""
    declared = declared_of(judge)
    if not declared.cache_writes:
        return 0
    gaps = gaps_between_turns_s(
        judge.store.connection,
        provider=judge.spec.provider,
        host=judge.host,
        model=judge.asked_model,
        now=judge.store.clock(),
    )
    return best_cache_ttl_s(gaps, declared.cache_writes, read_factor=declared.cache_read_factor)


def sharing_prompts(judge: JudgeDescription) -> JudgeDescription:
    """Return the judge with prompts that questions may share: another judge.

    Words and decision models have no such prompts: they are returned as they are.
    """
    if not judge.batches_memories or judge.spec.is_decision:
        return judge
    # An extension: only lists of questions share prompts.
    from xscore.extensions.batch.shared_prompts import QUESTIONS_LAYOUT

    shared = replace(judge, shared_layout=QUESTIONS_LAYOUT)
    builder = prompt_builder(shared)
    identity = builder.identity(provider=judge.connected().name, host=judge.host)
    return replace(shared, identity=identity)
