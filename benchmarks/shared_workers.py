"""20,000 candidates, one prompt each, by 4 workers that share a server: how near to four that share nothing?

    python benchmarks/shared_workers.py [--server redis|postgres] [--candidates 20000] [--latency-s 0.2] [--rounds 1]

Each worker is a process with a clone and a store of its own, 64 calls in flight. Sharing, all four are given all
candidates, pay for each once between them, and end with every score in their own stores. Alone, each is given a quarter
and no server, and ends with that quarter. Both are measured from the word go to the end of the last worker, one after
the other, `--rounds` times in turn; the judging is a turn's from the open store on (`judging_load`). CPU is of the
workers and of the server, which has every write on its disk before it answers. Ends with 1 where sharing has less than
85 % of the rate of the four alone, unless the CPU of the machine was used up by the four alone already: then the CPU of
a candidate tells, and is printed.
"""

import argparse
import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from judging_load import TASK, Bench, open_store, server, settings_for, write_tree
from msgspec import Struct
from msgspec.structs import replace

from tests.shared.postgres_of_tests import postgres_of_tests
from xscore.records import Stage, Turn
from xscore.settings import Secret
from xscore.settings.model import SharedSettings

WORKERS, IN_FLIGHT = 4, 64
LEAST_SHARE = 0.85


class Round(Struct, frozen=True):
    """What four workers took."""

    wall_s: float
    cpu_s: float
    server_s: float
    calls: int


def work(folder: Path, url: str, candidates: int, number: int, shared: str) -> None:
    """Be a worker: index, say so, wait for the word, judge, tell what it took."""
    home, tree = folder / "home", folder / "tree"
    write_tree(tree, candidates)
    settings = settings_for("openai", url, home, concurrency=IN_FLIGHT, pack_size=1)
    if shared:
        settings = replace(settings, shared=SharedSettings(url=Secret(shared), require=True, timeout_s=60))
    with open_store(tree, settings) as store:
        bench = Bench.of(store, settings)
        mine = bench.candidates if shared else bench.candidates[number::WORKERS]
        print("ready", flush=True)
        sys.stdin.readline()
        asyncio.run(judged(bench, list(mine)))


async def judged(bench: Bench, candidates: list) -> None:
    cpu = time.process_time()
    turn = Turn(task=TASK, id="t_shared")
    async with bench.resources(turn.id) as (resources, wrapped):
        await bench.judge(resources, wrapped, turn, candidates)
        calls = resources.usage.spent(Stage.JUDGE).calls
    print(json.dumps({"cpu_s": time.process_time() - cpu, "calls": calls}), flush=True)


@contextmanager
def redis(folder: Path) -> Iterator[tuple[str, int]]:
    """Run Redis that keeps every write on disk before it answers."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    options = [
        "--port",
        str(port),
        "--dir",
        str(folder),
        "--save",
        "",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ]
    serving = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    try:
        time.sleep(1)
        yield f"redis://127.0.0.1:{port}/0", serving.pid
    finally:
        serving.kill()
        serving.wait()


@contextmanager
def postgres(folder: Path) -> Iterator[tuple[str, int]]:
    """Run PostgreSQL as it is when installed."""
    (folder / "server").mkdir()
    serving = postgres_of_tests(folder / "server")
    try:
        yield serving.url, serving.pid
    finally:
        serving.kill()


SERVERS = {"postgres": postgres, "redis": redis}


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process and its children so far."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ticks = 0
    for process in (str(pid), *children):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15] if process == str(pid) else fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(folder: Path, kind: str, candidates: int, latency_s: float, *, sharing: bool) -> Round:
    """Run four workers."""
    with server(latency_s) as url, SERVERS[kind](folder) as (shared, pid):
        command = [sys.executable, __file__, "--candidates", str(candidates), "--url", url]
        command += ["--shared", shared if sharing else ""]
        workers = [
            subprocess.Popen(
                [*command, "--worker", str(number), "--folder", str(folder / f"worker_{number}")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(WORKERS)
        ]
        for worker in workers:
            assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
        before, began = cpu_of(pid), time.perf_counter()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        told = [json.loads(worker.stdout.readline()) for worker in workers if worker.stdout is not None]
        wall_s, server_s = time.perf_counter() - began, cpu_of(pid) - before
        for worker in workers:
            worker.communicate()
    return Round(wall_s, sum(one["cpu_s"] for one in told), server_s, sum(one["calls"] for one in told))


def line(name: str, rounds: list[Round], candidates: int) -> str:
    wall_s = statistics.median(one.wall_s for one in rounds)
    cpu_ms, server_ms = (
        1_000 * statistics.median(seconds) / candidates
        for seconds in ([one.cpu_s for one in rounds], [one.server_s for one in rounds])
    )
    rate = candidates / wall_s
    cpu = f"CPU a candidate {cpu_ms:.2f} ms, server {server_ms:.3f} ms"
    return f"{name:<8} {wall_s:6.1f} s  {rate:6,.0f} candidates/s  {rounds[0].calls:,} calls  {cpu}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=20_000)
    parser.add_argument("--latency-s", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--server", choices=sorted(SERVERS), default="redis")
    for name in ("--worker", "--folder", "--url", "--shared"):
        parser.add_argument(name, default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(Path(options.folder), options.url, options.candidates, int(options.worker), options.shared)
        return 0
    if options.server == "redis" and shutil.which("redis-server") is None:
        print("skipped: no redis-server is here: apt-get install redis-server")
        return 0
    together: list[Round] = []
    alone: list[Round] = []
    for _ in range(options.rounds):
        for sharing, rounds in ((False, alone), (True, together)):
            with tempfile.TemporaryDirectory() as folder:
                found = measured(Path(folder), options.server, options.candidates, options.latency_s, sharing=sharing)
            rounds.append(found)
    assert all(one.calls == options.candidates for one in (*alone, *together)), "something was paid for twice"
    return verdict(alone, together, options.candidates, options.latency_s)


def verdict(alone: list[Round], together: list[Round], candidates: int, latency_s: float) -> int:
    share = statistics.median(a.wall_s / t.wall_s for a, t in zip(alone, together, strict=True))
    dearer = statistics.median((t.cpu_s + t.server_s) / a.cpu_s for a, t in zip(alone, together, strict=True))
    ideal_s = candidates * latency_s / (WORKERS * IN_FLIGHT)
    slowed = statistics.median(one.wall_s for one in alone) > 1.25 * ideal_s
    print(line("alone", alone, candidates))
    print(line("sharing", together, candidates))
    print(
        f"sharing has {share:.0%} of the rate of the four alone (at least {LEAST_SHARE:.0%}); {dearer:.2f} x their CPU"
    )
    print(f"ideal {ideal_s:.1f} s; the CPU of this machine {'binds' if slowed else 'does not bind'} the four alone")
    print(f"load {os.getloadavg()[0]:.1f}")
    return 1 if share < LEAST_SHARE and not slowed else 0


if __name__ == "__main__":
    raise SystemExit(main())
