"""Codex's rollouts: two or three logs of the same words, forks, compressed files, replaced
history."""

from pathlib import Path

import pytest

from tests.extensions.sessions.session_writers import CodexLog, Import, Past, Record, Texts

META = {"timestamp": "x", "type": "session_meta", "payload": {"id": "s", "cwd": "ROOT"}}


def test_the_same_words_in_two_logs_are_one_exchange(
    root: Path, own_home: Path, run: Import, texts: Texts
) -> None:
    """Events and API messages repeat each other in either order; each exchange is imported once."""
    log = (
        CodexLog(root)
        .wire("developer", "rules")
        .wire("user", "<environment_context>cwd</environment_context>")
    )
    log.wire("user", "first").event("user_message", message="first").event(
        "agent_message", message="answer one"
    )
    log.wire("assistant", "answer one").event("user_message", message="second").wire(
        "user", "second"
    )
    log.wire("assistant", "answer two").event("agent_message", message="answer two").write(
        own_home
    )
    assert run().added == 2
    assert texts() == ["Task: first Answer: answer one", "Task: second Answer: answer two"]


def test_without_events_the_wire_is_read(
    root: Path, own_home: Path, run: Import, texts: Texts
) -> None:
    """API messages alone are read without developer, system and environment messages."""
    log = (
        CodexLog(root)
        .wire("system", "be kind")
        .wire("developer", "<permissions instructions>rules</permissions>")
    )
    log.wire("user", "# AGENTS.md instructions for /x\n<INSTRUCTIONS>never</INSTRUCTIONS>")
    log.wire("user", "<environment_context>\n<cwd>/x</cwd>\n</environment_context>").wire(
        "user", "the question"
    )
    log.wire("assistant", "the answer").write(own_home)
    run()
    assert texts() == ["Task: the question Answer: the answer"]


def test_completed_items_are_read(
    root: Path, own_home: Path, run: Import, texts: Texts
) -> None:
    """Newer rollouts have completed items, including commands and changed files."""
    log = CodexLog(root).item("UserMessage", content=[{"type": "text", "text": "fix it"}])
    log.item(
        "CommandExecution",
        command="pytest -q",
        exit_code=1,
        aggregated_output="E KeyError: 'x'",
    )
    log.item("FileChange", changes=[{"path": "src/reader.py", "kind": "update"}])
    log.item("CommandExecution", command="pytest -q", exit_code=0, aggregated_output="1 passed")
    log.item("AgentMessage", text="Fixed.").event("user_message", message="fix it")
    log.event("agent_message", message="Fixed.").write(own_home)
    assert run().failures == 1
    (text,) = texts()
    assert text.startswith(
        "Task: fix it Answer: Fixed. Failed: `pytest -q` E KeyError: 'x' The same command passed"
    )
    assert text.endswith("Files changed: src/reader.py")


def test_commands_of_events_and_of_the_wire_count_once(
    root: Path, own_home: Path, run: Import, texts: Texts
) -> None:
    """A command logged as an event and as an API message is one failure, without its shell
    wrapper."""
    log = CodexLog(root).event("user_message", message="test it")
    call = {"type": "function_call", "name": "shell", "call_id": "c1"}
    log.add("response_item", {**call, "arguments": '{"command": ["bash", "-lc", "make test"]}'})
    ended = {
        "command": ["bash", "-lc", "make test"],
        "exit_code": 2,
        "aggregated_output": "fatal: no rule",
    }
    log.event("exec_command_end", call_id="c1", **ended)
    output = '{"output": "fatal: no rule", "metadata": {"exit_code": 2}}'
    log.add(
        "response_item", {"type": "function_call_output", "call_id": "c1", "output": output}
    )
    patch = "*** Begin Patch\n*** Update File: src/reader.py\n@@\n*** End Patch"
    log.add(
        "response_item",
        {"type": "custom_tool_call", "name": "apply_patch", "call_id": "c2", "input": patch},
    )
    log.event("agent_message", message="There is no such rule.").write(own_home)
    assert run().failures == 1
    text = texts()[0]
    assert text.count("Failed: `make test` fatal: no rule") == 1
    assert "Files changed: src/reader.py" in text


