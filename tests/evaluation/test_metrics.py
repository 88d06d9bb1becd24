"""Metrics: what counts as found, and the figures made of it."""

from hypothesis import given
from hypothesis import strategies as st

from xscore.extensions.evaluation import metrics
from xscore.extensions.evaluation.metrics import EntityRef, LabelledScore

FOUND = st.lists(st.none() | st.integers(0, 3), max_size=20).map(
    lambda raw: [hit if hit is None or hit not in raw[:place] else None for place, hit in enumerate(raw)]
)


def test_equal_names_match_when_their_lines_meet() -> None:
    """Path and name decide; lines only tell two of the same name apart; overload numbers and `::` are ignored."""
    gold = EntityRef("a.py", "A.f", 10, 20)
    assert metrics.is_same_entity(EntityRef("./a.py", "A::f#2", 18, 30), gold)
    assert metrics.is_same_entity(EntityRef("a.py", "A.f"), gold)
    assert not metrics.is_same_entity(EntityRef("a.py", "A.f", 21, 30), gold)
    assert not metrics.is_same_entity(EntityRef("b.py", "A.f", 10, 20), gold)


def test_other_names_match_when_half_of_each_is_the_other() -> None:
    """Another cut of the same function counts; the class around it does not."""
    gold = EntityRef("a.py", "A.f", 10, 19)
    assert metrics.is_same_entity(EntityRef("a.py", "lines 8-17", 8, 17), gold)
    assert not metrics.is_same_entity(EntityRef("a.py", "A", 1, 60), gold)


def test_a_path_alone_means_the_file() -> None:
    """Any memory of the file is a hit, and only the first."""
    gold = [EntityRef("a.py", "")]
    assert metrics.match_gold(
        [EntityRef("b.py", "f"), EntityRef("./a.py", "g", 3, 4), EntityRef("a.py", "h")], gold
    ) == [None, 0, None]


def test_reliability_counts_each_score_once() -> None:
    """A score at the lower end of a bin is in it, binary dust aside; 1.0 is in the last."""
    found = metrics.calibration_bins(
        LabelledScore(*one) for one in ((0.0, False), (0.7, True), (0.1 + 0.2, False), (0.95, True), (1.0, False))
    )
    assert [bin_.memories for bin_ in found] == [1, 0, 0, 1, 0, 0, 0, 1, 0, 2]
    assert [bin_.gold for bin_ in found] == [0, 0, 0, 0, 0, 0, 0, 1, 0, 1]
    assert (found[7].low, found[7].high, found[-1].high) == (0.7, 0.8, 1.0)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=50))
def test_reliability_loses_nobody(scored: list[tuple[float, bool]]) -> None:
    """The bins hold all memories and all gold."""
    found = metrics.calibration_bins(LabelledScore(*one) for one in scored)
    assert sum(bin_.memories for bin_ in found) == len(scored)
    assert sum(bin_.gold for bin_ in found) == sum(is_gold for _, is_gold in scored)


def test_a_gold_entity_is_matched_once() -> None:
    """A second memory of the same entity is a miss."""
    gold = [EntityRef("a.py", "f", 1, 9)]
    assert metrics.match_gold([EntityRef("a.py", "f", 1, 9), EntityRef("a.py", "f", 1, 5)], gold) == [0, None]


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


def test_a_path_alone_takes_nothing_from_what_is_named() -> None:
    """Of one file, a memory that is named gold counts for its name, wherever in the list the path alone stands."""
    by_path, by_name = EntityRef("a.py", ""), EntityRef("a.py", "f")
    ranked = [EntityRef("a.py", "f", 1, 9), EntityRef("a.py", "g", 10, 19)]
    assert metrics.match_gold(ranked, [by_path, by_name]) == [1, 0]
    assert metrics.match_gold(ranked, [by_name, by_path]) == [0, 1]
    assert metrics.match_gold(ranked, [by_path, EntityRef("a.py", "", 1, 9)]) == [1, 0]


def test_gold_is_gold_however_its_path_is_written() -> None:
    """`./a.py` is `a.py` on either side; each memory that is gold is, also a second one for the same."""
    places = [EntityRef("./a.py", "f"), EntityRef("a.py", "f"), EntityRef("b.py", "f")]
    assert (
        metrics.are_gold(places, [EntityRef("a.py", "f")])
        == metrics.are_gold(places, [EntityRef("./a.py", "f")])
        == [True, True, False]
    )
