"""Boosts: what they add, to which memories, and their limits."""

import random
from collections.abc import Sequence
from typing import get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from xscore.pipeline.boosts import BOOSTERS, NOT_SCALED, BoostRules, boost, boosts_by_words
from xscore.pipeline.joining import join
from xscore.platform.clock import DAY_S
from xscore.records.candidates import Candidate
from xscore.records.judgment import (
    USUAL_THRESHOLD,
    Boost,
    Judgment,
    Origin,
    Outcome,
    Ranked,
    Thresholds,
    Unjudged,
    UnjudgedCause,
)
from xscore.records.memory import Edge, Kind, Layer, Relation
from xscore.records.turn import ChangedFile, Turn
from xscore.settings import BoostSettings
from xscore.settings.values import Fraction

NOW = 1_000_000_000.0
TURN = Turn(task="fix it")


def candidate(
    id_: str, *, path: str = "", kind: Kind = Kind.FUNCTION, age_days: float | None = None
) -> Candidate:
    """A candidate in a file of its own."""
    updated = NOW - age_days * DAY_S if age_days is not None else 0.0
    return Candidate(
        id_,
        "h" + id_,
        Layer.GRAPH,
        kind,
        path or f"{id_}/x.py",
        id_,
        10,
        20,
        "python",
        9,
        updated,
    )


def outcome(
    id_: str,
    score: float,
    *,
    path: str = "",
    kind: Kind = Kind.FUNCTION,
    age: float | None = None,
) -> Outcome:
    """A candidate judged in this turn."""
    return Outcome(
        candidate(id_, path=path, kind=kind, age_days=age),
        Judgment("h" + id_, score),
        Origin.JUDGED,
    )


def ranked(
    outcomes: Sequence[Outcome],
    edges: Sequence[Edge] = (),
    *,
    turn: Turn = TURN,
    settings: BoostSettings | None = None,
    degrees: dict[str, int] | None = None,
    thresholds: Thresholds = Thresholds(0.7),  # noqa: B008  an immutable default
) -> dict[str, Ranked]:
    """Apply the default boosts; return results by id."""
    rules = BoostRules(
        settings=settings or BoostSettings(), thresholds=thresholds, boosters=BOOSTERS, now=NOW
    )
    boosted = boost(join(outcomes, weight=0), turn, rules, edges=edges, degrees=degrees or {})
    return {outcome.candidate.id: outcome for outcome in boosted}


def calls(source: str, target: str) -> Edge:
    """Return one call edge."""
    return Edge(source, target, Relation.CALLS)


def test_what_a_relevant_memory_calls_is_lifted() -> None:
    """A passes and calls B: B rises from 0.6 to the threshold, with the reason (X29)."""
    callee = ranked([outcome("a", 0.9), outcome("b", 0.6)], [calls("a", "b")])["b"]
    assert callee.score == pytest.approx(0.7)
    assert callee.judgment.score == 0.6
    assert [(boost.name, boost.amount) for boost in callee.boosts] == [("dependency", 0.1)]
    assert callee.boosts[0].because == "called by a/x.py::a, which scores above the threshold"


def test_no_chaining() -> None:
    """B passes only by its boost, so it boosts no other memory (K14)."""
    by_id = ranked(
        [outcome("a", 0.9), outcome("b", 0.6), outcome("c", 0.6)],
        [calls("a", "b"), calls("b", "c")],
    )
    assert by_id["b"].score >= 0.7
    assert by_id["c"].boosts == ()


def test_a_hub_gives_little() -> None:
    """A function with a hundred callers adds a tenth; a call to itself adds nothing."""
    outcomes = [outcome("a", 0.9), outcome("b", 0.6)]
    assert ranked(outcomes, [calls("a", "b")], degrees={"b": 100})["b"].boosts[
        0
    ].amount == pytest.approx(0.01)
    assert ranked(outcomes, [calls("a", "b")], degrees={"a": 10})["b"].boosts[
        0
    ].amount == pytest.approx(0.10)
    assert ranked([outcome("a", 0.9)], [calls("a", "a")])["a"].boosts == ()


