"""A branch's working session: which one continues, when resuming is announced, and its summary."""

import os
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.generated_secrets import SECRET
from tests.store.recorded_turns import begin, finish, record_turn
from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.paths import find_root
from xscore.records.turn import Turn
from xscore.store import turns
from xscore.store.session_summary import (
    exchange_memory_id,
    exchange_text,
    save_session_summary,
    session_entries,
    summarise_session,
)
from xscore.store.store import Store
from xscore.store.turns import TurnState
from xscore.store.working_session import (
    IDLE_S,
    load_session,
    load_sessions,
    mark_session_closed,
    resume_session,
    session_of_branch,
    switch_session,
    ticket_of,
)

HERE = f"{os.getpid()} 7 boot place"
GONE = 2**22 + 17
"""No process has this id."""


def work(
    store: Store, branch: str, task: str, *, now: float, process: str = "", fresh: bool = False
) -> str:
    """Resume a branch's session and start a turn in it; return its thread."""
    thread = resume_session(
        store.connection, branch=branch, now=now, process=process, fresh=fresh
    ).thread
    turn = Turn(task=task, thread=thread)
    begin(store, turn, f"key of {task}", now=now, process=process)
    return thread


def test_a_session_goes_on_and_says_so_only_after_a_break(store: Store) -> None:
    """H03, H28: after a minute work continues silently; after a quarter of an hour resuming is
    announced."""
    begun = resume_session(store.connection, branch="main", now=0.0)
    assert (begun.resumed, begun.last_task, begun.last_updated) == (False, "", 0.0)
    record_turn(store, "mend it", thread=begun.thread, now=10.0)
    soon, later = (
        resume_session(store.connection, branch="main", now=10.0 + after)
        for after in (60.0, IDLE_S + 1)
    )
    assert (soon.thread, soon.resumed, soon.last_task) == (begun.thread, False, "mend it")
    assert (later.thread, later.resumed, later.last_updated) == (begun.thread, True, 10.0)


@pytest.mark.parametrize(
    ("process", "resumed"),
    [
        (HERE, False),
        (f"{GONE} 8 boot place", True),
        (f"{GONE} 7 other place", True),
        (f"{GONE} 7 boot place", False),
        ("", False),
    ],
    ids=["same process", "another terminal", "another boot", "same terminal", "unknown"],
)
def test_work_from_another_terminal_or_boot_is_taken_up_again(
    store: Store, process: str, resumed: bool
) -> None:
    """H28: work begun elsewhere is announced, work in this terminal is not."""
    thread = work(store, "main", "mend it", now=10.0, process=HERE)
    store.connection.execute("UPDATE turn SET state = 'done'")
    info = resume_session(store.connection, branch="main", now=11.0, process=process)
    assert (info.thread, info.resumed) == (thread, resumed)


def test_a_turn_whose_process_is_gone_is_taken_up_again(store: Store) -> None:
    """H28: after kill -9 in the same terminal the task is announced; while the process lives it is
    not."""
    work(store, "main", "mend it", now=10.0, process=HERE)
    assert not resume_session(store.connection, branch="main", now=11.0, process=HERE).resumed
    store.connection.execute("UPDATE session SET process = ?", (f"{GONE} 7 boot place",))
    assert resume_session(store.connection, branch="main", now=11.0, process=HERE).resumed


def test_a_branch_has_its_own_session_and_gets_it_back(store: Store) -> None:
    """H03: another branch is another session; back again, the first is resumed and shows its
    task."""
    main, feature = (
        work(store, "main", "mend it", now=1.0),
        work(store, "feat/x", "export", now=2.0),
    )
    back = resume_session(store.connection, branch="main", now=3.0)
    assert main == back.thread != feature and back.resumed and back.last_task == "mend it"


