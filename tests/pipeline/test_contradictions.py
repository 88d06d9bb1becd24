"""Contradicting memories are resolved in one sentence."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.extensions.learning.conftest import NOW, decision, made, preference
from xscore.pipeline.contradictions import ResolvedConflict, conflict_weight, resolve_conflicts
from xscore.records.memory import (
    STATED_ELSEWHERE,
    Kind,
    Layer,
    Memory,
    MemoryScope,
    MemorySource,
    MemoryStatus,
)
from xscore.settings import Settings

AUTHORITY = {str(layer): weight for layer, weight in Settings().bundle.authority.items()}
PRISMA = preference("Usually uses Prisma.", key="orm", evidence_count=4)
DRIZZLE = decision("Use Drizzle", key="orm", alternatives=("Prisma", "TypeORM"))


def settled(*memories: Memory) -> list[ResolvedConflict]:
    """Resolve with the default authority."""
    return resolve_conflicts(memories, authority=AUTHORITY, now=NOW)


def test_a_projects_choice_is_an_exception_from_a_preference() -> None:
    """L07: the golden sentence: both stay, one line is shown, the project's explicit choice
    wins."""
    (resolution,) = settled(PRISMA, DRIZZLE)
    assert (
        resolution.text
        == "User usually uses Prisma, but in this project explicitly chose Drizzle;"
        " treat this project as a Drizzle exception."
    )
    assert resolution.memory_ids == tuple(sorted((PRISMA.id, DRIZZLE.id)))
    assert resolution.winner == DRIZZLE.id


def test_a_choice_of_the_project_wins_over_a_stated_preference() -> None:
    """L07: the narrower scope wins even if the user stated the preference often."""
    stated = preference(
        "Prisma", key="orm", source=MemorySource.EXPLICIT, confidence=1.0, evidence_count=99
    )
    assert settled(stated, DRIZZLE)[0].winner == DRIZZLE.id


def test_a_stated_choice_that_was_imported_is_still_one() -> None:
    """A project's decision that went through an export holds against the preference; an import of
    none says so."""
    elsewhere = replace(DRIZZLE.details, imported_from=STATED_ELSEWHERE)
    imported = replace(DRIZZLE, source=MemorySource.IMPORT, details=elsewhere)
    assert settled(PRISMA, imported)[0] == settled(PRISMA, DRIZZLE)[0]
    unstated = replace(DRIZZLE, source=MemorySource.IMPORT, confidence=0.2)
    assert "only imported" in settled(PRISMA, unstated)[0].text


def test_a_decision_without_a_key_joins_what_it_turned_down() -> None:
    """L07: same topic under another key: the preference's choice is among the alternatives."""
    keyless = decision("Use Drizzle", alternatives=("prisma",))
    assert settled(PRISMA, keyless)[0].winner == keyless.id
    assert not settled(PRISMA, decision("Use Drizzle", alternatives=("TypeORM",)))


def test_a_weak_inference_does_not_override_a_stated_preference() -> None:
    """L07: without a narrower statement, authority × confidence × freshness × evidence decides, and
    says so."""
    stated = preference(
        "Prisma", key="orm", source=MemorySource.EXPLICIT, confidence=1.0, evidence_count=3
    )
    seen = made("Drizzle", kind=Kind.TECH_STACK, key="orm", confidence=0.4)
    (resolution,) = settled(stated, seen)
    assert resolution.winner == stated.id
    assert (
        resolution.text
        == "User usually uses Prisma; Drizzle is only inferred in this project and weighs less;"
        " follow Prisma."
    )


def test_within_a_project_the_better_founded_holds() -> None:
    """L07: two layers of one repository with one key: one sentence names the winner and the
    contradiction."""
    seen = made("Prisma", kind=Kind.TECH_STACK, key="orm", confidence=0.3)
    (resolution,) = settled(DRIZZLE, seen)
    assert (
        resolution.text
        == "In this project Drizzle holds (decision); Prisma (tech_stack) is contradicted by it."
    )


def test_the_exception_is_the_strongest_of_the_narrowest_scope() -> None:
    """L07: a session's explicit statement is narrower than the project's."""
    in_session = made(
        "Kysely",
        layer=Layer.SESSION,
        kind=Kind.DECISION,
        scope=MemoryScope.SESSION,
        key="orm",
        source=MemorySource.EXPLICIT,
    )
    (resolution,) = settled(PRISMA, DRIZZLE, in_session)
    assert resolution.winner == in_session.id
    assert "in this session explicitly chose Kysely" in resolution.text


def test_rules_that_are_sentences_are_quoted() -> None:
    """L07: a statement without a recognised choice is quoted in full."""
    usual = preference("Every function has a docstring that says why", key="docstrings")
    in_project = decision(
        "Only public functions have docstrings in this repository", key="docstrings"
    )
    (resolution,) = settled(usual, in_project)
    assert "“Every function has a docstring that says why”" in resolution.text
    assert resolution.text.endswith("treat this project as an exception.")


def test_what_agrees_or_is_gone_is_no_conflict() -> None:
    """L07: equal choices, other topics, superseded memories and history are ignored."""
    assert not settled(PRISMA, decision("Prisma", key="orm"))
    assert not settled(PRISMA, decision("Use Drizzle", key="migrations"))
    assert not settled(
        PRISMA, decision("Use Drizzle", key="orm", status=MemoryStatus.SUPERSEDED)
    )
    assert not settled(PRISMA, made("Drizzle broke", kind=Kind.FAILURE, key="orm"))
    assert not settled()


def test_each_part_of_the_weight_counts() -> None:
    """L07: recency, confidence, evidence and authority each raise the weight."""
    base = made("x", days_ago=30, key="k")
    heavier = (
        made("x", days_ago=1, key="k"),
        made("x", days_ago=30, key="k", confidence=0.9),
        made("x", days_ago=30, key="k", evidence_count=5),
        made("x", days_ago=30, key="k", layer=Layer.SESSION),
    )
    lightest = conflict_weight(base, authority=AUTHORITY, now=NOW)
    assert all(
        conflict_weight(memory, authority=AUTHORITY, now=NOW) > lightest for memory in heavier
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Prisma", "Drizzle", "Kysely"]),
            st.sampled_from(["", "orm", "preference.orm", "db"]),
            st.sampled_from([Layer.USER, Layer.PROJECT, Layer.GOVERNANCE, Layer.SESSION]),
            st.sampled_from([MemorySource.EXPLICIT, MemorySource.INFERRED]),
            st.sampled_from([(), ("Prisma",), ("Drizzle", "Kysely")]),
        ),
        max_size=7,
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_the_memories_does_not_matter(
    rows: list[tuple[str, str, Layer, MemorySource, tuple[str, ...]]], chance: Random
) -> None:
    """L07: independent of order; no memory is in two resolutions, and each winner is part of its
    own."""
    scopes = {Layer.USER: MemoryScope.GLOBAL, Layer.SESSION: MemoryScope.SESSION}
    memories = [
        decision(
            text,
            key=key,
            layer=layer,
            source=source,
            alternatives=names,
            scope=scopes.get(layer, MemoryScope.REPOSITORY),
        )
        for text, key, layer, source, names in rows
    ]
    memories = list({memory.id: memory for memory in memories}.values())
    resolutions = settled(*memories)
    shuffled = memories.copy()
    chance.shuffle(shuffled)
    assert settled(*shuffled) == resolutions
    taking_part = [id_ for resolution in resolutions for id_ in resolution.memory_ids]
    assert len(taking_part) == len(set(taking_part))
    assert all(resolution.winner in resolution.memory_ids for resolution in resolutions)
