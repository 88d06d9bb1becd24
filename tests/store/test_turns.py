"""Turns, receipts, exchanges."""

import pytest
from msgspec.structs import replace

from tests.statements import list_events
from tests.store.conftest import function, put
from tests.store.generated_secrets import SECRET
from tests.store.recorded_turns import begin, finish, record_turn
from xscore.extensions.privacy import erasure
from xscore.pipeline.store_status import read_store_status
from xscore.platform.errors import StoreDamaged
from xscore.records.memory import Kind
from xscore.records.turn import Scope, Turn
from xscore.settings import Settings
from xscore.store import turn_history, turns
from xscore.store.events import EventName
from xscore.store.lookup import find_memories
from xscore.store.memory_queries import latest_exchanges
from xscore.store.store import Store
from xscore.store.turns import SelectionOutcome, TurnStart, TurnState
from xscore.store.working_session import resume_session


def test_a_turn_is_remembered_with_what_it_needs_to_go_on(store: Store) -> None:
    """H02: a turn is found by id, or as the latest, with time, keys, state and receipt, but without
    file and diff."""
    resume_session(store.connection, branch="main", now=0.0)
    turn = Turn(
        task="fix it",
        errors="Boom",
        file="a.py",
        line=3,
        recent=("b.py",),
        scope=Scope(paths=("src/**",), kinds=("function",)),
        file_text="the file",
        diff="the diff",
        thread="s_1",
    )
    identifier = begin(store, turn, "tk", now=5.0)
    running = turn_history.past_turn(store.connection)
    assert running is not None
    assert running.turn == replace(turn, id=identifier, file_text="", diff="")
    assert running.turn_key == "tk"
    assert running.judge == "j"
    assert running.state == TurnState.RUNNING
    assert running.receipt == ""
    finish(
        store,
        identifier,
        "an answer",
        state=TurnState.PARTIAL,
        receipt='{"schema": 1}',
        now=6.0,
    )
    done = turn_history.past_turn(store.connection, identifier)
    assert done is not None
    assert done.state == TurnState.PARTIAL
    assert done.answer == "an answer"
    assert done.receipt == '{"schema": 1}'
    assert turn_history.past_turn(store.connection, "t_none") is None
    shown = (
        "SELECT project_id, branch, thread, active_task, files_open, last_edit_file FROM"
        " session_state"
    )
    state = store.connection.execute(f"{shown} WHERE active_task <> ''").fetchone()
    assert state == (store.store_id, "", "s_1", "fix it", '["b.py"]', "a.py")


def test_a_running_turn_outlives_the_erasure_of_its_exchange(store: Store) -> None:
    """An exchange erased while the same is asked again: the paid answer is kept, the question is
    not restored."""
    record_turn(store, "fix the heron")
    (exchange,) = latest_exchanges(store.connection, "s_1", 3)
    turn = Turn(task="fix the heron", thread="s_1", file="a.py")
    running = begin(store, turn, "key of fix the heron", now=200.0)
    erasure.erase_memories(store, [exchange.id], now=201.0)
    finish(store, running, "anew", now=202.0)
    done = turn_history.past_turn(store.connection, running)
    assert done is not None
    assert done.state == TurnState.DONE
    assert done.turn.task == ""
    assert done.turn.file == ""
    assert done.answer == "anew"
    (asked_again,) = latest_exchanges(store.connection, "s_1", 3)
    assert "anew" in asked_again.text and "heron" not in asked_again.text + asked_again.title


def test_the_latest_turn_is_so_under_any_clock(store: Store) -> None:
    """A clock set back does not make an older turn the latest, here or in the status."""
    record_turn(store, "first", now=2_000.0)
    second = record_turn(store, "second", now=1_000.0)
    latest = turn_history.past_turn(store.connection)
    assert latest is not None and latest.turn.id == second
    assert read_store_status(store, Settings()).last_turn == second


def test_a_store_that_does_not_tell_its_latest_turn_goes_by_the_clock(store: Store) -> None:
    """In an older or salvaged store the latest turn is the one with the latest time."""
    record_turn(store, "first", now=10.0)
    second = record_turn(store, "second", now=20.0)
    store.connection.execute("DELETE FROM worktree_meta WHERE key = 'latest_turn'")
    assert turns.latest_turn_id(store.connection) == second


def test_repeating_a_turn_adds_no_memory(store: Store) -> None:
    """The same task again updates its exchange; another task adds one."""
    record_turn(store, "a task", answer="first")
    record_turn(store, "a task", answer="second", now=200.0)
    record_turn(store, "another", now=300.0)
    pool = store.pool(thread="s_2")
    texts = store.texts(pool)
    assert sorted(texts.values()) == [
        "Answer: done",
        "Answer: second",
    ], "judged without their tasks"
    assert [
        str(event.name)
        for event in list_events(store.connection)
        if event.subject.startswith("m_")
    ] == [
        "memory.stored",
        "memory.updated",
        "memory.stored",
    ]


