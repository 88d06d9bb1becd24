"""Selection: what is kept, what is not, and that every candidate is counted."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscore.pipeline.selection import is_about_tests, select
from xscore.records.candidates import Candidate
from xscore.records.judgment import (
    Judgment,
    Origin,
    Ranked,
    Selection,
    Thresholds,
    Unjudged,
    UnjudgedCause,
)
from xscore.records.memory import Kind, Layer
from xscore.records.turn import Turn
from xscore.settings import SelectionSettings

SETTINGS = SelectionSettings()


def ranked(
    id_: str,
    score: float,
    *,
    raw: float | None = None,
    prior: float = 0.0,
    kind: Kind = Kind.FUNCTION,
) -> Ranked:
    """A judged candidate with a final score."""
    candidate = Candidate(
        id_, "h" + id_, Layer.GRAPH, kind, "x.py", id_, 1, 2, "python", 9, 0.0
    )
    judgment = Judgment("h" + id_, score if raw is None else raw, prior=prior)
    return Ranked(candidate, judgment, Origin.JUDGED, (), score)


def ids(selection: Selection) -> list[str]:
    """Return the kept ids, in order."""
    return [memory.candidate.id for memory in selection.kept]


def thresholds_of(settings: SelectionSettings) -> Thresholds:
    """Return the thresholds of these settings for an OpenAI judge."""
    return Thresholds.of_table(settings.threshold, judge="openai")


def keep(
    outcomes: list[Ranked], settings: SelectionSettings = SETTINGS, *, about_tests: bool = False
) -> Selection:
    """Select with the settings' threshold."""
    return select(
        outcomes, thresholds=thresholds_of(settings), settings=settings, about_tests=about_tests
    )


@pytest.mark.parametrize("score", [0.7, 0.6 + 0.1, 0.1 + 0.2 + 0.4, 0.65 + 0.05, 0.55 + 0.15])
def test_the_threshold_is_inclusive(score: float) -> None:
    """Exactly 0.70 is kept, however it was summed; 0.69 is not."""
    assert ids(keep([ranked("a", score), ranked("b", 0.69)])) == ["a"]


def test_each_kind_has_the_threshold_of_its_kind_and_judge() -> None:
    """A judge's own entry precedes the general one, a kind precedes `code`, and `default` is
    last."""
    table = {
        "default": 0.8,
        "code": 0.6,
        "test": 0.9,
        "typesafe/code": 0.5,
        "openai/default": 0.1,
    }
    read = Thresholds.of_table(table, judge="typesafe")
    of = {kind: read.of(ranked("m", 0, kind=kind).candidate) for kind in Kind}
    assert (of[Kind.FUNCTION], of[Kind.TEST], of[Kind.DOC], read.lowest) == (0.5, 0.5, 0.8, 0.5)
    anthropic = Thresholds.of_table(table, judge="anthropic")
    assert anthropic.by_kind["method"] == 0.6
    assert anthropic.by_kind["test"] == 0.9
    assert anthropic.default == 0.8
    assert Thresholds.of_table({"doc": 0.5}, judge="openai") == Thresholds(0.7, {"doc": 0.5})


def test_all_up_to_k_and_then_the_best_k() -> None:
    """Fifteen of fifteen are kept; of sixteen, the lowest is beyond K."""
    fifteen = [ranked(f"m{n:02}", 0.70 + n / 100) for n in range(15)]
    assert len(keep(fifteen).kept) == 15
    selection = keep([*fifteen, ranked("best", 0.99)])
    assert ids(selection)[0] == "best"
    assert (len(selection.kept), selection.beyond_k) == (15, 1)
    assert "m00" not in ids(selection)


def test_ties_go_by_raw_score_then_prior_then_id() -> None:
    """Ties in the final score are broken by raw score, lexical prior and id."""
    outcomes = [
        ranked("d", 0.8, raw=0.7),
        ranked("c", 0.8, raw=0.75),
        ranked("b", 0.8, raw=0.75, prior=0.4),
    ]
    assert ids(keep([*outcomes, ranked("a", 0.8, raw=0.7)])) == ["b", "c", "a", "d"]


def test_tests_take_a_third_when_there_is_no_room() -> None:
    """Only if more than K pass do tests give way to other memories, unless the task is about
    tests."""
    tests = [ranked(f"t{n:02}", 0.95, kind=Kind.TEST) for n in range(12)]
    code = [ranked(f"c{n:02}", 0.75) for n in range(8)]
    crowded = keep(tests + code)
    assert sum(id_.startswith("t") for id_ in ids(crowded)) == 7
    assert crowded.over_quota == 5
    code = [ranked(f"c{n:02}", 0.75) for n in range(16)]
    kept_ids = ids(keep(tests + code))
    assert sum(id_.startswith("t") for id_ in kept_ids) == 5
    assert sum(id_.startswith("t") for id_ in ids(keep(tests + code, about_tests=True))) == 12
    assert sum(id_.startswith("t") for id_ in ids(keep(tests + code[:3]))) == 12


