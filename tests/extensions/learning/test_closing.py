"""Closing working sessions."""

from typing import Any

import pytest

from tests.extensions.learning.conftest import NOW, held, made, put
from tests.store.recorded_turns import record_turn
from xscore.extensions.learning.consolidate import close_session, consolidate
from xscore.extensions.learning.draft import Scope
from xscore.extensions.privacy import erasure
from xscore.platform.clock import DAY_S
from xscore.platform.errors import StoreDamaged
from xscore.records.memory import (
    Kind,
    Layer,
    Memory,
    MemoryScope,
    MemorySource,
    MemoryStatus,
    Relation,
)
from xscore.settings import MemorySettings
from xscore.store.store import Store
from xscore.store.working_session import resume_session

SESSION: dict[str, Any] = {"layer": Layer.SESSION, "scope": MemoryScope.SESSION}
ONLY: tuple[Scope, ...] = ("session",)


def thread_of(store: Store, branch: str = "main") -> str:
    """Open a session."""
    return resume_session(store.connection, branch=branch, now=NOW - DAY_S).thread


def answered(
    store: Store, thread: str, task: str, answer: str, *, now: float = NOW - 100
) -> None:
    """Answer a turn in a session."""
    record_turn(store, task, answer=answer, thread=thread, now=now - 1)


def summaries(store: Store) -> list[Memory]:
    """Return the session summaries."""
    return [memory for memory in held(store).values() if memory.kind is Kind.SUMMARY]


def test_what_a_session_noted_becomes_the_projects(store: Store) -> None:
    """L01: decisions go to governance, the rest to the project; the exchanges stay in the
    session."""
    thread = thread_of(store)
    choice = made(
        "Use Drizzle", kind=Kind.DECISION, key="orm", source=MemorySource.EXPLICIT, **SESSION
    )
    rule = made("Errors end in a full stop", **SESSION)
    elsewhere = made("Of another session", **SESSION)
    put(store, choice, rule, thread=thread)
    put(store, elsewhere, thread="s_other")
    closed = close_session(store, thread, now=NOW)
    after = held(store)
    assert {(after[id_].layer, after[id_].text) for id_ in closed.carried} == {
        (Layer.GOVERNANCE, choice.text),
        (Layer.PROJECT, rule.text),
    }
    assert {after[id_].status for id_ in (choice.id, rule.id)} == {MemoryStatus.SUPERSEDED}
    assert after[choice.id].superseded_by in closed.carried
    assert after[elsewhere.id].status is MemoryStatus.ACTIVE
    assert {after[id_].details.session for id_ in closed.carried} == {thread}


def test_an_inference_does_not_replace_what_the_project_was_told(store: Store) -> None:
    """L10: what a person stated under a key stays active."""
    thread = thread_of(store)
    explicit = made(
        "Use Drizzle", kind=Kind.TECH_STACK, key="orm", source=MemorySource.EXPLICIT
    )
    put(store, explicit)
    put(store, made("Use Prisma", kind=Kind.TECH_STACK, key="orm", **SESSION), thread=thread)
    assert close_session(store, thread, now=NOW).carried == ()
    assert held(store)[explicit.id].status is MemoryStatus.ACTIVE


def test_its_exchanges_come_to_one_summary(store: Store) -> None:
    """L01: the exchanges become one memory in their own words; the session is closed."""
    thread = thread_of(store)
    answered(store, thread, "Fix the retry loop", "It now stops at five.")
    answered(store, thread, "Write its test", "Done: test_retry.py covers it.")
    closed = close_session(store, thread, now=NOW)
    (summary,) = summaries(store)
    assert (closed.summary, closed.exchanges) == (summary.id, 2)
    assert "Fix the retry loop" in summary.text
    assert "It now stops at five." in summary.text
    edges = store.edges_touching([summary.id])
    assert {(edge.relation, edge.target) for edge in edges} == {
        (Relation.BELONGS_TO, summary.id)
    }
    assert len(edges) == 2
    assert store.connection.execute("SELECT closed_at FROM session").fetchone() == (NOW,)


def test_closing_twice_changes_nothing(store: Store) -> None:
    """L01: a hook may run twice."""
    thread = thread_of(store)
    answered(store, thread, "Fix the retry loop", "It now stops at five.")
    put(store, made("Errors end in a full stop", **SESSION), thread=thread)
    first = close_session(store, thread, now=NOW)
    before = held(store)
    second = close_session(store, thread, now=NOW + DAY_S)
    assert (second.summary, second.exchanges, second.carried) == (first.summary, 1, ())
    assert held(store) == before


def test_a_summary_is_made_anew_when_one_of_its_exchanges_is_erased(store: Store) -> None:
    """B11, P06: erased text is in no summary; consolidation summarises the rest once."""
    thread = thread_of(store)
    answered(store, thread, "Fix the retry loop", "It now stops at five.")
    answered(store, thread, "Call Mrs Miller", "She was not at home.")
    close_session(store, thread, now=NOW)
    private = next(
        memory
        for memory in held(store).values()
        if "Miller" in memory.text and memory.kind is Kind.EXCHANGE
    )
    erasure.erase_memories(store, [private.id], now=NOW)
    assert summaries(store) == []
    done = consolidate(store, MemorySettings(), now=NOW + 1, scopes=ONLY)
    assert [str(action.kind) for action in done.actions] == ["summarise"]
    (summary,) = summaries(store)
    assert "retry loop" in summary.text
    assert "Miller" not in summary.text
    assert consolidate(store, MemorySettings(), now=NOW + 1, scopes=ONLY).actions == ()


def test_a_summary_follows_later_exchanges(store: Store) -> None:
    """B11: a session that continued after closing is summarised again."""
    thread = thread_of(store)
    answered(store, thread, "Fix the retry loop", "It now stops at five.")
    close_session(store, thread, now=NOW)
    answered(store, thread, "Write its test", "Done.", now=NOW + 10)
    consolidate(store, MemorySettings(), now=NOW + 20, scopes=ONLY)
    (summary,) = summaries(store)
    assert "Write its test" in summary.text


def test_a_summary_outlives_the_exchanges_it_was_made_of(store: Store) -> None:
    """L06, B11: exchanges pruned for age stay in the summary; that is its purpose."""
    thread = thread_of(store)
    answered(
        store, thread, "Fix the retry loop", "It now stops at five.", now=NOW - 400 * DAY_S
    )
    answered(store, thread, "Write its test", "It is there.", now=NOW - DAY_S)
    close_session(store, thread, now=NOW)
    done = consolidate(store, MemorySettings(), now=NOW, scopes=ONLY)
    assert "prune" in {str(action.kind) for action in done.actions}
    (summary,) = summaries(store)
    assert "retry loop" in summary.text
    assert consolidate(store, MemorySettings(), now=NOW, scopes=ONLY).actions == ()


def test_a_crash_while_closing_leaves_the_session_open(store: Store) -> None:
    """L01: one transaction: all or nothing."""
    thread = thread_of(store)
    answered(store, thread, "Fix the retry loop", "It now stops at five.")
    put(store, made("Errors end in a full stop", **SESSION), thread=thread)
    before = held(store)
    store.connection.execute(
        "CREATE TEMP TRIGGER no_edges BEFORE INSERT ON main.edge_row BEGIN SELECT RAISE(ABORT,"
        " 'power cut'); END"
    )
    with pytest.raises(StoreDamaged):
        close_session(store, thread, now=NOW)
    assert held(store) == before
    assert store.connection.execute("SELECT closed_at FROM session").fetchone() == (None,)
