"""A question too long to read loses only itself, in every format."""

from pathlib import Path

import pytest

from tests.extensions.sessions.session_writers import ClaudeLog, CodexLog, Import, Texts

HUGE = "HUGE " + "x" * 9_000_000
FIRST, THIRD = "Task: first Answer: answer one", "Task: third Answer: answer three"


def test_claude_code_keeps_what_stands_before(root: Path, own_home: Path, run: Import, texts: Texts) -> None:
    """The exchange before the long question is imported, the long one is skipped with a message."""
    log = ClaudeLog(root).user("first").says("answer one").user(HUGE).says("answer two")
    log.user("third").says("answer three").write(own_home)
    report = run()
    assert texts() == [FIRST, THIRD]
    assert report.notes[0].endswith(": 1 line of more than 8 MiB left out")


@pytest.mark.verify
def test_codex_keeps_what_stands_before(root: Path, own_home: Path, run: Import, texts: Texts) -> None:
    """The same for events, for events beside API messages, and for API messages alone."""
    log = CodexLog(root).event("user_message", message="first").event("agent_message", message="answer one")
    log.wire("user", HUGE).event("user_message", message=HUGE).event("agent_message", message="answer two")
    log.event("user_message", message="third").event("agent_message", message="answer three").write(own_home)
    wire = CodexLog(root, "wired").wire("user", "first").wire("assistant", "answer one").wire("user", HUGE)
    wire.wire("assistant", "answer two").wire("user", "third").wire("assistant", "answer three")
    wire.write(own_home, "rollout-wire.jsonl")
    report = run()
    assert sorted(texts()) == [FIRST, FIRST, THIRD, THIRD]
    assert len(report.notes) == 2


@pytest.mark.verify
def test_aider_keeps_what_stands_before(root: Path, run: Import, texts: Texts) -> None:
    """A question with one overlong line is skipped whole, with its answer."""
    told = f"#### first\n\nanswer one\n\n#### so\n#### {HUGE}\n\nanswer two\n\n#### third\n\nanswer three\n"
    (root / ".aider.chat.history.md").write_text("# aider chat started at 2026-11-20 09:00:00\n\n" + told)
    report = run()
    assert texts() == [FIRST, THIRD]
    assert report.notes[0].endswith(": 1 line of more than 8 MiB left out")
