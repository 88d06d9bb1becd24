"""Agents' messages are recognised and answered in their format; machine-made prompts are told from
typed ones."""

import json
from typing import Any

import pytest

from xscore.extensions.agents.hook_protocols import (
    HookMessage,
    addition,
    read_message,
    spoken_task,
    thread_name,
)
from xscore.platform.errors import UsageError

CLAUDE = {
    "session_id": "abc123",
    "transcript_path": "/home/u/.claude/projects/-w/abc123.jsonl",
    "cwd": "/w",
    "permission_mode": "default",
    "hook_event_name": "UserPromptSubmit",
    "prompt": "fix it",
}
CODEX = {
    **CLAUDE,
    "transcript_path": "/home/u/.codex/sessions/2026/11/23/rollout-1.jsonl",
    "model": "gpt-6",
    "turn_id": "t",
}
GEMINI = {**CLAUDE, "hook_event_name": "BeforeAgent", "timestamp": "2026-11-23T07:00:00Z"}
CURSOR = {
    "conversation_id": "c1",
    "generation_id": "g1",
    "hook_event_name": "beforeSubmitPrompt",
    "workspace_roots": ["/w"],
    "cursor_version": "3.20.17",
    "prompt": "fix it",
    "attachments": [{"type": "file", "file_path": "/w/a.py"}],
}


@pytest.mark.parametrize(
    ("fields", "client", "name"),
    [
        (CLAUDE, "claude-code", "UserPromptSubmit"),
        (CODEX, "codex", "UserPromptSubmit"),
        ({**CODEX, "turn_id": None}, "codex", "UserPromptSubmit"),
        (GEMINI, "gemini", "BeforeAgent"),
    ],
)
def test_an_agent_is_told_by_its_fields_and_answered_in_its_form(
    fields: dict[str, Any], client: str, name: str
) -> None:
    """Claude Code, Codex and Gemini take `hookSpecificOutput` with their own name of the event."""
    message = read_message(json.dumps(fields).encode())
    assert (message.client, message.folder) == (client, "/w")
    body = json.loads(addition("text", event="prompt", client=client))
    assert body == {"hookSpecificOutput": {"hookEventName": name, "additionalContext": "text"}}


def test_cursor_has_a_form_of_its_own() -> None:
    """Cursor gets flat fields, continues a prompt by `continue`, and names its folders."""
    message = read_message(json.dumps(CURSOR).encode())
    assert (message.client, message.folder) == ("cursor", "/w")
    body = json.loads(addition("text", event="prompt", client="cursor"))
    assert body == {"continue": True, "additional_context": "text"}
    start = json.loads(addition("text", event="session-start", client="cursor"))
    assert start == {"additional_context": "text"}


@pytest.mark.parametrize(
    ("client", "nothing"),
    [("claude-code", b""), ("codex", b""), ("cursor", b""), ("gemini", b"{}\n")],
)
def test_nothing_is_said_as_the_protocol_wants(client: str, nothing: bytes) -> None:
    """If nothing is added, standard output is empty; Gemini, which always parses it, gets an empty
    object."""
    assert addition("", event="prompt", client=client) == nothing


