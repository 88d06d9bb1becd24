"""The rules of learning, each by itself, at its bounds."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.learning.conftest import DAY, NOW, decision, made, preference
from xscore.extensions.learning.draft import is_archived, is_dropped, is_pruned
from xscore.extensions.learning.feedback import Signal, changed_confidence
from xscore.extensions.learning.rules import over_cap
from xscore.extensions.learning.user_preferences import (
    is_drifting,
    is_in_enough_projects,
    promotion_confidence,
    promotions,
)
from xscore.pipeline.contradictions import (
    choice_in_text,
    chosen_value,
    days_since,
    decayed,
    normalized,
    parse_choice,
    topic_of_key,
)
from xscore.records import Kind, Layer, MemorySource, MemoryStatus, Observation
from xscore.settings import MemorySettings

RULES = MemorySettings()
AMOUNTS = RULES.feedback
PROJECTS = {f"p{number}": NOW - number * DAY for number in range(7)}
"""p0 was seen last."""


def observed(*values: str, kind: str = "tech_stack") -> list[Observation]:
    """Project by project, what each says of the key `orm`."""
    return [Observation(f"p{n}", "orm", kind, said, NOW) for n, said in enumerate(values) if said]


def drifts(said: list[Observation], projects: dict[str, float], *, latest: int) -> bool:
    """Whether a preference for Prisma drifts."""
    newest_first = sorted(projects, key=lambda name: -projects[name])
    return is_drifting("prisma", [parse_choice(each) for each in said], newest_first, latest=latest)


def test_decay_is_the_formula() -> None:
    """L05: base · exp(−λ · days), to 1e-12."""
    assert decayed(0.8, 30, 0.01) == pytest.approx(0.8 * exp(-0.3), abs=1e-12)
    assert decayed(0.8, -5, 0.01) == 0.8
    assert days_since(NOW + DAY, NOW) == 0.0


@given(st.floats(0, 1), st.floats(0, 1000), st.floats(0, 1000), st.floats(0, 1))
def test_decay_in_two_steps_is_decay_in_one(base: float, first: float, second: float, rate: float) -> None:
    """L05: how often consolidation runs does not matter to what is left."""
    assert decayed(decayed(base, first, rate), second, rate) == pytest.approx(
        decayed(base, first + second, rate), abs=1e-9
    )


@pytest.mark.parametrize(
    ("importance", "days", "dropped"),
    [(0.19, 30.0, True), (0.2, 30.0, False), (0.19, 29.9, False), (0.0, 400.0, True)],
)
def test_dropped_below_a_fifth_and_unused_for_thirty_days(importance: float, days: float, dropped: bool) -> None:
    """L03: importance < 0.2 and not accessed for 30 days."""
    assert is_dropped(made("x", importance=importance), days, RULES) is dropped


def test_what_was_said_is_dropped_only_when_superseded() -> None:
    """L03: a person's word stays, however unimportant, until something newer took its place."""
    said = made("x", importance=0.1, source=MemorySource.EXPLICIT)
    assert not is_dropped(said, 99, RULES)
    assert is_dropped(
        made("x", importance=0.1, source=MemorySource.EXPLICIT, status=MemoryStatus.SUPERSEDED), 99, RULES
    )
    exchange = made("x", layer=Layer.SESSION, kind=Kind.EXCHANGE, source=MemorySource.EXPLICIT, importance=0.1)
    assert is_dropped(exchange, 99, RULES)


@pytest.mark.parametrize(
    ("days", "importance", "archived", "pruned"),
    [
        (179.9, 0.5, False, False),
        (180.0, 0.5, True, False),
        (364.9, 0.5, True, False),
        (365.0, 0.5, True, True),
        (9999.0, 0.8, False, False),
        (9999.0, 0.79, True, True),
    ],
)
def test_archived_at_half_a_year_pruned_at_one(days: float, importance: float, archived: bool, pruned: bool) -> None:
    """L06: 180 and 365 days; high importance (0.8) is exempt."""
    memory = made("x", importance=importance)
    assert (is_archived(memory, days, RULES), is_pruned(memory, days, RULES)) == (archived, pruned)


def test_what_was_said_is_archived_but_never_pruned() -> None:
    """L06: age alone erases nothing that a person said."""
    said = decision("Use Drizzle")
    assert is_archived(said, 9999, RULES)
    assert not is_pruned(said, 9999, RULES)


@pytest.mark.parametrize(
    ("projects", "of", "enough"),
    [(2, 3, False), (3, 5, True), (3, 7, False), (3, 6, True), (3, 3, True), (2, 2, False)],
)
def test_promotion_needs_three_projects_and_half_of_them(projects: int, of: int, enough: bool) -> None:
    """L02: at least 3 projects and support of at least 0.5; 2 of 3 no, 3 of 5 yes, 3 of 7 no."""
    assert is_in_enough_projects(projects, of, RULES) is enough
    said = observed(*["Prisma"] * projects)
    assert bool(promotions([parse_choice(each) for each in said], of, RULES)) is enough


@given(st.floats(0.5, 1.0), st.floats(0.5, 1.0))
def test_confidence_is_proportional_to_support(one: float, two: float) -> None:
    """L02: confidence ∝ support, from the inferred start at the least support, never above 1."""
    assert promotion_confidence(0.5, RULES) == pytest.approx(RULES.inferred_confidence)
    assert promotion_confidence(one, RULES) == pytest.approx(
        min(1.0, promotion_confidence(two, RULES) / two * one if two < 5 / 6 else 1.2 * one)
    )


