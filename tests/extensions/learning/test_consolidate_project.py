"""Consolidating a project's own memories, under a fixed clock."""

from math import exp
from typing import Any

import pytest

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
from xscore.extensions.learning.draft import ActionKind, Consolidation, Scope
from xscore.platform import database
from xscore.platform.clock import DAY_S
from xscore.records.memory import Kind, Layer, MemoryDetails, MemorySource, MemoryStatus
from xscore.settings import MemorySettings, validate_group
from xscore.store import memory_rows, memory_writer
from xscore.store.store import Store

SAME = (
    "Retries use tenacity everywhere in this code.",
    "Retries use Tenacity everywhere in this code",
)


def run(
    store: Store, *scopes: Scope, now: float = NOW, dry: bool = False, **rules: object
) -> Consolidation:
    """Consolidate scopes (default: the project's) with the test's settings."""
    settings = validate_group(MemorySettings, rules)
    return consolidate(store, settings, now=now, scopes=scopes or ("project",), dry_run=dry)


def kinds(done: Consolidation) -> list[str]:
    """Return the kinds of the actions."""
    return [str(action.kind) for action in done.actions]


def test_facts_that_say_the_same_become_one(store: Store) -> None:
    """L03: the latest stays, evidence adds up, and it supersedes the other."""
    older, newer = (
        made(SAME[0], evidence_count=2, importance=0.7),
        made(SAME[1], evidence_count=3),
    )
    older = made(SAME[0], days_ago=0.5, evidence_count=2, importance=0.7)
    put(store, older, newer)
    done = run(store, decay_per_day=0)
    assert kinds(done) == ["merge"]
    assert done.actions[0].memory_ids == (newer.id, older.id)
    after = held(store)
    assert (after[newer.id].evidence_count, after[newer.id].importance) == (5, 0.7)
    assert after[older.id].status == MemoryStatus.SUPERSEDED
    assert after[older.id].superseded_by == newer.id


@pytest.mark.parametrize(
    ("first_fields", "second_fields"),
    [
        ({"key": "retries"}, {"key": "backoff"}),
        ({"path": "a.py"}, {"path": "b.py"}),
        ({"kind": Kind.PATTERN}, {"kind": Kind.CONVENTION}),
        ({"layer": Layer.SESSION}, {"layer": Layer.PROJECT}),
    ],
)
def test_only_what_speaks_of_the_same_is_merged(
    store: Store, first_fields: dict[str, Any], second_fields: dict[str, Any]
) -> None:
    """L03: other keys, files, kinds or layers are different memories, whatever their text."""
    put(store, made(SAME[0], **first_fields), made(SAME[1], **second_fields))
    assert "merge" not in kinds(run(store, "project", "session"))


def test_the_key_of_a_merged_fact_goes_to_the_one_that_stays(store: Store) -> None:
    """L03: a person's statement replaces an inferred one and takes over its key."""
    inferred = made(SAME[0], key="retries")
    explicit = made(SAME[1], days_ago=3, source=MemorySource.EXPLICIT)
    put(store, inferred, explicit)
    run(store)
    after = held(store)
    assert after[explicit.id].status == MemoryStatus.ACTIVE
    assert after[explicit.id].key == "retries"
    assert after[inferred.id].status is MemoryStatus.SUPERSEDED


def test_confidence_fades_once_for_each_day(store: Store) -> None:
    """L05: base·exp(-λ·days) since last seen, however often consolidation ran in between."""
    fact = made("Errors end in a full stop", days_ago=10)
    put(store, fact)
    run(store, now=NOW - 7 * DAY_S)
    run(store, now=NOW - 1 * DAY_S)
    done = run(store)
    assert kinds(done) == ["fade"]
    assert held(store)[fact.id].confidence == pytest.approx(0.6 * exp(-0.01 * 10), abs=1e-9)


def test_what_a_person_said_and_what_happened_do_not_fade(store: Store) -> None:
    """L05: only inferred and imported memories lose confidence with time."""
    put(
        store,
        decision("Use Drizzle", days_ago=90),
        made("Asked", kind=Kind.EXCHANGE, layer=Layer.SESSION, days_ago=90),
    )
    assert kinds(run(store, "project", "session")) == []


def test_unimportant_and_unused_is_erased_for_good(store: Store) -> None:
    """L03: importance < 0.2 and unused for 30 days: erased, with a tombstone; recently used ones
    stay."""
    useless = made("Once said in passing", importance=0.1, days_ago=31)
    used = made("Said in passing and used", importance=0.1, days_ago=31)
    put(store, useless, used)
    store.connection.execute(
        "UPDATE memory_row SET accessed_at = ? WHERE id = ?", (NOW - DAY_S, used.id)
    )
    done = run(store, decay_per_day=0)
    assert kinds(done) == ["drop"]
    assert set(held(store)) == {used.id}
    assert b"Once said in passing" not in store.path.read_bytes()


