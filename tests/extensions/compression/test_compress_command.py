"""`xscore session compress` and `expand`, as a user runs them."""

import json
from pathlib import Path

import pytest

from tests import programs
from tests.cli.conftest import own_store
from tests.extensions.compression.written_sessions import long_session
from tests.extensions.sessions.session_writers import ClaudeLog
from xscore.extensions.compression.compressing import (
    CompressionReport,
    compress_session,
    thread_of,
)
from xscore.extensions.compression.own_session import read_own_session
from xscore.store.compressed_sessions import load_tiers
from xscore.store.store import Store


def written_log(root: Path, home: Path) -> Path:
    """Write a session whose output is long."""
    log = (
        ClaudeLog(root, "abcd-1").user("Run the tests of pay(), please.").says("Running them.")
    )
    noise = "\n".join(f"collected test number {number} of many" for number in range(200))
    log.runs("pytest -q", f"{noise}\nE   assert 3 == 4", failed=True)
    return log.says("One fails.").write(home)


def test_the_text_is_the_result(root: Path, own_home: Path) -> None:
    """Figures are on standard error; below the gate only outputs are masked."""
    written_log(root, own_home)
    done = programs.run("session", "compress", cwd=root)
    assert done.returncode == 0, done.stderr
    assert "[1] User: Run the tests of pay(), please.\n" in done.stdout
    assert "E   assert 3 == 4" in done.stdout
    assert "collected test number 100" not in done.stdout
    assert "3 turns" in done.stderr
    assert programs.run("session", "compress", cwd=root).stdout == done.stdout


def test_a_turn_is_shown_as_it_was(root: Path, own_home: Path) -> None:
    """With the whole output; a number that no turn has is an error."""
    written_log(root, own_home)
    done = programs.run("session", "expand", "2", cwd=root)
    assert done.returncode == 0, done.stderr
    assert "collected test number 100" in done.stdout
    missing = programs.run("session", "expand", "77", "--session", "abcd", cwd=root)
    assert (missing.returncode, missing.stdout) == (1, "")


def test_a_budget_that_is_too_small_is_said(root: Path, own_home: Path) -> None:
    """With the figure, and exit code 1; the text is still there."""
    words = " ".join(f"item_{number}" for number in range(900))
    ClaudeLog(root, "abcd-1").user(f"Keep these: {words}.").says("Yes.").write(own_home)
    done = programs.run("session", "compress", "--budget", "1000", "--json", cwd=root)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert report["fits"] is False
    assert report["tokens"] > report["budget"] == 1_000
    assert words in report["text"]
    assert f"{report['tokens']:,}" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("nobody",), ("src/pay.py",)])
def test_without_a_session_it_says_what_to_name(root: Path, arguments: tuple[str, ...]) -> None:
    """No traceback, and a way on."""
    done = programs.run("session", "compress", *arguments, cwd=root)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) >= 2


def test_the_working_session_stands_in_for_an_agent(root: Path, own_home: Path) -> None:
    """Where no agent has a log here: tasks and answers of its turns."""
    assert programs.run("ask", "what does pay do?", cwd=root).returncode in (0, 3)
    done = programs.run("session", "compress", "--json", cwd=root)
    report = json.loads(done.stdout)
    assert (report["origin"], report["turns"]) == ("xscore", 1)
    assert "[1] User: what does pay do?" in report["text"]
    with own_store(root) as store:
        assert read_own_session(store.connection, report["session"]).turns[0].memory_id


def test_two_at_once_and_a_clock_set_back(store: Store) -> None:
    """Both write the same; a later run with an earlier clock goes on from there."""
    session = long_session(200)

    def compressed(to: Store, now: float) -> CompressionReport:
        return compress_session(to, session, budget=8_000, context_tokens=200_000, now=now)

    first = compressed(store, 2_000_000_000.0)
    with own_store(store.root.path) as other_store:
        assert compressed(other_store, 2_000_000_001.0) == first
    assert compressed(store, 1_000_000_000.0) == first
    placed = load_tiers(store.connection, thread_of(session), budget=8_000)
    assert len(placed) == 200
    assert load_tiers(store.connection, thread_of(session), budget=9_000) == ()


def test_a_session_that_is_due_comes_to_half_of_the_context(store: Store) -> None:
    """Without a budget of its own: at 70 % of the context, and not before."""
    session = long_session(300)
    context = session.tokens * 10 // 7
    due = compress_session(store, session, budget=0, context_tokens=context, now=1.0)
    assert (due.due, due.budget, due.fits) == (True, context // 2, True)
    early = compress_session(store, session, budget=0, context_tokens=context + 2, now=1.0)
    assert (early.due, early.budget) == (False, 0)
    assert early.tiers == {"current": 300, "topics": 0, "bulks": 0}
