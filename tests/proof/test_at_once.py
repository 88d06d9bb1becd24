"""Two and four processes on one store: each candidate is paid once, the dead are taken over, no lock error."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proof.conftest import Spawn
from tests.servers.openai_server import OpenAIServer

pytestmark = pytest.mark.verify

TASK = "Why does a prompt repeat its default twice?"
FLAGS = ("--pack-size", "8", "--concurrency", "4", "--no-answer", "--json")
Process = subprocess.Popen[str]


@pytest.fixture
def indexed(click_tree: Path, spawn: Spawn) -> Path:
    """The source of click with its index made, so that those who ask are at the judge at the same moment."""
    process = spawn("estimate", TASK, "--json", cwd=click_tree)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return click_tree


def end(process: Process, *, code: int = 0) -> dict[str, int]:
    """Wait for a process; return its coverage, which adds up."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err[-800:]
    assert "Traceback" not in err and "locked" not in err
    coverage: dict[str, int] = json.loads(out)["coverage"]
    parts = ("judged", "cached", "carried", "unjudged")
    assert coverage["candidates"] == sum(coverage[part] for part in parts)
    return coverage


def rows(root: Path, table: str) -> int:
    """How many rows a table of the store has."""
    connection = sqlite3.connect(f"file:{root / '.xscore' / 'memory.db'}?mode=ro", uri=True)
    try:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    finally:
        connection.close()


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for something to come true."""
    patience = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < patience
        time.sleep(0.01)


def paid_twice(server: OpenAIServer) -> list[str]:
    """Contents that were judged more than once."""
    return [content for content, times in server.counts.judgments.items() if times > 1]


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.verify)])
@pytest.mark.timeout(180)
def test_the_same_task_at_once_is_paid_once(indexed: Path, server: OpenAIServer, spawn: Spawn, count: int) -> None:
    """All that ask the same at the same moment end with whole receipts, and share the bill."""
    server.latency_s = 0.1
    found = [end(process) for process in [spawn("ask", TASK, *FLAGS, cwd=indexed) for _ in range(count)]]
    candidates = found[0]["candidates"]
    assert paid_twice(server) == []
    assert len(server.counts.judgments) == candidates
    assert sum(one["judged"] for one in found) == candidates
    assert all(one["judged"] + one["cached"] == candidates for one in found)
    assert rows(indexed, "judgment") == candidates
    assert rows(indexed, "claim") == rows(indexed, "runner") == 0


@pytest.mark.timeout(180)
def test_different_tasks_at_once_do_not_meet(indexed: Path, server: OpenAIServer, spawn: Spawn) -> None:
    """Each task is judged whole by its own process."""
    server.latency_s = 0.05
    found = [end(spawned) for spawned in [spawn("ask", f"{TASK} {n}", *FLAGS, cwd=indexed) for n in range(2)]]
    assert [one["judged"] for one in found] == [one["candidates"] for one in found]
    assert set(server.counts.judgments.values()) == {2}


@pytest.mark.timeout(180)
def test_one_that_is_killed_is_taken_over(indexed: Path, server: OpenAIServer, spawn: Spawn) -> None:
    """SIGKILL in the middle: the other takes over at once, and pays again only what was in flight."""
    server.latency_s = 0.2
    doomed = spawn("ask", TASK, *FLAGS, cwd=indexed)
    wait_until(lambda: rows(indexed, "judgment") > 0)
    other = spawn("ask", TASK, *FLAGS, cwd=indexed)
    wait_until(lambda: rows(indexed, "runner") == 2)
    os.killpg(doomed.pid, signal.SIGKILL)
    killed_at = time.monotonic()
    coverage = end(other)
    doomed.communicate()
    assert time.monotonic() - killed_at < 25  # the lease is 30 s: nobody waited for it
    assert coverage["unjudged"] == 0
    assert len(paid_twice(server)) <= 4 * 8
    assert rows(indexed, "claim") == rows(indexed, "runner") == 0


@pytest.mark.timeout(180)
def test_one_that_is_interrupted_holds_nothing_back(indexed: Path, server: OpenAIServer, spawn: Spawn) -> None:
    """Ctrl-C in one of two: what it has in flight is kept, the rest is the other's, and nothing is paid twice."""
    server.latency_s = 0.2
    both = [spawn("ask", TASK, *FLAGS, cwd=indexed) for _ in range(2)]
    wait_until(lambda: rows(indexed, "judgment") > 0)
    both[0].send_signal(signal.SIGINT)
    end(both[0], code=130)
    assert end(both[1])["unjudged"] == 0
    assert paid_twice(server) == []
