"""Processes that die, are interrupted or run side by side lose no paid judgment."""

import json
import os
import random
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from tests.proof.conftest import Spawn
from tests.servers.openai_server import OpenAIServer

pytestmark = pytest.mark.verify

TASK = "Why does a prompt repeat its default twice?"
CONCURRENCY = 4
PACK = 8
FLAGS = ("--pack-size", str(PACK), "--concurrency", str(CONCURRENCY), "--no-answer", "--json")


def kept(root: Path) -> int:
    """Judgments that are committed."""
    path = root / ".xscore" / "memory.db"
    if not path.exists():
        return 0
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return int(connection.execute("SELECT count(*) FROM judgment").fetchone()[0])
    finally:
        connection.close()


def unpaid(root: Path) -> int:
    """Committed judgments beyond those that the committed calls asked for; 0 where the ledger lost nothing."""
    connection = sqlite3.connect(f"file:{root / '.xscore' / 'memory.db'}?mode=ro", uri=True)
    try:
        judged, asked, finished, figures = connection.execute(
            "SELECT (SELECT count(*) FROM judgment),"
            " (SELECT coalesce(sum(candidates), 0) FROM call WHERE stage = 'judge' AND outcome = 'ok'),"
            " (SELECT count(*) FROM receipt), (SELECT count(*) FROM turn_figures JOIN receipt USING (turn_id))"
        ).fetchone()
    finally:
        connection.close()
    assert finished == figures
    return max(0, int(judged - asked))


@pytest.mark.timeout(600)
def test_sigkill_at_twenty_random_points_loses_no_judgment(
    click_tree: Path, server: OpenAIServer, spawn: Spawn
) -> None:
    """Committed judgments and their calls survive every SIGKILL; what is paid again is at most what was in flight."""
    dice = random.Random(20)
    server.latency_s = 0.15
    kills, before = 0, 0
    while kills < 20:
        process = spawn("ask", TASK, *FLAGS, cwd=click_tree)
        requests = server.counts.requests
        patience = time.monotonic() + dice.uniform(0.2, 2.5)
        goal = requests + dice.randrange(0, 6)
        while time.monotonic() < patience and process.poll() is None and server.counts.requests <= goal:
            time.sleep(0.01)
        if process.poll() is not None:
            pytest.fail(f"the run ended before its kill: {process.communicate()[1][-500:]}")
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        kills += 1
        now = kept(click_tree)
        assert now >= before
        assert not now or unpaid(click_tree) == 0
        before = now
    server.latency_s = 0.0
    process = spawn("ask", TASK, *FLAGS, cwd=click_tree)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    coverage = json.loads(out)["coverage"]
    assert coverage["cached"] == before
    assert unpaid(click_tree) == 0
    assert coverage["candidates"] == coverage["judged"] + coverage["cached"]
    paid = sum(server.counts.judgments.values())
    assert paid - coverage["candidates"] <= kills * CONCURRENCY * PACK


@pytest.mark.timeout(180)
def test_two_at_once_both_finish(click_tree: Path, server: OpenAIServer, spawn: Spawn) -> None:
    """Two `ask` on one store at once: no lock error, and both receipts add up."""
    server.latency_s = 0.05
    both = [spawn("ask", TASK, *FLAGS, cwd=click_tree) for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        coverage = json.loads(out)["coverage"]
        assert coverage["candidates"] == coverage["judged"] + coverage["cached"]
    assert kept(click_tree) == coverage["candidates"]


@pytest.mark.parametrize("stage", ["index", "judge", "primary"])
@pytest.mark.timeout(120)
def test_ctrl_c_at_every_stage_ends_in_130(click_tree: Path, server: OpenAIServer, spawn: Spawn, stage: str) -> None:
    """Ctrl-C while indexing, judging or answering: exit 130, no traceback, and what was paid for is kept."""
    server.latency_s = 0.5 if stage == "judge" else 0.0
    if stage == "primary":
        server.answer = "word " * 50
        server.latency_s = 0.0
    process = spawn("ask", TASK, *(flag for flag in FLAGS if flag != "--no-answer"), cwd=click_tree)
    wanted = {"index": 0, "judge": 3, "primary": 0}[stage]
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        if stage == "index" and (click_tree / ".xscore" / "memory.db").exists():
            break
        if stage == "judge" and server.counts.requests >= wanted:
            break
        if stage == "primary" and server.counts.judging_requests and kept(click_tree):
            server.latency_s = 3.0
            if server.counts.in_flight and len(server.counts.judgments) >= kept(click_tree) > 100:
                break
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out[-300:], err[-600:])
    assert "Traceback" not in err
    assert kept(click_tree) >= len(server.counts.judgments) * (stage == "judge")
