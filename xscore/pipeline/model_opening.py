"""Opens the judge that is a model: its host is probed, its provider wrapped, the pool packed and
ordered.

A turn that is all cached needs none of it. Trade-off: an unknown host is probed before the first
judging call, which costs one call more, and a few at a host that cannot do all it is asked.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.cache.judgment_store import WriteJudgments, untrusted_scores
from xscore.cache.keys import FIRST_DRAW, judge_key
from xscore.costs.call_history import calls_handled, latest_call_s
from xscore.pipeline.describe_model import describe_model_judge
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judge_prompts import caching_builder, prompt_layout
from xscore.pipeline.judged_memories import (
    JudgingPriors,
    judged_texts,
    judging_priors,
    pack_slots,
)
from xscore.pipeline.known_hosts import remember_no_decisions
from xscore.pipeline.pool import Pool, PooledTurn
from xscore.pipeline.probe import adopt_capability
from xscore.platform.errors import BudgetExhausted, UnknownModel
from xscore.prompts.turn_text import left_out
from xscore.providers.decision_hosts import DECISIONS_OF_OPENAI
from xscore.providers.provider import Provider
from xscore.providers.spec import ModelSpec, import_http_client
from xscore.records.judgment import Judgment
from xscore.records.memory import Layer
from xscore.records.turn import Turn
from xscore.scorer.fanout import workers_for
from xscore.scorer.model_judge import JudgingPlan, ModelJudge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xscore.pipeline.resources import TurnResources

AHEAD_OF_ALL = 2.0
"""Head start of what a follow-up judges first: more than any prior and any untrusted score."""


async def open_model_judge(
    described: JudgeDescription,
    resources: "TurnResources",
    pooled: PooledTurn,
    draw: int = FIRST_DRAW,
) -> ModelJudge:
    """Return the judge of this turn; its judgments are committed, as this draw, before it yields
    them.

    An unknown host is probed first. Raises what `probe.probe_host` raises.
    """
    turn = pooled.turn
    pool = pooled.pool
    try:
        judge, provider = await with_probed_host(described, resources)
    except UnknownModel as error:
        # Chat is another judge, and this one's answers are not its second ones.
        if draw != FIRST_DRAW:
            raise
        return await open_model_judge(
            _through_chat(described, resources, error), resources, pooled, draw
        )
    priors = JudgingPriors()
    warnings: tuple[str, ...] = ()
    # A second draw asks about few memories, whose order is no matter; the first draw has stored
    # their word scores.
    if draw == FIRST_DRAW:
        priors = await judging_priors(judge, resources, turn, pool)
        warnings = (*_remarks(judge, turn), *priors.warnings)
    write, claims = await resources.judgment_access(
        pool.misses, pooled.key, judge.identity, draw
    )
    plan = JudgingPlan(
        texts=lambda candidates: judged_texts(judge, candidates),
        write=write,
        claims=claims,
        slots=pack_slots(judge, pool),
        priors=priors.words,
        order=priors.order,
        known_parts=_known_parts(pool),
        concurrency=workers_for(judge.concurrency),
        sees=judge.settings.judge.sees,
        stop=resources.new_stop(),
        remarks=warnings,
        faults=resources.faults,
        write_as=_writer_for_another(judge, resources, pooled),
        # What others sent unsigned was stored under the name that was asked for.
        head_starts=_head_starts(described, pooled, draw),
    )
    return ModelJudge(provider, caching_builder(judge), plan)


def _known_parts(pool: Pool) -> "Callable[[Sequence[str]], Mapping[str, Judgment]]":
    """Return how parts of oversized memories are found that were judged before."""
    return lambda hashes: {part: pool.known[part] for part in hashes if part in pool.known}


def _writer_for_another(
    judge: JudgeDescription, resources: "TurnResources", pooled: PooledTurn
) -> "Callable[[str], WriteJudgments] | None":
    """Return the writer of judgments by another model that answers under this name.

    None where the user's own memories are among them: they are written in two stores.
    """
    if any(miss.layer is Layer.USER for miss in pooled.pool.misses):
        return None
    judgments = resources.spending.judgments
    return lambda model: judgments.writer(pooled.key, replace(judge.identity, model=model))


def _head_starts(
    described: JudgeDescription, pooled: PooledTurn, draw: int
) -> dict[str, float]:
    """Return what moves a pack forward, by content hash; see `JudgingPlan.head_starts`."""
    names = (pooled.key, judge_key(described.identity), draw)
    head_starts = untrusted_scores(described.store.connection, names)
    if pooled.pool.thread is not None:
        head_starts |= dict.fromkeys(pooled.pool.thread.first, AHEAD_OF_ALL)
    return head_starts


def _remarks(judge: JudgeDescription, turn: Turn) -> tuple[str, ...]:
    """Say what a reader of this turn's scores should know of the judge."""
    turn_chars = prompt_layout(judge).turn_chars
    unseen = left_out(turn, sees=judge.settings.judge.sees, turn_chars=turn_chars)
    unsteady = ""
    if judge.capability is not None and judge.capability.has_no_steady_name:
        unsteady = (
            f"{judge.host} names a different model in each reply; scores are stored under"
            f" `{judge.spec.model}`"
        )
    return tuple(filter(None, (unseen, unsteady)))


async def with_probed_host(
    described: JudgeDescription, resources: "TurnResources"
) -> tuple[JudgeDescription, Provider]:
    """Return the judge that knows its host, probed first if needed, and its metered provider.

    Raises what `probe.probe_host` raises.
    """
    provider = described.connected()
    await import_http_client(provider.name)
    connection = described.store.connection
    now = described.store.clock()
    model = described.asked_model
    resources.usage.usual_judging_s = latest_call_s(
        connection, host=described.host, model=model, now=now
    )
    wrapped = resources.judging_provider(
        provider,
        model=described.spec.model,
        concurrency=described.concurrency,
        handled=calls_handled(connection, host=described.host, model=model, now=now),
        stated=described.stated_limits,
    )
    try:
        capability = await adopt_capability(
            described, wrapped, left_s=resources.deadline.judging_left_s()
        )
    # Then nothing will be judged either, and the receipt says so.
    except BudgetExhausted:
        capability = None
    if capability is None or capability == described.capability:
        return described, wrapped
    return described.knowing(capability), wrapped


def _through_chat(
    described: JudgeDescription, resources: "TurnResources", error: UnknownModel
) -> JudgeDescription:
    """Return the same model through chat, where its host has no route for decisions; otherwise
    raise the error."""
    if described.spec.provider != DECISIONS_OF_OPENAI:
        raise error
    store = described.store
    model = described.spec.model
    resources.note(
        f"{described.host} accepts no decision calls for `{model}`; it judges through chat"
    )
    remember_no_decisions(store.connection, described.connected(), model, at=store.clock())
    chat = describe_model_judge(
        ModelSpec("openai", model), described.settings, store=store, rubric=described.rubric
    )
    return replace(chat, items=described.items, words_weight=described.words_weight)