def test_fresh_begins_anew_and_resume_goes_back(store: Store) -> None:
    """H03, H04: a fresh session leaves the old one unchanged; `make_current` restores it, also by
    prefix."""
    old = work(store, "main", "mend it", now=1.0)
    new = work(store, "main", "export", now=2.0, fresh=True)
    assert new != old and resume_session(store.connection, branch="main", now=3.0).thread == new
    switch_session(store.connection, old[:9], branch="main", now=0.5)
    assert resume_session(store.connection, branch="main", now=4.0).thread == old, (
        "also under a clock that was set back"
    )
    assert {session.thread for session in load_sessions(store.connection)} == {old, new}
    for unknown, error in {
        "": NothingMatched,
        "nothing": NothingMatched,
        "s_": UsageError,
    }.items():
        with pytest.raises(error):
            switch_session(store.connection, unknown, branch="main", now=5.0)


def test_a_closed_session_is_followed_by_another(store: Store) -> None:
    """L01: after closing, no older session of the branch resumes by itself; each can be resumed by
    name."""
    work(store, "main", "oldest", now=1.0)
    closed = work(store, "main", "mend it", now=2.0, fresh=True)
    with database.transaction(store.connection):
        mark_session_closed(store.connection, closed, now=3.0)
    assert session_of_branch(store.connection, branch="main") is None
    after = resume_session(store.connection, branch="main", now=4.0)
    assert after.last_task == "" and not after.resumed
    switch_session(store.connection, closed, branch="main", now=5.0)
    reopened = session_of_branch(store.connection, branch="main")
    assert reopened is not None and (reopened.thread, reopened.closed_at) == (closed, None)


def test_a_renamed_branch_keeps_its_session(store: Store) -> None:
    """H28: the session follows the branch; a new branch of the old name gets a new one."""
    old = work(store, "feat/x", "mend it", now=1.0)
    moved = resume_session(
        store.connection, branch="feat/ABC-9-y", now=2.0, renamed_from=("feat/x",)
    )
    assert (moved.thread, moved.last_task) == (old, "mend it")
    renamed = load_session(store.connection, old)
    assert renamed is not None and (renamed.branch, renamed.ticket) == ("feat/ABC-9-y", "ABC-9")
    new_session = resume_session(store.connection, branch="feat/x", now=3.0)
    assert new_session.thread != old
    of_new_name = resume_session(
        store.connection, branch="feat/ABC-9-y", now=4.0, renamed_from=("feat/x",)
    )
    assert of_new_name.thread == old


@pytest.mark.parametrize(
    ("branch", "ticket"),
    [
        ("feat/ABC-123-login", "ABC-123"),
        ("fix/#7", "#7"),
        ("issue-42-x", "#42"),
        ("gh/3", "#3"),
        ("main", ""),
        ("release-2026", ""),
        ("utf-8", ""),
        ("detached HEAD", ""),
        ("", ""),
    ],
)
def test_a_ticket_is_read_off_the_branch(branch: str, ticket: str) -> None:
    """H02, H03: ABC-123 and #123 are tickets; years and plain words are not."""
    assert ticket_of(branch) == ticket


def test_two_at_once_begin_the_same_session(store: Store, user_dir: Path) -> None:
    """H28: two processes that start on a new branch at once share its session."""
    barrier, thread_ids = threading.Barrier(4), set[str]()

    def begin() -> None:
        with Store.open(find_root(store.root.path), user_data_dir=user_dir) as own_store:
            barrier.wait()
            thread_ids.add(
                work(own_store, "feat/new", f"task {threading.get_ident()}", now=1.0)
            )

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(thread_ids) == 1
    (only,) = load_sessions(store.connection)
    assert only.tasks == 4


def test_an_erased_exchange_is_not_told_of_any_more(store: Store) -> None:
    """B02, B11: rebuilt without an exchange, the summary lacks its task, outcome and to-dos."""
    thread = resume_session(store.connection, branch="main", now=0.0).thread
    record_turn(store, "mend the pump", answer="Mended. \nTODO: oil it", thread=thread, now=1.0)
    record_turn(store, "paint it", answer="Painted.", thread=thread, now=2.0)
    kept = load_session(store.connection, thread)
    assert kept is not None
    assert "mend the pump → Mended." in kept.summary
    assert "oil it" in kept.summary
    store.connection.execute(
        "DELETE FROM memory_row WHERE id = ?", (exchange_memory_id("key of mend the pump"),)
    )
    save_session_summary(store.connection, thread)
    kept = load_session(store.connection, thread)
    assert kept is not None and "paint it" in kept.summary
    assert not any(word in kept.summary for word in ("pump", "Mended", "oil"))


