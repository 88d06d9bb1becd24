"""Judge with other models what the judge left unjudged because its host failed.

Each model of `judge.fallback` judges what the models before it left because their host failed,
refused, or gave unreadable replies. It works within the same deadline and caps, and its scores are
stored under its own name, never the judge's. Word scores have a scale of their own, so they rank
the whole pool or nothing (`words_instead`). Trade-off: two models that judge one turn may score a
little differently, and the receipt can only say who judged how many.
"""

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.pipeline.factories import choose_judge, describe_judge, settings_judged_by
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.known_hosts import remember_host_or_warn
from xscore.pipeline.live_judging import NONE_NEEDED, NoJudge, judge_pool, open_judge
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import PooledTurn, known_judgments, pool_among
from xscore.pipeline.resources import TurnResources
from xscore.pipeline.turn_stages import Judged, PreparedTurn
from xscore.pipeline.words_instead import FAILURES, WHY_WORDS_RANK
from xscore.platform.errors import StoreError, UsageError, XscoreError
from xscore.platform.text import counted, join_sentences
from xscore.providers.spec import LEXICAL, parse_model_spec
from xscore.records.candidates import Candidate
from xscore.records.judgment import (
    JudgeIdentity,
    Judgment,
    Origin,
    Outcome,
    Unjudged,
    UnjudgedCause,
)

if TYPE_CHECKING:
    from xscore.scorer.judge import Judge


def note_misspelt_fallbacks(parts: PipelineParts) -> None:
    """Warn of them while the judge still works: in the turn that needs one it is too late."""
    for name in _fallback_models(parts):
        try:
            parse_model_spec(name)
        except UsageError as error:
            parts.observer.note(f"judge.fallback: {join_sentences(error.message, error.hint)}")


def has_other_judge(parts: PipelineParts, error: XscoreError) -> bool:
    """Return whether the turn has another judge after this error of the first one, or words to rank
    by."""
    can_rank_by_words = (
        LEXICAL in parts.settings.judge.fallback and error.kind in WHY_WORDS_RANK
    )
    return can_rank_by_words or bool(_fallback_models(parts))


async def judge_by_fallback(
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
        """What came before it could be opened: the deadline, or Ctrl-C; None if nothing did."""
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
        warnings += (*judge.warnings(), *remember_host_or_warn(described))
    outcomes = [taken_over.get(outcome.candidate.id, outcome) for outcome in judged.outcomes]
    return replace(
        judged,
        outcomes=tuple(outcomes),
        interrupted=rest.interrupted,
        by_fallback=by_fallback,
        warnings=tuple(warnings),
    )


def _fallback_models(parts: PipelineParts) -> list[str]:
    """Return the models that may judge in the judge's place, in order."""
    return [name for name in parts.settings.judge.fallback if name != LEXICAL]
