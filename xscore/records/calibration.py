"""What the scores of a judge were worth on past commits: maps from score to chance, and cuts.

A calibration belongs to one judge identity. It changes no score: it sets the cuts for a chosen
recall, and the weight of words, where the user has set neither, and says what a score means.
"""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct

from xscore.records.judgment import JudgeIdentity, Thresholds

EVERY_KIND = "default"
"""Name of the map for all measured kinds together."""


class ScoreMap(Struct, frozen=True):
    """A non-decreasing map from final score to the share of memories that were needed."""

    scores: tuple[float, ...]
    """Scores in ascending order, within 0..1; at least one."""
    shares: tuple[float, ...]
    """Share for each of these scores, none below the one before, within 0..1."""

    def __post_init__(self) -> None:
        if not self.scores or len(self.scores) != len(self.shares):
            raise ValueError("a map has as many shares as scores, and at least one")
        for name, values in (("scores", self.scores), ("shares", self.shares)):
            in_bounds = all(0 <= value <= 1 for value in values)
            rises = all(low <= high for low, high in pairwise(values))
            if not (in_bounds and rises):
                raise ValueError(f"{name} of a map rise within 0..1")

    def share(self, score: float) -> float:
        """Return the share at a score: between two known ones on the line between them."""
        above = bisect_right(self.scores, score)
        if above == 0:
            return self.shares[0]
        if above == len(self.scores):
            return self.shares[-1]
        low = self.scores[above - 1]
        high = self.scores[above]
        part = (score - low) / (high - low)
        return self.shares[above - 1] + part * (self.shares[above] - self.shares[above - 1])


class Calibration(Struct, frozen=True, kw_only=True):
    """What was measured of one judge."""

    asked: str
    """The judge as it was asked for, `provider:model`; an alias may answer as another model."""
    identity: JudgeIdentity
    answered_as: tuple[str, ...] = ()
    """Names that the host gave the model in its replies, sorted; empty: all came from the cache."""
    made_at: float
    """Unix seconds."""
    cases: int
    positives: int
    """Needed memories among the candidates of all cases."""
    repositories: int
    wished_recall: float
    most: int
    """Most memories that may be kept on average."""
    words_weight: float
    cuts: Mapping[str, float]
    """Cut of each kind, on the scale of final scores; `default` is that of all these kinds
    together. A kind without one keeps its usual threshold: past commits did not need it."""
    maps: Mapping[str, ScoreMap]
    """Map of each kind."""
    recall: float
    """Recall of the cuts, on cases that were not used to set them."""
    recall_low: float | None
    recall_high: float | None
    """Upper end of the 95 % interval of recall; `recall_low` is the lower. None: too few
    cases."""
    kept: float
    """Mean number of memories that the cuts keep."""
    error: float | None
    """Mean distance between predicted and observed shares on cases not used; None if there were
    none."""

    def __post_init__(self) -> None:
        if EVERY_KIND not in self.cuts or EVERY_KIND not in self.maps:
            raise ValueError("a calibration has a map and a cut for every kind")
        if not all(0 <= cut <= 1 for cut in self.cuts.values()):
            raise ValueError("a cut lies in 0..1")
        if not (0 <= self.words_weight <= 10 and 0 <= self.recall <= 1):
            raise ValueError("a figure of a calibration is impossible")

    def thresholds(self, usual: Thresholds) -> Thresholds:
        """Return the cuts as thresholds; kinds without one keep the usual ones."""
        by_kind = dict(usual.by_kind)
        for kind, cut in self.cuts.items():
            if kind != EVERY_KIND:
                by_kind[kind] = cut
        return Thresholds(usual.default, by_kind)

    def share(self, kind: str, score: float) -> float:
        """Return the share of memories of this kind and final score that were needed."""
        return self.maps.get(kind, self.maps[EVERY_KIND]).share(score)

    def in_words(self) -> str:
        """`0.63 ≈ recall 0.86 (0.79–0.92) on 120 past commits, docs cut at 0.61`."""
        parts = [f"{self.cuts[EVERY_KIND]:.2f} ≈ recall {self.recall:.2f}"]
        if self.recall_low is not None and self.recall_high is not None:
            parts.append(f"({self.recall_low:.2f}–{self.recall_high:.2f})")
        parts.append(f"on {self.cases:,} past commits")
        other_cuts: list[str] = []
        for kind, cut in sorted(self.cuts.items()):
            if kind != EVERY_KIND and f"{cut:.2f}" != f"{self.cuts[EVERY_KIND]:.2f}":
                other_cuts.append(f", {kind} cut at {cut:.2f}")
        return " ".join(parts) + "".join(other_cuts)
