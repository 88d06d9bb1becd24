"""From the outcomes of a turn to its receipt, exit code, score lines and the figures that reports add up.

It writes nothing; `save_turn` does. `Coverage` checks that the counts add up. Trade-off: if several things went wrong,
the exit code names the one that matters most to a caller; the receipt lists all.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from msgspec import Struct, field

from xscore.pipeline.parts import PipelineParts, TurnResources
from xscore.pipeline.prepare import OpenedTurn
from xscore.prompts.judge import shown_turn_parts
from xscore.records import (
    Answer,
    Candidate,
    Coverage,
    Expected,
    JudgeEstimate,
    JudgeInfo,
    Latency,
    Origin,
    Outcome,
    PrimaryInfo,
    Ranked,
    ScoreLine,
    Selected,
    Selection,
    Stage,
    StageUsage,
    Traffic,
    Turn,
    TurnFigures,
    Unjudged,
    UnjudgedAccount,
    UnjudgedCause,
    UnjudgedSample,
)
from xscore.records.judgment import SCORE_TOLERANCE
from xscore.records.receipt import NEAR_THRESHOLD, SCORE_BINS
from xscore.store.evidence import stale_memory_ids

UNJUDGED_SHOWN = 20


def count_coverage(outcomes: Sequence[Outcome], candidates: int) -> Coverage:
    """Count the outcomes against the number of candidates that went in. Raises BrokenReceipt when they differ."""
    count = Counter(outcome.origin for outcome in outcomes)
    return Coverage(
        candidates, count[Origin.JUDGED], count[Origin.CACHED], count[Origin.CARRIED], count[Origin.UNJUDGED]
    )


def unjudged_account(selection: Selection) -> UnjudgedAccount:
    """Count the unjudged by cause and show the first of them."""
    by_cause = Counter(str(absent.cause) for _, absent in selection.unjudged)
    sample = tuple(
        UnjudgedSample(candidate.id, candidate.path, candidate.entity, str(absent.cause), absent.detail)
        for candidate, absent in selection.unjudged[:UNJUDGED_SHOWN]
    )
    return UnjudgedAccount(dict(by_cause.most_common()), sample)


def to_selected(
    ranked: Ranked,
    reasons: Mapping[str, str],
    *,
    below_threshold: bool,
    titles: Mapping[str, str] | None = None,
    stale: Collection[str] = (),
) -> Selected:
    """Return a ranked candidate as the receipt shows it.

    reasons: by content hash, for cached judgments.
    titles: by memory id, of memories that belong to no file.
    stale: ids of memories whose cited code has changed.
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
        below_threshold=below_threshold,
        title=(titles or {}).get(candidate.id, ""),
        is_stale=candidate.id in stale,
    )


def score_lines(
    outcomes: Sequence[Outcome], ranked: Sequence[Ranked], reasons: Mapping[str, str]
) -> Iterator[ScoreLine]:
    """Give every candidate its line: the ranked in their order, then the unjudged by path."""
    for entry in ranked:
        reason = entry.judgment.reason or reasons.get(entry.candidate.content_hash, "")
        yield _score_line(entry.candidate, entry.origin, raw=entry.judgment.score, final=entry.score, reason=reason)
    absent = sorted(unjudged_pairs(outcomes), key=lambda pair: (pair[0].path, pair[0].start_line))
    for candidate, result in absent:
        yield _score_line(candidate, Origin.UNJUDGED, cause=str(result.cause))


def _score_line(
    one: Candidate,
    origin: Origin,
    *,
    raw: float | None = None,
    final: float | None = None,
    reason: str = "",
    cause: str = "",
) -> ScoreLine:
    kind, layer = str(one.kind), str(one.layer)
    return ScoreLine(one.id, one.path, one.entity, layer, kind, str(origin), raw, final, reason, cause)


def unjudged_pairs(outcomes: Sequence[Outcome]) -> Iterator[tuple[Candidate, Unjudged]]:
    """Walk the outcomes that carry none."""
    for outcome in outcomes:
        if isinstance(outcome.result, Unjudged):
            yield outcome.candidate, outcome.result


class TurnOutcome(Struct, kw_only=True):
    """What a turn has come to so far; `turn` fills it in stage by stage."""

    outcomes: tuple[Outcome, ...] = ()
    selection: Selection | None = None
    reasons: Mapping[str, str] = {}
    """By content hash, of what was not judged this turn."""
    titles: Mapping[str, str] = {}
    """By memory id, of memories that belong to no file."""
    answer: str | None = None
    bundle: str | None = None
    """As the receipt shows it."""
    warnings: list[str] = field(default_factory=list)
    interrupted: bool = False
    primary_failed: bool = False
    refused: str = ""
    """Why a cap had no room for the answering call; empty: it had."""


