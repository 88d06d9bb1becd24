"""How good a ranking is against what should have been found: recall, precision, MRR, nDCG. Pure.

A memory matches a gold entity when the paths are equal and either the names are equal (and the lines overlap, where
both have lines) or each covers at least half of the other's lines, so that another tool's cut of the same function
counts. One gold entity is matched once; a second memory for it is a miss. Calibration of scores is not measured here.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

_OVERLOAD = re.compile(r"#\d+$")

Hits = Sequence[int | None]
"""For each ranked memory, best first, the gold entity it newly matches, by its place in the gold list."""


@dataclass(frozen=True, slots=True)
class Place:
    """An entity of a file: what was found, or what should have been."""

    path: str
    name: str
    start: int = 0
    """First line, 1-based; 0: unknown."""
    end: int = 0


def hits(ranked: Sequence[Place], gold: Sequence[Place]) -> list[int | None]:
    """Return, for each ranked place, the gold place that it newly matches, or None."""
    free = dict(enumerate(gold))
    found: list[int | None] = []
    for place in ranked:
        hit = next((index for index, wanted in free.items() if matches(place, wanted)), None)
        if hit is not None:
            del free[hit]
        found.append(hit)
    return found


def matches(place: Place, gold: Place) -> bool:
    """Whether both are the same entity, by name or by lines."""
    if place.path.removeprefix("./") != gold.path.removeprefix("./"):
        return False
    shared = min(place.end, gold.end) - max(place.start, gold.start) + 1 if place.start and gold.start else None
    if place.name and _plain(place.name) == _plain(gold.name):
        return shared is None or shared > 0
    return shared is not None and shared > 0 and 2 * shared >= max(_lines(place), _lines(gold))


def recall_at(found: Hits, gold: int, *, k: int) -> float:
    """Share of the gold entities among the first k."""
    return _count(found[:k]) / gold if gold else 0.0


def precision_at(found: Hits, *, k: int) -> float:
    """Share of gold among the first k, or among all where fewer were found; 0 for nothing found."""
    return _count(found[:k]) / min(k, len(found)) if found else 0.0


def hit_at(found: Hits, *, k: int) -> float:
    """1 when any gold entity is among the first k."""
    return float(_count(found[:k]) > 0)


def reciprocal_rank(found: Hits) -> float:
    """1 / rank of the first gold entity; its mean over cases is the MRR."""
    return next((1 / rank for rank, hit in enumerate(found, start=1) if hit is not None), 0.0)


def ndcg_at(found: Hits, gold: int, *, k: int) -> float:
    """Discounted gain of the first k over that of a perfect order, each gold entity worth the same."""
    gain = sum(_discount(rank) for rank, hit in enumerate(found[:k], start=1) if hit is not None)
    best = sum(_discount(rank) for rank in range(1, min(k, gold) + 1))
    return gain / best if best else 0.0


def _discount(rank: int) -> float:
    return 1 / math.log2(rank + 1)


def _count(found: Hits) -> int:
    return sum(hit is not None for hit in found)


def _plain(name: str) -> str:
    return _OVERLOAD.sub("", name.strip()).replace("::", ".")


def _lines(place: Place) -> int:
    return place.end - place.start + 1
