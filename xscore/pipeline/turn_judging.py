"""Have the judge score what a turn's cache lacks; then judge again what is near a threshold or was
left unjudged.

A decision model's score varies by about 0.05 from call to call, so one score says little near the
threshold. A second one is asked for in the same way, with claims, caps and the ledger, and stored
beside the first as another draw: if the process is killed in between, the first remains, and a
fully cached turn makes no call. Boosts are computed twice, because a boost may move a candidate
near its threshold or past it.

Each model of `judge.fallback` judges what the models before it left because their host failed,
refused, or gave unreadable replies. It works within the same deadline and caps, and its scores are
stored under its own name, never the judge's. Word scores have a scale of their own, so they rank
the whole pool or nothing. Trade-off: two models that judge one turn may score a little differently,
and the receipt can only say who judged how many.
"""

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import SECOND_DRAW, judge_key
from xscore.pipeline.factories import choose_judge, describe_judge, settings_judged_by
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judged_elsewhere import with_judged_elsewhere
from xscore.pipeline.known_hosts import remember_host
from xscore.pipeline.live_judging import (
    ENDS_ALL,
    NONE_NEEDED,
    JudgedPool,
    NoJudge,
    judge_pool,
    open_judge,
)
from xscore.pipeline.parts import JudgingParts, PipelineParts
from xscore.pipeline.pool import PooledTurn, known_judgments, pool_among
from xscore.pipeline.ranking import boosted, joined
from xscore.pipeline.resources import TurnResources
from xscore.pipeline.turn_stages import Judged, PreparedTurn
from xscore.pipeline.words_instead import FAILURES, WHY_WORDS_RANK
from xscore.platform.errors import (
    NoUsableModel,
    ProviderError,
    StoreError,
    UsageError,
    XscoreError,
)
from xscore.platform.event_loop import clear_cancellation
from xscore.platform.text import counted, join_sentences
from xscore.providers.spec import LEXICAL, parse_model_spec
from xscore.records.candidates import Candidate
from xscore.records.estimates import JudgeEstimate
from xscore.records.judgment import (
    SCORE_TOLERANCE,
    JudgeIdentity,
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
        _name_misspelt_fallbacks(parts)
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
        judged = await _judge_by_fallback(parts, prepared, resources, judged)
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
    """With the name under which the host answered."""
    pooled: PooledTurn
    """What it judges."""
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
        can_go_on = not isolated and _can_go_on(parts, error)
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
    if UnjudgedCause.DEADLINE in _causes(judged.outcomes):
        why = resources.why_unanswered()
        if why:
            warnings.append(why)
    warnings += _remember_host(parts.judge)
    if not isinstance(first.judge, NoJudge):
        warnings += (*first.judge.warnings(), *resources.spending.warnings())
    failures = frozenset(resources.usage.failures)
    return replace(judged, failures=failures, warnings=tuple(warnings))


def _causes(outcomes: Sequence[Outcome]) -> set[UnjudgedCause]:
    """Return why candidates are unjudged."""
    results = [outcome.result for outcome in outcomes]
    return {result.cause for result in results if isinstance(result, Unjudged)}


def _remember_host(judge: JudgeDescription) -> list[str]:
    """Store what replies have shown of a judge's host, or warn: it can be probed again."""
    try:
        remember_host(judge)
    except StoreError as error:  # the judgments are worth more
        warning = f"the host's capabilities could not be stored: {error.message}"
        return [join_sentences(warning, error.hint)]
    return []


async def draw_again(
    parts: JudgingParts,
    described: JudgeDescription,
    resources: TurnResources,
    pooled: PooledTurn,
    first_pool: JudgedPool,
) -> tuple[JudgedPool, SecondDraws]:
    """Judge a second time what came near its threshold.

    described: of the judge that gave the first scores. What gets no second score keeps its first.
    Raises StoreError.
    """
    near, beyond = _near_threshold(parts, pooled.turn, first_pool.outcomes)
    if not near:
        return first_pool, SecondDraws(missed=beyond)
    # What ended the first judging would end this one as well.
    if _causes(first_pool.outcomes) & ENDS_ALL or not resources.deadline.judging_left_s():
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


def _fallback_models(parts: PipelineParts) -> list[str]:
    """Return the models that may judge in the judge's place, in order."""
    return [name for name in parts.settings.judge.fallback if name != LEXICAL]


def _name_misspelt_fallbacks(parts: PipelineParts) -> None:
    """Warn of them while the judge still works: in the turn that needs one it is too late."""
    for name in _fallback_models(parts):
        try:
            parse_model_spec(name)
        except UsageError as error:
            parts.observer.note(f"judge.fallback: {join_sentences(error.message, error.hint)}")


def _can_go_on(parts: PipelineParts, error: XscoreError) -> bool:
    """Return whether the turn has another judge after this error of the first one, or words to rank
    by."""
    can_rank_by_words = (
        LEXICAL in parts.settings.judge.fallback and error.kind in WHY_WORDS_RANK
    )
    return can_rank_by_words or bool(_fallback_models(parts))


async def _judge_by_fallback(
    parts: PipelineParts, prepared: PreparedTurn, resources: TurnResources, judged: Judged
) -> Judged:
    """Have each model of the chain judge what those before it left, and put its outcomes in their
    place."""
    for name in _fallback_models(parts):
        remaining: list[Candidate] = []
        for outcome in judged.outcomes:
            if isinstance(outcome.result, Unjudged) and outcome.result.cause in FAILURES:
                remaining.append(outcome.candidate)
        if not remaining or judged.interrupted:
            return judged
        try:
            fallback = await _open_fallback(
                parts, prepared, resources, name, remaining=tuple(remaining), first=judged.judge
            )
            if fallback is None:  # it is the judge itself
                continue
            if fallback.stopped:
                # No time is left: what the first judge left keeps its causes.
                interrupted = fallback.stopped is UnjudgedCause.INTERRUPTED
                return replace(judged, interrupted=interrupted)
            judged = await _with_fallback(parts, resources, fallback, judged)
        except StoreError:  # what is paid for could not be kept, so no other model is asked
            raise
        except XscoreError as error:  # the next of the chain may do better
            warning = join_sentences(
                f"`{name}` could not take over: {error.message}", error.hint
            )
            judged = replace(judged, warnings=(*judged.warnings, warning))
    return judged


class _Fallback(Struct, frozen=True):
    """A model that judges in the judge's place."""

    described: JudgeDescription
    judge: "Judge | NoJudge"
    pooled: PooledTurn

    @property
    def stopped(self) -> UnjudgedCause | None:
        """What came before it could be opened: the deadline, or Ctrl-C; None: nothing did."""
        if isinstance(self.judge, NoJudge) and self.judge is not NONE_NEEDED:
            return self.judge.cause
        return None


async def _open_fallback(
    parts: PipelineParts,
    prepared: PreparedTurn,
    resources: TurnResources,
    name: str,
    *,
    remaining: tuple[Candidate, ...],
    first: JudgeIdentity,
) -> _Fallback | None:
    """Open another model for what is left; what it judged before is known.

    None: it is the first judge. Raises what opening does.
    """
    settings = settings_judged_by(name, parts.settings)
    spec, _ = choose_judge(settings)
    described = describe_judge(spec, settings, store=parts.store)
    if described.identity == first:
        return None
    judgments = known_judgments(parts.store, prepared.key, judge_key(described.identity))
    pool = pool_among(prepared.pool.all_candidates, remaining, judgments)
    pooled = PooledTurn(prepared.turn, prepared.key, pool)
    them = "it" if len(remaining) == 1 else "them"
    parts.observer.note(
        f"the judge could not judge {counted(len(remaining), 'memory', 'memories')};"
        f" `{spec}` at {described.identity.host} judges {them}"
    )
    if not pool.misses:
        return _Fallback(described, NONE_NEEDED, pooled)
    return _Fallback(described, await open_judge(described, resources, pooled), pooled)


async def _with_fallback(
    parts: PipelineParts, resources: TurnResources, fallback: _Fallback, judged: Judged
) -> Judged:
    """Return the outcomes with those of another model in the place of what the judge left."""
    judge = fallback.judge
    described = fallback.described
    leaders = parts.settings.selection.top_k
    rest = await judge_pool(fallback.pooled, judge, resources, parts.observer, leaders=leaders)
    known_as = described.identity
    new_as = known_as if isinstance(judge, NoJudge) else judge.identity
    by_fallback = dict(judged.by_fallback)
    taken_over: dict[str, Outcome] = {}
    for outcome in rest.outcomes:
        taken_over[outcome.candidate.id] = outcome
        if isinstance(outcome.result, Judgment):
            is_new = outcome.origin is Origin.JUDGED
            by_fallback[outcome.candidate.content_hash] = new_as if is_new else known_as
    warnings = list(judged.warnings)
    if not isinstance(judge, NoJudge):
        warnings += (*judge.warnings(), *_remember_host(described))
    outcomes = [taken_over.get(outcome.candidate.id, outcome) for outcome in judged.outcomes]
    return replace(
        judged,
        outcomes=tuple(outcomes),
        interrupted=rest.interrupted,
        by_fallback=by_fallback,
        warnings=tuple(warnings),
    )
