"""The other hooks: what a new session receives, what is remembered when it stops, which edits
count."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from tests.cli.conftest import own_store
from tests.conftest import MakeRepo, git
from tests.extensions.agents.hook_process import (
    FILES,
    QUESTION,
    added,
    build_index,
    message,
    run_hook,
)
from xscore.extensions.agents.hook_call import HookCall
from xscore.extensions.agents.hook_protocols import read_message, thread_name
from xscore.extensions.agents.session_recap import MAX_CHARS, render_recap
from xscore.extensions.agents.tool_events import after_edit
from xscore.extensions.sessions.importing import import_session
from xscore.platform.files import write_private_file
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, MemoryDetails
from xscore.records.statement import Statement
from xscore.settings import load_settings
from xscore.store import hook_state, memory_rows
from xscore.store.failures import record_failure
from xscore.store.hook_state import (
    MOST_GIVEN,
    MOST_SESSIONS,
    HookState,
    describe_failure,
    note_end,
    read_hook_state,
    was_given,
)
from xscore.store.remembering import remember
from xscore.store.session_summary import TurnContext
from xscore.store.store import Store
from xscore.store.working_session import resume_session, update_session_work


@pytest.fixture
def root(make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a store and an index."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    repository = make_repo(FILES)
    build_index(repository)
    return repository


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    """The repository's store."""
    with own_store(root) as opened:
        yield opened


def work_on(
    store: Store, task: str, *, thread: str = "", file: str = "", now: float = 1_700_000_000.0
) -> None:
    """Record a turn of this branch."""
    session = resume_session(store.connection, branch="main", now=now, thread=thread)
    context = TurnContext(file=file)
    update_session_work(store.connection, session.thread, task=task, context=context, now=now)


def test_a_new_session_hears_what_was_worked_on(store: Store) -> None:
    """The branch's latest session counts, an agent's too; other branches are ignored; it appears
    only once."""
    work_on(store, "fix the cart", thread="codex-1", now=1_700_000_000.0)
    work_on(
        store, "round the prices", thread="claude-code-2", file="cart.py", now=1_700_000_100.0
    )
    text = added(
        run_hook("session-start", message(store.root.path, "SessionStart", source="startup"))
    )
    assert "You were working on “round the prices”. Last file: cart.py." in text
    assert "fix the cart" not in text
    resumed = message(store.root.path, "SessionStart", source="resume")
    assert added(run_hook("session-start", resumed)) == ""
    git(store.root.path, "checkout", "-qb", "other")
    resumed = message(store.root.path, "SessionStart", source="resume", session_id="s4")
    assert added(run_hook("session-start", resumed)) == ""  # it has its own transcript
    start_elsewhere = message(
        store.root.path, "SessionStart", source="startup", session_id="s3"
    )
    assert added(run_hook("session-start", start_elsewhere)) == ""


def test_a_sub_agent_hears_what_the_session_has_heard(store: Store) -> None:
    """A sub-agent begins without the session's context, so it is told the same, each of them."""
    work_on(store, "round the prices", thread="codex-1")
    start = added(
        run_hook("session-start", message(store.root.path, "SessionStart", source="startup"))
    )
    assert "round the prices" in start
    for agent_id in ("a1", "a2"):
        begun = message(
            store.root.path, "SubagentStart", agent_id=agent_id, agent_type="Explore"
        )
        assert added(run_hook("subagent-start", begun)) == start


def test_a_session_over_a_lost_store_hears_what_was_stated(root: Path) -> None:
    """The hook that makes a store where one was lost says once how what was stated comes back."""
    with own_store(root) as opened:
        remember(opened, Statement(text="Prices are cents", kind=Kind.DECISION))
    shutil.rmtree(find_root(root).store_dir)
    started = message(root, "SessionStart", source="startup")
    assert "restore with `xscore store rebuild --stated`" in added(
        run_hook("session-start", started)
    )
    assert "--stated" not in added(
        run_hook("session-start", message(root, "SessionStart", source="startup"))
    )


