"""Paired differences, their intervals, isotonic means, calibration error: against figures by hand
and by other means."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscore.extensions.evaluation.statistics import (
    PairedFigure,
    calibration_error,
    mean_interval,
    paired_difference,
    pool_adjacent_violators,
)

SHARES = st.floats(0, 1)


def pairs(
    differences: Sequence[float], repositories: Sequence[str] | None = None
) -> list[PairedFigure]:
    """Pairs whose A is 0.5."""
    names = repositories or ["one"] * len(differences)
    return [
        PairedFigure(name, 0.5, 0.5 + difference)
        for name, difference in zip(names, differences, strict=True)
    ]


def best_monotone(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The same regression by its min-max formula, in cubic time."""
    fitted = []
    for at in range(len(values)):
        lows = []
        for end in range(at, len(values)):
            means = []
            for start in range(at + 1):
                part = slice(start, end + 1)
                means.append(float(np.average(values[part], weights=weights[part])))
            lows.append(max(means))
        fitted.append(min(lows))
    return fitted


def test_violators_are_pooled_to_their_mean() -> None:
    """A falling pair becomes its weighted mean; a rising list stays."""
    assert pool_adjacent_violators([1.0, 3.0, 2.0, 4.0], [1, 1, 1, 1]) == [1.0, 2.5, 2.5, 4.0]
    assert pool_adjacent_violators([3.0, 0.0], [1, 2]) == [1.0, 1.0]
    assert pool_adjacent_violators([], []) == []


@given(st.lists(st.tuples(SHARES, st.floats(0.1, 9)), min_size=1, max_size=9))
def test_the_fit_is_the_nearest_monotone_one(points: list[tuple[float, float]]) -> None:
    """It equals the min-max formula of isotonic regression, and keeps the mean."""
    values, weights = zip(*points, strict=True)
    fitted = pool_adjacent_violators(values, weights)
    assert fitted == pytest.approx(best_monotone(values, weights), abs=1e-9)
    assert all(low <= high + 1e-12 for low, high in pairwise(fitted))
    assert np.average(fitted, weights=weights) == pytest.approx(
        np.average(values, weights=weights)
    )


def test_a_difference_counts_each_case_with_itself() -> None:
    """Means, wins, losses and ties by hand."""
    difference = paired_difference(pairs([0.5, 0.0, -0.25, 0.5, 0.0]))
    assert difference is not None
    assert (difference.a, difference.b, difference.difference) == pytest.approx(
        (0.5, 0.65, 0.15)
    )
    assert difference.cases == 5
    assert difference.better == 2
    assert difference.worse == 1
    assert difference.equal == 2
    assert difference.drawn == "cases" and difference.interval is not None
    assert difference.interval.low <= difference.difference <= difference.interval.high


def test_the_interval_is_that_of_the_normal_law() -> None:
    """The interval of many independent cases is the mean ± 1.96 standard errors."""
    differences = np.random.default_rng(3).normal(0.1, 0.2, 400).clip(-0.5, 0.5)
    difference = paired_difference(pairs(list(differences)))
    assert difference is not None and difference.interval is not None
    error = 1.96 * differences.std() / math.sqrt(len(differences))
    assert difference.interval.low == pytest.approx(differences.mean() - error, abs=0.003)
    assert difference.interval.high == pytest.approx(differences.mean() + error, abs=0.003)
    assert difference.is_clear


def test_whole_repositories_are_drawn() -> None:
    """Cases of one repository that are all alike are one piece of evidence: the interval is as wide
    as if each repository were one case."""
    rng = np.random.default_rng(5)
    of_repository = rng.normal(0.0, 0.2, 12)
    names = [str(number) for number in range(12) for _ in range(20)]
    alike = [float(of_repository[int(name)]) for name in names]
    clustered = paired_difference(pairs(alike, names))
    naive = paired_difference(pairs(alike))
    assert clustered is not None and clustered.interval is not None
    assert naive is not None and naive.interval is not None
    assert clustered.drawn == "repositories"
    width = clustered.interval.high - clustered.interval.low
    assert width > 3 * (naive.interval.high - naive.interval.low)
    error = 1.96 * of_repository.std() / math.sqrt(12)
    assert width == pytest.approx(2 * error, rel=0.15)


def test_few_repositories_get_the_wider_interval() -> None:
    """Two repositories that agree exactly would give an interval of no width; cases are drawn as
    well."""
    differences = [0.4, 0.0, 0.2] * 2
    difference = paired_difference(pairs(differences, ["a"] * 3 + ["b"] * 3))
    assert difference is not None and difference.interval is not None
    assert (
        difference.drawn == "wider" and difference.interval.high - difference.interval.low > 0.1
    )


@pytest.mark.parametrize("differences", [[0.3], [0.3, -0.2, 0.1, 0.4], [0.0] * 40])
def test_what_cannot_be_told_has_no_interval(differences: list[float]) -> None:
    """One case, a few, or all the same: no interval, and nothing is divided by zero."""
    difference = paired_difference(pairs(differences))
    assert difference is not None and difference.interval is None and not difference.is_clear


def test_no_pair_gives_no_difference() -> None:
    """There is nothing to compare."""
    assert paired_difference([]) is None
    assert mean_interval([], []) is None


@pytest.mark.parametrize("figure", [math.nan, math.inf])
def test_a_figure_is_a_number(figure: float) -> None:
    """A pair with NaN cannot exist."""
    with pytest.raises(ValueError, match="finite"):
        PairedFigure("a", figure, 0.5)


def test_the_same_figures_give_the_same_interval() -> None:
    """The draws have a fixed seed."""
    differences = [0.1, -0.2, 0.3, 0.0, 0.25, 0.4]
    assert paired_difference(pairs(differences)) == paired_difference(pairs(differences))


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """About 95 % of the intervals of 100 samples of 40 cases hold the true mean."""
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(100):
        sample = rng.choice([-0.5, 0.0, 0.5], 40, p=[0.2, 0.5, 0.3])
        difference = mean_interval(list(sample), ["one"] * 40)
        assert difference is not None
        held += difference.low <= 0.05 <= difference.high
    assert 0.90 <= held / 100 <= 0.99


def test_calibration_error_by_hand() -> None:
    """Two bins of two: predicted .1 and .9, observed 0 and .5."""
    error = calibration_error([0.1, 0.9, 0.1, 0.9], [False, True, False, False], bins=2)
    assert error == pytest.approx((0.1 + 0.4) / 2)
    assert calibration_error([], []) is None
    assert calibration_error([0.25], [True]) == pytest.approx(0.75)


@given(st.lists(st.tuples(SHARES, st.booleans()), min_size=1, max_size=60))
def test_calibration_error_is_a_share(points: list[tuple[float, bool]]) -> None:
    """It lies in 0..1, and is 0 where everything that was certain happened."""
    predicted, happened = zip(*points, strict=True)
    error = calibration_error(predicted, happened)
    assert error is not None and 0 <= error <= 1 + 1e-12
    certain = calibration_error([float(outcome) for outcome in happened], happened)
    assert certain == pytest.approx(0)
