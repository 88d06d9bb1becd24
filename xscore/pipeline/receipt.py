"""Build a turn's receipt, exit code, score lines and report figures from its outcomes.

It writes nothing; `save_turn` does. `Coverage` checks that the counts add up. Trade-off: if several
things went wrong, the exit code names the one that matters most to a caller; the receipt lists all.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.pipeline.judge_description import Scale
from xscore.pipeline.pool import stored_reasons
from xscore.platform.errors import ExitCode
from xscore.prompts.turn_text import shown_turn_parts
from xscore.records.calls import Stage, Traffic
from xscore.records.events import JudgeEstimate
from xscore.records.judgment import (
    SCORE_TOLERANCE,
    JudgeIdentity,
    Judgment,
    Origin,
    Outcome,
    Ranked,
    Selection,
    Unjudged,
    UnjudgedCause,
)
from xscore.records.memory import Candidate
from xscore.records.receipt import (
    BY_WORDS,
    NEAR_THRESHOLD,
    SCORE_BINS,
    Answer,
    CarriedOver,
    Coverage,
    Expected,
    JudgeInfo,
    PrimaryInfo,
    ScoredBy,
    ScoreLine,
    SecondDraws,
    Selected,
    StageUsage,
    TurnFigures,
    UnjudgedAccount,
    UnjudgedSample,
)
from xscore.store.memory_rows import stale_memory_ids

if TYPE_CHECKING:
    from xscore.pipeline.ranking import Ranking
    from xscore.pipeline.resources import TurnResources
    from xscore.pipeline.turn import TurnRun

UNJUDGED_SHOWN = 20


def judge_shares(
    outcomes: Sequence[Outcome],
    origins: Counter[Origin],
    judge: JudgeIdentity,
    taken_over: Mapping[str, JudgeIdentity],
) -> tuple[ScoredBy, ...]:
    """Count what each judge scored, the turn's own first. taken_over: content hash -> who else
    scored it."""
    counts = {judge: Counter[Origin]()}
    others = (
        [one for one in outcomes if one.candidate.content_hash in taken_over] if taken_over else []
    )
    for one in others:
        counts.setdefault(taken_over[one.candidate.content_hash], Counter())[one.origin] += 1
    counts[judge] = origins - sum(counts.values(), Counter())
    return tuple(
        ScoredBy(
            provider=who.provider,
            model=who.model,
            host=who.host,
            key=judge_key(who),
            judged=given[Origin.JUDGED],
            cached=given[Origin.CACHED],
            carried=given[Origin.CARRIED],
        )
        for who, given in counts.items()
    )


def unjudged_account(selection: Selection) -> UnjudgedAccount:
    """Count the unjudged by cause and show the first of them."""
    by_cause = Counter(str(absent.cause) for _, absent in selection.unjudged)
    sample = tuple(
        UnjudgedSample(
            candidate.id, candidate.path, candidate.entity, str(absent.cause), absent.detail
        )
        for candidate, absent in selection.unjudged[:UNJUDGED_SHOWN]
    )
    return UnjudgedAccount(dict(by_cause.most_common()), sample)


def to_selected(
    ranked: Ranked,
    reasons: Mapping[str, str],
    *,
    threshold: float,
    below_threshold: bool,
    titles: Mapping[str, str] = {},
    stale: Collection[str] = (),
    carried_from: str = "",
    placed_by: str = "",
) -> Selected:
    """Return a ranked candidate as the receipt shows it.

    reasons: by content hash, for cached judgments.
    titles: by memory id, of memories that belong to no file.
    stale: ids of memories whose cited code has changed.
    carried_from: the turn under whose wording it was judged, if it was another.
    placed_by: the rule of its place, if it has one or stands behind another.
    """
    candidate = ranked.candidate
    return Selected(
        id=candidate.id,
        layer=str(candidate.layer),
        kind=str(candidate.kind),
        path=candidate.path,
        entity=candidate.entity,
        start_line=candidate.start_line,
        end_line=candidate.end_line,
        language=candidate.language,
        raw_score=ranked.judgment.score,
        boosts=ranked.boosts,
        score=ranked.score,
        reason=ranked.judgment.reason or reasons.get(candidate.content_hash, ""),
        cached=ranked.origin is not Origin.JUDGED,
        threshold=threshold,
        below_threshold=below_threshold,
        title=titles.get(candidate.id, ""),
        is_stale=candidate.id in stale,
        draws=ranked.judgment.draws,
        carried_from=carried_from,
        placed_by=placed_by,
    )


def score_lines(
    outcomes: Sequence[Outcome], ranked: Sequence[Ranked], reasons: Mapping[str, str]
) -> Iterator[ScoreLine]:
    """Return a line for every candidate: the ranked in order, then the unjudged by path."""

    def line(one: Candidate, *rest: Any) -> ScoreLine:
        return ScoreLine(one.id, one.path, one.entity, str(one.layer), str(one.kind), *rest)

    for one, judgment, origin, boosts, score in ranked:
        reason = judgment.reason or reasons.get(one.content_hash, "")
        yield line(one, str(origin), judgment.score, score, reason, "", boosts)
    for one, absent in sorted(
        unjudged_pairs(outcomes), key=lambda pair: (pair[0].path, pair[0].start_line)
    ):
        yield line(one, str(Origin.UNJUDGED), None, None, "", str(absent.cause))


def unjudged_pairs(outcomes: Sequence[Outcome]) -> tuple[tuple[Candidate, Unjudged], ...]:
    """Return the candidates without a judgment."""
    none = Origin.UNJUDGED  # compared first: a fifth of the time of asking each for its type
    return tuple(
        [
            (one, lost)
            for one, lost, origin in outcomes
            if origin is none and isinstance(lost, Unjudged)
        ]
    )


def find_reasons(run: "TurnRun", shown: Sequence[Ranked]) -> Mapping[str, str]:
    """Return the stored reasons of candidates not judged in this turn, by content hash."""
    if run.ranked_by:
        return {}
    pool, parts = run.opened.pool, run.parts
    # What was judged just now has its reason.
    hashes = ((one.candidate.content_hash, one.origin) for one in shown)
    stored = [
        one for one, origin in hashes if origin is not Origin.JUDGED or one in pool.judged_this_turn
    ]
    judges = dict.fromkeys((parts.judge.identity, *run.taken_over.values()))
    found = stored_reasons(parts.store, run.opened.key, map(judge_key, judges), stored)
    if pool.thread is None or not pool.thread.wordings:
        return found
    from xscore.pipeline.carrying import carried_reasons

    return {**carried_reasons(pool, parts.store, judge_key(parts.judge.identity), stored), **found}


def make_receipt(run: "TurnRun", ranking: "Ranking") -> Answer:
    """Return the whole receipt. Raises BrokenReceipt if it does not add up."""
    parts, opened, resources = run.parts, run.opened, run.resources
    chosen = ranking.selection
    kept, near_misses = _shown_memories(run, chosen)
    origins = Counter([one.origin for one in run.outcomes])
    ends = (Origin.JUDGED, Origin.CACHED, Origin.CARRIED, Origin.UNJUDGED)
    coverage = Coverage(len(opened.pool.candidates), *map(origins.__getitem__, ends))
    answerer = parts.answerer if run.options.answer else None
    return Answer(
        turn_id=opened.turn.id,
        continues=opened.turn.continues,
        session=opened.session,
        checkpoint=opened.checkpoint.name if opened.checkpoint else "",
        task=opened.turn.task,
        scope=opened.turn.scope,
        threshold=chosen.thresholds.default,
        thresholds=dict(chosen.thresholds.by_kind),
        top_k=parts.settings.selection.top_k,
        judge=_judge_info(run),
        primary=PrimaryInfo(
            answerer.provider, answerer.model, _assumed_price(run, answerer.model, answerer.host)
        )
        if answerer
        else None,
        partial=coverage.unjudged > 0 or bool(run.left_by) or opened.index.files_left > 0,
        warnings=_all_warnings(run),
        coverage=coverage,
        unjudged=unjudged_account(chosen),
        selected=kept,
        near_misses=near_misses,
        answer=run.answer_text,
        bundle=_shown_bundle(run),
        judge_usage=resources.usage.spent(Stage.JUDGE) if resources else StageUsage(),
        primary_usage=resources.usage.spent(Stage.PRIMARY) if resources and answerer else None,
        probe_usage=_stage_usage(resources, Stage.PROBE),
        embed_usage=_stage_usage(resources, Stage.EMBED),
        reason_usage=_stage_usage(resources, Stage.REASON),
        routing=opened.routing,
        traffic=resources.traffic() if resources else Traffic(),
        latency=run.stopwatch.latency(since=run.options.waits_from),
        reasons=run.reasons_account,
        carried_over=_carried_over(run, coverage),
        second_draws=_count_second_draws(run),
        kept_out=opened.index.files.excluded.by_reason,
        files_left=opened.index.files_left,
        ranked_by=run.ranked_by,
        judges=judge_shares(run.outcomes, origins, parts.judge.identity, run.taken_over),
        exit_code=_exit_code(coverage, run, ranking),
    )


def _shown_memories(
    run: "TurnRun", chosen: Selection
) -> tuple[tuple[Selected, ...], tuple[Selected, ...]]:
    parts = run.parts
    nameless = [
        entry.candidate.id
        for entry in (*chosen.kept, *chosen.near_misses)
        if not entry.candidate.path
    ]
    titles = (
        {id_: memory.title for id_, memory in parts.store.memories(nameless).items()}
        if nameless
        else {}
    )
    stale = stale_memory_ids(parts.store.connection)

    def show(one: Ranked, *, below_threshold: bool) -> Selected:
        wording = run.opened.pool.wording_of(one)
        return to_selected(
            one,
            run.reasons,
            threshold=chosen.thresholds.of(one.candidate),
            below_threshold=below_threshold,
            titles=titles,
            stale=stale,
            carried_from=wording.turn_id if wording else "",
            placed_by=chosen.placed_by.get(one.candidate.id, ""),
        )

    kept = tuple(
        [show(one, below_threshold=one.candidate.id in chosen.filled) for one in chosen.kept]
    )
    return kept, tuple(
        [show(one, below_threshold=not chosen.passed(one)) for one in chosen.near_misses]
    )


def _carried_over(run: "TurnRun", coverage: Coverage) -> CarriedOver:
    if not coverage.carried and run.opened.pool.thread is None:
        return CarriedOver()
    from xscore.pipeline.carrying import carried_over

    return carried_over(run.opened.pool, run.outcomes, run.opened.turn, left=len(run.left_by))


def _count_second_draws(run: "TurnRun") -> SecondDraws:
    if not run.parts.judge.identity.is_decision:
        return SecondDraws()
    twice = {
        one.content_hash for _, one, _ in run.outcomes if isinstance(one, Judgment) and one.draws
    }
    return replace(run.second_draws, cached=len(twice) - run.second_draws.drawn)


def _all_warnings(run: "TurnRun") -> tuple[str, ...]:
    said = list(run.warnings)
    if not run.options.isolated and (
        run.refused or (run.ranking and run.ranking.selection.unjudged)
    ):
        from xscore.pipeline.turn_estimate import how_to_continue

        said += how_to_continue(run)
    return tuple(dict.fromkeys(said))


def _shown_bundle(run: "TurnRun") -> str | None:
    """Return the bundle as text after the checkpoint; a JSON bundle stays unchanged.

    None: it is not shown.
    """
    if run.bundle is None or not (run.options.bundle or run.answer_text is None):
        return None
    if run.opened.checkpoint is None or run.options.bundle == "json":
        return run.bundle.text
    from xscore.prompts.answer import checkpoint_block, render_checkpoint

    before = checkpoint_block(render_checkpoint(run.opened.checkpoint))
    return f"{before}\n\n{run.bundle.text}"


def _exit_code(coverage: Coverage, run: "TurnRun", ranking: "Ranking") -> int:
    causes = {absent.cause for _, absent in ranking.selection.unjudged} | set(run.left_by)
    ends = (
        (run.interrupted, ExitCode.INTERRUPTED),
        (bool(run.refused) or UnjudgedCause.BUDGET in causes, ExitCode.BUDGET),
        (coverage.unjudged > 0 and run.nothing_judged and not run.left_by, run.unjudged_exit),
        (run.primary_failed, ExitCode.NO_ANSWER),
        (
            coverage.unjudged > 0 or bool(run.left_by) or run.opened.index.files_left > 0,
            ExitCode.PARTLY,
        ),
        (run.is_left_open, ExitCode.PARTLY),
    )
    return next((code for holds, code in ends if holds), ExitCode.DONE)


def _stage_usage(resources: "TurnResources | None", stage: Stage) -> StageUsage | None:
    spent = resources.usage.spent(stage) if resources else StageUsage()
    return spent if spent.attempts else None


def _judge_info(run: "TurnRun") -> JudgeInfo:
    parts, identity = run.parts, run.parts.judge.identity
    return JudgeInfo(
        provider=identity.provider,
        model=identity.model,
        host=identity.host,
        prompt_version=identity.prompt_version,
        order=identity.order,
        by_model=parts.judge.scale is not Scale.WORDS,
        saw=shown_turn_parts(run.opened.turn, sees=parts.settings.judge.sees),
        assumed_price=_assumed_price(run, identity.model, identity.host),
    )


def _assumed_price(run: "TurnRun", model: str, host: str) -> str:
    """Return what is assumed of the calls of this turn; empty if it could make none."""
    if run.resources is None:
        return ""
    from xscore.providers.prices import assumed_price

    return assumed_price(model, host, run.parts.settings.provider.price)


_EDGES = tuple((at - SCORE_TOLERANCE) / SCORE_BINS for at in range(1, SCORE_BINS))
"""Lower bounds of all bins but the first, less float error."""


def turn_figures(
    answer: Answer,
    scores: Iterable[float],
    *,
    command: str,
    forecast: JudgeEstimate | None = None,
    threshold: float | None = None,
) -> TurnFigures:
    """Return the figures of a finished turn.

    scores: final scores, 0..1, of every judged candidate.
    forecast: made before judging; None: none was made.
    threshold: of the judge, where words ranked by one of their own in its place; None: the
        answer's.
    """
    ascending = sorted(scores)  # sorted and bisected: a third of the time of a check per score
    judge, threshold = answer.judge, answer.threshold if threshold is None else threshold
    near_from, near_to = (
        threshold - NEAR_THRESHOLD + SCORE_TOLERANCE,
        threshold + NEAR_THRESHOLD - SCORE_TOLERANCE,
    )
    return TurnFigures(
        command=command,
        judge=f"{judge.provider}:{judge.model}" if judge.by_model else BY_WORDS,
        coverage=answer.coverage,
        unjudged_by_cause=dict(answer.unjudged.by_cause),
        kept=len(answer.selected),
        threshold=threshold,
        near=bisect_left(ascending, near_to) - bisect_left(ascending, near_from),
        scores=_bins(ascending),
        latency=answer.latency,
        expected=msgspec.convert(forecast, Expected, from_attributes=True) if forecast else None,
    )


def _bins(ascending: Sequence[float]) -> tuple[int, ...]:
    begins = [0, *(bisect_left(ascending, edge) for edge in _EDGES), len(ascending)]
    return tuple(end - begin for begin, end in pairwise(begins))
