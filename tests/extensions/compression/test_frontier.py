"""After a compaction an agent gets the frontier of work back, by the installed hooks."""

import json
from pathlib import Path

import pytest

from tests.extensions.agents.hook_process import added, message, run_hook
from tests.extensions.compression.written_sessions import session_of, shell
from tests.extensions.sessions.session_writers import ClaudeLog
from xscore.extensions.agents.frontier_text import frontier_after_compaction, keep_frontier
from xscore.extensions.compression.frontier import MAX_BYTES, find_frontier, frontier_text
from xscore.extensions.compression.session_turns import Speaker
from xscore.store.compressed_sessions import load_frontier
from xscore.store.store import Store

SESSION = "5f0c1b7e-1"


def work_log(root: Path, session: str = SESSION) -> ClaudeLog:
    """Return a log in which one test still fails."""
    log = ClaudeLog(root, session).user("Round half cents in pay(), and add a test for it.")
    log.says("First the test.\n- [ ] name it in the changelog")
    log.runs("pytest -q tests/test_pay.py", "E   assert 3 == 4\n1 failed", failed=True)
    log.runs("make lint", "All checks passed!", failed=False)
    return log.edits(f"{root}/src/pay.py").user("go on").says("Looking at the failure.")


def test_the_frontier_says_what_to_go_on_with(store: Store, root: Path, own_home: Path) -> None:
    """The request, the one before it where it only says to go on, failures, open ends, files and
    checks."""
    log = work_log(root).write(own_home)
    text = frontier_after_compaction(store, log, origin="claude-code", thread="claude-code-x")
    for words in (
        "\ngo on\n",
        "Round half cents in pay(), and add a test for it.",
        "`pytest -q tests/test_pay.py`: E assert 3 == 4 … 1 failed",
        "- name it in the changelog",
        "Files in work: src/pay.py",
        "- make lint",
    ):
        assert words in text
    assert len(text.encode()) <= MAX_BYTES
    assert text == frontier_after_compaction(store, log, origin="claude-code", thread="other")


@pytest.mark.parametrize("mark", ["é" * 900, "</xscore_context>" * 60, "\x1b[31m" * 300])
def test_it_stays_within_its_bytes_and_its_fence(
    store: Store, root: Path, own_home: Path, mark: str
) -> None:
    """Whatever the user typed: characters of many bytes, our own tags, escapes."""
    log = ClaudeLog(root).user(f"do it {mark}").says(mark).runs("make", mark, failed=True)
    text = frontier_after_compaction(
        store, log.write(own_home), origin="claude-code", thread="claude-code-x"
    )
    assert len(text.encode()) <= MAX_BYTES
    assert text.count("</xscore_context>") == 1
    assert "do it" in text


def test_what_was_kept_serves_where_the_log_is_gone(
    store: Store, root: Path, own_home: Path
) -> None:
    """It does so even when the clock was set back in between."""
    log = work_log(root).write(own_home)
    thread = f"claude-code-{SESSION}"
    keep_frontier(store, log, origin="claude-code", thread=thread, now=2_000_000_000.0)
    log.write_text(work_log(root).user("and the docs").says("Now the docs.").text())
    keep_frontier(store, log, origin="claude-code", thread=thread, now=1_000_000_000.0)
    assert "and the docs" in load_frontier(store.connection, thread)
    log.unlink()
    text = frontier_after_compaction(store, log, origin="claude-code", thread=thread)
    assert "and the docs" in text
    assert frontier_after_compaction(store, None, origin="cursor", thread="unknown") == ""


def test_the_hooks_of_a_compaction(root: Path, store: Store, own_home: Path) -> None:
    """`pre-compact` keeps the frontier, `session-start` with `compact` gives it back; a plain start
    does not."""
    log = work_log(root).write(own_home)
    before = message(root, "PreCompact", transcript_path=str(log), trigger="auto")
    done = run_hook("pre-compact", before)
    assert (done.returncode, done.stdout) == (0, b"")
    assert "Round half cents" in load_frontier(store.connection, f"claude-code-{SESSION}")
    start = message(root, "SessionStart", transcript_path=str(log), source="compact")
    first = added(run_hook("session-start", start))
    assert "pytest -q tests/test_pay.py" in first
    assert added(run_hook("session-start", start)) == first
    plain = message(root, "SessionStart", transcript_path=str(log), source="startup")
    assert "pytest -q tests/test_pay.py" not in added(run_hook("session-start", plain))


def test_it_is_switched_off_with_memory(root: Path, store: Store, own_home: Path) -> None:
    """`agents.memory = "off"`: nothing is kept and nothing said."""
    log = str(work_log(root).write(own_home))
    off = {"XSCORE_AGENTS_MEMORY": "off"}
    run_hook("pre-compact", message(root, "PreCompact", transcript_path=log), environ=off)
    assert load_frontier(store.connection, f"claude-code-{SESSION}") == ""
    start = message(root, "SessionStart", transcript_path=log, source="compact")
    assert "pytest" not in added(run_hook("session-start", start, environ=off))


def test_a_log_of_nonsense_stops_no_compaction(
    root: Path, store: Store, own_home: Path
) -> None:
    """Neither an empty, nor a broken, nor a missing log."""
    log = own_home / "log.jsonl"
    for content in ("", "{", json.dumps({"type": "user"}) + "\n"):
        log.write_text(content)
        done = run_hook("pre-compact", message(root, "PreCompact", transcript_path=str(log)))
        assert done.returncode == 0
    missing = message(root, "SessionStart", transcript_path="/nowhere", source="compact")
    assert run_hook("session-start", missing).returncode == 0


def test_a_command_that_passed_later_comes_last() -> None:
    """What still fails comes first; a command that failed twice is listed once."""
    session = session_of(
        [
            (Speaker.USER, "make everything pass, and tell me what was wrong with it", ()),
            (Speaker.AGENT, "a", (shell("make lint", "error: two", failed=True),)),
            (Speaker.AGENT, "b", (shell("make test", "error: one", failed=True),)),
            (Speaker.AGENT, "c", (shell("make lint", "ok", failed=False),)),
            (Speaker.AGENT, "d", (shell("make test", "error: three", failed=True),)),
        ]
    )
    frontier = find_frontier(session)
    attempts = [
        (attempt.command, attempt.error, attempt.is_open) for attempt in frontier.attempts
    ]
    assert attempts == [
        ("make test", "error: three", True),
        ("make lint", "error: two", False),
    ]
    assert "(passed later)" in frontier_text(frontier)
