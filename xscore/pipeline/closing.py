"""Close the account of a turn: what was judged, kept, answered and spent, in one receipt with its exit code.

It alone decides what a turn ends with. It writes nothing down; `ask` keeps the receipt. Trade-off: of several things
that went wrong the exit code names the one that matters most to a caller, the receipt all.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

from xscore.memory.evidence import stale_ids
from xscore.pipeline import account
from xscore.pipeline.opening import Opened
from xscore.pipeline.parts import Desk, Parts
from xscore.prompts.judge import saw
from xscore.records import (
    Answer,
    Cause,
    Coverage,
    JudgeInfo,
    Latency,
    Outcome,
    PrimaryInfo,
    Selected,
    Selection,
    Stage,
    StageUsage,
    Traffic,
    Turn,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a turn came to."""

    outcomes: tuple[Outcome, ...]
    selection: Selection
    reasons: Mapping[str, str]
    """By content hash, of what was not judged this turn."""
    titles: Mapping[str, str]
    """By memory id, of what belongs to no file."""
    answer: str | None
    bundle: str | None
    """As the receipt shows it."""
    warnings: tuple[str, ...]
    interrupted: bool
    primary_failed: bool
    is_over_budget: bool = False
    """A cap had no room for the answering call."""


def close_account(
    parts: Parts, opened: Opened, ended: Ended, desk: Desk | None, *, latency: Latency, wants_answer: bool
) -> Answer:
    """Return the whole receipt. Raises BrokenReceipt where it does not add up."""
    threshold = parts.judge.threshold
    kept, near_misses = _shown(ended, threshold, stale=stale_ids(parts.store.connection))
    coverage = account.coverage(ended.outcomes, len(opened.pool.candidates))
    answerer = parts.answerer if wants_answer else None
    return Answer(
        turn_id=opened.turn.id,
        continues=opened.turn.continues,
        session=opened.session,
        checkpoint=opened.checkpoint.name if opened.checkpoint else "",
        task=opened.turn.task,
        scope=opened.turn.scope,
        threshold=threshold,
        top_k=parts.settings.selection.top_k,
        judge=_judge_info(parts, opened.turn),
        primary=PrimaryInfo(answerer.provider, answerer.model) if answerer else None,
        partial=coverage.unjudged > 0,
        warnings=ended.warnings,
        coverage=coverage,
        unjudged=account.unjudged_account(ended.selection),
        selected=kept,
        near_misses=near_misses,
        answer=ended.answer,
        bundle=ended.bundle,
        judge_usage=desk.tab.spent(Stage.JUDGE) if desk else StageUsage(),
        primary_usage=desk.tab.spent(Stage.PRIMARY) if desk and answerer else None,
        probe_usage=_any(desk, Stage.PROBE),
        embed_usage=_any(desk, Stage.EMBED),
        routing=opened.routing,
        traffic=desk.traffic() if desk else Traffic(),
        latency=latency,
        excluded_files=sum(opened.index.files.excluded.by_reason.values()),
        exit_code=_exit_code(coverage, ended),
    )


def _shown(
    ended: Ended, threshold: float, *, stale: AbstractSet[str]
) -> tuple[tuple[Selected, ...], tuple[Selected, ...]]:
    """Return what was kept, and the near misses, as the receipt shows them."""
    shown = partial(account.selected, titles=ended.titles, stale=stale)
    chosen = ended.selection
    kept = (shown(one, ended.reasons, below_threshold=one.candidate.id in chosen.filled) for one in chosen.kept)
    near = (shown(one, ended.reasons, below_threshold=one.score < threshold) for one in chosen.near_misses)
    return tuple(kept), tuple(near)


def _exit_code(coverage: Coverage, ended: Ended) -> int:
    causes = {absent.cause for _, absent in ended.selection.unjudged}
    ends = (
        (ended.interrupted, 130),
        (ended.is_over_budget or Cause.BUDGET in causes, 4),
        (coverage.candidates > 0 and coverage.unjudged == coverage.candidates, 3),
        (ended.primary_failed, 7),
        (coverage.unjudged > 0, 1),
    )
    return next((code for holds, code in ends if holds), 0)


def _any(desk: Desk | None, stage: Stage) -> StageUsage | None:
    spent = desk.tab.spent(stage) if desk else StageUsage()
    return spent if spent.attempts else None


def _judge_info(parts: Parts, turn: Turn) -> JudgeInfo:
    identity = parts.judge.identity
    return JudgeInfo(
        provider=identity.provider,
        model=identity.model,
        host=identity.host,
        prompt_version=identity.prompt_version,
        order=identity.order,
        is_model=parts.judge.is_model,
        saw=saw(turn, context=parts.settings.judge.context),
    )
