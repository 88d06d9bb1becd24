"""Build a turn's receipt and exit code from its outcomes.

It writes nothing; `save_turn` does. `Coverage` checks that the counts add up. Trade-off: if several
things went wrong, the exit code names the one that matters most to a caller; the receipt lists all.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.pipeline.joining import joined_score
from xscore.pipeline.judge_description import Scale
from xscore.pipeline.parts import PipelineParts, TurnOptions
from xscore.pipeline.pool import stored_reasons
from xscore.pipeline.turn_stages import Judged, TurnStages
from xscore.platform.clock import DAY_S
from xscore.platform.errors import ExitCode
from xscore.prompts.suspicion import is_suspicious
from xscore.prompts.turn_text import shown_turn_parts
from xscore.records.calls import Answerer, Stage, Traffic
from xscore.records.candidates import Candidate
from xscore.records.judgment import (
    JudgeIdentity,
    Judgment,
    Origin,
    Ranked,
    Selection,
    UnjudgedCause,
)
from xscore.records.memory import Kind
from xscore.records.receipt import (
    SAW_PURPOSES,
    Answer,
    CarriedOver,
    Coverage,
    JudgeInfo,
    Latency,
    PrimaryInfo,
    ScoredBy,
    SecondDraws,
    Selected,
    StageUsage,
    UnjudgedAccount,
    UnjudgedSample,
)
from xscore.store.memory_rows import stale_memory_ids
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.pipeline.resources import TurnResources

UNJUDGED_SHOWN = 20


def judge_shares(judged: Judged, coverage: Coverage) -> tuple[ScoredBy, ...]:
    """Count what each judge scored, the turn's own first."""
    origins = Counter[Origin]()
    origins[Origin.JUDGED] = coverage.judged
    origins[Origin.CACHED] = coverage.cached
    origins[Origin.CARRIED] = coverage.carried
    counts = {judged.judge: origins}
    # Most turns have no fallback, and then no outcome is looked at.
    for outcome in judged.outcomes if judged.by_fallback else ():
        fallback = judged.by_fallback.get(outcome.candidate.content_hash)
        if fallback is not None:
            counts.setdefault(fallback, Counter())[outcome.origin] += 1
            origins[outcome.origin] -= 1
    return tuple(_scored_by(who, of_judge) for who, of_judge in counts.items())


def _scored_by(judge: JudgeIdentity, origins: "Counter[Origin]") -> ScoredBy:
    return ScoredBy(
        provider=judge.provider,
        model=judge.model,
        host=judge.host,
        key=judge_key(judge),
        judged=origins[Origin.JUDGED],
        cached=origins[Origin.CACHED],
        carried=origins[Origin.CARRIED],
    )


def unjudged_account(selection: Selection) -> UnjudgedAccount:
    """Count the unjudged by cause and show the first of them."""
    by_cause = Counter(str(absent.cause) for _, absent in selection.unjudged)
    sample: list[UnjudgedSample] = []
    for candidate, absent in selection.unjudged[:UNJUDGED_SHOWN]:
        path = candidate.path
        entity = candidate.entity
        cause = str(absent.cause)
        sample.append(UnjudgedSample(candidate.id, path, entity, cause, absent.detail))
    return UnjudgedAccount(dict(by_cause.most_common()), tuple(sample))


