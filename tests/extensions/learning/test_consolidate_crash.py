"""Consolidation interrupted anywhere, and repeated."""

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extensions.learning import all_rules_store
from tests.extensions.learning.conftest import NOW, decision, made, preference, put
from xscore.extensions.learning.consolidate import consolidate
from xscore.extensions.learning.draft import ActionKind
from xscore.records.memory import Kind, Layer, Memory, MemoryScope, MemorySource
from xscore.settings import MemorySettings, validate_group
from xscore.store.working_session import resume_session

pytestmark = pytest.mark.verify

STRIDE = 23
"""Steps between two interruptions."""
TEXTS = (
    "Retries use tenacity everywhere in this code",
    "Retries use tenacity, everywhere in this code.",
    "Use Prisma",
    "Prisma",
)


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A folder with a project and a user, with work for every rule, and a copy of it."""
    with all_rules_store.opened(tmp_path) as store:
        all_rules_store.fill(store)
    for name in ("project", "user"):
        shutil.copytree(tmp_path / name, tmp_path / "copy" / name)
    return tmp_path


def restored(folder: Path) -> Path:
    """Restore both stores."""
    for name in ("project", "user"):
        shutil.rmtree(folder / name)
        shutil.copytree(folder / "copy" / name, folder / name)
    return folder


def states(folder: Path) -> tuple[list[all_rules_store.State], list[all_rules_store.State]]:
    """Consolidate uninterrupted; return each store's contents before each transaction and at the
    end."""
    seen: tuple[list[all_rules_store.State], list[all_rules_store.State]] = ([], [])

    def look(statement: str) -> None:
        if statement.startswith("BEGIN"):
            for held, path in zip(seen, all_rules_store.files(folder), strict=True):
                held.append(all_rules_store.state(path))

    with all_rules_store.opened(folder) as store:
        for connection in all_rules_store.watched(store):
            connection.set_trace_callback(look)
        assert all_rules_store.run(store) > 8
        for connection in all_rules_store.watched(store):
            connection.set_trace_callback(None)
    look("BEGIN")
    return seen


def test_every_rule_is_at_work_in_the_scene(filled: Path) -> None:
    """The scene interrupted below has work for every rule."""
    with all_rules_store.opened(filled) as store:
        done = {
            action.kind for action in consolidate(store, all_rules_store.RULES, now=NOW).actions
        }
    assert done >= set(ActionKind) - {ActionKind.SUMMARISE, ActionKind.INFER}


def test_an_interruption_anywhere_leaves_the_old_or_the_new(filled: Path) -> None:
    """Any failing statement leaves each store before or after a transaction; the next run does the
    rest."""
    allowed_states = states(filled)
    final = [held[-1] for held in allowed_states]
    moment, was_cut = 0, True
    while was_cut:
        moment += STRIDE
        was_cut = all_rules_store.run_until(restored(filled), moment, lambda: True)
        for held, path in zip(allowed_states, all_rules_store.files(filled), strict=True):
            assert all_rules_store.state(path) in held
        with all_rules_store.opened(filled) as store:
            all_rules_store.run(store)
        assert [all_rules_store.state(path) for path in all_rules_store.files(filled)] == final
    assert moment > 10 * STRIDE


@pytest.mark.parametrize("moment", [20, 160, 250])
def test_a_kill_leaves_the_old_or_the_new(filled: Path, moment: int) -> None:
    """SIGKILL halfway leaves no partial action, and the next run does the rest."""
    allowed_states = states(filled)
    command = [
        sys.executable,
        "-m",
        "tests.extensions.learning.all_rules_store",
        str(restored(filled)),
        str(moment),
    ]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    for held, path in zip(allowed_states, all_rules_store.files(filled), strict=True):
        assert all_rules_store.state(path) in held
    with all_rules_store.opened(filled) as store:
        all_rules_store.run(store)
    assert [all_rules_store.state(path) for path in all_rules_store.files(filled)] == [
        held[-1] for held in allowed_states
    ]


MEMORIES = st.lists(
    st.builds(
        lambda make, text, days, importance, is_explicit, fields: make(
            text,
            days_ago=days,
            importance=importance,
            source=MemorySource.EXPLICIT if is_explicit else MemorySource.INFERRED,
            **fields,
        ),
        st.sampled_from([made, decision, preference]),
        st.sampled_from(TEXTS),
        st.sampled_from([0.0, 20.0, 31.0, 181.0, 400.0]),
        st.sampled_from([0.1, 0.5, 0.9]),
        st.booleans(),
        st.sampled_from(
            [
                {},
                *({"key": key} for key in ("orm", "retries", "stack.orm")),
                *({"key": key, "kind": Kind.TECH_STACK} for key in ("k1", "k2", "k3", "orm")),
                {"path": "a.py"},
                {"confidence": 0.25},
                {"layer": Layer.SESSION, "scope": MemoryScope.SESSION},
                {
                    "layer": Layer.SESSION,
                    "scope": MemoryScope.SESSION,
                    "key": "k1",
                    "kind": Kind.TECH_STACK,
                },
            ]
        ),
    ),
    max_size=8,
)


@settings(max_examples=50, deadline=None)
@given(
    MEMORIES,
    st.builds(
        lambda promoting, caps: promoting | {"max_rows": caps},
        st.sampled_from([{}, {"promote_projects": 1}]),
        st.dictionaries(
            st.sampled_from(["session", "project", "governance", "user"]),
            st.sampled_from([1, 2, 3]),
        ),
    ),
    st.booleans(),
)
def test_a_second_run_at_the_same_clock_does_nothing(
    memories: list[Memory], rules: dict[str, object], closed: bool
) -> None:
    """L01–L11: idempotent for any store, and the dry run listed exactly the actions done."""
    chosen = validate_group(MemorySettings, rules)
    with tempfile.TemporaryDirectory() as folder, all_rules_store.opened(Path(folder)) as store:
        thread = resume_session(store.connection, branch="main", now=NOW).thread
        for memory in memories:
            put(store, memory, thread=thread if memory.layer is Layer.SESSION else "")
        store.connection.execute("UPDATE session SET closed_at = ? WHERE ?", (NOW, closed))
        store.home_of(preference("x").layer)
        planned = consolidate(store, chosen, now=NOW, dry_run=True)
        done = consolidate(store, chosen, now=NOW)
        assert [(a.kind, a.memory_ids) for a in done.actions] == [
            (a.kind, a.memory_ids) for a in planned.actions
        ]
        before = [all_rules_store.state(path) for path in all_rules_store.files(Path(folder))]
        assert consolidate(store, chosen, now=NOW).actions == ()
        assert [
            all_rules_store.state(path) for path in all_rules_store.files(Path(folder))
        ] == before


def test_said_decisions_are_never_lost(filled: Path) -> None:
    """Consolidation never deletes a memory stated by a person, whatever its state."""
    with all_rules_store.opened(filled) as store:
        explicit_ids = {
            id_
            for (id_,) in store.connection.execute(
                "SELECT id FROM memory WHERE source = 'explicit' AND kind <> ?",
                (Kind.EXCHANGE,),
            )
        }
        for year in range(4):
            consolidate(store, all_rules_store.RULES, now=NOW + year * 366 * 86_400.0)
        remaining_ids = {id_ for (id_,) in store.connection.execute("SELECT id FROM memory")}
    assert explicit_ids <= remaining_ids