def test_what_a_cap_archives_is_not_noted_of_the_user(store: Store) -> None:
    """L02, L11: notes follow the caps, every action is listed, and a second run reverts nothing."""
    facts = [
        made(f"Tool{n}", kind=Kind.TECH_STACK, key=f"k{n}", importance=n / 10)
        for n in (3, 4, 5)
    ]
    put(store, *facts)
    done = run(store, "project", "user", max_rows={"project": 2})
    assert kinds(done) == ["archive", "observe", "observe"]
    assert {action.why for action in done.actions[1:]} == {"k4: Tool4", "k5: Tool5"}
    assert run(store, "project", "user", max_rows={"project": 2}).actions == ()


def test_what_was_said_and_archived_is_not_overruled(store: Store) -> None:
    """L10: a preference archived by a cap is still the user's statement; none is inferred in its
    place."""
    archived = preference(
        "Use tabs", key="indent", source=MemorySource.EXPLICIT, importance=0.1
    )
    put(store, archived, preference("Of more weight", key="other", importance=0.9))
    put(store, made("Use spaces", kind=Kind.TECH_STACK, key="indent"))
    rules: dict[str, Any] = {"promote_projects": 1, "max_rows": {"user": 1}}
    assert "promote" not in kinds(run(store, "user", **rules))
    assert held(store)[archived.id].status is MemoryStatus.ARCHIVED
    assert run(store, "user", **rules).actions == ()


def test_memories_of_the_index_are_never_touched(store: Store) -> None:
    """L03: memories of files stay, however old, unimportant or similar."""
    put(
        store,
        *(
            made(
                text,
                layer=Layer.VECTOR,
                kind=Kind.DOC,
                source=MemorySource.INDEX,
                importance=0.0,
                days_ago=999,
                path="a.md",
            )
            for text in SAME
        ),
    )
    before = memory_rows.select_memories(store.connection, "1", ())
    assert run(store, "session", "project", "user").actions == ()
    assert memory_rows.select_memories(store.connection, "1", ()) == before


def test_a_dry_run_tells_everything_and_changes_no_byte(store: Store) -> None:
    """L03: --dry-run lists each action with its reason; the database is unchanged to the byte."""
    put(
        store,
        made(SAME[0], days_ago=1),
        made(SAME[1]),
        made("Old", days_ago=200),
        made("Low", importance=0, days_ago=40),
    )
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = {
        file.name: file.read_bytes()
        for file in store.path.parent.glob("memory.db*")
        if "shm" not in file.name
    }
    planned = run(store, "session", "project", "user", dry=True)
    after = {
        file.name: file.read_bytes()
        for file in store.path.parent.glob("memory.db*")
        if "shm" not in file.name
    }
    assert after == before
    assert {"merge", "archive", "drop", "fade"} <= set(kinds(planned))
    assert all(action.why for action in planned.actions)
    done = run(store, "session", "project", "user")
    assert [
        (a.kind, a.memory_ids, a.why) for a in done.actions if a.kind is not ActionKind.OBSERVE
    ] == [
        (a.kind, a.memory_ids, a.why)
        for a in planned.actions
        if a.kind is not ActionKind.OBSERVE
    ]


def test_a_merged_failure_keeps_count_of_its_occurrences(store: Store) -> None:
    """L03: merging adds up the occurrences of a failure."""
    first, second = (
        made(text, kind=Kind.FAILURE, days_ago=day, details=MemoryDetails(occurrences=day + 1))
        for day, text in enumerate(SAME)
    )
    put(store, first, second)
    run(store)
    assert held(store)[first.id].details.occurrences == 3


def test_use_counts_and_vectors_survive(store: Store) -> None:
    """L03: a moved memory is updated in place."""
    fact = made("Errors end in a full stop", days_ago=10)
    put(store, fact)
    store.connection.execute(
        "UPDATE memory_row SET accessed_at = ?, access_count = 7, thread = 's_1'",
        (NOW - DAY_S,),
    )
    vectors = store.connection.execute("SELECT * FROM vec").fetchall()
    run(store)
    assert store.connection.execute("SELECT access_count, thread FROM memory").fetchall() == [
        (7, "s_1")
    ]
    assert store.connection.execute("SELECT * FROM vec").fetchall() == vectors


def test_one_project_alone_without_anything_of_the_user_makes_no_store(
    project: OpenProject,
) -> None:
    """P07: a person without own memories gets no file."""
    store = project("alone")
    put(store, made("Errors end in a full stop"))
    run(store, "session", "project", "user")
    assert store.user_connection() is None


def test_closing_the_door_on_the_user_layer_is_said(project: OpenProject) -> None:
    """P07: with user learning off the user's scope is skipped, with a message."""
    store = project("closed")
    store.user_data_dir = None
    done = run(store, "user")
    assert done.skipped == ("user: memory.user_learning is off",)
    with database.transaction(store.connection):
        memory_writer.put_memories(
            store.connection, [made("x", key="orm", kind=Kind.TECH_STACK)]
        )
    run(store, "user")
    assert store.user_connection() is None