def test_an_answer_is_one_line_of_utf_8() -> None:
    """For any text the answer is valid JSON and says the same."""
    text = 'a "quoted"\n\ttab \u2028 漢 🦄 \\'
    data = addition(text, event="prompt", client="claude-code")
    assert data.count(b"\n") == 1
    output = json.loads(data)["hookSpecificOutput"]
    assert output == {"hookEventName": "UserPromptSubmit", "additionalContext": text}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"a \ud83d", "a \ufffd"),
        (r"\udE00 b \uD83D\n", "\ufffd b \ufffd\n"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\\ud83d \\\ud83d", "\\ud83d \\\ufffd"),
    ],
)
def test_half_an_emoji_is_read(written: str, read: str) -> None:
    """A lone surrogate becomes U+FFFD; pairs and text that looks like an escape stay."""
    assert read_message(f'{{"prompt": "{written}"}}'.encode()).prompt == read


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{", b'{"prompt": 3}', b"\xff", b'{"a":' * 100_000, b'{"tool_input": 1e999}'],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    """A message is one JSON object with typed fields; anything else is a usage error."""
    with pytest.raises(UsageError, match="hook message"):
        read_message(data)


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "  ",
        "yes",
        "Continue.",
        "ok go on",
        "Yes, please do that!",
        "👍",
        "好的",
        "parser",
        "/loop 5m check the deploy",
        "/review",
        "<command-message>loop</command-message>\n<command-name>/loop</command-name>\n<command-args>5m</command-args>",
        (
            "<task-notification>\n"
            "<task-id>a1</task-id>\n"
            "<result>It reads a.py.</result>\n"
            "</task-notification>"
        ),
        '<teammate-message teammate_id="lead">do the thing in a.py</teammate-message>',
        "Another Claude session sent a message:\nthe tests of a.py are green",
        "<system-reminder>The date has changed.</system-reminder>",
        "<local-command-stdout>3 files changed</local-command-stdout>",
        "<bash-input>git status --short</bash-input>",
        "[Request interrupted by user for tool use]",
        "This session is being continued from a previous conversation that ran out of context.",
        (
            "Caveat: The messages below were generated by the user while running local commands. DO"
            " NOT respond"
        ),
        "<subagent_notification>done: all tests pass now</subagent_notification>",
    ],
)
def test_prompts_that_ask_nothing_are_skipped(prompt: str) -> None:
    """Slash commands, sub-agent results, notifications and bare "continue" prompts start no
    turn."""
    assert spoken_task(HookMessage(prompt=prompt)) == ""


@pytest.mark.parametrize(
    ("prompt", "task"),
    [
        ("why does login fail twice?", "why does login fail twice?"),
        ("/etc/hosts is not read", "/etc/hosts is not read"),
        ("fix login", "fix login"),
        ("修复登录时的两次失败", "修复登录时的两次失败"),
        ("<system-reminder>noise</system-reminder>\nfix the parser", "fix the parser"),
        (
            "<ide_opened_file>The user opened a.py</ide_opened_file>rename total to sum_up",
            "rename total to sum_up",
        ),
    ],
)
def test_what_a_person_types_is_the_task(prompt: str, task: str) -> None:
    """A person's words are kept as typed, without what the agent added around them."""
    assert spoken_task(HookMessage(prompt=prompt)) == task


def test_a_long_prompt_keeps_both_ends_and_a_sub_agent_asks_nothing() -> None:
    """A pasted log is shortened in the middle; a sub-agent's prompts belong to its caller."""
    task = spoken_task(
        HookMessage(prompt="why this?\n" + "log line\n" * 5_000 + "KeyError: cart")
    )
    assert len(task) < 8_100
    assert task.startswith("why this?") and task.endswith("KeyError: cart")
    assert spoken_task(HookMessage(prompt="fix the parser", agent_id="a1")) == ""


def test_sessions_have_safe_and_different_threads() -> None:
    """A thread's name has safe characters and a bounded length, and different sessions never share
    one."""
    session_ids = [
        "abc-1",
        "a/../b",
        "a b",
        "a?b",
        "x" * 64,
        "x" * 65,
        "x" * 500,
        "é",
        "",
        "\n",
    ]
    names = [thread_name("codex", session_id) for session_id in session_ids]
    assert len(set(names)) == len(names)
    assert all(
        len(name) <= 70 and name.replace("-", "").replace("_", "").isalnum() for name in names
    )
    assert names[0] == "codex-abc-1"


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        (
            {"tool_name": "Edit", "tool_input": {"file_path": "/w/a.py", "new_string": "x"}},
            ("/w/a.py",),
        ),
        (
            {
                "tool_input": {
                    "command": "*** Begin Patch\n*** Update File: a.py\n*** Add File: b.py\n"
                }
            },
            ("a.py", "b.py"),
        ),
        ({"file_path": "/w/c.py", "edits": []}, ("/w/c.py",)),
        ({"tool_input": "rm -rf /", "tool_response": [1]}, ()),
    ],
)
def test_edited_files_are_found_in_every_form(
    fields: dict[str, Any], paths: tuple[str, ...]
) -> None:
    """An edit, a patch and Cursor's flat field all name files; other tools name none."""
    assert read_message(json.dumps(fields).encode()).edited_paths == paths
