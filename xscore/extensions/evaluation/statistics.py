"""What two lists of figures about the same cases say of each other, and how scores become shares.

Differences are paired: each case is compared with itself. Their interval comes from drawing again
with replacement, whole repositories where there are several, since cases of one repository are
alike. A monotone map is fitted by pooling adjacent violators. Pure; the draws have a fixed seed, so
the same figures give the same interval. Trade-off: percentile intervals of few repositories are too
narrow, so with fewer than `ENOUGH_REPOSITORIES` the wider of two is reported; they remain rough.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

DRAWS = 4_000
"""Bootstrap samples; the ends of a 95 % interval then vary by about a twentieth of its width."""
DRAWS_AT_ONCE = 100
SEED = 20_261_128
CONFIDENCE = 0.95
FEWEST_PAIRS = 5
"""Fewer cases get no interval: one drawn from them would be far too narrow."""
ENOUGH_REPOSITORIES = 8
"""From here on whole repositories are drawn; with fewer, cases are drawn as well."""
EQUAL_WITHIN = 1e-9
"""Figures this close are the same."""

Floats = NDArray[np.float64]


class PairedFigure(Struct, frozen=True):
    """One case: its figure in A and in B, and the repository that it is of."""

    repository: str
    a: float
    b: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.a) and np.isfinite(self.b)):
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
    """Mean over the cases, as is `b`."""
    b: float
    interval: Interval | None
    """Of the mean difference, B - A; None: fewer than `FEWEST_PAIRS` cases, or all are equal."""
    drawn: str
    """What was drawn again: `repositories`, `cases`, or `wider` where both were; empty: nothing."""
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
    """Compare B with A; None: there is no pair."""
    if not pairs:
        return None
    differences = np.array([pair.b - pair.a for pair in pairs])
    names = [pair.repository for pair in pairs]
    better = int(np.count_nonzero(differences > EQUAL_WITHIN))
    worse = int(np.count_nonzero(differences < -EQUAL_WITHIN))
    interval: Interval | None = None
    drawn = ""
    # Where no case differs there is nothing to draw from, and a width of 0 would claim too much.
    if len(pairs) >= FEWEST_PAIRS and better + worse:
        interval, drawn = _interval_of_mean(differences, names)
    return PairedDifference(
        cases=len(pairs),
        repositories=len(set(names)),
        a=float(np.mean([pair.a for pair in pairs])),
        b=float(np.mean([pair.b for pair in pairs])),
        interval=interval,
        drawn=drawn,
        better=better,
        worse=worse,
    )


def mean_interval(figures: Sequence[float], repositories: Sequence[str]) -> Interval | None:
    """Return the interval of a mean; None: too few figures."""
    if len(figures) < FEWEST_PAIRS:
        return None
    interval, _ = _interval_of_mean(np.array(figures), repositories)
    return interval


def _interval_of_mean(figures: Floats, repositories: Sequence[str]) -> tuple[Interval, str]:
    """Return the interval, and what was drawn for it."""
    if len(set(repositories)) == 1:
        return bootstrap(figures, [str(at) for at in range(len(figures))]), "cases"
    by_repository = bootstrap(figures, repositories)
    if len(set(repositories)) >= ENOUGH_REPOSITORIES:
        return by_repository, "repositories"
    by_case = bootstrap(figures, [str(at) for at in range(len(figures))])
    return max(by_repository, by_case, key=lambda ends: ends.high - ends.low), "wider"


def bootstrap(figures: Floats, clusters: Sequence[str]) -> Interval:
    """Return the percentile interval of the mean when whole clusters are drawn with replacement.

    figures: not empty; clusters: the cluster of each.
    """
    _, numbers = np.unique(np.array(clusters), return_inverse=True)
    sums = np.bincount(numbers, weights=figures)
    sizes = np.bincount(numbers)
    random = np.random.default_rng(SEED)
    means = np.empty(DRAWS)
    # In parts: all draws at once of some thousand cases would take hundreds of megabytes.
    for start in range(0, DRAWS, DRAWS_AT_ONCE):
        drawn = random.integers(len(sums), size=(DRAWS_AT_ONCE, len(sums)))
        means[start : start + DRAWS_AT_ONCE] = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return Interval(float(low), float(high))


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
    order = np.argsort(np.array(predicted), kind="stable")
    shares = np.array(predicted, dtype=float)[order]
    outcomes = np.array(happened, dtype=float)[order]
    error = 0.0
    for part in np.array_split(np.arange(len(order)), min(bins, len(order))):
        error += abs(shares[part].mean() - outcomes[part].mean()) * len(part) / len(order)
    return float(error)
