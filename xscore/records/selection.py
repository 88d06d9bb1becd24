"""What is kept and why: boosts on raw scores, and the account of everything that was not kept."""

from dataclasses import dataclass
from typing import NamedTuple

from xscore.records.judgment import Judgment, Origin, Unjudged
from xscore.records.memory import Candidate

DUST = 1e-9
"""Scores this close are the same: a sum of decimal shares is not exact in binary."""


@dataclass(frozen=True, slots=True)
class Boost:
    """An addition to a raw score, with its grounds."""

    name: str
    amount: float
    because: str


class Ranked(NamedTuple):
    """A judged candidate with its boosts; `score` is final, `judgment.score` is raw and untouched.

    A named tuple for the same reason as `Candidate`.
    """

    candidate: Candidate
    judgment: Judgment
    origin: Origin
    boosts: tuple[Boost, ...]
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The kept candidates, best first, and where all the others went."""

    kept: tuple[Ranked, ...]
    filled: frozenset[str]
    """Ids among `kept` that are below the threshold, taken in by `min_keep`."""
    near_misses: tuple[Ranked, ...]
    """The best of those not kept, at most 10."""
    below_threshold: int
    over_quota: int
    """Passed, but tests had used up their share of K."""
    beyond_k: int
    unjudged: tuple[tuple[Candidate, Unjudged], ...]
