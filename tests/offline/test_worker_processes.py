"""Several processes at one list: paid once, limits divided, results as by one, killed ones taken over, no orphans."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import MakeRepo
from tests.offline.lists import QUESTIONS, judged, judging, select
from tests.pipeline.conftest import FILES, server, settings_for, shop
from tests.servers.openai_server import OpenAIServer
from xscore.extensions.batch.workers import divided
from xscore.platform.errors import UsageError
from xscore.platform.processes import is_alive
from xscore.settings import JudgeSettings, Settings, validate_group

__all__ = ["server", "shop"]
PATIENCE_S = 60.0


def wait_for(holds: Callable[[], object], what: str) -> None:
    """Wait for what other processes bring about."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def workers_of(pid: int) -> list[int]:
    """The judging processes that a process has started."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if parent == pid and b"offline.worker" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


def begun(root: Path, url: str, tmp_path: Path, *more: str) -> "subprocess.Popen[str]":
    """Start `batch run` with two processes of one call in flight each, one memory a call."""
    queries = tmp_path / "queries.jsonl"
    queries.write_text("".join(json.dumps({"id": one.id, "task": one.task}) + "\n" for one in QUESTIONS.all))
    command = [sys.executable, "-m", "xscore", "batch", "run", str(queries), "--workers", "2", "--json"]
    environ = {
        **os.environ,
        "OPENAI_BASE_URL": url,
        "XSCORE_JUDGE_MODEL": "openai:judge-2",
        "XSCORE_JUDGE_PROBE": "false",
        "XSCORE_JUDGE_PACK_SIZE": "1",
        "XSCORE_JUDGE_CONCURRENCY": "2",
    }
    return subprocess.Popen(
        [*command, *more], cwd=root, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.verify
async def test_workers_pay_once_and_rank_as_one_process_does(shop: Path, server: OpenAIServer, tmp_path: Path) -> None:
    """Three processes pay for each candidate once; their results are those of one process, row by row."""
    settings = settings_for(judging(server), pack_size=1, concurrency=3)
    several = await judged(shop, settings, workers=3, out=tmp_path / "several.parquet")
    assert several.exit_code == 0 and several.coverage.judged == several.candidates
    assert server.counts.requests == several.candidates == several.spent.calls
    assert set(server.counts.judgments.values()) == {len(QUESTIONS.all)}
    for name in ("memory.db", "memory.db-wal", "memory.db-shm"):
        (shop / ".xscore" / name).unlink(missing_ok=True)
    one = await judged(shop, settings, out=tmp_path / "one.parquet")
    assert one.coverage == several.coverage and not one.cached
    assert pl.read_parquet(tmp_path / "one.parquet").equals(pl.read_parquet(tmp_path / "several.parquet"))


@pytest.mark.verify
def test_a_killed_worker_is_taken_over_by_the_others(make_repo: MakeRepo, server: OpenAIServer, tmp_path: Path) -> None:
    """SIGKILL to one of two: the other does its share; all are judged, at most what was in flight is paid twice."""
    root = make_repo(FILES)
    judging(server).latency_s = 0.05
    process = begun(root, server.url, tmp_path)
    wait_for(lambda: server.counts.requests > 10 and len(workers_of(process.pid)) == 2, "no two were at work")
    os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE_S)
    found = json.loads(out)
    assert process.returncode == 0 and not found["coverage"]["unjudged"], err
    assert found["candidates"] <= server.counts.requests <= found["candidates"] + 1
    assert any("took over" in warning for warning in found["warnings"])


@pytest.mark.verify
def test_no_orphan_stays_when_the_parent_is_killed(make_repo: MakeRepo, server: OpenAIServer, tmp_path: Path) -> None:
    """kill -9 of the parent ends its processes; the same command again pays only for what is missing."""
    root = make_repo(FILES)
    judging(server).latency_s = 0.05
    process = begun(root, server.url, tmp_path)
    wait_for(lambda: server.counts.requests > 10, "nothing was judged")
    crew = workers_of(process.pid)
    process.kill()
    process.communicate()
    wait_for(lambda: not any(map(is_alive, crew)), "an orphan stayed")
    kept = select(root, "SELECT count(*) FROM judgment")[0][0]
    assert crew and kept == server.counts.requests
    again = begun(root, server.url, tmp_path)
    out, err = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0, err
    assert json.loads(out)["cached"] == kept and server.counts.requests == json.loads(out)["candidates"]


@pytest.mark.verify
@pytest.mark.parametrize("pressed", [signal.SIGINT, signal.SIGTERM])
def test_a_press_of_ctrl_c_is_passed_on(
    make_repo: MakeRepo, server: OpenAIServer, tmp_path: Path, pressed: signal.Signals
) -> None:
    """Ctrl-C and SIGTERM: exit 130, everything that was answered is kept, no process stays."""
    root = make_repo(FILES)
    judging(server).latency_s = 0.05
    process = begun(root, server.url, tmp_path)
    wait_for(lambda: server.counts.requests > 10, "nothing was judged")
    crew = workers_of(process.pid)
    process.send_signal(pressed)
    out, err = process.communicate(timeout=PATIENCE_S)
    found = json.loads(out)
    kept = select(root, "SELECT count(*) FROM judgment")[0][0]
    assert (process.returncode, found["ended"]) == (130, "interrupted"), err
    assert kept == server.counts.requests < found["candidates"] and found["coverage"]["judged"] == kept
    assert crew and not any(map(is_alive, crew))


@pytest.mark.verify
def test_two_runs_at_once_pay_once(make_repo: MakeRepo, server: OpenAIServer, tmp_path: Path) -> None:
    """The same list started twice at the same time is paid for once, and both have every result."""
    root = make_repo(FILES)
    judging(server).latency_s = 0.02
    runs = [begun(root, server.url, tmp_path) for _ in range(2)]
    found = [json.loads(run.communicate(timeout=PATIENCE_S)[0]) for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert server.counts.requests == found[0]["candidates"] == found[1]["candidates"]
    assert [line["kept"] for line in found[0]["lines"]] == [line["kept"] for line in found[1]["lines"]]


def test_limits_are_divided_to_the_last_request() -> None:
    """Shares add up to what was set, and nobody gets nothing."""
    settings = Settings(judge=JudgeSettings(rpm=10, tpm=100_001))
    shares = [one.judge for one in divided(settings, concurrency=7, count=3)]
    assert [one.rpm for one in shares] == [4, 3, 3]
    assert sum(one.tpm or 0 for one in shares) == 100_001
    assert [one.concurrency for one in shares] == [3, 2, 2]
    assert len(divided(settings, concurrency=2, count=8)) == 2
    with pytest.raises(UsageError):
        divided(settings, concurrency=2, count=0)


def test_a_shared_server_rates_all_of_them() -> None:
    """With a shared server the limits a minute hold as they are; calls in flight are still divided."""
    from xscore.settings.model import SharedSettings

    settings = Settings(
        judge=JudgeSettings(rpm=10), shared=validate_group(SharedSettings, {"url": "redis://localhost"})
    )
    assert [(one.judge.rpm, one.judge.concurrency) for one in divided(settings, concurrency=4, count=2)] == [
        (10, 2)
    ] * 2
