"""Fits of linear models in a few lines of numpy: a ranking over groups, and odds.

All are convex and start from zero, so the same rows give the same weights. Not a benchmark itself.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
TINY = 1e-6


def fit_ranking(
    groups: Sequence[tuple[Matrix, Matrix]],
    *,
    least_zero: Sequence[bool],
    ridge: float,
    steps: int = 150,
) -> Matrix:
    """Return the weights that put what is gold of each group in front.

    The loss is that of a softmax over the rows of a group, minimized by accelerated projected
    gradients with backtracking (FISTA).

    groups: rows and whether each is gold (1 or 0); each group has a gold one.
    least_zero: the weights that may not be negative.
    ridge: of the weights of standardized columns.
    """
    spread = np.concatenate([group for group, _ in groups]).std(0) + TINY
    loss = _ranking_loss(groups, spread, ridge)
    floor = np.where(np.array(least_zero), 0.0, -np.inf)
    weights = np.zeros(len(spread))
    ahead, momentum, step = weights, 1.0, 1.0
    lowest, _ = loss(weights)
    for _ in range(steps):
        at, slope = loss(ahead)
        while True:
            moved = np.maximum(ahead - step * slope, floor)
            way = moved - ahead
            reached, _ = loss(moved)
            if reached <= at + slope @ way + (way @ way) / (2 * step) + 1e-12:
                break
            step /= 2
        if reached > lowest:  # overshot: begin again from the best
            ahead, momentum = weights, 1.0
            continue
        following = (1 + (1 + 4 * momentum * momentum) ** 0.5) / 2
        ahead = moved + (momentum - 1) / following * (moved - weights)
        momentum, weights, lowest = following, moved, reached
        step *= 1.3
    return weights / spread


def _ranking_loss(
    groups: Sequence[tuple[Matrix, Matrix]], spread: Matrix, ridge: float
) -> Callable[[Matrix], tuple[float, Matrix]]:
    """Return what gives the loss of some weights, and its slope."""
    rows = np.concatenate([group for group, _ in groups])
    rows = (rows - rows.mean(0)) / spread
    sizes = [len(gold) for _, gold in groups]
    starts = np.cumsum([0, *sizes])[:-1]
    group_of = np.repeat(np.arange(len(groups)), sizes)
    share = np.concatenate([gold / gold.sum() for _, gold in groups])

    def loss(weights: Matrix) -> tuple[float, Matrix]:
        rating = rows @ weights
        highest = np.maximum.reduceat(rating, starts)
        grown = np.exp(rating - highest[group_of])
        sums = np.add.reduceat(grown, starts)
        missed = share @ (rating - highest[group_of] - np.log(sums)[group_of])
        slope = rows.T @ (grown / sums[group_of] - share) / len(groups) + ridge * weights
        return -missed / len(groups) + ridge * (weights @ weights) / 2, slope

    return loss


def fit_odds(rows: Matrix, gold: Matrix, *, ridge: float, steps: int = 50) -> Matrix:
    """Return constant and weights of a logistic regression, by Newton's method."""
    mean, spread = rows.mean(0), rows.std(0) + TINY
    design = np.column_stack([np.ones(len(rows)), (rows - mean) / spread])
    penalty = np.full(design.shape[1], ridge * len(rows))
    penalty[0] = 0.0
    weights = np.zeros(design.shape[1])
    for _ in range(steps):
        probable = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (probable - gold) + penalty * weights
        curve = (design * (probable * (1 - probable))[:, None]).T @ design
        change = np.linalg.solve(curve + np.diag(penalty + TINY), slope)
        weights = weights - change
        if np.abs(change).max() < TINY:
            break
    slopes = weights[1:] / spread
    return np.concatenate([[weights[0] - slopes @ mean], slopes])
