"""Promotion from several projects to their user, under a fixed clock."""

import json
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.extensions.learning.conftest import (
    NOW,
    OpenProject,
    decision,
    held,
    made,
    preference,
    put,
)
from xscore.extensions.learning.consolidate import consolidate
from xscore.extensions.learning.draft import Consolidation, Scope
from xscore.extensions.learning.feedback import Signal, give_feedback, record_adoptions
from xscore.extensions.learning.user_preferences import Promotion, user_memory
from xscore.extensions.privacy import erasure
from xscore.pipeline.contradictions import chosen_value, normalized
from xscore.platform.clock import DAY_S
from xscore.records.memory import Kind, Layer, Memory, MemorySource, MemoryStatus
from xscore.settings import MemorySettings, validate_group
from xscore.store.lookup import list_observations, list_projects, project_pseudonym
from xscore.store.store import Store

WORDS = "use we prefer Prisma Node.js not for in on Tests: always (x) a, b.".split()


def run(store: Store, *, now: float = NOW, **rules: object) -> Consolidation:
    """Consolidate the user's scope with the test's settings."""
    scopes: tuple[Scope, ...] = ("user",)
    return consolidate(store, validate_group(MemorySettings, rules), now=now, scopes=scopes)


def using(project: OpenProject, *choices: str) -> list[Store]:
    """Make one project for each ORM choice, consolidated in order; an empty choice states
    nothing."""
    stores = []
    for number, choice in enumerate(choices):
        store = project(f"p{number}")
        memory = (
            made(f"Use {choice}", kind=Kind.TECH_STACK, key="orm")
            if choice
            else made(f"{number} y z", key=f"other{number}")
        )
        put(store, memory)
        run(store)
        stores.append(store)
    return stores


def of_user(store: Store) -> list[Memory]:
    """Return the contents of the user's store."""
    return [memory for memory in held(store).values() if memory.layer is Layer.USER]


@pytest.mark.parametrize(
    ("choices", "promoted"),
    [
        (("Prisma", "Prisma", ""), False),
        (("Prisma", "", "Prisma", "Drizzle", "Prisma"), True),
        (("Prisma", "", "", "", "", "Prisma", "Prisma"), False),
        (("Prisma", "prisma", "PRISMA"), True),
    ],
)
def test_what_enough_projects_say_becomes_the_users(
    project: OpenProject, choices: tuple[str, ...], promoted: bool
) -> None:
    """L02: 2 of 3 no, 3 of 5 yes, 3 of 7 no; confidence is the support."""
    stores = using(project, *choices)
    of_the_user = of_user(stores[-1])
    assert bool(of_the_user) is promoted
    for memory in of_the_user:
        assert memory.kind == Kind.PREFERENCE
        assert memory.key == "orm"
        assert memory.source == MemorySource.INFERRED
        assert memory.confidence == pytest.approx(min(1.0, 0.6 * (3 / len(choices)) / 0.5))
        assert memory.evidence_count == 3


def test_what_the_user_confirmed_is_still_adopted_by_a_further_project(
    project: OpenProject,
) -> None:
    """L08: feedback is evidence but no project, so it does not count as one."""
    using(project, "Prisma", "Prisma", "Prisma")
    store = project("p9")
    (before,) = of_user(store)
    give_feedback(store, before.id, Signal.ACCEPT, now=NOW)
    put(store, made("Prisma", kind=Kind.TECH_STACK, key="orm"))
    assert [str(action.kind) for action in run(store).actions] == ["observe", "promote"]
    (after,) = of_user(store)
    assert after.evidence_count == before.evidence_count + 2
    assert run(store).actions == ()


def test_a_further_project_adopts_it(project: OpenProject) -> None:
    """L08: confidence rises by one adoption, evidence by one."""
    using(project, "Prisma", "Prisma", "", "Prisma", "", "", "Drizzle")
    (before,) = of_user(project("p0"))
    store = project("p9")
    put(store, made("Prisma", kind=Kind.TECH_STACK, key="orm"))
    run(store)
    (after,) = of_user(store)
    assert after.confidence == pytest.approx(before.confidence + 0.05)
    assert after.evidence_count == before.evidence_count + 1


def test_what_the_user_said_is_never_replaced(project: OpenProject) -> None:
    """L10: a stated preference stays, whatever the projects do."""
    store = project("p9")
    put(store, preference("Drizzle", key="orm", source=MemorySource.EXPLICIT, confidence=1.0))
    using(project, "Prisma", "Prisma", "Prisma")
    assert [memory.text for memory in of_user(store)] == ["Drizzle"]


def test_what_the_user_erased_for_good_does_not_come_back(project: OpenProject) -> None:
    """P06: a promotion whose id was forgotten is not made again."""
    *_, store = using(project, "Prisma", "Prisma", "Prisma")
    (promoted,) = of_user(store)
    erasure.erase_memories(store, [promoted.id], now=NOW, forget=True)
    run(store)
    assert of_user(store) == []


