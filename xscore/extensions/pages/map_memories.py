"""Every candidate of a past turn with its score: what the map is drawn from.

Where the receipt has a score, it counts; else the turn is ranked again from its stored judgments
(`pipeline.ranked_again`). A turn without a receipt shows the judge's own scores.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from xscore.extensions.pages.records import MapMemory
from xscore.pipeline import pool
from xscore.pipeline.choice_words import words_of_listed, words_of_unlisted
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.ranked_again import (
    candidates_now,
    carried_judgments,
    judges_of,
    rank_as_then,
)
from xscore.pipeline.receipt import to_selected
from xscore.pipeline.turn_stages import Ranking
from xscore.platform.text import ellipsize, one_line
from xscore.records.judgment import Judgment, Origin, Ranked, Thresholds
from xscore.records.memory import Candidate, Layer
from xscore.records.receipt import Answer, Selected
from xscore.store.turn_history import PastTurn

EXPLAINED = 120
"""The best of the unlisted memories for which a page has the sentence of `explain`."""
NAME_CHARS, REASON_CHARS = 100, 160
MOST_REASON_CHARS = 400_000
"""Of all reasons on a page; the reasons of the best come first."""


class MappedTurn(Struct, frozen=True, kw_only=True):
    """The candidates of a turn with their scores."""

    memories: tuple[MapMemory, ...]
    place_of: Mapping[str, int]
    """Memory id, also of a duplicate -> place in `memories`."""
    judged_ids: AbstractSet[str]
    """Those whose text of now was judged."""
    by_score: Sequence[int]
    """Places of the judged, best first."""
    sentences: dict[int, str]
    explained: dict[int, Selected]
    """How the scores of the best came about, by place."""
    reasons_left_out: int = 0


class _Scores(Struct, frozen=True, kw_only=True):
    """What is known of each candidate, by its id."""

    final: Mapping[str, float]
    raw: Mapping[str, float]
    carried: AbstractSet[str] = frozenset()
    reasons: Mapping[str, str] = {}
    sentences: Mapping[str, str] = {}
    explained: Mapping[str, Selected] = {}


def map_turn(parts: PipelineParts, past: PastTurn, receipt: Answer | None) -> MappedTurn:
    """Return the candidates of a past turn, as the store knows them now, with their scores."""
    everything = candidates_now(parts.store, parts.settings, past, receipt)
    candidates = pool.narrow_to_scope(everything, past.turn.scope)
    if receipt is None:
        scores = _judged_so_far(parts, past, candidates)
    else:
        scores = _ranked_again(parts, past, receipt, candidates)
    place_of: dict[str, int] = {}
    for place, candidate in enumerate(candidates):
        for id_ in (candidate.id, *candidate.duplicates):
            place_of[id_] = place
    judged_ids = set(scores.final)
    scores = _with_receipt(scores, receipt, candidates, place_of)
    titles = _titles(parts, candidates)
    memories = [_map_memory(candidate, scores, titles) for candidate in candidates]
    memories, left_out = _within_room(memories)
    judged = [place for place, memory in enumerate(memories) if memory.score is not None]
    return MappedTurn(
        memories=tuple(memories),
        place_of=place_of,
        judged_ids=judged_ids,
        by_score=sorted(judged, key=lambda place: -(memories[place].score or 0.0)),
        sentences={place_of[id_]: words for id_, words in scores.sentences.items()},
        explained={place_of[id_]: memory for id_, memory in scores.explained.items()},
        reasons_left_out=left_out,
    )


def _judged_so_far(
    parts: PipelineParts, past: PastTurn, candidates: Sequence[Candidate]
) -> _Scores:
    """Return the judge's own scores: without a receipt nothing tells the cut and the boosts."""
    judgments = pool.known_judgments(parts.store, past.turn_key, past.judge)
    scores: dict[str, float] = {}
    for candidate in candidates:
        judgment = judgments.get(candidate.content_hash)
        if judgment is not None:
            scores[candidate.id] = judgment.score
    reasons = _stored_reasons(parts, past, [past.judge], candidates, judgments)
    return _Scores(final=scores, raw=scores, reasons=reasons)


def _ranked_again(
    parts: PipelineParts, past: PastTurn, receipt: Answer, candidates: Sequence[Candidate]
) -> _Scores:
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
    return _Scores(
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
        memory = to_selected(ranked, {}, threshold=thresholds.of(candidate), below_threshold=below)
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


def _with_receipt(
    scores: _Scores,
    receipt: Answer | None,
    candidates: Sequence[Candidate],
    place_of: Mapping[str, int],
) -> _Scores:
    """Let the receipt's own scores count before those that were found again."""
    if receipt is None:
        return scores
    final, raw = dict(scores.final), dict(scores.raw)
    reasons = dict(scores.reasons)
    sentences, explained = dict(scores.sentences), dict(scores.explained)
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
    return _Scores(
        final=final,
        raw=raw,
        carried=scores.carried,
        reasons=reasons,
        sentences=sentences,
        explained=explained,
    )


def _titles(parts: PipelineParts, candidates: Sequence[Candidate]) -> Mapping[str, str]:
    """Return the titles of memories that are in no file, but for the user's own."""
    without_file = [
        candidate.id
        for candidate in candidates
        if not candidate.path and candidate.layer is not Layer.USER
    ]
    return parts.store.titles(without_file) if without_file else {}


def _map_memory(candidate: Candidate, scores: _Scores, titles: Mapping[str, str]) -> MapMemory:
    is_own = candidate.layer is Layer.USER
    name = "" if is_own else candidate.entity or titles.get(candidate.id, "")
    reason = "" if is_own else scores.reasons.get(candidate.id, "")
    return MapMemory(
        candidate.id,
        candidate.path,
        ellipsize(name, NAME_CHARS),
        candidate.start_line,
        candidate.end_line,
        str(candidate.kind),
        str(candidate.layer),
        candidate.language,
        candidate.tokens,
        scores.final.get(candidate.id),
        scores.raw.get(candidate.id),
        ellipsize(one_line(reason), REASON_CHARS) if reason else "",
        candidate.id in scores.carried,
    )


def _within_room(memories: list[MapMemory]) -> tuple[list[MapMemory], int]:
    """Return the memories, and how many of them lost their reason to the size of the page."""
    if sum(len(memory.reason) for memory in memories) <= MOST_REASON_CHARS:
        return memories, 0
    room = MOST_REASON_CHARS
    left_out = 0
    kept = list(memories)
    for place in sorted(range(len(memories)), key=lambda place: -(memories[place].score or 0.0)):
        room -= len(memories[place].reason)
        if room < 0 and memories[place].reason:
            kept[place] = memories[place]._replace(reason="")
            left_out += 1
    return kept, left_out
