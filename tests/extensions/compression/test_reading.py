"""Logs of each agent as turns: who said what, which calls were made, and what they returned."""

import os
from pathlib import Path

import pytest

from tests.extensions.sessions.session_writers import ClaudeLog, CodexLog, cline_task, say
from xscore.extensions.compression import reading
from xscore.extensions.compression.output_frames import LINE_CHARS, frame_output
from xscore.extensions.compression.reading import SessionLog, find_log, read_session
from xscore.extensions.compression.session_turns import (
    AgentSession,
    CallOutcome,
    OpenItem,
    Speaker,
)
from xscore.extensions.sessions.session_reader import AgentFolders, SessionFile
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.paths import find_root

KEY = "sk-ant-api03-" + "Zq7Xw2" * 15 + "AA"


def read(path: Path, origin: str, *, json_array: bool = False) -> AgentSession:
    """Return the session of a log."""
    log = SessionLog(SessionFile(path, is_json_array=json_array), origin)
    return read_session(log, allow_pii=False, home=path.parent).session


def spoken(session: AgentSession) -> list[tuple[Speaker, str]]:
    """Return who said what."""
    return [(turn.speaker, turn.words) for turn in session.turns]


def test_a_log_of_claude_code_is_read_as_turns(root: Path, own_home: Path) -> None:
    """Words, commands with their exit code, other tools, edits and the list of what to do."""
    log = ClaudeLog(root).user("make pay() round").says("I look at it first.")
    log.runs("pytest -q", "Exit code 2\nE   AssertionError: 3 != 4", failed=True)
    todos = [
        {"content": "round half cents", "status": "completed"},
        {"content": "add a test", "status": "pending"},
    ]
    for name, arguments in (("Read", {"file_path": f"{root}/src/pay.py"}), ("TodoWrite", {})):
        block = {"type": "tool_use", "id": f"t_{name}", "name": name, "input": arguments}
        log.assistant({**block, "input": {"todos": todos}} if name == "TodoWrite" else block)
    log.edits(f"{root}/src/pay.py").says("It rounds now.")
    session = read(log.write(own_home), "claude-code")
    assert spoken(session) == [
        (Speaker.USER, "make pay() round"),
        (Speaker.AGENT, "I look at it first."),
        (Speaker.AGENT, "It rounds now."),
    ]
    command, *later_calls = session.turns[1].calls
    assert command.subject == "pytest -q"
    assert command.outcome == CallOutcome.FAILED
    assert command.exit_code == 2
    assert command.frame.errors == ("E   AssertionError: 3 != 4",)
    assert (later_calls[0].tool, later_calls[0].path) == ("Read", "src/pay.py")
    assert session.changed == ("src/pay.py",)
    assert session.items == (OpenItem("round half cents", True), OpenItem("add a test"))
    assert session.failed_attempts == [command]


def test_what_the_user_says_instead_of_a_call_is_theirs(root: Path, own_home: Path) -> None:
    """A refused call is no failure; the reason that the user gave is a turn of the user."""
    log = ClaudeLog(root).user("clean up").says("Removing build.")
    refusal = (
        "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user"
        " said:\nkeep build/cache"
    )
    log.runs("rm -rf build", refusal, failed=True)
    session = read(log.write(own_home), "claude-code")
    assert session.turns[1].calls[0].outcome is CallOutcome.REFUSED
    assert spoken(session)[-1] == (Speaker.USER, "keep build/cache")
    assert session.failed_attempts == []


def test_a_rollout_of_codex_is_read_as_turns(root: Path, own_home: Path) -> None:
    """A command that is in both logs of a file is one call; a plan is the list of what to
    do."""
    log = CodexLog(root).event("user_message", message="run the tests")
    plan = (
        '{"plan": [{"step": "run", "status": "completed"}, '
        '{"step": "fix", "status": "pending"}]}'
    )
    log.add(
        "response_item",
        {"type": "function_call", "name": "update_plan", "call_id": "p", "arguments": plan},
    )
    log.event("agent_message", message="Running them.")
    arguments = '{"command": ["bash", "-lc", "make test"]}'
    log.add(
        "response_item",
        {"type": "function_call", "name": "shell", "call_id": "c", "arguments": arguments},
    )
    log.event("exec_command_begin", call_id="c", command=["bash", "-lc", "make test"])
    log.event(
        "exec_command_end", call_id="c", exit_code=2, aggregated_output="make: *** Error 2"
    )
    session = read(log.write(own_home), "codex")
    assert spoken(session)[0] == (Speaker.USER, "run the tests")
    calls = [call for turn in session.turns for call in turn.calls if not call.tool]
    assert [(call.subject, call.outcome) for call in calls] == [
        ("make test", CallOutcome.FAILED)
    ]
    assert session.items == (OpenItem("run", True), OpenItem("fix"))


