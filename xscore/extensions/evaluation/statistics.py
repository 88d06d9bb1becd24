"""What two lists of figures about the same cases say about each other, and how scores become
shares.

Differences are paired: each case is compared with itself. Their interval comes from drawing again
with replacement, whole repositories where there are several, since cases of one repository are
alike. A monotone map is fitted by pooling adjacent violators. Pure; the draws have a fixed seed, so
the same figures give the same interval. Trade-off: percentile intervals of few repositories are too
narrow, so with fewer than `ENOUGH_REPOSITORIES` the wider of two is reported; they remain rough.
"""

import math
import random
from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct

DRAWS = 2_000
"""Number of bootstrap samples; the ends of a 95 % interval then vary by about a twentieth of
its width."""
SEED = 20_261_128
CONFIDENCE = 0.95
FEWEST_PAIRS = 5
"""Fewest cases for an interval: one drawn from fewer would be far too narrow."""
ENOUGH_REPOSITORIES = 8
"""Number of repositories from which on whole ones are drawn; with fewer, cases are drawn as
well."""
EQUAL_WITHIN = 1e-9
"""Largest difference of figures that count as the same."""


class PairedFigure(Struct, frozen=True):
    """One case: its figure in A and in B, and the repository that it is of."""

    repository: str
    a: float
    b: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.a) and math.isfinite(self.b)):
            raise ValueError("a figure is not a finite number")


class Interval(Struct, frozen=True):
    """The middle 95 % of what other cases of the same kind would give."""

    low: float
    high: float


class PairedDifference(Struct, frozen=True, kw_only=True):
    """How a figure of B differs from that of A over the same cases."""

    cases: int
    repositories: int
    a: float
    """Mean of A over the cases; `b` is that of B."""
    b: float
    interval: Interval | None
    """Interval of the mean difference, B - A; None: fewer than `FEWEST_PAIRS` cases, or all are
    equal."""
    drawn: str
    """What was resampled: `repositories`, `cases`, or `wider` where both were; empty:
    nothing."""
    better: int
    """Cases in which B is higher."""
    worse: int

    @property
    def difference(self) -> float:
        """The mean of B - A."""
        return self.b - self.a

    @property
    def equal(self) -> int:
        """Cases in which both are the same."""
        return self.cases - self.better - self.worse

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes no difference."""
        interval = self.interval
        return interval is not None and (interval.low > 0 or interval.high < 0)


def paired_difference(pairs: Sequence[PairedFigure]) -> PairedDifference | None:
    """Compare B with A; None if there is no pair."""
    if not pairs:
        return None
    differences = [pair.b - pair.a for pair in pairs]
    names = [pair.repository for pair in pairs]
    better = sum(difference > EQUAL_WITHIN for difference in differences)
    worse = sum(difference < -EQUAL_WITHIN for difference in differences)
    interval: Interval | None = None
    drawn = ""
    # Where no case differs there is nothing to draw from, and a width of 0 would claim too much.
    if len(pairs) >= FEWEST_PAIRS and better + worse:
        interval, drawn = _interval_of_mean(differences, names)
    return PairedDifference(
        cases=len(pairs),
        repositories=len(set(names)),
        a=fmean(pair.a for pair in pairs),
        b=fmean(pair.b for pair in pairs),
        interval=interval,
        drawn=drawn,
        better=better,
        worse=worse,
    )


def mean_interval(figures: Sequence[float], repositories: Sequence[str]) -> Interval | None:
    """Return the interval of a mean; None: too few figures."""
    if len(figures) < FEWEST_PAIRS:
        return None
    interval, _ = _interval_of_mean(figures, repositories)
    return interval


def _interval_of_mean(
    figures: Sequence[float], repositories: Sequence[str]
) -> tuple[Interval, str]:
    """Return the interval, and what was drawn for it."""
    if len(set(repositories)) == 1:
        return bootstrap(figures, [str(at) for at in range(len(figures))]), "cases"
    by_repository = bootstrap(figures, repositories)
    if len(set(repositories)) >= ENOUGH_REPOSITORIES:
        return by_repository, "repositories"
    by_case = bootstrap(figures, [str(at) for at in range(len(figures))])
    return max(by_repository, by_case, key=lambda ends: ends.high - ends.low), "wider"


def bootstrap(figures: Sequence[float], clusters: Sequence[str]) -> Interval:
    """Return the percentile interval of the mean when whole clusters are drawn with replacement.

    figures: not empty; clusters: the cluster of each.
    """
    sums: dict[str, float] = {}
    sizes: dict[str, int] = {}
    for figure, cluster in zip(figures, clusters, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + figure
        sizes[cluster] = sizes.get(cluster, 0) + 1
    totals = [(sums[cluster], sizes[cluster]) for cluster in sorted(sums)]
    dice = random.Random(SEED)  # noqa: S311  draws of a sample, nothing secret
    means: list[float] = []
    for _ in range(DRAWS):
        drawn = dice.choices(totals, k=len(totals))
        drawn_sums, drawn_sizes = zip(*drawn, strict=True)
        means.append(sum(drawn_sums) / sum(drawn_sizes))
    means.sort()
    tail = (1 - CONFIDENCE) / 2
    return Interval(_quantile(means, tail), _quantile(means, 1 - tail))


def _quantile(ascending: Sequence[float], share: float) -> float:
    """Return the value below which this share lies, between two values on the line between them."""
    place = share * (len(ascending) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (place - low) * (ascending[high] - ascending[low])


def pool_adjacent_violators(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the non-decreasing values nearest to these by weighted squares (isotonic regression).

    weights: positive. Barlow et al., Statistical Inference under Order Restrictions, 1972.
    """
    # Blocks of neighbours that share a value: value, weight, length.
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        block = (value, weight, 1)
        # A block below the one before it violates the order: both become one.
        while blocks and blocks[-1][0] >= block[0]:
            before = blocks.pop()
            total = before[1] + block[1]
            mean = (before[0] * before[1] + block[0] * block[1]) / total
            block = (mean, total, before[2] + block[2])
        blocks.append(block)
    fitted: list[float] = []
    for value, _, length in blocks:
        fitted += [value] * length
    return fitted


def calibration_error(
    predicted: Sequence[float], happened: Sequence[bool], *, bins: int = 10
) -> float | None:
    """Return the mean distance between predicted and observed shares, over bins of equal mass.

    None: nothing was predicted.
    """
    if not predicted:
        return None
    pairs = sorted(zip(predicted, happened, strict=True), key=lambda pair: pair[0])
    bins = min(bins, len(pairs))
    error = 0.0
    for number in range(bins):
        part = pairs[len(pairs) * number // bins : len(pairs) * (number + 1) // bins]
        share = fmean(predicted_share for predicted_share, _ in part)
        observed = fmean(outcome for _, outcome in part)
        error += abs(share - observed) * len(part) / len(pairs)
    return error
