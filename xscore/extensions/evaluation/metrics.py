"""The quality of a ranking against known answers: recall, precision, MRR, nDCG. Pure.

A memory matches a gold entity when the paths are equal and either the names are equal (and the
lines overlap, where both have lines) or each covers at least half of the other's lines, so that
another tool's cut of the same function counts. A gold of a path alone is matched by any memory of
that file. One gold entity is matched once; a second memory for it is a miss. What is named is
looked for first, so that a path alone takes nothing away from it. Calibration is the share of gold
at each height of the scores: of a judge whose scores can be trusted it rises with them.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from xscore.records.candidates import Candidate
from xscore.records.judgment import SCORE_TOLERANCE

_OVERLOAD = re.compile(r"#\d+$")

GoldHits = Sequence[int | None]
"""For each ranked memory, best first, the gold entity it newly matches, by its place in the gold
list."""


class EntityRef(Struct, frozen=True):
    """An entity of a file: found, or expected."""

    path: str
    name: str = ""
    start: int = 0
    end: int = 0


def entity_ref(candidate: Candidate) -> EntityRef:
    """Return a candidate in a form comparable with gold."""
    return EntityRef(candidate.path, candidate.entity, candidate.start_line, candidate.end_line)


class CalibrationBin(Struct, frozen=True):
    """Scores from `low` to `high` (the upper end only in the last bin), and the gold among them."""

    low: float
    high: float
    memories: int
    gold: int


class LabelledScore(NamedTuple):
    """One judged memory."""

    score: float
    is_gold: bool


def calibration_bins(
    scored: Iterable[LabelledScore], *, bins: int = 10
) -> tuple[CalibrationBin, ...]:
    """Count memories and gold in each bin."""
    memories = [0] * bins
    gold = [0] * bins
    for score, is_gold in scored:
        at = min(int(score * bins + SCORE_TOLERANCE), bins - 1)
        memories[at] += 1
        gold[at] += is_gold
    calibration: list[CalibrationBin] = []
    for at in range(bins):
        low = at / bins
        high = (at + 1) / bins
        calibration.append(CalibrationBin(low, high, memories[at], gold[at]))
    return tuple(calibration)


def merged_bins(of_questions: Sequence[Sequence[CalibrationBin]]) -> tuple[CalibrationBin, ...]:
    """Add the bins of several questions."""
    merged = list(calibration_bins(()))
    for bins in of_questions:
        for at, one_bin in enumerate(bins):
            memories = merged[at].memories + one_bin.memories
            gold = merged[at].gold + one_bin.gold
            merged[at] = CalibrationBin(one_bin.low, one_bin.high, memories, gold)
    return tuple(merged)


def match_gold(ranked: Sequence[EntityRef], gold: Sequence[EntityRef]) -> list[int | None]:
    """Return, for each rank, the gold index that it newly matches, or None."""
    free = dict(sorted(enumerate(gold), key=lambda numbered: _is_a_path_alone(numbered[1])))
    paths = {_portable(gold_place.path) for gold_place in gold}
    matches: list[int | None] = []
    for place in ranked:
        if _portable(place.path) not in paths:
            matches.append(None)
            continue
        matches.append(_take_match(place, free))
    return matches


def _take_match(place: EntityRef, free: dict[int, EntityRef]) -> int | None:
    """Take the first gold entity that matches out of those still free; return its index."""
    for index, gold_place in free.items():
        if is_same_entity(place, gold_place):
            del free[index]
            return index
    return None


def are_gold(places: Sequence[EntityRef], gold: Sequence[EntityRef]) -> list[bool]:
    """Return for each rank whether it is any gold entity, however often it was found."""
    paths = {_portable(gold_place.path) for gold_place in gold}
    hits: list[bool] = []
    for place in places:
        is_near = _portable(place.path) in paths
        hits.append(is_near and any(is_same_entity(place, gold_place) for gold_place in gold))
    return hits


def span_entities(
    gold: Sequence[EntityRef], places: Sequence[EntityRef]
) -> tuple[EntityRef, ...]:
    """Return the gold with each span of lines that is not an entity of its own replaced by
    entities: those that lie within it, or the smallest that holds half of it.

    A span of which there is nothing among the places stays.
    """
    resolved: list[EntityRef] = []
    for span in gold:
        in_file = [place for place in places if _portable(place.path) == _portable(span.path)]
        is_span = bool(span.start) and not span.name
        if not is_span or any(is_same_entity(place, span) for place in in_file):
            resolved.append(span)
            continue
        inside: list[EntityRef] = []
        around: list[EntityRef] = []
        for place in in_file:
            if span.start <= place.start and 0 < place.end <= span.end:
                inside.append(place)
            elif place.start and 2 * _shared(place, span) >= _lines(span):
                around.append(place)
        smallest = min(around, key=lambda place: (_lines(place), place.start), default=span)
        resolved += inside or [smallest]
    return tuple(dict.fromkeys(resolved))


def _shared(place: EntityRef, span: EntityRef) -> int:
    return max(0, min(place.end, span.end) - max(place.start, span.start) + 1)


def is_same_entity(place: EntityRef, gold: EntityRef) -> bool:
    """Whether both are one entity, by name or by lines."""
    if _portable(place.path) != _portable(gold.path):
        return False
    if _is_a_path_alone(gold):
        return True
    shared = None
    if place.start and gold.start:
        shared = min(place.end, gold.end) - max(place.start, gold.start) + 1
    if place.name and _plain(place.name) == _plain(gold.name):
        return shared is None or shared > 0
    return shared is not None and shared > 0 and 2 * shared >= max(_lines(place), _lines(gold))


class RankingMetrics(Struct, frozen=True, kw_only=True):
    """The quality of one ranking; over several questions the mean. All in 0..1."""

    recall: float
    """Share of the gold entities among the first k."""
    precision: float
    """Share of gold among the first k, or among all if fewer were found."""
    hit: float
    """1 when any gold entity is among the first k."""
    reciprocal_rank: float
    """1 / rank of the first gold entity, however far down; its mean over questions is the MRR."""
    ndcg: float
    """Discounted gain of the first k over that of a perfect order, each gold entity worth the
    same."""


def ranking_metrics(hits: GoldHits, gold: int, *, k: int) -> RankingMetrics:
    """Measure where gold was found. gold: number of entities, at least one."""
    ranks = [rank for rank, hit in enumerate(hits, start=1) if hit is not None]
    among_first = [rank for rank in ranks if rank <= k]
    return RankingMetrics(
        recall=len(among_first) / gold,
        precision=len(among_first) / min(k, len(hits)) if hits else 0.0,
        hit=float(bool(among_first)),
        reciprocal_rank=1 / ranks[0] if ranks else 0.0,
        ndcg=_gain(among_first) / _gain(range(1, min(k, gold) + 1)),
    )


def _gain(ranks: Iterable[int]) -> float:
    return sum(1 / math.log2(rank + 1) for rank in ranks)


def _is_a_path_alone(gold: EntityRef) -> bool:
    return not (gold.name or gold.start)


def _portable(path: str) -> str:
    return path.removeprefix("./")


def _plain(name: str) -> str:
    return _OVERLOAD.sub("", name.strip()).replace("::", ".")


def _lines(place: EntityRef) -> int:
    return place.end - place.start + 1