def test_min_keep_fills_from_the_near_misses_and_labels_them() -> None:
    """If too few pass, the best others are added and marked as below the threshold."""
    selection = keep(
        [ranked("a", 0.8), ranked("b", 0.6), ranked("c", 0.5)], SelectionSettings(min_keep=2)
    )
    assert ids(selection) == ["a", "b"]
    assert selection.filled == frozenset({"b"})
    assert selection.below_threshold == 1
    assert [memory.candidate.id for memory in selection.near_misses] == ["c"]


def test_nothing_relevant_keeps_nothing() -> None:
    """A nonsense question selects nothing, and the ten nearest are shown."""
    selection = keep([ranked(f"m{n}", n / 100) for n in range(30)])
    assert selection.kept == ()
    assert len(selection.near_misses) == 10
    assert selection.below_threshold == 30
    assert selection.near_misses[0].candidate.id == "m29"


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (Turn(task="add a unit test for the parser"), True),
        (Turn(task="the testing helpers leak"), True),
        (Turn(task="fix the latest contest"), False),
        (Turn(task="why is it slow", file="tests/test_parser.py"), True),
        (Turn(task="why is it slow", file="src/app.spec.ts"), True),
        (Turn(task="why is it slow", file="src/app.ts"), False),
    ],
)
def test_which_tasks_are_about_tests(turn: Turn, expected: bool) -> None:
    """A task is about tests by its words, or by its current file."""
    assert is_about_tests(turn) is expected


pool = st.lists(
    st.tuples(
        st.integers(0, 100),
        st.integers(0, 100),
        st.sampled_from([Kind.FUNCTION, Kind.TEST, Kind.DOC]),
    ),
    max_size=40,
)


@given(
    pool=pool,
    k=st.integers(1, 20),
    cut=st.integers(0, 100),
    cut_of_docs=st.integers(0, 100),
    least=st.integers(0, 25),
    lost=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_properties(
    pool: list[tuple[int, int, Kind]],
    k: int,
    cut: int,
    cut_of_docs: int,
    least: int,
    lost: int,
    seed: int,
) -> None:
    """Every candidate is counted once; the kept are sorted, at most K, and no better one is left
    out."""
    outcomes = [
        ranked(f"m{n:02}", s / 100, raw=raw / 100, kind=kind)
        for n, (s, raw, kind) in enumerate(pool)
    ]
    unjudged = Unjudged("h", UnjudgedCause.BUDGET)
    missing = [(ranked(f"u{n}", 0).candidate, unjudged) for n in range(lost)]
    settings = SelectionSettings(
        top_k=k, threshold={"default": cut / 100, "doc": cut_of_docs / 100}, min_keep=least
    )

    def selected(ranking: list[Ranked]) -> Selection:
        return select(
            ranking, unjudged=missing, thresholds=thresholds_of(settings), settings=settings
        )

    selection = selected(outcomes)
    _assert_adds_up(selection, outcomes, lost=lost, k=k)
    cuts = {kind: (cut_of_docs if kind is Kind.DOC else cut) / 100 for kind in Kind}
    _assert_no_better_is_left_out(selection, outcomes, cuts, k=k, least=least)
    assert selected(random.Random(seed).sample(outcomes, len(outcomes))) == selection


def _assert_adds_up(selection: Selection, outcomes: list[Ranked], *, lost: int, k: int) -> None:
    accounted = (
        selection.below_threshold
        + selection.over_quota
        + selection.beyond_k
        + len(selection.unjudged)
    )
    assert len(selection.kept) + accounted == len(outcomes) + lost
    assert len(selection.kept) <= k
    kept_ids = set(ids(selection))
    assert len(kept_ids) == len(selection.kept)
    near_ids = {memory.candidate.id for memory in selection.near_misses}
    assert len(near_ids) >= min(10, len(outcomes) - len(selection.kept))
    assert not near_ids & kept_ids
    came_near = {memory.candidate.id for memory in outcomes if selection.came_near(memory)}
    assert came_near <= near_ids | kept_ids


def _assert_no_better_is_left_out(
    selection: Selection, outcomes: list[Ranked], cuts: dict[Kind, float], *, k: int, least: int
) -> None:
    order = [
        (-memory.score, -memory.judgment.score, memory.candidate.id)
        for memory in selection.kept
    ]
    assert order == sorted(order)
    for memory in selection.kept:
        is_below = memory.score < cuts[memory.candidate.kind]
        assert is_below is (memory.candidate.id in selection.filled)
    passing = [memory for memory in outcomes if memory.score >= cuts[memory.candidate.kind]]
    if len(passing) <= k:
        assert {memory.candidate.id for memory in passing} <= set(ids(selection))
    else:
        # The share of tests holds only while other code wants their places.
        tests = [memory for memory in selection.kept if memory.candidate.kind is Kind.TEST]
        code = [memory for memory in passing if memory.candidate.kind is not Kind.TEST]
        is_code_left_out = not {memory.candidate.id for memory in code} <= set(ids(selection))
        is_filled_up = len(selection.kept) == min(k, least)
        assert len(tests) <= k // 3 or not is_code_left_out or is_filled_up