def test_a_failure_told_by_the_wire_alone_is_seen(
    root: Path, own_home: Path, run: Import, texts: Texts
) -> None:
    """`Exit code: 1` at the start of a tool's output is a failure."""
    log = CodexLog(root).event("user_message", message="run it")
    call = {
        "type": "function_call",
        "name": "exec_command",
        "call_id": "c1",
        "arguments": '{"cmd": "tox"}',
    }
    log.add("response_item", call)
    output = "Exit code: 1\nWall time: 2s\nOutput:\n" + "x\n" * 4000 + "ImportError: no module"
    log.add(
        "response_item", {"type": "function_call_output", "call_id": "c1", "output": output}
    )
    log.event("agent_message", message="A module is missing.").write(own_home)
    assert run().failures == 1
    assert "ImportError: no module" in texts()[0]


def test_replaced_history_is_never_read(
    root: Path, own_home: Path, run: Import, texts: Texts
) -> None:
    """`compacted` repeats earlier words, rewritten; it is skipped."""
    log = (
        CodexLog(root)
        .event("user_message", message="one")
        .event("agent_message", message="answer")
    )
    old = [
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "rewritten"}],
        }
    ]
    log.add("compacted", {"message": "summary", "replacement_history": old}).write(own_home)
    run()
    assert texts() == ["Task: one Answer: answer"]


def test_packed_files_are_read_and_known_again(
    root: Path, own_home: Path, run: Import, past: Past
) -> None:
    """A compressed idle file holds the same exchanges as before."""
    log = (
        CodexLog(root)
        .event("user_message", message="one")
        .event("agent_message", message="answer")
    )
    plain = log.write(own_home)
    assert run().added == 1
    plain.unlink()
    log.write(own_home, "rollout-2026-11-20T10-00-00-x.jsonl.zst")
    report = run()
    assert (report.files, report.added, report.known) == (1, 0, 1)
    assert len(past()) == 1


def test_archived_sessions_are_found(root: Path, own_home: Path, run: Import) -> None:
    """Archived rollouts are in one flat folder."""
    path = (
        CodexLog(root)
        .event("user_message", message="one")
        .event("agent_message", message="a")
        .write(own_home)
    )
    archive = own_home / ".codex/archived_sessions"
    archive.mkdir()
    path.rename(archive / path.name)
    assert run().added == 1
    assert run(environ={"CODEX_HOME": str(own_home / "elsewhere")}).files == 0


def test_a_fork_repeats_its_parent_once(
    root: Path, own_home: Path, run: Import, past: Past
) -> None:
    """A fork copies its parent with new times and its own session_meta; copied exchanges are
    recognised."""
    parent = (
        CodexLog(root, "parent")
        .event("user_message", message="one")
        .event("agent_message", message="answer")
    )
    parent.write(own_home)
    fork = CodexLog(root, "fork", forked_from_id="parent")
    fork.records += parent.records
    fork.event("user_message", message="two").event("agent_message", message="answer two")
    fork.write(own_home, "rollout-2026-11-21T10-00-00-y.jsonl")
    report = run()
    assert (report.added, report.known) == (2, 1)


def test_sub_agents_are_skipped(root: Path, own_home: Path, run: Import, past: Past) -> None:
    """A session started by an agent is not a person's."""
    log = CodexLog(root, source={"subagent": "review"}).event(
        "user_message", message="review this"
    )
    log.event("agent_message", message="fine").write(own_home)
    assert run().exchanges == 0


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (
            [
                {
                    "id": "x",
                    "timestamp": "2025-04-01T00:00:00Z",
                    "instructions": None,
                    "cwd": "ROOT",
                }
            ],
            "session_meta",
        ),
        ([{"timestamp": "x", "type": "session_meta", "payload": {"cwd": "ROOT"}}], "`id`"),
        (
            [META, *[{"timestamp": "x", "type": "turn_v9", "body": {}}] * 3],
            "expected records of Codex",
        ),
        (
            [
                META,
                {"timestamp": "soon", "type": "event_msg", "payload": {"type": "user_message"}},
            ],
            "line 2: expected a",
        ),
        (
            [META, {"timestamp": "x", "type": "event_msg", "payload": ["user_message"]}],
            "line 2: expected `payload`",
        ),
    ],
    ids=["old", "no-id", "unknown", "no-time", "payload"],
)
def test_foreign_versions_are_refused(
    root: Path, own_home: Path, run: Import, past: Past, records: list[Record], expected: str
) -> None:
    """A rollout in another format is refused with the expected one, and nothing of it is kept."""
    log = CodexLog(root, "")
    log.records = records
    path = log.write(own_home)
    path.write_text(path.read_text().replace("ROOT", str(root)))
    (refused,) = run().refused
    assert expected in refused.reason
    assert past() == []