def test_below_the_floor_nothing_is_lifted() -> None:
    """A raw score under 0.4 stays, whatever its links (K14)."""
    low = ranked(
        [outcome("a", 0.9), outcome("b", 0.39)],
        [calls("a", "b")],
        turn=Turn(task="t", file="b/x.py"),
    )["b"]
    assert (low.score, low.boosts) == (0.39, ())


def test_tests_and_their_subjects() -> None:
    """The subject of a passing test is boosted, and so is a test of the function being edited
    (X32)."""
    edge = Edge("t", "s", Relation.TESTS)
    subject = ranked([outcome("t", 0.8, kind=Kind.TEST), outcome("s", 0.5)], [edge])["s"]
    assert [boost.name for boost in subject.boosts] == ["test_link"]
    outcomes = [outcome("t", 0.5, kind=Kind.TEST), outcome("s", 0.1, path="s.py")]
    edited = ranked(outcomes, [edge], turn=Turn(task="t", file="s.py", line=15))["t"]
    assert edited.boosts[0].because == "tests s.py::s, which is being edited"
    elsewhere = ranked(outcomes, [edge], turn=Turn(task="t", file="s.py", line=99))["t"]
    assert "test_link" not in {boost.name for boost in elsewhere.boosts}


@pytest.mark.parametrize(
    ("lines", "lifted"), [(((18, 18),), True), (((1, 9), (21, 40)), False), ((), False)]
)
def test_an_uncommitted_edit_counts_as_the_file_at_hand(
    lines: tuple[tuple[int, int], ...], lifted: bool
) -> None:
    """A test of a function changed in the working tree is boosted without naming the file (X32)."""
    outcomes = [outcome("t", 0.5, kind=Kind.TEST), outcome("s", 0.1, path="s.py")]
    turn = Turn(task="t", changed=(ChangedFile("s.py", 0.0, lines),))
    test = ranked(outcomes, [Edge("t", "s", Relation.TESTS)], turn=turn)["t"]
    assert ("test_link" in {boost.name for boost in test.boosts}) is lifted


def test_recency_halves_and_git_outranks_file_times() -> None:
    """The boost halves every seven days; with git, a file it does not report as changed gets none
    (X30)."""
    settings = BoostSettings(recency=0.05)
    old = [outcome(f"old{number}", 0.5, age=300 + number) for number in range(3)]
    for age, amount in ((0.0, 0.05), (7.0, 0.025), (14.0, 0.0125)):
        aged = ranked([outcome("a", 0.5, age=age), *old], settings=settings)
        assert aged["a"].boosts[0].amount == pytest.approx(amount)
        assert aged["old0"].boosts == ()
    turn = Turn(task="t", changed=(ChangedFile("a.py", 7.0),))
    by_id = ranked(
        [outcome("a", 0.5, path="a.py", age=0), outcome("b", 0.5, age=0), *old],
        turn=turn,
        settings=settings,
    )
    assert by_id["a"].boosts[0].amount == pytest.approx(0.025)
    assert by_id["b"].boosts == ()
    assert (
        ranked([outcome("b", 0.5, age=0), *old], turn=Turn(task="t", changed=()))["b"].boosts
        == ()
    )


@pytest.mark.parametrize("from_git", [True, False])
def test_a_date_that_most_files_share_is_no_recency(from_git: bool) -> None:
    """After a clone or a first commit, only later changes are recent."""
    ages = {f"f{number}": 2.4 for number in range(6)} | {"new": 1.0, "older": 5.0}
    changed = tuple(ChangedFile(f"{name}/x.py", age) for name, age in ages.items())
    by_id = ranked(
        [outcome(name, 0.5, age=age) for name, age in ages.items()],
        turn=Turn(task="t", changed=changed if from_git else None),
    )
    assert [name for name, memory in by_id.items() if memory.boosts] == ["new"]


