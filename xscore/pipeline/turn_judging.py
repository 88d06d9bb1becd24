"""Have the judge score what a turn's cache lacks; then judge again what is near a threshold
(`second_draws`) or was left unjudged (`fallback_judging`).

Ctrl-C and the deadline end the stage and not the turn: what was paid for is in the outcomes
that it returns. Trade-off: the host is contacted before anything is known about it, so the turn
may end with another judge than it began with.
"""

import asyncio
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.pipeline.fallback_judging import (
    has_other_judge,
    judge_by_fallback,
    note_misspelt_fallbacks,
)
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judged_elsewhere import with_judged_elsewhere
from xscore.pipeline.known_hosts import remember_host_or_warn
from xscore.pipeline.live_judging import (
    NONE_NEEDED,
    JudgedPool,
    NoJudge,
    judge_pool,
    open_judge,
    unjudged_causes,
)
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import PooledTurn
from xscore.pipeline.resources import TurnResources
from xscore.pipeline.second_draws import draw_again
from xscore.pipeline.turn_stages import Judged, PreparedTurn
from xscore.platform.errors import NoUsableModel, ProviderError
from xscore.platform.event_loop import clear_cancellation
from xscore.platform.text import join_sentences
from xscore.records.estimates import JudgeEstimate
from xscore.records.judgment import UnjudgedCause
from xscore.store import turns

if TYPE_CHECKING:
    from xscore.scorer.judge import Judge

FORECAST_FROM_S, FORECAST_FROM_USD = 20.0, Decimal("0.01")
"""Announce judging that will take this long, or cost this much."""


async def judge_missing(
    parts: PipelineParts,
    prepared: PreparedTurn,
    resources: TurnResources | None,
    *,
    isolated: bool,
) -> Judged:
    """Give every candidate of a turn an outcome: by its judge, near a threshold twice, and by the
    fallback models.

    isolated: no other model judges in the judge's place, since an evaluation measures one judge.
    Raises StoreError, and what opening the judge raises if nothing is cached and nothing may judge
    in its place.
    """
    # Without resources it is a replay: every other turn with something to judge has opened them.
    if resources is None:
        replay = NoJudge(UnjudgedCause.REPLAY)
        return await _score_once(parts, None, _FirstJudge(replay, parts.judge, prepared))
    if not isolated:
        note_misspelt_fallbacks(parts)
    try:
        prepared = await with_judged_elsewhere(prepared, parts.judge, resources)
    except asyncio.CancelledError:
        clear_cancellation()
        interrupted = NoJudge(UnjudgedCause.INTERRUPTED)
        return await _score_once(
            parts, resources, _FirstJudge(interrupted, parts.judge, prepared)
        )
    if not prepared.pool.misses:
        return await _with_nothing_missing(parts, prepared, resources)
    first = await _open_first(parts, prepared, resources, isolated=isolated)
    # Ctrl-C during any of these steps is taken back where it arrives (`live_judging`), and the step
    # returns what it has: `judged` holds all that was paid for at every moment. The steps after it
    # send nothing more, since an interruption is among the causes that end all judging.
    judged = await _score_once(parts, resources, first)
    if not isinstance(first.judge, NoJudge) and judged.judge.is_decision:
        judged = await _score_near_twice(parts, resources, first, judged)
    if not isolated:
        judged = await judge_by_fallback(parts, prepared, resources, judged)
    return _with_remarks(parts, resources, first, judged)


async def _with_nothing_missing(
    parts: PipelineParts, prepared: PreparedTurn, resources: TurnResources
) -> Judged:
    """Return what others have judged; a second score may still be wanted."""
    first = _FirstJudge(NONE_NEEDED, parts.judge, prepared)
    judged = await _score_once(parts, resources, first)
    if judged.judge.is_decision:
        judged = await _score_near_twice(parts, resources, first, judged)
    return replace(judged, warnings=(*judged.warnings, *resources.spending.warnings()))


