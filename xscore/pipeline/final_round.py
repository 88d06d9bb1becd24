"""A final round: another judge looks once more at what came first, side by side in one prompt.

Its scores replace the judge's for those memories, joined with words and boosted as
any; nothing that it has not seen is kept. They are stored under its own name, so a turn that is
all cached sends nothing. Where it fails or no time is left, the scores of the judge stay, and a
warning says so. Trade-off: a memory that the judge and words both miss never comes here; and an
estimate has to guess who comes first.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.pipeline.estimating import forecast_judging
from xscore.pipeline.factories import choose_judge, describe_judge, settings_judged_by
from xscore.pipeline.judge_description import JudgeDescription, Scale
from xscore.pipeline.live_judging import NoJudge, judge_pool, open_judge
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import PooledTurn, known_judgments, pool_among
from xscore.pipeline.ranking import boosted, joined
from xscore.pipeline.turn_stages import Judged, PreparedTurn, by_rank
from xscore.platform.errors import StoreError, UsageError, XscoreError
from xscore.platform.text import counted, join_sentences
from xscore.records.candidates import Candidate
from xscore.records.estimates import JudgeEstimate
from xscore.records.judgment import (
    Judgment,
    Outcome,
    Ranked,
    Thresholds,
    Unjudged,
    UnjudgedCause,
)
from xscore.records.receipt import FinalRound
from xscore.scorer.lexical import lexical_priors
from xscore.settings import SelectionSettings

if TYPE_CHECKING:
    from xscore.pipeline.resources import TurnResources

MOST_FINALISTS = 60
ROUND_TOKENS = 24_000
"""Most tokens of one prompt, so that all finalists are side by side where the model's context
has room."""


def finalists(
    ranked: Sequence[Ranked], thresholds: Thresholds, settings: SelectionSettings
) -> list[Ranked]:
    """Return the best of what passed or came near its threshold, best first."""
    near = [
        entry
        for entry in ranked
        if thresholds.reached_by(entry.candidate, entry.score + settings.near_margin)
    ]
    return sorted(near, key=by_rank)[:MOST_FINALISTS]


async def judge_finalists(
    parts: PipelineParts,
    prepared: PreparedTurn,
    judged: Judged,
    resources: "TurnResources | None",
) -> Judged:
    """Return the outcomes with the final judge's scores in the place of the judge's.

    resources: None: nothing may be sent, so only what is stored counts. Raises StoreError.
    """
    if judged.nothing_judged or judged.interrupted:
        return judged
    thresholds = parts.judge.thresholds
    unboosted = joined(
        parts, judged.outcomes, prepared.turn, words_weight=parts.judge.words_weight
    )
    ranked = boosted(parts, unboosted, prepared.turn, thresholds=thresholds)
    chosen = [
        entry.candidate for entry in finalists(ranked, thresholds, parts.settings.selection)
    ]
    if not chosen:
        return judged
    try:
        described = describe_final_judge(parts)
        if described.identity == judged.judge:
            return judged
        looked_at = await _look_again(parts, prepared, described, chosen, resources)
    except StoreError:  # what was paid for could not be kept
        raise
    except XscoreError as error:
        warning = f"there was no final round: {error.message}"
        return replace(judged, warnings=(*judged.warnings, join_sentences(warning, error.hint)))
    return _with_final_scores(judged, looked_at)


def describe_final_judge(parts: PipelineParts) -> JudgeDescription:
    """Describe the judge of the round. Raises UsageError for words, and what describing raises."""
    name = parts.settings.selection.final
    named = settings_judged_by(name, parts.settings)
    pack = replace(named.judge, pack_size=MOST_FINALISTS, pack_tokens=ROUND_TOKENS)
    named = replace(named, judge=pack)
    spec, _ = choose_judge(named)
    described = describe_judge(spec, named, store=parts.store)
    if described.scale is Scale.WORDS:
        hint = "Name a model, or `off`: words are joined to every model's scores already."
        raise UsageError(f"selection.final: `{name}` is not a model", hint=hint)
    # Its prompts are made for this question: no lasting packs.
    return replace(described, slots=None)


def estimate_final_round(parts: PipelineParts, prepared: PreparedTurn) -> JudgeEstimate | None:
    """Return about what a round takes, or None if there will be none.

    Who comes first is known when all is judged; until then it is who words put first.
    """
    try:
        described = describe_final_judge(parts)
    except XscoreError:  # the turn says so
        return None
    if described.identity == parts.judge.identity:
        return None
    candidates = prepared.pool.candidates
    store = parts.store
    priors = lexical_priors(
        prepared.turn, candidates, store.term_vectors, purposes=store.purposes
    )
    order = sorted(candidates, key=lambda candidate: -priors.get(candidate.id, 0.0))
    first = tuple(order[:MOST_FINALISTS])
    stored = known_judgments(parts.store, prepared.key, judge_key(described.identity))
    return forecast_judging(described, prepared.turn, pool_among(first, first, stored))


class _SecondLook(Struct, frozen=True):
    """The final judge's scores of the finalists."""

    outcomes: tuple[Outcome, ...]
    interrupted: bool
    judge: JudgeDescription