def test_an_edit_is_later_than_a_first_commit_of_today() -> None:
    """The one file with uncommitted lines is recent, although all share the day."""
    changed = (
        ChangedFile("f0/x.py", 0.0, ((1, 2),)),
        *(ChangedFile(f"f{number}/x.py", 0.0) for number in (1, 2, 3)),
    )
    by_id = ranked(
        [outcome(f"f{number}", 0.5) for number in range(4)],
        turn=Turn(task="t", changed=changed),
    )
    assert [name for name, memory in by_id.items() if memory.boosts] == ["f0"]


def test_recency_alone_lifts_nothing_over_the_cut() -> None:
    """A memory never passes by recency alone; one that another boost carries over keeps both."""
    edges = [calls("a", "b")]
    outcomes = [
        outcome("a", 0.9, age=9),
        outcome("b", 0.65, age=0),
        outcome("c", 0.68, age=0),
        *(outcome(name, 0.1, age=9) for name in "xyz"),
    ]
    by_id = ranked(outcomes, edges)
    assert (by_id["c"].score, by_id["c"].boosts) == (0.68, ())
    assert [boost.name for boost in by_id["b"].boosts] == ["dependency", "recency"]
    assert ranked([outcome("c", 0.5, age=0), *outcomes[3:]])["c"].score == 0.53
    lower = Thresholds(0.9, {"function": 0.52})
    assert ranked([outcome("c", 0.5, age=0), *outcomes[3:]], thresholds=lower)["c"].boosts == ()
    assert ranked(
        [outcome("a", 0.6, age=9), outcome("b", 0.45, age=9)], edges, thresholds=lower
    )["b"].boosts


def test_locality_is_full_in_the_file_and_half_in_its_folder() -> None:
    """The current file counts in full, its folder half, others not."""
    turn = Turn(task="t", file="p/a.py")
    by_id = ranked(
        [outcome("a", 0.5, path="p/a.py"), outcome("b", 0.5, path="p/b.py"), outcome("c", 0.5)],
        turn=turn,
    )
    assert by_id["a"].boosts[0].amount == 2 * by_id["b"].boosts[0].amount
    assert by_id["c"].boosts == ()


def test_the_cap_holds_and_the_amounts_shown_add_up() -> None:
    """All boosts together add at most 0.15; a capped one says so."""
    turn = Turn(task="t", file="b.py", changed=(ChangedFile("b.py", 0.0),))
    edges = [calls("a", "b"), Edge("t", "b", Relation.TESTS)]
    outcomes = [
        outcome("a", 0.9),
        outcome("t", 0.9, kind=Kind.TEST),
        outcome("b", 0.5, path="b.py"),
    ]
    capped = ranked(outcomes, edges, turn=turn)["b"]
    assert capped.score == 0.65
    assert sum(boost.amount for boost in capped.boosts) == pytest.approx(0.15)
    assert capped.boosts[-1].because.endswith(
        "(cut from +0.10: boosts add at most 0.15 together)"
    )


@pytest.mark.parametrize(("is_visible", "dependency"), [(False, 0.1501), (True, 0.1567)])
def test_a_cut_that_nobody_sees_is_not_mentioned(
    *, is_visible: bool, dependency: float
) -> None:
    """Amounts that read the same before and after the cap say nothing about it, also by words,
    where the cap has many digits."""
    thresholds = Thresholds(0.05)
    by_words = boosts_by_words(BoostSettings(), thresholds)
    settings = replace(by_words, dependency=dependency * by_words.cap / 0.15)
    of_model = replace(BoostSettings(), dependency=dependency)
    outcomes = [outcome("a", 0.9), outcome("b", 0.5)]
    lifted = ranked(outcomes, [calls("a", "b")], settings=of_model)["b"].boosts[0]
    assert lifted.amount == pytest.approx(of_model.cap)
    assert ("+0.16" in lifted.because) is is_visible
    outcomes = [outcome("a", 0.9), outcome("b", 0.04)]
    lifted = ranked(outcomes, [calls("a", "b")], settings=settings, thresholds=thresholds)[
        "b"
    ].boosts[0]
    assert lifted.amount == pytest.approx(by_words.cap)
    assert "cut" not in lifted.because


