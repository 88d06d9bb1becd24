"""Places of commits and of conventions that were inferred."""

import pytest

from xscore.pipeline.selection import (
    COMMIT_PLACES,
    CONVENTION_PLACES,
    within_limited_places,
)
from xscore.records.candidates import Candidate
from xscore.records.judgment import Judgment, Origin, Ranked
from xscore.records.memory import Kind, Layer
from xscore.records.turn import Scope, Turn

TOP_K = 12


def ranked(number: int, kind: Kind, *, is_inferred: bool = False, score: float = 0.9) -> Ranked:
    """Return a memory that passed."""
    candidate = Candidate(
        f"m_{number}",
        f"h{number}",
        Layer.PROJECT,
        kind,
        "",
        "",
        0,
        0,
        "",
        10,
        0.0,
        (),
        is_inferred,
    )
    return Ranked(candidate, Judgment(candidate.content_hash, score), Origin.JUDGED, (), score)


def kept_of(task: str, passing: list[Ranked], scope: Scope | None = None) -> list[str]:
    """Return the ids that may have a place."""
    turn = Turn(task=task, scope=scope or Scope())
    may_stay, further = within_limited_places(passing, turn, top_k=TOP_K)
    assert sorted(map(repr, [*may_stay, *further])) == sorted(map(repr, passing))
    return [entry.candidate.id for entry in may_stay]


SHOWN = [ranked(number, Kind.CONVENTION, is_inferred=True) for number in range(8)]
STATED = [ranked(number, Kind.CONVENTION) for number in range(10, 18)]


@pytest.mark.parametrize(
    "task",
    [
        "Fix the rounding of discounts",
        "Add a test for the parser and run it in CI",
        "The test command of the billing page crashes",
    ],
)
def test_what_files_show_takes_two_places_of_an_ordinary_task(task: str) -> None:
    """H24: conventions do not crowd out the code; what a person stated is not limited."""
    kept = kept_of(task, [*SHOWN, *STATED])
    least = CONVENTION_PLACES
    assert [id_ for id_ in kept if int(id_[2:]) < 10][:least] == ["m_0", "m_1"]
    assert len(kept) >= len(STATED) + least


@pytest.mark.parametrize(
    "task",
    [
        "How are the tests run?",
        "which command lints the code",
        "What are our naming conventions?",
        "run the test suite",
    ],
)
def test_a_task_that_asks_how_work_is_done_has_more(task: str) -> None:
    """Half of all places are theirs where they are asked for."""
    assert len(kept_of(task, SHOWN)) == TOP_K // 2


def test_a_scope_of_kinds_lifts_the_limit() -> None:
    """Asked for by kind, all may stay, and no other group gains by it."""
    commits = [ranked(number, Kind.COMMIT) for number in range(20, 28)]
    kept = kept_of("Fix it", [*SHOWN, *commits], Scope(kinds=("convention",)))
    assert len(kept) == len(SHOWN) + COMMIT_PLACES


WEAK_COMMIT = ranked(40, Kind.COMMIT, score=0.1)


@pytest.mark.parametrize(
    ("task", "neighbour", "stays"),
    [
        ("Fix the rounding", ranked(30, Kind.FUNCTION), False),
        ("Why is it rounded?", ranked(30, Kind.FUNCTION), True),
        ("Fix the rounding", ranked(30, Kind.FUNCTION, score=0.4), True),
        ("Fix the rounding", ranked(30, Kind.DOC), True),
        ("Fix the rounding", ranked(30, Kind.CONVENTION), True),
    ],
)
def test_a_commit_far_below_the_code_has_no_place(
    task: str, neighbour: Ranked, stays: bool
) -> None:
    """A fifth of the best code's score is needed, unless the task asks for history."""
    assert ("m_40" in kept_of(task, [neighbour, WEAK_COMMIT])) is stays


def test_without_a_turn_nothing_is_limited() -> None:
    """A list that is no turn keeps what passed."""
    assert within_limited_places(SHOWN, None, top_k=1) == (SHOWN, [])
