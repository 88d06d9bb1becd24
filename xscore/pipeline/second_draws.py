"""Ask a decision model a second time about what came near its threshold, and take the mean of both answers.

One answer of such a model varies by about 0.05, so a single one decides little near the threshold. The second is
judged like the first, with claims, caps and the ledger, and stored beside it as another sample: a kill between the two
leaves the first, and a turn that is all cached asks nothing. Trade-off: boosts are worked out twice, because one may
bring a candidate near its threshold or past it.
"""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from xscore.cache.keys import SECOND_DRAW
from xscore.pipeline.judging import ENDS_ALL, Deadline, JudgedPool, JudgingWatch, judge_pool, take_back_cancellation
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import Pool
from xscore.pipeline.ranking import boosted
from xscore.pipeline.resources import TurnResources
from xscore.platform.errors import NoUsableModel, ProviderError
from xscore.platform.text import counted
from xscore.records.calls import Stage
from xscore.records.judgment import SCORE_TOLERANCE, Judgment, Origin, Outcome, Unjudged, UnjudgedCause
from xscore.records.memory import Candidate
from xscore.records.receipt import SecondDraws
from xscore.records.reports import Observer
from xscore.records.turn import Turn


class DrawnAgain(Struct, frozen=True):
    """The outcomes after the second draws."""

    outcomes: tuple[Outcome, ...]
    counts: SecondDraws
    interrupted: bool = False
    warnings: tuple[str, ...] = ()


async def draw_again(
    parts: PipelineParts,
    resources: TurnResources,
    question: tuple[Turn, str],
    outcomes: tuple[Outcome, ...],
    deadline: Deadline | None,
) -> DrawnAgain:
    """Judge a second time what came near its threshold. question: the turn and its key.

    What gets no second score keeps its first. Raises StoreError.
    """
    near, beyond = _near_threshold(parts, question[0], outcomes)
    if not near:
        return DrawnAgain(outcomes, SecondDraws(missed=beyond))
    causes = {one.result.cause for one in outcomes if isinstance(one.result, Unjudged)}
    if causes & ENDS_ALL or (deadline is not None and not deadline.judging_left_s()):
        return DrawnAgain(outcomes, SecondDraws(missed=len(near) + beyond))
    judged = await _judge(parts, resources, question, near, deadline)
    scores = {one.result.content_hash: one.result for one in judged.outcomes if isinstance(one.result, Judgment)}
    lost = [one.result for one in judged.outcomes if isinstance(one.result, Unjudged)]
    merged = tuple(
        one._replace(result=one.result.averaged_with(scores[one.result.content_hash]))
        if isinstance(one.result, Judgment) and one.result.content_hash in scores
        else one
        for one in outcomes
    )
    drawn = {one.result.content_hash for one in judged.outcomes if one.origin is Origin.JUDGED}
    counts = SecondDraws(drawn=len(drawn), missed=len(lost) + beyond)
    return DrawnAgain(merged, counts, judged.interrupted, _warning(lost))


def _near_threshold(parts: PipelineParts, turn: Turn, outcomes: Sequence[Outcome]) -> tuple[list[Candidate], int]:
    """Return what is to be drawn again, nearest first, and how many more come as near."""
    thresholds, settings = parts.judge.thresholds, parts.settings.selection
    least = thresholds.lowest - settings.redraw_margin - parts.settings.boosts.cap
    scores = [one.result.score for one in outcomes if isinstance(one.result, Judgment)]
    if max(scores, default=0.0) < least:  # no boost brings any of them near
        return [], 0
    ranked = boosted(parts, outcomes, turn, thresholds=thresholds)
    distances = [
        (abs(one.score - thresholds.of(one.candidate)), one.candidate.id, one) for one in ranked if one.score >= least
    ]
    near = sorted(found for found in distances if found[0] <= settings.redraw_margin + SCORE_TOLERANCE)
    once = [one.candidate for _, _, one in near if not one.judgment.draws]
    room = max(0, settings.most_redrawn - (len(near) - len(once)))
    return once[:room], len(once[room:])


async def _judge(
    parts: PipelineParts,
    resources: TurnResources,
    question: tuple[Turn, str],
    near: Sequence[Candidate],
    deadline: Deadline | None,
) -> JudgedPool:
    turn, key = question
    pool = Pool(tuple(near), tuple(near), {}, tuple(near))
    usage = resources.usage
    watched = JudgingWatch(observer=Observer(), leaders=0, deadline=deadline, call_s=lambda: usage.call_s(Stage.JUDGE))
    cause, detail, interrupted = UnjudgedCause.DEADLINE, "", False
    try:
        async with asyncio.timeout(deadline.judging_left_s() if deadline else None):
            judge = await parts.judge.open(resources, turn, pool, key, SECOND_DRAW)
    except TimeoutError:
        pass
    except asyncio.CancelledError:
        take_back_cancellation(asyncio.current_task())
        cause, interrupted = UnjudgedCause.INTERRUPTED, True
    except (ProviderError, NoUsableModel) as error:
        cause, detail = UnjudgedCause.PROVIDER, error.message
    else:
        return await judge_pool(pool, judge, turn, watched)
    lost = [Outcome(one, Unjudged(one.content_hash, cause, detail), Origin.UNJUDGED) for one in near]
    return JudgedPool(tuple(lost), interrupted)


def _warning(lost: Sequence[Unjudged]) -> tuple[str, ...]:
    if not lost:
        return ()
    what = counted(len(lost), "memory near its threshold was", "memories near their threshold were")
    return (f"{what} judged once instead of twice: {lost[0].detail or lost[0].cause.value}",)
