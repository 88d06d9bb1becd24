"""A list judged by actors of a real local Ray, through a real Redis: paid once, whichever actor is
killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import MakeRepo, store_dir
from tests.extensions.batch.question_lists import judging
from tests.extensions.batch.test_ray_work import redis
from tests.extensions.shared.server_processes import ServerProcess
from tests.pipeline.conftest import FILES
from tests.servers.openai_server import OpenAIServer
from tests.waiting import rows, wait_until

__all__ = ["redis"]
PATIENCE_S = 300.0
PATIENT_XSCORE = """
import runpy
from xscore.extensions.batch import ray_engine
ray_engine.LOCAL_STARTS = 4
runpy.run_module("xscore", run_name="__main__", alter_sys=True)
"""
"""`xscore` that starts Ray more often, which other tests may hold up on their machine."""
CALLS_IN_FLIGHT = 16
PACK = 10


def many_functions(files: int) -> dict[str, str]:
    """Return the shop among N files of ten functions each."""
    bodies = {
        f"lib/part_{file}.py": "\n\n".join(
            f"def work_{file}_{at}(amount: int) -> int:\n    return amount + {file * at}"
            for at in range(10)
        )
        for file in range(files)
    }
    return {**FILES, **bodies}


Begin = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Start commands, and end those still running."""
    processes = []

    def start(
        root: Path, url: str, redis: str, queries: Path, *options: str
    ) -> "subprocess.Popen[str]":
        processes.append(begun(root, url, redis, queries, *options))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def begun(
    root: Path, url: str, redis: str, queries: Path, *options: str
) -> "subprocess.Popen[str]":
    """Start `batch run`."""
    environment = {
        **os.environ,
        "OPENAI_BASE_URL": url,
        "XSCORE_JUDGE_MODEL": "openai:judge-2",
        "XSCORE_JUDGE_PROBE": "false",
        "XSCORE_JUDGE_PACK_SIZE": str(PACK),
        "XSCORE_JUDGE_CONCURRENCY": str(CALLS_IN_FLIGHT),
        "XSCORE_SHARED_URL": redis,
    }
    command = [
        sys.executable,
        "-c",
        PATIENT_XSCORE,
        "batch",
        "run",
        str(queries),
        "--json",
        "--yes",
        *options,
    ]
    return subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def listed(place: Path, count: int) -> Path:
    """Write a list of N questions."""
    lines = (
        {"id": f"q{at}", "task": f"review {at}: is the discount taken once?"}
        for at in range(count)
    )
    place.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return place


def actors_of(pid: int) -> list[int]:
    """Return the judging actors below a process."""
    parents: dict[int, int] = {}
    actors = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(place.name)] = int(
                (place / "stat").read_bytes().rpartition(b")")[2].split()[1]
            )
            if b"MapWorker" in (place / "cmdline").read_bytes():
                actors.append(int(place.name))
    return [actor for actor in actors if pid in _line_of(actor, parents)]


def actors_in(root: Path) -> list[int]:
    """Return the actors at work in a folder."""
    pids = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (
                b"MapWorker" in (place / "cmdline").read_bytes()
                and (place / "cwd").readlink() == root
            ):
                pids.append(int(place.name))
    return pids


def _line_of(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid := parents.get(pid, 0):
        yield pid


@pytest.mark.parametrize(
    ("questions", "least_candidates"),
    [
        pytest.param(45, 5_000, marks=pytest.mark.verify),
        pytest.param(170, 20_000, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.timeout(1_200)
def test_actors_judge_as_one_process_does_although_one_is_killed(
    make_repo: MakeRepo,
    begin: Begin,
    server: OpenAIServer,
    redis: ServerProcess,
    tmp_path: Path,
    questions: int,
    least_candidates: int,
) -> None:
    """An actor is killed in the first third of some thousand candidates: equal rows, and only calls
    in flight are paid twice."""
    judging(server).latency_s = 0.02
    root = make_repo(many_functions(12))
    queries = listed(tmp_path / "queries.jsonl", questions)
    options = ("--ray", "2", "--output", str(tmp_path / "ray.parquet"))
    process = begin(root, server.url, redis.url, queries, *options)
    end = time.monotonic() + PATIENCE_S
    while (
        server.counts.requests < 3 * questions
        and process.poll() is None
        and time.monotonic() < end
    ):
        time.sleep(0.05)
    killed = actors_of(process.pid)
    if killed:
        os.kill(killed[0], signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0 and killed, f"{out}{err}"
    summary = json.loads(out)
    assert summary["candidates"] >= least_candidates and not summary["coverage"]["unjudged"]
    requests_of_actors = server.counts.requests
    paid = sum(server.counts.judgments.values())
    assert summary["candidates"] <= paid <= summary["candidates"] + PACK * CALLS_IN_FLIGHT

    for name in ("memory.db", "memory.db-wal", "memory.db-shm"):
        (store_dir(root) / name).unlink(missing_ok=True)
    single_process = begin(
        root, server.url, "", queries, "--output", str(tmp_path / "one.parquet")
    )
    out, err = single_process.communicate(timeout=PATIENCE_S)
    assert single_process.returncode == 0, err
    assert pl.read_parquet(tmp_path / "one.parquet").equals(
        pl.read_parquet(tmp_path / "ray.parquet")
    )
    assert requests_of_actors <= server.counts.requests - requests_of_actors + CALLS_IN_FLIGHT


@pytest.mark.verify
@pytest.mark.timeout(600)
def test_what_actors_bring_is_kept_as_a_live_run_keeps_it(
    make_repo: MakeRepo,
    begin: Begin,
    server: OpenAIServer,
    redis: ServerProcess,
    tmp_path: Path,
) -> None:
    """Judgments, reasons and calls are stored; a second run sends nothing; another machine finds
    them shared."""
    judging(server)
    root = make_repo(FILES)
    queries = listed(tmp_path / "queries.jsonl", 3)
    process = begin(root, server.url, redis.url, queries, "--ray", "2")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, f"{out}{err}"
    summary, requests_before = json.loads(out), server.counts.requests
    assert (
        summary["usage"]["calls"]
        == requests_before
        == rows(root, "SELECT count(*) FROM call")[0][0]
    )
    assert rows(root, "SELECT count(*) FROM judgment")[0][0] == summary["candidates"]
    assert not rows(root, "SELECT count(*) FROM reservation")[0][0]
    wait_until(lambda: not actors_in(root), otherwise="an actor stayed")
    repeated = begin(root, server.url, redis.url, queries, "--ray", "2")
    out, err = repeated.communicate(timeout=PATIENCE_S)
    assert repeated.returncode == 0 and json.loads(out)["cached"] == summary["candidates"], err
    for name in ("memory.db", "memory.db-wal", "memory.db-shm"):
        (store_dir(root) / name).unlink(missing_ok=True)
    other_questions = begin(root, server.url, redis.url, queries, "--ray", "2")
    out, err = other_questions.communicate(timeout=PATIENCE_S)
    assert other_questions.returncode == 0, err
    best = [(line["kept"], line["best"], line["best_score"]) for line in summary["lines"]]
    assert best == [
        (line["kept"], line["best"], line["best_score"]) for line in json.loads(out)["lines"]
    ]
    assert server.counts.requests == requests_before
