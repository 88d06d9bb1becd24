"""What likeness of meaning adds to shared words: a fused order for judging, and a lift for the lexical judge. Pure.

Likeness is the cosine of a memory's vector with the task's, from an embedder that the user has set; without one nothing
here is called. The order is fused by rank (reciprocal rank fusion, Cormack et al. 2009), because a cosine and a lexical
score have no common scale. It decides nothing: a memory without a vector is ranked by its words alone. Trade-off: a
fused prior says where a memory stands in this turn and not how good it is.
"""

from collections.abc import Mapping

RANK_CONSTANT = 60
"""k of reciprocal rank fusion, as in its source."""
LIFT = 0.5
"""Most that likeness alone can score with the lexical judge. Set by hand; 0.3 and 0.7 were measured as no other."""
LIFT_FROM = 0.35
"""Cosine from which likeness counts. Set by hand: the 99th percentile of questions and functions was 0.45."""


def fused(priors: Mapping[str, float], likeness: Mapping[str, float]) -> dict[str, float]:
    """Return priors 0..1 by which both orders are one; those of words alone where there is no likeness."""
    if not likeness:
        return dict(priors)
    words = _ranks({identifier: prior for identifier, prior in priors.items() if prior > 0})
    meaning = _ranks({identifier: likeness[identifier] for identifier in priors if identifier in likeness})
    most = 2 / (RANK_CONSTANT + 1)
    return {identifier: (_share(words, identifier) + _share(meaning, identifier)) / most for identifier in priors}


def lifted(score: float, cosine: float) -> float:
    """Return a lexical score with likeness as evidence of its own, independent of the words."""
    strength = min(1.0, max(0.0, (cosine - LIFT_FROM) / (1 - LIFT_FROM)))
    return 1 - (1 - score) * (1 - LIFT * strength)


def _share(ranks: Mapping[str, int], identifier: str) -> float:
    return 1 / (RANK_CONSTANT + ranks[identifier]) if identifier in ranks else 0.0


def _ranks(scores: Mapping[str, float]) -> dict[str, int]:
    """Return the rank of each from 1; equals share one."""
    ranks: dict[str, int] = {}
    last, rank = None, 0
    for place, (identifier, score) in enumerate(sorted(scores.items(), key=lambda pair: -pair[1]), start=1):
        if score != last:
            last, rank = score, place
        ranks[identifier] = rank
    return ranks