class _FirstJudge(Struct, frozen=True):
    """The turn's judge, or why it has none, once its host was asked for the first time."""

    judge: "Judge | NoJudge"
    described: JudgeDescription
    """Description of the judge with the name under which the host answered."""
    pooled: PooledTurn
    """The turn with the pool that is judged."""
    no_judge: str = ""
    """See `Judged.no_judge`."""
    warnings: tuple[str, ...] = ()


async def _open_first(
    parts: PipelineParts, prepared: PreparedTurn, resources: TurnResources, *, isolated: bool
) -> _FirstJudge:
    """Open the judge; probe its host first if needed.

    A host that fails is an error only if nothing is cached and nothing may judge in its place.
    """
    described = parts.judge
    pool = prepared.pool
    if prepared.forecast is not None and _is_worth_telling(prepared.forecast):
        parts.observer.on(prepared.forecast)
    try:
        judge = await open_judge(described, resources, prepared)
    except (ProviderError, NoUsableModel) as error:
        can_go_on = not isolated and has_other_judge(parts, error)
        if len(pool.misses) == len(pool.candidates) and not can_go_on:
            raise
        absent = NoJudge(UnjudgedCause.PROVIDER, error.message)
        warning = join_sentences(f"the judge could not be asked: {error.message}", error.hint)
        return _FirstJudge(absent, described, prepared, error.kind, (warning,))
    if not described.stored or isinstance(judge, NoJudge):
        return _FirstJudge(judge, described, prepared)
    if judge.identity == parts.judge.identity:
        return _FirstJudge(judge, described, prepared)
    # The first contact found which model answers under the name that the settings gave it. The
    # turn's row names it at once, so that a killed turn is continued with the judge that judged.
    turns.set_judge(parts.store.connection, prepared.turn.id, judge_key(judge.identity))
    # What its thread has was judged by another, so nothing of it is carried over.
    pooled = PooledTurn(prepared.turn, prepared.key, replace(pool, thread=None))
    return _FirstJudge(judge, replace(described, identity=judge.identity), pooled)


def _is_worth_telling(forecast: JudgeEstimate) -> bool:
    """Whether judging takes long enough, or costs enough, to be announced."""
    return forecast.seconds >= FORECAST_FROM_S or (forecast.cost_usd or 0) >= FORECAST_FROM_USD


async def _score_once(
    parts: PipelineParts, resources: TurnResources | None, first: _FirstJudge
) -> Judged:
    leaders = parts.settings.selection.top_k
    first_pool = await judge_pool(
        first.pooled, first.judge, resources, parts.observer, leaders=leaders
    )
    return Judged(
        outcomes=first_pool.outcomes,
        pool=first.pooled.pool,
        judge=first.described.identity,
        interrupted=first_pool.interrupted,
        no_judge=first.no_judge,
        warnings=first.warnings,
    )


async def _score_near_twice(
    parts: PipelineParts, resources: TurnResources, first: _FirstJudge, judged: Judged
) -> Judged:
    first_pool = JudgedPool(judged.outcomes, judged.interrupted)
    redrawn_pool, counts = await draw_again(
        parts, first.described, resources, first.pooled, first_pool
    )
    return replace(
        judged,
        outcomes=redrawn_pool.outcomes,
        interrupted=redrawn_pool.interrupted,
        second_draws=counts,
        warnings=(*judged.warnings, *redrawn_pool.warnings),
    )


def _with_remarks(
    parts: PipelineParts, resources: TurnResources, first: _FirstJudge, judged: Judged
) -> Judged:
    """Add what the calls of the whole stage have shown."""
    warnings = list(judged.warnings)
    if UnjudgedCause.DEADLINE in unjudged_causes(judged.outcomes):
        why = resources.why_unanswered()
        if why:
            warnings.append(why)
    warnings += remember_host_or_warn(parts.judge)
    if not isinstance(first.judge, NoJudge):
        warnings += (*first.judge.warnings(), *resources.spending.warnings())
    failures = frozenset(resources.usage.failures)
    return replace(judged, failures=failures, warnings=tuple(warnings))
