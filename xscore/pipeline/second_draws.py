"""Judge a second time what came near its threshold.

A decision model's score varies by about 0.05 from call to call, so one score says little near
the threshold. A second one is asked for in the same way, with claims, caps and the ledger, and
stored with the first as another draw: if the process is killed in between, the first remains,
and a fully cached turn makes no call. Trade-off: boosts are computed twice, because a boost may
move a candidate near its threshold or past it.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.cache.keys import SECOND_DRAW
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judged_elsewhere import with_judged_elsewhere
from xscore.pipeline.live_judging import (
    ENDS_ALL,
    NONE_NEEDED,
    JudgedPool,
    NoJudge,
    judge_pool,
    open_judge,
    unjudged_causes,
)
from xscore.pipeline.parts import JudgingParts
from xscore.pipeline.pool import PooledTurn, pool_among
from xscore.pipeline.ranking import boosted, joined
from xscore.pipeline.resources import TurnResources
from xscore.platform.errors import NoUsableModel, ProviderError
from xscore.platform.event_loop import clear_cancellation
from xscore.platform.text import counted
from xscore.records.candidates import Candidate
from xscore.records.judgment import (
    SCORE_TOLERANCE,
    Judgment,
    Origin,
    Outcome,
    Ranked,
    Thresholds,
    Unjudged,
    UnjudgedCause,
)
from xscore.records.receipt import SecondDraws
from xscore.records.turn import Turn
from xscore.settings import SelectionSettings

if TYPE_CHECKING:
    from xscore.scorer.judge import Judge


async def draw_again(
    parts: JudgingParts,
    described: JudgeDescription,
    resources: TurnResources,
    pooled: PooledTurn,
    first_pool: JudgedPool,
) -> tuple[JudgedPool, SecondDraws]:
    """Judge a second time what came near its threshold.

    described: the judge that gave the first scores. What gets no second score keeps its first.
    Raises StoreError.
    """
    near, beyond = _near_threshold(parts, pooled.turn, first_pool.outcomes)
    if not near:
        return first_pool, SecondDraws(missed=beyond)
    # What ended the first judging would end this one as well.
    if (
        unjudged_causes(first_pool.outcomes) & ENDS_ALL
        or not resources.deadline.judging_left_s()
    ):
        return first_pool, SecondDraws(missed=len(near) + beyond)
    redrawn = PooledTurn(pooled.turn, pooled.key, pool_among(near, near, {}))
    try:
        redrawn = await with_judged_elsewhere(redrawn, described, resources, SECOND_DRAW)
    except asyncio.CancelledError:
        clear_cancellation()
        return replace(first_pool, interrupted=True), SecondDraws(missed=len(near) + beyond)
    judge: Judge | NoJudge = NONE_NEEDED
    if redrawn.pool.misses:
        try:
            judge = await open_judge(described, resources, redrawn, draw=SECOND_DRAW)
        except (ProviderError, NoUsableModel) as error:
            judge = NoJudge(UnjudgedCause.PROVIDER, error.message)
    second = await judge_pool(redrawn, judge, resources)
    lost: list[Unjudged] = []
    drawn_hashes: set[str] = set()
    for outcome in second.outcomes:
        if isinstance(outcome.result, Unjudged):
            lost.append(outcome.result)
        elif outcome.origin is Origin.JUDGED:
            drawn_hashes.add(outcome.result.content_hash)
    counts = SecondDraws(drawn=len(drawn_hashes), missed=len(lost) + beyond)
    merged = replace(
        first_pool,
        outcomes=_averaged(first_pool.outcomes, second.outcomes),
        interrupted=first_pool.interrupted or second.interrupted,
        warnings=_warning(lost),
    )
    return merged, counts


def _averaged(
    first_draws: Sequence[Outcome], second_draws: Sequence[Outcome]
) -> tuple[Outcome, ...]:
    """Return the first outcomes, with the mean of both scores where there is a second."""
    second_of: dict[str, Judgment] = {}
    for outcome in second_draws:
        if isinstance(outcome.result, Judgment):
            second_of[outcome.result.content_hash] = outcome.result
    merged: list[Outcome] = []
    for outcome in first_draws:
        first = outcome.result
        if isinstance(first, Judgment) and first.content_hash in second_of:
            mean = first.averaged_with(second_of[first.content_hash])
            merged.append(outcome._replace(result=mean))
        else:
            merged.append(outcome)
    return tuple(merged)


def _near_threshold(
    parts: JudgingParts, turn: Turn, outcomes: Sequence[Outcome]
) -> tuple[tuple[Candidate, ...], int]:
    """Return what is to be drawn again, nearest first, and how many more come as near."""
    thresholds = parts.judge.thresholds
    settings = parts.settings.selection
    least = thresholds.lowest - settings.redraw_margin - parts.settings.boosts.cap
    unboosted = joined(parts, outcomes, turn, words_weight=parts.judge.words_weight)
    scores = [entry.score for entry in unboosted]
    if max(scores, default=0.0) < least:  # no boost brings any of them near
        return (), 0
    ranked = boosted(parts, unboosted, turn, thresholds=thresholds)
    near = nearest_to_threshold(ranked, thresholds, settings)
    drawn_once = [entry.candidate for entry in near if not entry.judgment.draws]
    # Those drawn twice in an earlier turn count towards the most of this one, so that a turn that
    # is all cached makes no call.
    drawn_twice = len(near) - len(drawn_once)
    room = max(0, settings.most_redrawn - drawn_twice)
    return tuple(drawn_once[:room]), len(drawn_once[room:])


def nearest_to_threshold(
    ranked: Sequence[Ranked], thresholds: Thresholds, settings: SelectionSettings
) -> list[Ranked]:
    """Return what is within `redraw_margin` of its threshold, nearest first."""
    least = thresholds.lowest - settings.redraw_margin - SCORE_TOLERANCE
    near: list[tuple[float, str, Ranked]] = []
    for entry in ranked:
        # Few reach the lowest threshold: only they are compared by their kind.
        if entry.score < least:
            continue
        distance = abs(entry.score - thresholds.of(entry.candidate))
        if distance <= settings.redraw_margin + SCORE_TOLERANCE:
            near.append((distance, entry.candidate.id, entry))
    return [entry for _, _, entry in sorted(near)]


def _warning(lost: Sequence[Unjudged]) -> tuple[str, ...]:
    if not lost:
        return ()
    memories_were = counted(
        len(lost), "memory near its threshold was", "memories near their threshold were"
    )
    return (
        f"{memories_were} judged once instead of twice: {lost[0].detail or lost[0].cause.value}",
    )
