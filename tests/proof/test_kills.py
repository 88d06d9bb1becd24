"""Processes that die or run concurrently on one store: each candidate is paid once, dead ones are
taken over at once.
"""

import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.conftest import store_file
from tests.proof.conftest import Spawn
from tests.servers.openai_server import OpenAIServer
from tests.waiting import count_rows, rows, wait_until

pytestmark = pytest.mark.verify

TASK = "Why does a prompt repeat its default twice?"
CONCURRENCY = 4
PACK = 8
FLAGS = ("--pack-size", str(PACK), "--concurrency", str(CONCURRENCY), "--no-answer", "--json")


@pytest.fixture
def indexed(click_tree: Path, spawn: Spawn) -> Path:
    """The indexed source of click, so that concurrent processes reach the judge at the same
    moment."""
    process = spawn("estimate", TASK, "--json", cwd=click_tree)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return click_tree


def unpaid(root: Path) -> int:
    """Return the committed judgments not covered by committed calls; 0 if the ledger lost
    nothing."""
    ((judged, judgments_asked, finished, figures),) = rows(
        root,
        "SELECT (SELECT count(*) FROM judgment), (SELECT coalesce(sum(candidates), 0) FROM call"
        " WHERE stage = 'judge' AND outcome = 'ok'), (SELECT count(*) FROM receipt), (SELECT"
        " count(*) FROM turn_figures JOIN receipt USING (turn_id))",
    )
    assert finished == figures
    return max(0, int(judged - judgments_asked))


def end(process: subprocess.Popen[str], *, code: int = 0) -> dict[str, int]:
    """Wait for a process; return its coverage, which must add up."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err[-800:]
    assert "Traceback" not in err and "locked" not in err
    coverage: dict[str, int] = json.loads(out)["coverage"]
    parts = ("judged", "cached", "carried", "unjudged")
    assert coverage["candidates"] == sum(coverage[part] for part in parts)
    return coverage


def paid_twice(server: OpenAIServer) -> list[str]:
    """Return the contents judged more than once."""
    return [content for content, times in server.counts.judgments.items() if times > 1]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [8, pytest.param(20, marks=pytest.mark.nightly)])
def test_sigkill_at_random_points_loses_no_judgment(
    click_tree: Path, server: OpenAIServer, spawn: Spawn, kills: int
) -> None:
    """Committed judgments and their calls survive every SIGKILL; at most calls in flight are paid
    again."""
    dice = random.Random(20)
    server.latency_s = 0.15
    before = 0
    for _ in range(kills):
        process = spawn("ask", TASK, *FLAGS, cwd=click_tree)
        requests = server.counts.requests
        patience = time.monotonic() + dice.uniform(0.2, 2.5)
        goal = requests + dice.randrange(0, 6)
        while (
            time.monotonic() < patience
            and process.poll() is None
            and server.counts.requests <= goal
        ):
            time.sleep(0.01)
        if process.poll() is not None:
            pytest.fail(f"the run ended before its kill: {process.communicate()[1][-500:]}")
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        now = count_rows(click_tree, "judgment")
        assert now >= before
        assert not now or unpaid(click_tree) == 0
        before = now
    server.latency_s = 0.0
    coverage = end(spawn("ask", TASK, *FLAGS, cwd=click_tree))
    assert (coverage["cached"], coverage["unjudged"], unpaid(click_tree)) == (before, 0, 0)
    paid = sum(server.counts.judgments.values())
    assert paid - coverage["candidates"] <= kills * CONCURRENCY * PACK


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.timeout(180)
def test_the_same_task_at_once_is_paid_once(
    indexed: Path, server: OpenAIServer, spawn: Spawn, count: int
) -> None:
    """Processes that ask the same at once all end with complete receipts, and share the bill."""
    server.latency_s = 0.1
    coverages = [
        end(process)
        for process in [spawn("ask", TASK, *FLAGS, cwd=indexed) for _ in range(count)]
    ]
    candidates = coverages[0]["candidates"]
    assert paid_twice(server) == []
    assert len(server.counts.judgments) == candidates
    assert sum(coverage["judged"] for coverage in coverages) == candidates
    assert all(coverage["judged"] + coverage["cached"] == candidates for coverage in coverages)
    assert count_rows(indexed, "judgment") == candidates
    assert count_rows(indexed, "claim") == count_rows(indexed, "runner") == 0


@pytest.mark.timeout(180)
def test_one_that_is_killed_is_taken_over(
    indexed: Path, server: OpenAIServer, spawn: Spawn
) -> None:
    """SIGKILL halfway: the other takes over at once, and pays again only for calls in flight."""
    server.latency_s = 0.2
    doomed = spawn("ask", TASK, *FLAGS, cwd=indexed)
    wait_until(lambda: count_rows(indexed, "judgment") > 0, doomed)
    # However long the second takes to start, the first is not done before.
    is_killed = False
    server.may_reply = lambda _: is_killed
    survivor = spawn("ask", TASK, *FLAGS, cwd=indexed)
    wait_until(lambda: count_rows(indexed, "runner") == 2, survivor)
    os.killpg(doomed.pid, signal.SIGKILL)
    doomed.communicate()
    is_killed = True
    # Its lease never ends, so that only its death tells.
    while survivor.poll() is None:
        with (
            closing(sqlite3.connect(store_file(indexed), timeout=60)) as connection,
            connection,
        ):
            connection.execute(
                "UPDATE runner SET seen_at = ? WHERE pid = ?", (time.time(), doomed.pid)
            )
        with suppress(subprocess.TimeoutExpired):
            survivor.communicate(timeout=1)
    coverage = end(survivor)
    assert coverage["unjudged"] == 0
    assert len(paid_twice(server)) <= CONCURRENCY * PACK
    assert count_rows(indexed, "claim") == count_rows(indexed, "runner") == 0


@pytest.mark.timeout(180)
def test_a_follow_up_that_is_killed_carries_and_goes_on(
    indexed: Path, server: OpenAIServer, spawn: Spawn
) -> None:
    """SIGKILL during a follow-up, then during the next: `continue` judges the rest, and every sum
    adds up."""
    thread = ("--thread", "kills", *FLAGS)
    end(spawn("ask", TASK, *thread, cwd=indexed))
    judged_first, server.latency_s = count_rows(indexed, "judgment"), 0.2
    for follow_up in ("And where is that default stripped?", "And who tests the stripping?"):
        before = count_rows(indexed, "judgment")
        doomed = spawn("ask", follow_up, *thread, cwd=indexed)
        wait_until(lambda before=before: count_rows(indexed, "judgment") > before, doomed)  # type: ignore[misc]  # the default binds this round's value
        os.killpg(doomed.pid, signal.SIGKILL)
        doomed.communicate()
    server.latency_s = 0.0
    coverage = end(spawn("continue", *FLAGS, cwd=indexed))
    assert coverage["carried"] > judged_first / 2
    assert coverage["judged"] > 0 == coverage["unjudged"]
    assert count_rows(indexed, "judgment") < 2 * judged_first and unpaid(indexed) == 0