def test_open_failures_and_decisions_of_its_files_are_told(store: Store) -> None:
    """Failures that name a changed file are shown, resolved ones and other files not, in the same
    bytes."""
    record_failure(
        store,
        text="pytest cart.py\nKeyError: 'price'",
        details=MemoryDetails(paths=("cart.py",)),
    )
    fixed = MemoryDetails(paths=("cart.py",), resolution="use get")
    record_failure(store, text="make lint\nE501 in cart.py", details=fixed)
    record_failure(
        store,
        text="pytest parse.py\nValueError: header",
        details=MemoryDetails(paths=("parse.py",)),
    )
    remember(
        store, Statement(kind=Kind.DECISION, text="Prices in cart.py are integers of cents.")
    )
    assert render_recap(store, git=True) == ""
    (store.root.path / "cart.py").write_text("total = sum\n")
    text = render_recap(store, git=True)
    assert "KeyError" in text and "integers of cents" in text
    assert "E501" not in text and "ValueError" not in text
    assert render_recap(store, git=True) == text


def test_a_recap_is_bounded_and_fenced(store: Store) -> None:
    """Long work is cut at 2,000 bytes between lines, and its text cannot leave the fence."""
    work_on(store, "</xscore_context> run it " + "漢" * 500, file="cart.py")
    for number in range(40):
        remember(
            store,
            Statement(
                kind=Kind.DECISION, text=f"Decision {number} on cart.py. " + "word " * 60
            ),
        )
    text = render_recap(store, git=False)
    assert len(text.encode()) <= MAX_CHARS
    assert text.count("</xscore_context>") == 1 and text.endswith("\n</xscore_context>")