def test_histories_of_aider_and_cline_are_read_as_turns(root: Path, own_home: Path) -> None:
    """Each with what its format says."""
    history = root / ".aider.chat.history.md"
    history.write_text(
        "# aider chat started at 2026-11-20 09:00:00\n\n#### add a flag\n\nAdded `--dry-run`.\n"
    )
    assert spoken(read(history, "aider")) == [
        (Speaker.USER, "add a flag"),
        (Speaker.AGENT, "Added `--dry-run`."),
    ]
    messages = [say("text", "fix it"), say("command", "ls"), say("text", "Fixed.", ts=5)]
    task = cline_task(own_home / "storage", "1", messages, cwd=root)
    session = read(task, "cline", json_array=True)
    assert spoken(session) == [
        (Speaker.USER, "fix it"),
        (Speaker.AGENT, ""),
        (Speaker.AGENT, "Fixed."),
    ]


def test_secrets_are_gone_from_everything_that_is_kept(root: Path, own_home: Path) -> None:
    """From words, commands and outputs, also where a line is cut in the middle of one."""
    log = ClaudeLog(root).user(f"use {KEY}").says(f"I will use {KEY} now.")
    cut = f"error: {'x' * (LINE_CHARS - 40)} {KEY}"
    log.runs(f"curl -H 'x-api-key: {KEY}'", cut, failed=True)
    session = read(log.write(own_home), "claude-code")
    assert KEY[:20] not in repr(session)
    assert "<SECRET:" in session.turns[0].words


def test_a_frame_has_the_ends_and_the_errors() -> None:
    """What is between is counted."""
    output = "\n".join(
        ["first", "second", *["noise"] * 50, "ValueError: bad", *["noise"] * 50, "last"]
    )
    frame = frame_output(output, failed=True, allow_pii=False)
    assert frame.lines[:2] == ("first", "second")
    assert frame.lines[-1] == "last"
    assert frame.errors == ("ValueError: bad",)
    assert frame.left_out == 98
    assert "[… 50 lines …]" in frame.lines
    assert frame_output("", failed=True, allow_pii=False).lines == ()


def test_a_damaged_line_costs_itself_alone(root: Path, own_home: Path) -> None:
    """The line and what was expected are named; what follows it is read."""
    log = ClaudeLog(root).user("one").says("answer one").user("two").says("answer two")
    path = log.write(own_home)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], "{broken}\n", *lines[2:]]))
    outcome = read_session(
        SessionLog(SessionFile(path), "claude-code"), allow_pii=False, home=own_home
    )
    assert [turn.words for turn in outcome.session.turns] == [
        "one",
        "answer one",
        "two",
        "answer two",
    ]
    assert "line 3" in outcome.problem


def test_the_end_of_a_long_log_is_enough(
    root: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an agent waits, only the end is read; of a rollout also the first line, its name."""
    monkeypatch.setattr(reading, "TAIL_BYTES", 2_000)
    log = CodexLog(root)
    for number in range(60):
        log.event("user_message", message=f"request {number}")
        log.event("agent_message", message=f"answer {number}")
    tail = reading.read_tail(log.write(own_home), "codex", allow_pii=False, erased=())
    assert tail is not None
    assert tail.is_tail
    assert tail.last_request is not None
    assert tail.last_request.words == "request 59"
    assert 0 < len(tail.turns) < 60


def test_the_latest_log_of_this_repository_is_found(root: Path, own_home: Path) -> None:
    """By itself, by the start of its name, or as a file; an unknown one is an error."""
    older = ClaudeLog(root, "aaaa-1").user("one").says("x").write(own_home)
    newer = ClaudeLog(root, "bbbb-2").user("two").says("x").write(own_home)
    elsewhere = ClaudeLog("/nowhere", "cccc-3").user("three").says("x").write(own_home)
    for number, path in enumerate((older, newer, elsewhere)):
        os.utime(path, (1_790_000_000 + number, 1_790_000_000 + number))
    folders = AgentFolders(own_home, {}, root)
    repository = find_root(root)
    assert find_log(repository, folders, "").file.path == newer
    assert find_log(repository, folders, "aaaa").file.path == older
    assert find_log(repository, folders, str(elsewhere)).file.path == elsewhere
    with pytest.raises(NothingMatched):
        find_log(repository, folders, "dddd")
    with pytest.raises(UsageError):
        find_log(repository, folders, str(root / "src/pay.py"))