def make_receipt(
    parts: PipelineParts,
    opened: OpenedTurn,
    ended: TurnOutcome,
    resources: TurnResources | None,
    *,
    latency: Latency,
    wants_answer: bool,
) -> Answer:
    """Return the whole receipt. Raises BrokenReceipt if it does not add up."""
    chosen, threshold = ended.selection, parts.judge.threshold
    assert chosen is not None
    show = partial(
        to_selected, reasons=ended.reasons, titles=ended.titles, stale=stale_memory_ids(parts.store.connection)
    )
    coverage = count_coverage(ended.outcomes, len(opened.pool.candidates))
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
        warnings=tuple(dict.fromkeys(ended.warnings)),
        coverage=coverage,
        unjudged=unjudged_account(chosen),
        selected=tuple([show(one, below_threshold=one.candidate.id in chosen.filled) for one in chosen.kept]),
        near_misses=tuple([show(one, below_threshold=one.score < threshold) for one in chosen.near_misses]),
        answer=ended.answer,
        bundle=ended.bundle,
        judge_usage=resources.usage.spent(Stage.JUDGE) if resources else StageUsage(),
        primary_usage=resources.usage.spent(Stage.PRIMARY) if resources and answerer else None,
        probe_usage=_stage_usage(resources, Stage.PROBE),
        embed_usage=_stage_usage(resources, Stage.EMBED),
        routing=opened.routing,
        traffic=resources.traffic() if resources else Traffic(),
        latency=latency,
        excluded_files=sum(opened.index.files.excluded.by_reason.values()),
        exit_code=_exit_code(coverage, ended),
    )


def _exit_code(coverage: Coverage, ended: TurnOutcome) -> int:
    causes = {result.cause for _, result in unjudged_pairs(ended.outcomes)}
    ends = (
        (ended.interrupted, 130),
        (bool(ended.refused) or UnjudgedCause.BUDGET in causes, 4),
        (coverage.candidates > 0 and coverage.unjudged == coverage.candidates, 3),
        (ended.primary_failed, 7),
        (coverage.unjudged > 0, 1),
    )
    return next((code for holds, code in ends if holds), 0)


def _stage_usage(resources: TurnResources | None, stage: Stage) -> StageUsage | None:
    spent = resources.usage.spent(stage) if resources else StageUsage()
    return spent if spent.attempts else None


def _judge_info(parts: PipelineParts, turn: Turn) -> JudgeInfo:
    identity = parts.judge.identity
    return JudgeInfo(
        provider=identity.provider,
        model=identity.model,
        host=identity.host,
        prompt_version=identity.prompt_version,
        order=identity.order,
        is_model=parts.judge.is_model,
        saw=shown_turn_parts(turn, context=parts.settings.judge.context),
    )


_EDGES = tuple((at - SCORE_TOLERANCE) / SCORE_BINS for at in range(1, SCORE_BINS))
"""Where each bin but the first begins; a score that is a bin's lower end but for dust is in it."""


def turn_figures(
    answer: Answer, scores: Iterable[float], *, command: str, forecast: JudgeEstimate | None = None
) -> TurnFigures:
    """Return the figures of a finished turn.

    scores: final ones, 0..1, of every judged candidate. forecast: of the judging, before it began; None: none was made.
    """
    ascending = sorted(scores)  # and looked into: a third of the time that a look at each score takes
    judge = answer.judge
    return TurnFigures(
        command=command,
        judge=f"{judge.provider}:{judge.model}" if judge.is_model else "lexical",
        is_model=judge.is_model,
        coverage=answer.coverage,
        unjudged_by_cause=dict(answer.unjudged.by_cause),
        kept=len(answer.selected),
        threshold=answer.threshold,
        near=_near(ascending, answer.threshold),
        scores=_bins(ascending),
        latency=answer.latency,
        expected=_expected(forecast) if forecast else None,
    )


def _bins(ascending: Sequence[float]) -> tuple[int, ...]:
    begins = [0, *(bisect_left(ascending, edge) for edge in _EDGES), len(ascending)]
    return tuple(end - begin for begin, end in pairwise(begins))


def _near(ascending: Sequence[float], threshold: float) -> int:
    """Count the scores less than NEAR away."""
    above, below = threshold + NEAR_THRESHOLD - SCORE_TOLERANCE, threshold - NEAR_THRESHOLD + SCORE_TOLERANCE
    return bisect_left(ascending, above) - bisect_left(ascending, below)


def _expected(forecast: JudgeEstimate) -> Expected:
    return Expected(
        calls=forecast.calls,
        input_tokens=forecast.input_tokens,
        output_tokens=forecast.output_tokens,
        cost_usd=forecast.cost_usd,
    )