def test_every_amount_is_scaled_for_scores_by_words_or_said_not_to_be() -> None:
    """Of the settings of boosts, all but `NOT_SCALED` shrink with the threshold; what is not a
    share of a score is never scaled, and of the shares only that of calls."""
    thresholds = Thresholds(0.07)
    settings = BoostSettings()
    by_words = boosts_by_words(settings, thresholds)
    bounds_of_share = get_args(Fraction)[1]
    hints = get_type_hints(BoostSettings, include_extras=True)
    shares = {name for name, hint in hints.items() if bounds_of_share in get_args(hint)}
    assert shares - NOT_SCALED == set(settings.__struct_fields__) - NOT_SCALED
    assert shares & NOT_SCALED == {"dependency"}
    for name in settings.__struct_fields__:
        factor = 1 if name in NOT_SCALED else thresholds.default / USUAL_THRESHOLD
        assert getattr(by_words, name) == pytest.approx(getattr(settings, name) * factor)


def test_duplicates_bring_their_links() -> None:
    """A memory judged once for two equal copies is boosted through the edges of either."""
    copy = Outcome(
        Candidate(
            "b",
            "hb",
            Layer.GRAPH,
            Kind.FUNCTION,
            "b.py",
            "b",
            1,
            2,
            "",
            1,
            0.0,
            duplicates=("b2",),
        ),
        Judgment("hb", 0.6),
        Origin.CACHED,
    )
    assert ranked([outcome("a", 0.9), copy], [calls("a", "b2")])["b"].score == 0.7


def test_the_unjudged_are_left_out_and_own_boosters_join() -> None:
    """Without a score there is nothing to boost; a booster is any callable."""
    missing = Outcome(candidate("u"), Unjudged("hu", UnjudgedCause.BUDGET), Origin.UNJUDGED)
    boosters = [
        lambda memory, around: Boost("mine", 0.02, f"{memory.id} of {len(around.known)}")
    ]
    rules = BoostRules(
        settings=BoostSettings(), thresholds=Thresholds(0.7), boosters=boosters, now=NOW
    )
    boosted = boost(
        join([outcome("a", 0.5), missing], weight=0), TURN, rules, edges=(), degrees={}
    )
    assert [(memory.candidate.id, memory.score) for memory in boosted] == [("a", 0.52)]


scores = st.lists(st.integers(0, 100).map(lambda n: n / 100), min_size=1, max_size=12)


@given(
    scores=scores,
    links=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=20),
    seed=st.integers(0, 99),
)
def test_properties(scores: list[float], links: list[tuple[int, int]], seed: int) -> None:
    """n in, n out; raw untouched; 0 ≤ boost ≤ cap; final ≤ 1; none below the floor; independent of
    order."""
    outcomes = [
        outcome(f"m{place}", score, path=f"d{place % 3}/f.py", age=place)
        for place, score in enumerate(scores)
    ]
    edges = [
        Edge(f"m{a}", f"m{b}", Relation.CALLS if (a + b) % 2 else Relation.TESTS)
        for a, b in links
    ]
    turn = Turn(task="t", file="d1/f.py")
    by_id = ranked(outcomes, edges, turn=turn)
    assert list(by_id) == [memory.candidate.id for memory in outcomes]
    for before, after in zip(scores, by_id.values(), strict=True):
        assert after.judgment.score == before
        assert before <= after.score <= min(1.0, before + 0.15 + 1e-9)
        assert after.score == pytest.approx(
            min(1.0, before + sum(memory.amount for memory in after.boosts)), abs=1e-9
        )
        assert before >= 0.4 or not after.boosts
        assert all(memory.because and memory.amount > 0 for memory in after.boosts)
    shuffle = random.Random(seed)
    shuffled_outcomes = shuffle.sample(outcomes, len(outcomes))
    shuffled_edges = shuffle.sample(edges, len(edges))
    assert ranked(shuffled_outcomes, shuffled_edges, turn=turn) == by_id
