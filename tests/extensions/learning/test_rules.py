"""Each rule of learning, at its bounds."""

from math import exp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.extensions.learning.conftest import NOW, made, preference
from xscore.extensions.learning.draft import ConsolidationDraft
from xscore.extensions.learning.feedback import Signal, changed_confidence
from xscore.extensions.learning.rules import expire_unused, keep_to_caps
from xscore.extensions.learning.user_preferences import promotions
from xscore.pipeline.contradictions import (
    choice_in_text,
    chosen_value,
    days_since,
    decayed,
    normalized,
    topic_of_key,
)
from xscore.platform.clock import DAY_S
from xscore.records.memory import Kind, Layer, MemorySource, MemoryStatus
from xscore.records.statement import Observation
from xscore.settings import MemorySettings, validate_group

RULES = MemorySettings()
AMOUNTS = RULES.feedback


def observed(*values: str, kind: str = "tech_stack") -> list[Observation]:
    """What each project states for the key `orm`."""
    return [
        Observation(f"p{n}", "orm", kind, observed_value, NOW)
        for n, observed_value in enumerate(values)
        if observed_value
    ]


def test_decay_is_the_formula() -> None:
    """L05: base · exp(−λ · days), to 1e-12."""
    assert decayed(0.8, 30, 0.01) == pytest.approx(0.8 * exp(-0.3), abs=1e-12)
    assert decayed(0.8, -5, 0.01) == 0.8
    assert days_since(NOW + DAY_S, NOW) == 0.0


@pytest.mark.parametrize(
    ("days", "fields", "fate"),
    [
        (29.9, {"importance": 0.19}, []),
        (30.0, {"importance": 0.19}, ["drop"]),
        (30.0, {"importance": 0.2}, []),
        (179.9, {}, []),
        (180.0, {}, ["archive"]),
        (365.0, {}, ["prune"]),
        (9999.0, {"importance": 0.8}, []),
        (9999.0, {"source": MemorySource.EXPLICIT, "importance": 0.1}, ["archive"]),
        (
            9999.0,
            {"source": MemorySource.EXPLICIT, "status": MemoryStatus.SUPERSEDED},
            ["prune"],
        ),
    ],
)
def test_what_is_long_unused_goes_at_its_bounds(
    days: float, fields: dict[str, Any], fate: list[str]
) -> None:
    """L03, L06: dropped, archived, pruned; age alone erases no statement of a person unless
    superseded."""
    memory = made("x", days_ago=days, **fields)
    draft = ConsolidationDraft([memory], RULES, now=NOW, cited={memory.id})
    expire_unused(draft, "project")
    assert [str(action.kind) for action in draft.actions] == fate


@pytest.mark.parametrize(
    ("days", "fields", "fate"),
    [
        (27.9, {}, []),
        (28.0, {}, ["archive"]),
        (28.0, {"importance": 0.9}, ["archive"]),
        (28.0, {"source": MemorySource.EXPLICIT}, []),
        (28.0, {"kind": Kind.EXCHANGE, "layer": Layer.SESSION}, []),
        (28.0, {"status": MemoryStatus.ARCHIVED}, []),
    ],
)
def test_inferred_facts_without_a_citation_expire(
    days: float, fields: dict[str, Any], fate: list[str]
) -> None:
    """After 28 days without use, however important: they are inferred, and no code proves them."""
    draft = ConsolidationDraft([made("x", days_ago=days, **fields)], RULES, now=NOW)
    for scope in ("session", "project"):
        expire_unused(draft, scope)
    assert [str(action.kind) for action in draft.actions] == fate


@pytest.mark.parametrize(
    ("rows", "size", "over"), [(3, 30, []), (1, 999, ["c" * 10, "b" * 10]), (9, 29, ["c" * 10])]
)
def test_the_least_valuable_of_an_overfull_layer_go_first(
    rows: int, size: int, over: list[str]
) -> None:
    """L11: rows and bytes; value is importance × confidence, then last seen."""
    best, old, weak = (
        made("a" * 10, importance=0.9),
        made("b" * 10, days_ago=3),
        made("c" * 10, confidence=0.1),
    )
    rules = validate_group(
        MemorySettings, {"max_rows": {"project": rows}, "max_bytes": {"project": size}}
    )
    draft = ConsolidationDraft(
        [weak, best, old, made("d", status=MemoryStatus.ARCHIVED)], rules, now=NOW
    )
    keep_to_caps(draft, "project")
    assert [action.title for action in draft.actions] == over


def test_the_value_of_more_projects_is_promoted() -> None:
    """L02: one promotion a topic; case and keys of the same topic do not matter."""
    observations = [
        *observed("Prisma", "prisma", "PRISMA", "", "Drizzle"),
        Observation("p5", "tech_stack.orm", "x", "Prisma", NOW),
    ]
    (promotion,) = promotions(observations, 6, RULES)
    assert (promotion.projects, promotion.of, normalized(promotion.value)) == (4, 6, "prisma")


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
def test_each_signal_moves_confidence_by_its_amount(
    signal: Signal, before: float, after: float
) -> None:
    """L08: accept and adoption raise, reject and override lower; the result stays in 0..1."""
    assert changed_confidence(before, signal, AMOUNTS) == pytest.approx(after)


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
        (
            "Retries wait longer each time because servers recover",
            "Retries wait longer each time",
        ),
        ("Write tests for nose", "Write tests for nose"),
        ("Write tests, e.g. Hypothesis", "Write tests, e.g. Hypothesis"),
        (
            "Tests mirror the package line by line. Always.",
            "Tests mirror the package line by line",
        ),
    ],
)
def test_a_choice_is_read_off_a_sentence(text: str, expected: str) -> None:
    """L07: the value that a sentence chooses, or the sentence itself."""
    assert chosen_value(preference(text)) == expected


@given(
    st.sampled_from(["Write tests", "Use pytest", "We use", "Errors end", "Prefer"]),
    st.sampled_from(
        ["with", "in", "on", "over", "as", "when", "by", "via", "(", ":", ",", "—", ";", "and"]
    ),
    st.lists(
        st.sampled_from(["pytest-httpbin", "unittest", "nose", "hypothesis"]),
        min_size=2,
        max_size=2,
        unique=True,
    ),
)
def test_what_differs_is_part_of_the_value(beginning: str, tie: str, ends: list[str]) -> None:
    """L02: sentences that differ in their ends are different values, whatever joins them."""
    first_choice, second_choice = (choice_in_text(f"{beginning} {tie} {end}") for end in ends)
    assert normalized(first_choice) != normalized(second_choice)


def test_keys_of_one_topic_are_one() -> None:
    """L07: `preference.ORM` and `orm` are one topic."""
    for key in ("preference.ORM", "orm", "tech_stack:orm"):
        assert topic_of_key(key) == "orm"
    assert topic_of_key("Test Runner") == "test_runner"
    assert topic_of_key("") == ""