def test_a_threads_exchanges_come_newest_first(store: Store) -> None:
    """The session block has only this thread's latest exchanges."""
    for number in range(5):
        record_turn(store, f"task {number}", now=100.0 + number)
    record_turn(store, "elsewhere", thread="s_2", now=500.0)
    exchanges = latest_exchanges(store.connection, "s_1", 2)
    assert [memory.text.splitlines()[0] for memory in exchanges] == [
        "Task: task 4",
        "Task: task 3",
    ]


def test_what_was_used_is_counted_and_told(store: Store) -> None:
    """A07, A10: kept memories gain a use; retrieval and decision are recorded with numbers and
    reasons."""
    memory = function()
    put(store.connection, memory)
    identifier = begin(store, Turn(task="t"), "k", now=1.0)
    selection_outcome = SelectionOutcome(
        (memory.id,), {"below_threshold": 8, "beyond_k": 1, "over_quota": 0}
    )
    finish(store, identifier, selection_outcome=selection_outcome, now=2.0)
    (used,) = find_memories(store, memory.id)
    assert (used.accessed_at, used.access_count) == (2.0, 1)
    payloads = {
        event.name: event.payload for event in list_events(store.connection, subject=identifier)
    }
    assert payloads[EventName.RETRIEVED] == {"memories": [memory.id]}
    assert (
        payloads[EventName.DECISION]["words"]
        == "1 accepted, 9 rejected (8 below_threshold, 1 beyond_k)"
    )


def test_nothing_of_a_turn_is_stored_with_its_secrets(store: Store) -> None:
    """P01: task, errors and answer are redacted in turn, session state and exchange."""
    resume_session(store.connection, branch="main", now=0.0)
    turn = Turn(task=f"why does {SECRET} fail", errors=f"bad key {SECRET}")
    identifier = begin(store, turn, "k", now=1.0)
    finish(store, identifier, f"rotate {SECRET}", now=2.0)
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert SECRET.encode() not in store.path.read_bytes()
    assert any(candidate.kind is Kind.EXCHANGE for candidate in store.pool())


def test_no_name_that_holds_a_secret_is_stored(store: Store) -> None:
    """A branch, file, recent file or path pattern with a secret in its name is stored redacted or
    not at all."""
    name = f"src/{SECRET}.py"
    thread = resume_session(store.connection, branch=f"fix/{SECRET}", now=0.0).thread
    scope = Scope(paths=(f"{SECRET}/*",))
    turn = Turn(task="x", file=name, line=3, recent=(name, "a.py"), scope=scope, thread=thread)
    identifier = begin(store, turn, "k", now=1.0)
    assert not [row for row in store.connection.iterdump() if SECRET in row]
    past = turn_history.past_turn(store.connection, identifier)
    assert past is not None
    assert (past.turn.file, past.turn.recent) == ("", ("a.py",))
    assert store.connection.execute(
        "SELECT files_open, last_edit_file, branch FROM session_state"
    ).fetchone() == (
        '["a.py"]',
        "",
        "fix/<SECRET:openai_key>",
    )


def test_a_turn_fails_whole_or_not_at_all(store: Store) -> None:
    """An invalid receipt leaves the turn running and nothing half written."""
    identifier = begin(store, Turn(task="t"), "k", now=1.0)
    with pytest.raises(Exception, match="json_valid"):
        finish(store, identifier, "a", receipt="{", now=2.0)
    running = turn_history.past_turn(store.connection, identifier)
    assert running is not None and running.state is TurnState.RUNNING
    assert store.pool() == ()


def test_a_turn_that_makes_no_sense_is_damage(store: Store) -> None:
    """Data of an earlier turn is read only if valid."""
    begin(store, Turn(task="x"), "k", now=1.0)
    store.connection.execute("UPDATE turn SET context = ?", ("[]",))
    with pytest.raises(StoreDamaged, match="a turn is invalid"):
        turn_history.past_turn(store.connection)


def test_a_turn_keeps_its_branch_from_its_beginning_until_it_is_erased(store: Store) -> None:
    """A turn that never ends has it too; it is redacted, and goes with the question."""
    start = TurnStart(turn_key="k", judge="j", branch=f"fix/{SECRET}")
    identifier = turns.begin_turn(store.connection, Turn(task="why?"), start, now=1.0)
    branch = "SELECT branch FROM turn WHERE id = ?"
    (kept,) = store.connection.execute(branch, (identifier,)).fetchone()
    assert kept.startswith("fix/") and SECRET not in kept
    erasure.erase_memories(store, [], turns=[identifier], now=2.0)
    assert store.connection.execute(branch, (identifier,)).fetchone() == ("",)
