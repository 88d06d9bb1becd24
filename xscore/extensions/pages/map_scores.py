"""The scores of every candidate of a past turn, as they can be found again.

The turn is ranked again from its stored judgments (`pipeline.ranked_again`); where the receipt has
a score, it counts before that. A turn without a receipt shows the judge's own scores.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from xscore.pipeline import pool
from xscore.pipeline.choice_words import words_of_listed, words_of_unlisted
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.ranked_again import carried_judgments, judges_of, rank_as_then
from xscore.pipeline.receipt import to_selected
from xscore.pipeline.turn_stages import Ranking
from xscore.records.candidates import Candidate
from xscore.records.judgment import Judgment, Origin, Ranked, Thresholds
from xscore.records.receipt import Answer, Selected
from xscore.store.turn_history import PastTurn

EXPLAINED = 120
"""The best of the unlisted memories for which a page has the sentence of `explain`."""


class CandidateScores(Struct, frozen=True, kw_only=True):
    """What is known about each candidate, by its id."""

    final: Mapping[str, float]
    raw: Mapping[str, float]
    carried: AbstractSet[str] = frozenset()
    reasons: Mapping[str, str] = {}
    sentences: Mapping[str, str] = {}
    explained: Mapping[str, Selected] = {}


def scores_of_candidates(
    parts: PipelineParts,
    past: PastTurn,
    receipt: Answer | None,
    candidates: Sequence[Candidate],
) -> CandidateScores:
    """Return the scores that the store still has, or that words give now."""
    if receipt is None:
        return _judged_so_far(parts, past, candidates)
    return _scores_ranked_again(parts, past, receipt, candidates)


def _judged_so_far(
    parts: PipelineParts, past: PastTurn, candidates: Sequence[Candidate]
) -> CandidateScores:
    """Return the judge's own scores: without a receipt nothing tells the cut and the boosts."""
    judgments = pool.known_judgments(parts.store, past.turn_key, past.judge)
    scores: dict[str, float] = {}
    for candidate in candidates:
        judgment = judgments.get(candidate.content_hash)
        if judgment is not None:
            scores[candidate.id] = judgment.score
    reasons = _stored_reasons(parts, past, [past.judge], candidates, judgments)
    return CandidateScores(final=scores, raw=scores, reasons=reasons)


def _scores_ranked_again(
    parts: PipelineParts, past: PastTurn, receipt: Answer, candidates: Sequence[Candidate]
) -> CandidateScores:
    carried = carried_judgments(parts, past, receipt)
    ranking = rank_as_then(
        parts, past, receipt, candidates, carried, by_words=receipt.ranked_by_words
    )
    in_order = ranking.in_order()
    final: dict[str, float] = {}
    raw: dict[str, float] = {}
    reasons: dict[str, str] = {}
    carried_ids: set[str] = set()
    judged: dict[str, Judgment] = {}
    for ranked in in_order:
        id_ = ranked.candidate.id
        final[id_], raw[id_] = ranked.score, ranked.judgment.score
        reasons[id_] = ranked.judgment.reason
        judged[ranked.candidate.content_hash] = ranked.judgment
        if ranked.origin is Origin.CARRIED:
            carried_ids.add(id_)
    if receipt.judge.by_model:
        reasons |= _stored_reasons(parts, past, judges_of(past, receipt), candidates, judged)
    explained = _best_unlisted(ranking, in_order, receipt)
    sentences: dict[str, str] = {}
    for id_, (memory, place) in explained.items():
        _, sentences[id_] = words_of_unlisted(memory, place, len(in_order), receipt)
    return CandidateScores(
        final=final,
        raw=raw,
        carried=carried_ids,
        reasons=reasons,
        sentences=sentences,
        explained={id_: memory for id_, (memory, _) in explained.items()},
    )


def _best_unlisted(
    ranking: Ranking, in_order: Sequence[Ranked], receipt: Answer
) -> dict[str, tuple[Selected, int]]:
    """Return the best of what the receipt does not list, with their ranks from 1, by memory id."""
    thresholds = Thresholds(receipt.threshold, receipt.thresholds)
    listed_ids = {memory.id for memory in (*receipt.selected, *receipt.near_misses)}
    best: dict[str, tuple[Selected, int]] = {}
    for place, ranked in enumerate(in_order[: EXPLAINED + len(listed_ids)], start=1):
        candidate = ranked.candidate
        if candidate.id in listed_ids:
            continue
        below = not ranking.selection.passed(ranked)
        memory = to_selected(
            ranked, {}, threshold=thresholds.of(candidate), below_threshold=below
        )
        best[candidate.id] = (memory, place)
    return best


def _stored_reasons(
    parts: PipelineParts,
    past: PastTurn,
    judges: Sequence[str],
    candidates: Sequence[Candidate],
    judged: Mapping[str, Judgment],
) -> dict[str, str]:
    """Return the reasons that the judges gave, by memory id."""
    by_hash = pool.stored_reasons(parts.store, past.turn_key, judges, judged)
    reasons: dict[str, str] = {}
    for candidate in candidates:
        reason = by_hash.get(candidate.content_hash)
        if reason:
            reasons[candidate.id] = reason
    return reasons


def with_receipt(
    scores: CandidateScores,
    receipt: Answer,
    candidates: Sequence[Candidate],
    place_of: Mapping[str, int],
) -> CandidateScores:
    """Let the receipt's own scores count before those that were found again."""
    final = dict(scores.final)
    raw = dict(scores.raw)
    reasons = dict(scores.reasons)
    sentences = dict(scores.sentences)
    explained = dict(scores.explained)
    listed: Sequence[Selected] = (*receipt.selected, *receipt.near_misses)
    for number, memory in enumerate(listed):
        place = place_of.get(memory.id)
        if place is None:
            continue
        id_ = candidates[place].id
        final[id_], raw[id_] = memory.score, memory.raw_score
        reasons[id_] = memory.reason or reasons.get(id_, "")
        is_kept = number < len(receipt.selected)
        sentences[id_] = words_of_listed(memory, receipt, is_kept=is_kept)
        explained[id_] = memory
    return CandidateScores(
        final=final,
        raw=raw,
        carried=scores.carried,
        reasons=reasons,
        sentences=sentences,
        explained=explained,
    )