def test_the_value_of_more_projects_is_promoted() -> None:
    """L02: one promotion a topic; case and keys of the same topic do not matter."""
    said = [
        *observed("Prisma", "prisma", "PRISMA", "", "Drizzle"),
        Observation("p5", "tech_stack.orm", "x", "Prisma", NOW),
    ]
    (found,) = promotions([parse_choice(each) for each in said], 6, RULES)
    assert (found.projects, found.of, normalized(found.value)) == (4, 6, "prisma")


@pytest.mark.parametrize(
    ("signal", "before", "after"),
    [
        (Signal.ACCEPT, 0.6, 0.7),
        (Signal.ADOPTION, 0.6, 0.65),
        (Signal.REJECT, 0.6, 0.4),
        (Signal.OVERRIDE, 0.6, 0.3),
        (Signal.ACCEPT, 0.95, 1.0),
        (Signal.OVERRIDE, 0.2, 0.0),
    ],
)
def test_each_signal_moves_confidence_by_its_amount(signal: Signal, before: float, after: float) -> None:
    """L08: accept and adoption raise, reject and override lower; the result stays in 0..1."""
    assert changed_confidence(before, signal, AMOUNTS) == pytest.approx(after)


@given(st.floats(0, 1), st.lists(st.sampled_from(list(Signal)), max_size=20))
def test_no_run_of_signals_leaves_the_bounds(start: float, signals: list[Signal]) -> None:
    """L08: bounded 0..1, whatever people make of it."""
    for signal in signals:
        start = changed_confidence(start, signal, AMOUNTS)
        assert 0.0 <= start <= 1.0


def test_a_preference_drifts_when_the_latest_projects_do_without_it() -> None:
    """L09: unused in the last 5 projects; once used in one of them, it does not drift."""
    unused = observed("", "", "", "", "", "Prisma", "Prisma")
    assert drifts(unused, PROJECTS, latest=5)
    used = observed("", "", "", "", "prisma", "Prisma")
    assert not drifts(used, PROJECTS, latest=5)
    assert not drifts(unused, dict(list(PROJECTS.items())[:4]), latest=5)


def test_a_deliberate_exception_does_not_count_as_drift() -> None:
    """L09: a project that decided otherwise knew the preference; the next older one is looked at instead."""
    exception = [*observed("Drizzle", kind="decision"), Observation("p5", "orm", "tech_stack", "Prisma", NOW)]
    assert not drifts(exception, PROJECTS, latest=5)
    drifted = [*observed("Drizzle"), Observation("p5", "orm", "tech_stack", "Prisma", NOW)]
    assert drifts(drifted, PROJECTS, latest=5)


def test_the_least_valuable_of_an_overfull_layer_go_first() -> None:
    """L11: rows and bytes; value is importance × confidence, then when it was last seen."""
    best, old, weak = made("a" * 10, importance=0.9), made("b" * 10, days_ago=3), made("c" * 10, confidence=0.1)
    assert over_cap([weak, best, old], max_rows=3, max_bytes=30) == []
    assert over_cap([weak, best, old], max_rows=1, max_bytes=999) == [weak, old]
    assert over_cap([weak, best, old], max_rows=9, max_bytes=29) == [weak]
    assert over_cap([made("a", status=MemoryStatus.ARCHIVED), best], max_rows=1, max_bytes=999) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Prisma", "Prisma"),
        ("Use Prisma for the ORM, not TypeORM.", "Prisma"),
        ("User usually uses Prisma.", "Prisma"),
        ("we chose Drizzle because it is thin\n\nBecause: …", "Drizzle"),
        ("Explicitly chose Node.js over Deno", "Node.js over Deno"),
        ("Use ruff, since it is one tool", "ruff"),
        ("We use ruff for linting so that one tool does it", "ruff"),
        ("Retries wait longer each time because servers recover", "Retries wait longer each time"),
        ("Write tests for nose", "Write tests for nose"),
        ("Write tests, e.g. Hypothesis", "Write tests, e.g. Hypothesis"),
        ("Tests mirror the package line by line. Always.", "Tests mirror the package line by line"),
    ],
)
def test_a_choice_is_read_off_a_sentence(text: str, expected: str) -> None:
    """L07: the value that a sentence chooses, or the sentence itself where it chooses none."""
    assert chosen_value(preference(text)) == expected


@given(
    st.sampled_from(["Write tests", "Use pytest", "We use", "Errors end", "Prefer"]),
    st.sampled_from(["with", "in", "on", "over", "as", "when", "by", "via", "(", ":", ",", "—", ";", "and"]),
    st.lists(
        st.sampled_from(["pytest-httpbin", "unittest", "nose", "hypothesis"]), min_size=2, max_size=2, unique=True
    ),
)
def test_what_differs_is_part_of_the_value(beginning: str, tie: str, ends: list[str]) -> None:
    """L02: sentences that differ in what follows are different values, whatever word stands between."""
    one, other = (choice_in_text(f"{beginning} {tie} {end}") for end in ends)
    assert normalized(one) != normalized(other)


def test_keys_of_one_topic_are_one() -> None:
    """L07: `preference.ORM` and `orm` speak of the same."""
    assert topic_of_key("preference.ORM") == topic_of_key("orm") == topic_of_key("tech_stack:orm") == "orm"
    assert topic_of_key("Test Runner") == "test_runner"
    assert topic_of_key("") == ""
