"""The learned weights: complete, and used as they were fitted."""

import pytest

from xscore.extensions.checking.evidence import FIGURES, Situation
from xscore.extensions.checking.learned_order import (
    COLUMNS,
    TELLING,
    columns_of,
    missing_probability,
    read_weights,
    telling_of,
)
from xscore.scorer.linear_model import log_sum, probability_of, shares_of

SITUATION = Situation(
    files=1,
    candidates=3,
    commits=10,
    companion_commits=5,
    best_together=0.5,
    most_words=3.0,
    has_code=True,
    has_test=False,
    has_document=False,
    has_settings=False,
    more_with_all=0.0,
    more_with_half=0.0,
    more_of_size=0.0,
)


def test_weights_fit_the_columns() -> None:
    """The data file names the columns that the code makes, in their order."""
    weights = read_weights()
    assert tuple(weights.order.weights) == COLUMNS
    assert tuple(weights.missing.weights) == TELLING
    assert 0 < weights.speaks_from < 1
    assert 0 < weights.lists_from < 1
    nothing = (0.0,) * len(FIGURES)
    assert len(columns_of([nothing], SITUATION)[0]) == len(COLUMNS)
    assert len(telling_of([0.0], SITUATION)) == len(TELLING)


def test_more_history_is_a_better_place() -> None:
    """A file that changed with the change before ranks above one of which nothing is known."""
    weights = read_weights()
    together = {"together": 0.6, "together_mean": 0.6, "together_recent": 0.6, "lately": 2.0}
    companion = tuple(together.get(name, 0.0) for name in FIGURES)
    stranger = (0.0,) * len(FIGURES)
    sums = weights.order.sums(columns_of([stranger, companion, stranger], SITUATION), COLUMNS)
    shares = shares_of(sums)
    assert shares[1] == max(shares)
    assert sum(shares) == pytest.approx(1.0)
    likely = missing_probability(weights, sums, SITUATION)
    assert likely > missing_probability(weights, [sums[0]] * 3, SITUATION)


def test_huge_sums_stay_finite() -> None:
    """No exponent overflows."""
    assert shares_of([1e4, -1e4]) == [1.0, 0.0]
    assert log_sum([1e4, -1e4]) == 1e4
    assert probability_of(-1e4) < 1e-12