def test_a_long_session_is_read_from_its_first_and_latest_tasks(store: Store) -> None:
    """B01, B02: of sixty tasks the first is the goal, the latest are shown, the others counted;
    repeats count once."""
    thread = resume_session(store.connection, branch="main", now=0.0).thread
    for number in range(60):
        record_turn(
            store, f"task {number}", answer=f"Did {number}.", thread=thread, now=1.0 + number
        )
    record_turn(store, "task 59", answer="Did it again.", thread=thread, now=100.0)
    entries = session_entries(store.connection, thread)
    assert [entries[0].task, entries[-1].task, entries[-1].outcome] == [
        "task 0",
        "task 59",
        "Did it again.",
    ]
    summary = summarise_session(store.connection, thread)
    assert summary.goals == ("task 0",)
    shown = summary.text.count("→")
    assert f"- {60 - shown} earlier tasks" in summary.text


def test_no_secret_of_a_task_is_in_the_session(store: Store) -> None:
    """P01: task, branch, summary and the resume message are redacted."""
    thread = work(store, f"fix/{SECRET}", f"rotate {SECRET}", now=1.0)
    turn_id = turns.latest_turn_id(store.connection)
    finish(store, turn_id, state=TurnState.FAILED, now=2.0)
    info = resume_session(store.connection, branch=f"fix/{SECRET}", now=3_000.0)
    assert info.thread == thread and info.resumed and SECRET not in repr(info)
    assert SECRET not in repr(load_session(store.connection, thread))


@settings(max_examples=25)  # each opens a store of its own
@given(
    steps=st.lists(
        st.sampled_from(["work a", "work b", "fresh a", "close", "back", "clock back"]),
        max_size=12,
    )
)
def test_there_is_one_session_to_go_on_with(steps: list[str]) -> None:
    """H28: in any history a branch has one continuing session, and asking again gives the same."""
    with (
        TemporaryDirectory() as folder,
        Store.open(find_root(Path(folder)), user_data_dir=Path(folder)) as store,
    ):
        now, begun_threads = 1_000.0, list[str]()
        for step in steps:
            now += -500.0 if step == "clock back" else 1.0
            if step.startswith(("work", "fresh")):
                begun_threads.append(
                    work(
                        store,
                        step[-1],
                        f"{step} {now}",
                        now=now,
                        fresh=step.startswith("fresh"),
                    )
                )
            elif step == "close" and begun_threads:
                with database.transaction(store.connection):
                    mark_session_closed(store.connection, begun_threads[-1], now=now)
            elif step == "back" and begun_threads:
                switch_session(store.connection, begun_threads[0], branch="a", now=now)
                assert (
                    resume_session(store.connection, branch="a", now=now).thread
                    == begun_threads[0]
                )
        first = resume_session(store.connection, branch="a", now=now).thread
        assert resume_session(store.connection, branch="a", now=now).thread == first
        current = load_session(store.connection, first)
        assert current is not None and current.branch == "a" and current.closed_at is None


@given(task=st.text(max_size=30), answer=st.text(min_size=1), diff=st.text(max_size=5))
def test_an_answer_comes_out_as_it_went_in(task: str, answer: str, diff: str) -> None:
    """B02: for any task and answer, even with each other's marks."""
    for question in (
        task,
        f"{task}\n\nAnswer: {diff}",
        f"\n\nAnswer: {task}",
        f"{task}\n\nAnswer:",
    ):
        assert exchange_text(question, answer).partition("\n\nAnswer: ")[2] == answer
        assert "\n\nAnswer: " not in exchange_text(question, "", diff)
