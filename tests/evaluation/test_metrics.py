"""Metrics: what counts as found, and the figures made of it."""

from hypothesis import given
from hypothesis import strategies as st

from xscore.evaluation import metrics
from xscore.evaluation.metrics import Place

FOUND = st.lists(st.none() | st.integers(0, 3), max_size=20).map(
    lambda raw: [hit if hit is None or hit not in raw[:place] else None for place, hit in enumerate(raw)]
)


def test_equal_names_match_when_their_lines_meet() -> None:
    """Path and name decide; lines only tell two of the same name apart; overload numbers and `::` are ignored."""
    gold = Place("a.py", "A.f", 10, 20)
    assert metrics.matches(Place("./a.py", "A::f#2", 18, 30), gold)
    assert metrics.matches(Place("a.py", "A.f"), gold)
    assert not metrics.matches(Place("a.py", "A.f", 21, 30), gold)
    assert not metrics.matches(Place("b.py", "A.f", 10, 20), gold)


def test_other_names_match_when_half_of_each_is_the_other() -> None:
    """Another cut of the same function counts; the class around it does not."""
    gold = Place("a.py", "A.f", 10, 19)
    assert metrics.matches(Place("a.py", "lines 8-17", 8, 17), gold)
    assert not metrics.matches(Place("a.py", "A", 1, 60), gold)


def test_a_gold_entity_is_matched_once() -> None:
    """A second memory of the same entity is a miss."""
    gold = [Place("a.py", "f", 1, 9)]
    assert metrics.hits([Place("a.py", "f", 1, 9), Place("a.py", "f", 1, 5)], gold) == [0, None]


def test_figures_of_a_known_ranking() -> None:
    """Two of three found, at ranks 2 and 4."""
    found = [None, 0, None, 2, None]
    assert metrics.recall_at(found, 3, k=15) == 2 / 3
    assert metrics.recall_at(found, 3, k=3) == 1 / 3
    assert metrics.precision_at(found, k=4) == 0.5
    assert metrics.precision_at(found, k=15) == 0.4
    assert metrics.hit_at(found, k=1) == 0
    assert metrics.reciprocal_rank(found) == 0.5
    assert 0 < metrics.ndcg_at(found, 3, k=15) < 1


def test_a_perfect_order_has_ndcg_1() -> None:
    """All gold first is the best there is."""
    assert metrics.ndcg_at([1, 0, None], 2, k=15) == 1


def test_nothing_found_is_zero() -> None:
    """An empty ranking has figures, all of them 0."""
    assert metrics.recall_at([], 2, k=5) == metrics.precision_at([], k=5) == metrics.reciprocal_rank([]) == 0


@given(FOUND, st.integers(1, 20))
def test_figures_lie_between_0_and_1(found: list[int | None], k: int) -> None:
    """Every figure is a share."""
    figures = (
        metrics.recall_at(found, 4, k=k),
        metrics.precision_at(found, k=k),
        metrics.hit_at(found, k=k),
        metrics.reciprocal_rank(found),
        metrics.ndcg_at(found, 4, k=k),
    )
    assert all(0 <= figure <= 1 for figure in figures)