def test_a_choice_made_otherwise_on_purpose_is_marked(project: OpenProject) -> None:
    """L09: the project's explicit choice becomes an exception, with its reason, once."""
    using(project, "Prisma", "Prisma", "Prisma")
    store = project("odd")
    odd = decision("Use Drizzle", key="orm")
    put(store, odd)
    done = run(store)
    (preference_,) = of_user(store)
    assert held(store)[odd.id].details.exception_of == preference_.id
    assert "Drizzle here, Prisma usually: chosen explicitly" in [
        action.why for action in done.actions
    ]
    assert run(store).actions == ()


def test_only_the_hash_of_a_project_and_its_values_are_noted(project: OpenProject) -> None:
    """P07: the user's store has no project path or id, and at most one sentence of its memories."""
    store, *_ = using(project, "Prisma for the ORM. It reads our schema")
    user = store.user_connection()
    assert user is not None
    (noted,) = list_observations(user)
    assert (noted.project, noted.value) == (project_pseudonym(store.store_id), "Prisma")
    dump = "\n".join(user.iterdump())
    assert store.store_id not in dump
    assert str(store.root.path) not in dump
    assert "It reads" not in dump


def test_what_a_project_says_no_more_is_noted_no_more(project: OpenProject) -> None:
    """L02: a note is deleted with its memory and no longer counts."""
    store, *_ = using(project, "Prisma")
    (memory,) = (memory for memory in held(store).values() if memory.key == "orm")
    erasure.erase_memories(store, [memory.id], now=NOW)
    run(store)
    user = store.user_connection()
    assert user is not None
    assert list_observations(user) == []
    assert list(list_projects(user)) == [project_pseudonym(store.store_id)]


def test_a_preference_in_use_does_not_fade(project: OpenProject) -> None:
    """L04: every project that follows it counts as seeing it; otherwise it fades and is finally
    erased."""
    stores = using(project, "Prisma", "Prisma", "Prisma")
    run(stores[0], now=NOW + 90 * DAY_S)
    (used,) = of_user(stores[0])
    assert used.confidence == 1.0
    other_project = project("other")
    put(other_project, made("x y z", key="other"))
    run(other_project, now=NOW + 190 * DAY_S)
    (faded,) = of_user(other_project)
    assert faded.confidence == pytest.approx(exp(-1))
    run(other_project, now=NOW + 269 * DAY_S)
    (weak,) = of_user(other_project)
    assert weak.status is MemoryStatus.ARCHIVED


def test_what_the_latest_projects_do_without_fades_faster(project: OpenProject) -> None:
    """L09: drift: unused in the last M projects, even a user's statement loses confidence."""
    store, *other_projects = (project(f"p{number}") for number in range(4))
    put(store, preference("Prisma", key="orm", source=MemorySource.EXPLICIT, confidence=1.0))
    for number, other_project in enumerate(other_projects):
        put(other_project, made(f"{number} y z", key=f"other{number}"))
        run(other_project, now=NOW + number * DAY_S, drift_projects=3)
    (drifted,) = of_user(store)
    assert drifted.confidence == pytest.approx(exp(-2 * 0.01))  # a day, at twice the rate
    put(other_projects[0], made("Prisma", kind=Kind.TECH_STACK, key="orm"))
    run(other_projects[0], now=NOW + 3 * DAY_S, drift_projects=3)
    assert of_user(store) == [drifted]


@given(
    st.sampled_from([Kind.TECH_STACK, Kind.DECISION, Kind.CONVENTION, Kind.PATTERN]),
    st.lists(st.sampled_from(WORDS), min_size=1),
)
def test_what_is_promoted_says_what_was_noted(kind: Kind, words: list[str]) -> None:
    """L02: the value read from the promoted memory is the one it was promoted for, so a second run
    agrees."""
    noted = chosen_value(made(" ".join(words), kind=kind))
    if not normalized(noted):
        return
    memory = user_memory(Promotion("orm", noted, str(kind), 3, 3, 0.6), now=NOW)
    assert normalized(chosen_value(memory)) == normalized(noted)


def test_what_an_answer_cites_is_adopted(project: OpenProject) -> None:
    """L08: preferences, patterns and conventions gain confidence, evidence and an event; code does
    not."""
    store = project("p0")
    kept = made("Errors end in a full stop")
    code = made(
        "def f(): ...", kind=Kind.FUNCTION, layer=Layer.GRAPH, source=MemorySource.INDEX
    )
    put(store, kept, code)
    amounts = MemorySettings().feedback
    assert (
        record_adoptions(store.connection, [kept.id, code.id], amounts=amounts, now=NOW + DAY_S)
        == 1
    )
    after = held(store)[kept.id]
    assert after.confidence == pytest.approx(0.65)
    assert after.accessed_at == NOW + DAY_S
    assert after.evidence_count == kept.evidence_count + 1
    emitted = store.connection.execute(
        "SELECT subject, payload FROM event ORDER BY id DESC LIMIT 1"
    ).fetchone()
    assert emitted[0] == kept.id
    assert json.loads(emitted[1]) == {"feedback": "adoption", "confidence": 0.65}