def to_selected(
    ranked: Ranked,
    reasons: Mapping[str, str],
    *,
    threshold: float,
    below_threshold: bool,
    titles: Mapping[str, str] = {},
    stale: Collection[str] = (),
    suspicious: Collection[str] = (),
    carried_from: str = "",
    placed_by: str = "",
) -> Selected:
    """Return a ranked candidate as the receipt shows it.

    reasons: by content hash, for cached judgments.
    titles: by memory id, of memories that belong to no file.
    stale: ids of memories whose cited code has changed.
    suspicious: ids of memories that give instructions to their judge.
    carried_from: the turn under whose wording it was judged, if it was another.
    placed_by: the rule of its place, if it has one or is folded into another.
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
        is_suspicious=candidate.id in suspicious,
        draws=ranked.judgment.draws,
        carried_from=carried_from,
        placed_by=placed_by,
        words=ranked.words,
        joined_score=_joined_score(ranked),
    )


def _joined_score(ranked: Ranked) -> float | None:
    """Return the score before boosts, where words have changed it."""
    if ranked.words:
        return joined_score(ranked.judgment.score, ranked.words)
    return None


def find_reasons(
    parts: PipelineParts, turn_key: str, judged: Judged, shown: Sequence[Ranked]
) -> Mapping[str, str]:
    """Return the stored reasons of candidates not judged in this turn, by content hash."""
    pool = judged.pool
    stored: list[str] = []
    for ranked in shown:
        hash_ = ranked.candidate.content_hash
        # What this turn's own calls judged brought its reason along.
        if ranked.origin is not Origin.JUDGED or hash_ in pool.judged_this_turn:
            stored.append(hash_)
    judges = dict.fromkeys((judged.judge, *judged.by_fallback.values()))
    reasons = stored_reasons(parts.store, turn_key, map(judge_key, judges), stored)
    if pool.thread is not None and pool.thread.wordings:
        from xscore.pipeline.carrying import carried_reasons  # only in a thread

        carried = carried_reasons(pool, parts.store, judge_key(judged.judge), stored)
        return {**carried, **reasons}
    return reasons


def make_receipt(
    parts: PipelineParts,
    options: TurnOptions,
    stages: TurnStages,
    resources: "TurnResources | None",  # None: nothing could be spent
    latency: Latency,
) -> Answer:
    """Return the whole receipt. Raises BrokenReceipt if it does not add up."""
    prepared = stages.prepared
    judged = stages.judged
    chosen = stages.ranking.selection
    kept, near_misses = _shown_memories(parts, stages)
    coverage = _coverage(stages)
    answerer = parts.answerer if options.answer else None
    return Answer(
        turn_id=prepared.turn.id,
        continues=prepared.turn.continues,
        session=prepared.session,
        checkpoint=prepared.checkpoint.name if prepared.checkpoint else "",
        task=prepared.turn.task,
        scope=prepared.turn.scope,
        threshold=chosen.thresholds.default,
        thresholds=dict(chosen.thresholds.by_kind),
        words_weight=stages.ranking.words_weight,
        top_k=parts.settings.selection.top_k,
        judge=_judge_info(parts, stages, resources),
        primary=_primary_info(parts, answerer, resources) if answerer else None,
        partial=_is_partial(stages, coverage),
        warnings=_all_warnings(parts, stages, isolated=options.isolated),
        coverage=coverage,
        unjudged=unjudged_account(chosen),
        selected=kept,
        near_misses=near_misses,
        answer=stages.answered.text,
        bundle=_shown_bundle(options, stages),
        usage=_usage_by_stage(resources, answers=answerer is not None),
        routing=prepared.routing,
        traffic=resources.traffic() if resources else Traffic(),
        latency=latency,
        reasons=stages.reasons.account,
        carried_over=_carried_over(stages, coverage),
        second_draws=_count_second_draws(judged),
        final_round=judged.final_round,
        kept_out=prepared.index.files.excluded.by_reason,
        files_left=prepared.index.files_left,
        ranked_by=stages.ranking.ranked_by,
        judges=judge_shares(judged, coverage),
        also=prepared.also,
        exit_code=_exit_code(coverage, stages, wants_answer=answerer is not None),
    )


def _is_partial(stages: TurnStages, coverage: Coverage) -> bool:
    """Whether something was left unread, unjudged, or with an earlier judgment."""
    if coverage.unjudged or stages.prepared.index.files_left:
        return True
    return bool(stages.judged.unreached_causes)


def _coverage(stages: TurnStages) -> Coverage:
    """Count the ends that candidates came to. Raises BrokenReceipt if one has none."""
    origins = Counter([outcome.origin for outcome in stages.judged.outcomes])
    return Coverage(
        len(stages.prepared.pool.candidates),
        origins[Origin.JUDGED],
        origins[Origin.CACHED],
        origins[Origin.CARRIED],
        origins[Origin.UNJUDGED],
    )


def _primary_info(
    parts: PipelineParts, answerer: Answerer, resources: "TurnResources | None"
) -> PrimaryInfo:
    price = _assumed_price(parts, resources, model=answerer.model, host=answerer.host)
    return PrimaryInfo(answerer.provider, answerer.model, price)


def _shown_memories(
    parts: PipelineParts, stages: TurnStages
) -> tuple[tuple[Selected, ...], tuple[Selected, ...]]:
    chosen = stages.ranking.selection
    shown = [entry.candidate for entry in (*chosen.kept, *chosen.near_misses)]
    titles = _titles_of(
        parts.store, [candidate.id for candidate in shown if not candidate.path]
    )
    stale = stale_memory_ids(parts.store.connection) | _old_documents(parts, shown)
    kept_texts = parts.store.memories([entry.candidate.id for entry in chosen.kept])
    suspicious = {id_ for id_, memory in kept_texts.items() if is_suspicious(memory.text)}

    def show(ranked: Ranked, *, below_threshold: bool) -> Selected:
        wording = stages.judged.pool.wording_of(ranked)
        return to_selected(
            ranked,
            stages.reasons.by_hash,
            threshold=chosen.thresholds.of(ranked.candidate),
            below_threshold=below_threshold,
            titles=titles,
            stale=stale,
            suspicious=suspicious,
            carried_from=wording.turn_id if wording else "",
            placed_by=chosen.placed_by.get(ranked.candidate.id, ""),
        )

    kept: list[Selected] = []
    for ranked in chosen.kept:
        kept.append(show(ranked, below_threshold=ranked.candidate.id in chosen.filled))
    near_misses: list[Selected] = []
    for ranked in chosen.near_misses:
        near_misses.append(show(ranked, below_threshold=not chosen.passed(ranked)))
    return tuple(kept), tuple(near_misses)


def _old_documents(parts: PipelineParts, shown: Sequence[Candidate]) -> frozenset[str]:
    """Return the ids of passages of documents that were fetched too long ago."""
    oldest = parts.clock() - parts.settings.memory.document_days * DAY_S
    return frozenset(
        [
            candidate.id
            for candidate in shown
            if candidate.kind is Kind.DOCUMENT and candidate.updated_at < oldest
        ]
    )


def _titles_of(store: Store, ids: Sequence[str]) -> Mapping[str, str]:
    """Read the titles of memories by id."""
    if not ids:
        return {}
    return {id_: memory.title for id_, memory in store.memories(ids).items()}


def _carried_over(stages: TurnStages, coverage: Coverage) -> CarriedOver:
    judged = stages.judged
    if coverage.carried or judged.pool.thread is not None:
        from xscore.pipeline.carrying import carried_over  # only in a thread

        return carried_over(
            judged.pool,
            judged.outcomes,
            stages.prepared.turn,
            left_unjudged=len(judged.unreached_causes),
        )
    return CarriedOver()


def _count_second_draws(judged: Judged) -> SecondDraws:
    if not judged.judge.is_decision:
        return SecondDraws()
    twice: set[str] = set()
    for _, result, _ in judged.outcomes:
        if isinstance(result, Judgment) and result.draws:
            twice.add(result.content_hash)
    return replace(judged.second_draws, cached=len(twice) - judged.second_draws.drawn)


def _all_warnings(
    parts: PipelineParts, stages: TurnStages, *, isolated: bool
) -> tuple[str, ...]:
    """Return the warnings of all stages, in their order, each once."""
    prepared = stages.prepared
    judged = stages.judged
    answered = stages.answered
    warnings = [
        *parts.warnings,
        *prepared.warnings,
        *judged.warnings,
        *stages.ranking.warnings,
        *(stages.bundle.warnings if stages.bundle else ()),
        *answered.warnings,
    ]
    if not isolated and (answered.refused or stages.ranking.selection.unjudged):
        # Only where something is left.
        from xscore.pipeline.room_under_caps import how_to_continue

        warnings += how_to_continue(parts, prepared, judged, refused=answered.refused)
    return tuple(dict.fromkeys(warnings))


def _shown_bundle(options: TurnOptions, stages: TurnStages) -> str | None:
    """Return the bundle as text after the checkpoint; a JSON bundle stays unchanged.

    None: it is not shown.
    """
    bundle = stages.bundle
    checkpoint = stages.prepared.checkpoint
    if bundle is None or not (options.bundle or stages.answered.text is None):
        return None
    if checkpoint is None or options.bundle == "json":
        return bundle.text
    # Only with a checkpoint.
    from xscore.prompts.answer import checkpoint_block, render_checkpoint

    before = checkpoint_block(render_checkpoint(checkpoint))
    return f"{before}\n\n{bundle.text}"


def _exit_code(coverage: Coverage, stages: TurnStages, *, wants_answer: bool) -> int:
    """Return the exit code: if there are several ends, the one that matters most to a
    caller."""
    judged = stages.judged
    ranking = stages.ranking
    answered = stages.answered
    if stages.interrupted:
        return ExitCode.INTERRUPTED
    causes = {absent.cause for _, absent in ranking.selection.unjudged}
    causes.update(judged.unreached_causes)
    if answered.refused or UnjudgedCause.BUDGET in causes:
        return ExitCode.BUDGET
    if coverage.unjudged and judged.nothing_judged and not judged.unreached_causes:
        return ranking.unjudged_exit
    if answered.failed:
        return ExitCode.NO_ANSWER
    # Nothing reached the threshold, and that is all the user gets; words say little by that.
    says_little = wants_answer or ranking.by_words
    is_left_open = ranking.is_empty and answered.text is None and says_little
    if _is_partial(stages, coverage) or is_left_open:
        return ExitCode.PARTLY
    return ExitCode.DONE


def _usage_by_stage(
    resources: "TurnResources | None", *, answers: bool
) -> dict[Stage, StageUsage]:
    """Return what each stage cost. answers: a model could have answered."""
    if resources is None:
        return {Stage.JUDGE: StageUsage()}
    # These two are in a receipt even if they made no call: that they cost nothing is a figure.
    usage = {Stage.JUDGE: StageUsage()}
    if answers:
        usage[Stage.PRIMARY] = StageUsage()
    return usage | resources.usage.stages


def _judge_info(
    parts: PipelineParts, stages: TurnStages, resources: "TurnResources | None"
) -> JudgeInfo:
    identity = stages.judged.judge
    price = _assumed_price(parts, resources, model=identity.model, host=identity.host)
    return JudgeInfo(
        provider=identity.provider,
        model=identity.model,
        host=identity.host,
        prompt_version=identity.prompt_version,
        order=identity.order,
        by_model=parts.judge.scale is not Scale.WORDS,
        saw=_what_it_saw(parts, stages),
        assumed_price=price,
    )


def _what_it_saw(parts: PipelineParts, stages: TurnStages) -> tuple[str, ...]:
    prepared = stages.prepared
    names = shown_turn_parts(prepared.turn, sees=parts.settings.judge.sees)
    by_model = parts.judge.scale is not Scale.WORDS
    if by_model and any(candidate.purpose for candidate in prepared.pool.candidates):
        names = (*names, SAW_PURPOSES)
    return names


def _assumed_price(
    parts: PipelineParts, resources: "TurnResources | None", *, model: str, host: str
) -> str:
    """Return which price is assumed of a model's calls; empty where the turn could make none."""
    if resources is not None:
        # A turn that spends nothing needs none.
        from xscore.providers.prices import assumed_price

        return assumed_price(model, host, parts.settings.provider.price)
    return ""
