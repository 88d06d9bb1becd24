"""A list judged by actors of a local Ray beside the plain path: start-up, rows a second, CPU; from which size it pays.

    python benchmarks/ray_engine.py [--memories 2000] [--questions 1,5,10] [--latency-s 0.2]

One memory a call, 64 calls in flight altogether: by one process and by two actors of Ray, in
turn over one tree, each with questions of its own, sharing one Redis. Start-up: what a list over one file of 20 takes,
everything included. A row is a candidate. No target: the table is in `docs/batch.md`. Needs redis-server and `ray`.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from judging_load import server, write_tree
from msgspec import Struct

IN_FLIGHT = 64
WAYS = {
    "one process": (),
    "two actors of Ray": ("--ray", "2"),
}


class Ran(Struct, frozen=True):
    """One list."""

    wall_s: float
    cpu_s: float
    """Of the processes that were waited for; Ray's own daemons are not among them."""
    rows: int


@contextmanager
def redis() -> Iterator[str]:
    """Run a Redis that keeps nothing; yield its URL."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    serving = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        serving.kill()
        serving.wait()


class Lists:
    """Lists over one tree, no question asked twice."""

    def __init__(self, tree: Path, home: Path, url: str, shared: str) -> None:
        self._tree, self._home, self._asked = tree, home, 0
        own = {"HOME": str(home), "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none", "XSCORE_SHARED_URL": shared}
        judge = {"MODEL": "openai:bench", "PROBE": "false", "PACK_SIZE": "1", "CONCURRENCY": str(IN_FLIGHT)}
        self._environ = {**os.environ, **own, **{f"XSCORE_JUDGE_{name}": value for name, value in judge.items()}}

    def ran(self, questions: int, *more: str) -> Ran:
        """Judge so many new questions and tell what it took."""
        queries = self._home / "queries.jsonl"
        numbers = range(self._asked, self._asked + questions)
        self._asked += questions
        queries.write_text(
            "".join(json.dumps({"id": f"q{n}", "task": f"why is part {n} lost?"}) + "\n" for n in numbers)
        )
        command = [sys.executable, "-m", "xscore", "batch", "run", str(queries), "--json", "--yes", "--quiet", *more]
        before, started = os.times(), time.perf_counter()
        done = subprocess.run(command, cwd=self._tree, env=self._environ, capture_output=True, text=True, check=False)
        wall, after = time.perf_counter() - started, os.times()
        if done.returncode:
            raise SystemExit(f"exit {done.returncode}: {done.stderr[-500:]}")
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return Ran(wall, cpu, json.loads(done.stdout)["coverage"]["judged"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=2_000)
    parser.add_argument("--questions", default="1,5,10")
    parser.add_argument("--latency-s", type=float, default=0.2)
    options = parser.parse_args()
    if shutil.which("redis-server") is None:
        print("skipped: no redis-server is here")
        return 0
    with tempfile.TemporaryDirectory() as folder, server(options.latency_s) as url, redis() as shared:
        home, tree = Path(folder, "home"), Path(folder, "tree")
        home.mkdir()
        write_tree(tree, options.memories)
        lists = Lists(tree, home, url, shared)
        lists.ran(1, "--glob", "part_00/module_0000.py")  # brings the index up to date
        small = {way: lists.ran(1, "--glob", "part_00/module_0000.py", *more).wall_s for way, more in WAYS.items()}
        for way, wall_s in small.items():
            print(f"start-up, {way}: {wall_s:.1f} s")
        for questions in map(int, options.questions.split(",")):
            for way, more in WAYS.items():
                ran = lists.ran(questions, *more)
                alone = max(0.001, ran.wall_s - small[way])
                print(
                    f"{ran.rows:,} rows, {way}: {ran.wall_s:.1f} s, {ran.rows / ran.wall_s:.0f} rows/s"
                    f" ({ran.rows / alone:.0f} without start-up), {ran.cpu_s:.1f} CPU-s, load {os.getloadavg()[0]:.0f}"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