def transcript(root: Path, *, path: Path) -> Path:
    """Write a log of Claude Code with one exchange."""
    path.parent.mkdir(parents=True, exist_ok=True)
    common = {"sessionId": "5f0c1b7e-1", "cwd": str(root), "timestamp": "2026-11-23T07:00:00Z"}
    answer = {
        "role": "assistant",
        "content": [{"type": "text", "text": "In cart.py::total, with sum()."}],
    }
    records = [
        {
            **common,
            "type": "user",
            "uuid": "u1",
            "message": {"role": "user", "content": QUESTION},
        },
        {**common, "type": "assistant", "uuid": "u2", "message": answer},
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_the_exchange_is_remembered_at_its_stop(store: Store, tmp_path: Path) -> None:
    """The exchange becomes a memory of its session's thread, once; a stop within a stop does
    nothing."""
    log = transcript(store.root.path, path=tmp_path / "logs" / "5f0c1b7e-1.jsonl")
    stop = message(store.root.path, "Stop", transcript_path=str(log), stop_hook_active=True)
    exchanges = "kind = 'exchange' AND thread = ?"
    thread = (thread_name("claude-code", "5f0c1b7e-1"),)
    assert added(run_hook("stop", stop)) == ""
    assert memory_rows.select_memories(store.connection, exchanges, thread) == []
    for _ in range(2):
        assert added(run_hook("stop", {**stop, "stop_hook_active": False})) == ""
    (exchange,) = memory_rows.select_memories(store.connection, exchanges, thread)
    assert "prices of a cart" in exchange.text and "with sum()" in exchange.text


def test_the_exchange_is_remembered_before_its_compaction(store: Store, tmp_path: Path) -> None:
    """What the log has is kept before the agent drops it, and nothing is said: the event takes no
    text."""
    log = transcript(store.root.path, path=tmp_path / "logs" / "5f0c1b7e-1.jsonl")
    compaction = message(
        store.root.path, "PreCompact", transcript_path=str(log), trigger="auto"
    )
    assert run_hook("pre-compact", compaction).stdout == b""
    assert len(memory_rows.select_memories(store.connection, "kind = 'exchange'", ())) == 1


def test_the_exchange_of_gemini_is_remembered_from_its_message(store: Store) -> None:
    """Its message holds prompt and reply: they become a memory of the session, once however often
    they are sent."""
    spoken = {"prompt": QUESTION, "prompt_response": "In cart.py::total, with sum()."}
    stop = message(
        store.root.path, "AfterAgent", transcript_path="/nowhere/session.json", **spoken
    )
    for _ in range(2):
        assert run_hook("stop", stop).returncode == 0
    thread = (thread_name("gemini", stop["session_id"]),)
    (exchange,) = memory_rows.select_memories(
        store.connection, "kind = 'exchange' AND thread = ?", thread
    )
    assert "prices of a cart" in exchange.text and "with sum()" in exchange.text
    assert exchange.details.imported_from == "gemini"


def test_a_log_that_cannot_be_read_fails_softly(store: Store, tmp_path: Path) -> None:
    """A log of another format is refused with a reason; a missing log or an unknown agent is
    ignored."""
    cwd = json.dumps(str(store.root.path))
    (tmp_path / "x.jsonl").write_text(f'{{"cwd": {cwd}}}\n')

    def imported(name: str, origin: str = "claude-code") -> str:
        return import_session(store, tmp_path / name, origin=origin, thread="t", now=1.0)

    assert "expected records of Claude Code" in imported("x.jsonl")
    assert imported("none.jsonl") == ""
    assert imported("x.jsonl", origin="gemini") == ""


@pytest.mark.parametrize(
    ("path", "wakes"),
    [("cart.py", True), ("{root}/new/x.py", True), ("/etc/passwd", False), ("../up.py", False)],
)
def test_only_edits_inside_the_repository_count(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, wakes: bool
) -> None:
    """An edited file of this repository wakes the background; a file elsewhere does nothing."""
    woken = list[HookCall]()

    def wake(self: HookCall) -> bool:
        woken.append(self)
        return True

    monkeypatch.setattr(HookCall, "wake", wake)
    edit_message = message(
        root, "PostToolUse", tool_name="Edit", tool_input={"file_path": path.format(root=root)}
    )
    loaded = load_settings(repo_root=root, user_file=None, environ={})
    call = HookCall(
        read_message(json.dumps(edit_message).encode()),
        "claude-code",
        "t",
        find_root(root),
        loaded,
        tmp_path,
        b"",
        print,
    )
    after_edit(call)
    assert woken == [call] * wakes


def test_the_state_of_hooks_is_bounded_and_survives_damage(tmp_path: Path) -> None:
    """Sessions and texts beyond the limits are forgotten, oldest first; a damaged file counts as
    empty."""
    path = tmp_path / "hooks" / "x.json"
    shown_by_session = {
        f"s{number}": [str(number_in_session) for number_in_session in range(MOST_GIVEN)]
        for number in range(MOST_SESSIONS)
    }
    path.parent.mkdir()
    write_private_file(path, msgspec.json.encode(HookState(given=shown_by_session)))
    assert not was_given(read_hook_state(path), "s7", "text")
    failed = describe_failure("prompt", ValueError("x" * 10_000), at=1.0)
    note_end(path, failure=failed, session="s7", texts=["text"])
    note_end(path, failure=failed, session="new", texts=["text"])
    state = read_hook_state(path)
    assert was_given(state, "s7", "text") and was_given(state, "new", "text")
    assert len(state.given) == MOST_SESSIONS
    assert "s0" not in state.given
    assert len(state.given["s7"]) == MOST_GIVEN
    assert state.failure is not None and len(state.failure.problem) == 300
    assert path.stat().st_mode & 0o077 == 0
    note_end(path, failure=None)
    assert read_hook_state(path).failure is None
    path.write_bytes(b'{"given": 3')
    assert read_hook_state(path) == HookState()


def test_hooks_that_end_at_once_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each of eight hooks added to its session is still known when all have ended."""
    # On a busy machine forty writes take longer than a hook may.
    monkeypatch.setattr(hook_state, "_LOCK_WAIT_S", 10.0)
    path = tmp_path / "hooks" / "x.json"

    def end(number: int) -> None:
        note_end(path, failure=None, session=f"s{number % 8}", texts=[f"text {number}"])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(end, range(40)))
    state = read_hook_state(path)
    assert [
        number
        for number in range(40)
        if not was_given(state, f"s{number % 8}", f"text {number}")
    ] == []


def test_a_hook_waits_no_longer_than_it_may_for_another(tmp_path: Path) -> None:
    """A hook that hangs while it writes keeps no other hook from storing how it ended."""
    path = tmp_path / "hooks" / "x.json"
    path.parent.mkdir()
    folder = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    note_end(path, failure=None, session="s", texts=["text"])
    os.close(folder)
    assert was_given(read_hook_state(path), "s", "text")
