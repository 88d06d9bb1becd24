"""The same figures by other people's code: ir-measures counts the metrics, scipy fits and draws."""

import random
from typing import Any

import numpy as np
import pytest

from xscore.extensions.evaluation import metrics
from xscore.extensions.evaluation.statistics import (
    bootstrap,
    pool_adjacent_violators,
)

pytestmark = pytest.mark.verify


def test_metrics_are_those_of_ir_measures() -> None:
    """Recall, precision, success, reciprocal rank and nDCG of 200 rankings, at several k."""
    ir: Any = pytest.importorskip("ir_measures")
    chance = random.Random(3)
    for _ in range(200):
        length = chance.randrange(15, 60)
        gold = chance.randrange(1, 9)
        ranked = [f"d{number}" for number in range(length)]
        gold_names = chance.sample([f"d{number}" for number in range(length + 20)], gold)
        hits = [gold_names.index(name) if name in gold_names else None for name in ranked]
        qrels = [ir.Qrel("q", name, 1) for name in gold_names]
        run = [ir.ScoredDoc("q", name, float(length - at)) for at, name in enumerate(ranked)]
        for k in (1, 5, 15):
            ours = metrics.ranking_metrics(hits, gold, k=k)
            measures = [ir.R @ k, ir.P @ k, ir.Success @ k, ir.RR, ir.nDCG @ k]
            theirs = ir.calc_aggregate(measures, qrels, run)
            assert [
                ours.recall,
                ours.precision,
                ours.hit,
                ours.reciprocal_rank,
                ours.ndcg,
            ] == pytest.approx([theirs[measure] for measure in measures], abs=1e-9)


def test_the_isotonic_fit_is_that_of_scipy() -> None:
    """200 weighted lists of up to 300 values."""
    optimize: Any = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(5)
    for _ in range(200):
        size = int(rng.integers(1, 300))
        values = rng.choice([0.0, 0.0, 0.3, 1.0], size)
        weights = rng.integers(1, 9, size).astype(float)
        theirs = optimize.isotonic_regression(values, weights=weights).x
        ours = pool_adjacent_violators(list(values), list(weights))
        assert ours == pytest.approx(list(theirs), abs=1e-9)


def test_the_interval_is_that_of_scipy() -> None:
    """Percentile intervals of the mean: within what 2,000 draws vary by."""
    stats: Any = pytest.importorskip("scipy.stats")
    figures = np.random.default_rng(9).choice([-0.5, 0.0, 0.0, 0.5, 1.0], 80)
    theirs = stats.bootstrap(
        (figures,), np.mean, method="percentile", n_resamples=20_000, rng=1
    ).confidence_interval
    ours = bootstrap(list(figures), [str(at) for at in range(80)])
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.05 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.05 * width)