async def _look_again(
    parts: PipelineParts,
    prepared: PreparedTurn,
    described: JudgeDescription,
    chosen: Sequence[Candidate],
    resources: "TurnResources | None",
) -> _SecondLook:
    """Have the finalists judged; what was judged before is known. Raises what opening raises."""
    stored = known_judgments(parts.store, prepared.key, judge_key(described.identity))
    candidates = tuple(chosen)
    pooled = PooledTurn(prepared.turn, prepared.key, pool_among(candidates, candidates, stored))
    if resources is None or not pooled.pool.misses:
        none_needed = await judge_pool(pooled, NoJudge(UnjudgedCause.REPLAY), None)
        return _SecondLook(none_needed.outcomes, none_needed.interrupted, described)
    parts.observer.note(
        f"final round: `{described.spec}` at {described.host} looks at"
        f" {counted(len(pooled.pool.misses), 'memory', 'memories')} once more"
    )
    judge = await open_judge(described, resources, pooled)
    if not isinstance(judge, NoJudge):
        described = replace(described, identity=judge.identity)
    judged = await judge_pool(pooled, judge, resources)
    return _SecondLook(judged.outcomes, judged.interrupted, described)


def _with_final_scores(judged: Judged, looked_at: _SecondLook) -> Judged:
    described = looked_at.judge
    final_of: dict[str, Outcome] = {}
    lost: list[Unjudged] = []
    for outcome in looked_at.outcomes:
        if isinstance(outcome.result, Judgment):
            final_of[outcome.candidate.content_hash] = outcome
        else:
            lost.append(outcome.result)
    warnings = list(judged.warnings)
    if lost:
        memories = counted(len(lost), "memory has", "memories have")
        why = lost[0].detail or lost[0].cause.value
        warnings.append(f"final round: {memories} the first judge's score only: {why}")
    interrupted = judged.interrupted or looked_at.interrupted
    if not final_of:
        return replace(judged, interrupted=interrupted, warnings=tuple(warnings))
    by_fallback = dict(judged.by_fallback)
    merged: list[Outcome] = []
    for outcome in judged.outcomes:
        hash_ = outcome.candidate.content_hash
        first = outcome.result
        final = final_of.get(hash_)
        if final is None or not isinstance(final.result, Judgment):
            merged.append(outcome)
            continue
        by_fallback[hash_] = described.identity
        # What words say about a memory does not depend on its judge.
        if isinstance(first, Judgment):
            words = first.prior
        else:
            words = final.result.prior
        merged.append(
            Outcome(outcome.candidate, final.result._replace(prior=words), final.origin)
        )
    account = FinalRound(
        by=described.name,
        key=judge_key(described.identity),
        finalists=len(looked_at.outcomes),
        judged=len(final_of),
    )
    return replace(
        judged,
        outcomes=tuple(merged),
        interrupted=interrupted,
        by_fallback=by_fallback,
        finalists=frozenset([outcome.candidate.id for outcome in looked_at.outcomes]),
        final_round=account,
        warnings=tuple(warnings),
    )
