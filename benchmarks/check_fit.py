"""Fit the two models of `xscore check` by Newton's method, with a ridge: nothing is random.

Not a benchmark itself.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from check_cases import CheckList

from xscore.extensions.checking.evidence import Situation
from xscore.extensions.checking.learned_order import (
    COLUMNS,
    TELLING,
    OrderWeights,
    columns_of,
    telling_of,
)
from xscore.scorer.linear_model import LinearModel

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
RIDGE_ORDER, RIDGE_MISSING = 30.0, 3.0
STEPS = 40
SILENT = 0.83
"""Share of whole commits at which the check is to stay silent, on what it is fitted on."""
LISTS_FROM = 0.02
_COUNTS = ("files", "candidates", "commits", "companion_commits")
_BOOLEANS = ("has_code", "has_test", "has_document", "has_settings")


def situation_of(entry: CheckList) -> Situation:
    """Return what was kept of a list's situation."""
    names = Situation.__struct_fields__
    values: dict[str, object] = dict(zip(names, entry.situation, strict=True))
    for name in _COUNTS:
        values[name] = int(entry.situation[names.index(name)])
    for name in _BOOLEANS:
        values[name] = bool(values[name])
    return msgspec.convert(values, Situation)


def sums_of(model: LinearModel, rows: Matrix) -> Vector:
    """Return what `LinearModel.sums` does, for many rows."""
    sums: Vector = rows @ np.array([*model.weights.values()]) + model.bias
    return sums


class FittingList:
    """A list with its columns, made once."""

    def __init__(self, entry: CheckList) -> None:
        self.entry = entry
        self.situation = situation_of(entry)
        self.columns: Matrix = np.array(columns_of(entry.values, self.situation))


def fit(lists: Sequence[FittingList]) -> OrderWeights:
    """Return the weights that fit these lists."""
    order = fit_order([fitting for fitting in lists if fitting.entry.gold >= 0])
    telling: list[tuple[float, ...]] = []
    for fitting in lists:
        telling.append(telling_of(sums_of(order, fitting.columns).tolist(), fitting.situation))
    is_missing = np.array([float(fitting.entry.turn >= 0) for fitting in lists])
    # As many whole commits as commits without a file, however many files were withheld.
    balance = np.where(is_missing > 0, 1.0, is_missing.sum() / max((1 - is_missing).sum(), 1))
    missing = fit_missing(np.array(telling), is_missing, balance)
    sums = sums_of(missing, np.array(telling))
    of_complete = 1 / (1 + np.exp(-sums[is_missing == 0]))
    speaks_from = float(np.quantile(of_complete, SILENT))
    return OrderWeights(order, missing, speaks_from, LISTS_FROM)


def standardized(rows: Matrix) -> tuple[Vector, Vector]:
    """Return mean and deviation of each column; a column that never changes counts for nothing."""
    deviation = rows.std(0)
    deviation[deviation < 1e-6] = 1.0
    return rows.mean(0), deviation


def fit_order(lists: Sequence[FittingList]) -> LinearModel:
    """Fit a softmax over the files of each list, whose withheld file is the right one."""
    mean, deviation = standardized(np.concatenate([fitting.columns for fitting in lists]))
    rows = [(fitting.columns - mean) / deviation for fitting in lists]
    gold = [fitting.entry.gold for fitting in lists]
    weights = np.zeros(len(COLUMNS))

    def loss(trial: Vector) -> float:
        total = RIDGE_ORDER * float(trial @ trial) / 2
        for values, right in zip(rows, gold, strict=True):
            sums = values @ trial
            total += float(sums.max() + np.log(np.exp(sums - sums.max()).sum()) - sums[right])
        return total

    for _ in range(STEPS):
        gradient = RIDGE_ORDER * weights
        curvature = RIDGE_ORDER * np.eye(len(COLUMNS))
        for values, right in zip(rows, gold, strict=True):
            sums = values @ weights
            share = np.exp(sums - sums.max())
            share /= share.sum()
            expected = share @ values
            gradient = gradient + expected - values[right]
            curvature += (values * share[:, None]).T @ values - np.outer(expected, expected)
        step = np.linalg.solve(curvature, gradient)
        length, before = 1.0, loss(weights)
        while length > 1e-4 and loss(weights - length * step) > before:
            length /= 2
        weights = weights - length * step
        if np.abs(length * step).max() < 1e-4:
            break
    return _model(COLUMNS, mean, deviation, weights, 0.0)


def fit_missing(telling: Matrix, is_missing: Vector, balance: Vector) -> LinearModel:
    """Fit a logistic regression that says whether something is missing."""
    mean, deviation = standardized(telling)
    rows = np.concatenate([(telling - mean) / deviation, np.ones((len(telling), 1))], 1)
    ridge = RIDGE_MISSING * np.eye(rows.shape[1])
    ridge[-1, -1] = 0.0
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        share = 1 / (1 + np.exp(-rows @ weights))
        gradient = rows.T @ (balance * (share - is_missing)) + ridge @ weights
        curvature = (rows * (balance * share * (1 - share))[:, None]).T @ rows + ridge
        weights = weights - np.linalg.solve(curvature, gradient)
    return _model(TELLING, mean, deviation, weights[:-1], float(weights[-1]))


def _model(
    columns: tuple[str, ...], mean: Vector, deviation: Vector, weights: Vector, bias: float
) -> LinearModel:
    """Return a model of the columns as they are, with figures that a diff can show."""
    scaled = weights / deviation
    by_name: dict[str, float] = {}
    for name, weight in zip(columns, scaled, strict=True):
        by_name[name] = float(f"{weight:.5g}")
    return LinearModel(by_name, float(f"{bias - scaled @ mean:.5g}"))
