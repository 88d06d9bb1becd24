"""How likeness of meaning, an embedder's cosines, joins the order and the scores by words. Pure.

Trade-off: cosines have no scale that holds for every embedder, so they order and lift a little, and
decide nothing alone.
"""

from collections.abc import Mapping

from xscore.records.judgment import USUAL_LEXICAL_THRESHOLD

RANK_CONSTANT = 60
"""k of reciprocal rank fusion, as in its source."""
LIFT = USUAL_LEXICAL_THRESHOLD
"""Most that likeness alone can score with the lexical judge: just enough to be kept. Set by
hand."""
LIFT_FROM = 0.35
"""Cosine from which likeness counts. Set by hand: the 99th percentile of questions and functions
was 0.45."""


def fuse_ranks(priors: Mapping[str, float], likeness: Mapping[str, float]) -> dict[str, float]:
    """Combine both orders into priors 0..1; without likeness, words alone decide."""
    if not likeness:
        return dict(priors)
    prior_of_matching = {memory: prior for memory, prior in priors.items() if prior > 0}
    by_words = _ranks(prior_of_matching)
    by_meaning = _ranks({memory: likeness[memory] for memory in priors if memory in likeness})
    best_possible = 2 / (RANK_CONSTANT + 1)
    fused: dict[str, float] = {}
    for memory in priors:
        fused[memory] = (_share(by_words, memory) + _share(by_meaning, memory)) / best_possible
    return fused


def lift_by_likeness(score: float, cosine: float) -> float:
    """Return a lexical score with likeness as evidence of its own, independent of the words."""
    strength = min(1.0, max(0.0, (cosine - LIFT_FROM) / (1 - LIFT_FROM)))
    return score + (1 - score) * LIFT * strength


def _share(ranks: Mapping[str, int], memory: str) -> float:
    if memory not in ranks:
        return 0.0
    return 1 / (RANK_CONSTANT + ranks[memory])


def _ranks(scores: Mapping[str, float]) -> dict[str, int]:
    """Return the rank of each from 1; equals share one."""
    ranks: dict[str, int] = {}
    best_first = sorted(scores.items(), key=lambda pair: -pair[1])
    last, rank = None, 0
    for place, (memory, score) in enumerate(best_first, start=1):
        if score != last:
            last, rank = score, place
        ranks[memory] = rank
    return ranks
