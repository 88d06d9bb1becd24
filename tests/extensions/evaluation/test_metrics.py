"""Metrics: what counts as found, and the figures made of it."""

from xscore.extensions.evaluation import metrics
from xscore.extensions.evaluation.metrics import EntityRef, LabelledScore


def test_equal_names_match_when_their_lines_meet() -> None:
    """Path and name decide; lines only separate two of one name; overload numbers and `::` are
    ignored."""
    gold = EntityRef("a.py", "A.f", 10, 20)
    assert metrics.is_same_entity(EntityRef("./a.py", "A::f#2", 18, 30), gold)
    assert metrics.is_same_entity(EntityRef("a.py", "A.f"), gold)
    assert not metrics.is_same_entity(EntityRef("a.py", "A.f", 21, 30), gold)
    assert not metrics.is_same_entity(EntityRef("b.py", "A.f", 10, 20), gold)


def test_other_names_match_when_half_of_each_is_the_other() -> None:
    """Another piece of the same function counts; the class around it does not."""
    gold = EntityRef("a.py", "A.f", 10, 19)
    assert metrics.is_same_entity(EntityRef("a.py", "lines 8-17", 8, 17), gold)
    assert not metrics.is_same_entity(EntityRef("a.py", "A", 1, 60), gold)


def test_a_path_alone_means_the_file() -> None:
    """Any memory of the file is a hit, but only the first."""
    gold = [EntityRef("a.py", "")]
    assert metrics.match_gold(
        [EntityRef("b.py", "f"), EntityRef("./a.py", "g", 3, 4), EntityRef("a.py", "h")], gold
    ) == [None, 0, None]


def test_reliability_counts_each_score_once() -> None:
    """A score at the lower end of a bin belongs to it, despite rounding; 1.0 belongs to the
    last."""
    bins = metrics.calibration_bins(
        LabelledScore(*labelled)
        for labelled in (
            (0.0, False),
            (0.7, True),
            (0.1 + 0.2, False),
            (0.95, True),
            (1.0, False),
        )
    )
    assert [bin_.memories for bin_ in bins] == [1, 0, 0, 1, 0, 0, 0, 1, 0, 2]
    assert [bin_.gold for bin_ in bins] == [0, 0, 0, 0, 0, 0, 0, 1, 0, 1]
    assert (bins[7].low, bins[7].high, bins[-1].high) == (0.7, 0.8, 1.0)


def test_a_gold_entity_is_matched_once() -> None:
    """A second memory of the same entity is a miss."""
    gold = [EntityRef("a.py", "f", 1, 9)]
    assert metrics.match_gold(
        [EntityRef("a.py", "f", 1, 9), EntityRef("a.py", "f", 1, 5)], gold
    ) == [0, None]


def test_figures_of_a_known_ranking() -> None:
    """Two of three found, at ranks 2 and 4."""
    ranks = [None, 0, None, 2, None]
    of_all, first = (
        metrics.ranking_metrics(ranks, 3, k=15),
        metrics.ranking_metrics(ranks, 3, k=3),
    )
    assert (of_all.recall, first.recall) == (2 / 3, 1 / 3)
    assert (of_all.precision, metrics.ranking_metrics(ranks, 3, k=4).precision) == (0.4, 0.5)
    assert (metrics.ranking_metrics(ranks, 3, k=1).hit, of_all.reciprocal_rank) == (0, 0.5)
    assert 0 < of_all.ndcg < 1
