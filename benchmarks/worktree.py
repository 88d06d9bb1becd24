"""What a second worktree and a clone cost: CPU, wall time, disk and judgments, against the first of
the same run.

    python benchmarks/worktree.py [--runs 3] [--packages openai.types,click]

Builds a repository of about 10,000 memories, indexes it and judges one task by a script; then adds
a linked worktree and a clone, indexes them and asks the same task. The anchor is the first index of
the same run, start-up and children counted on both sides. A worktree's disk is what it adds to the
store that it shares. Exits 1 beyond a target.
"""

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

from cached_turn import PACKAGES, TASK, build
from measuring import XSCORE, take

from xscore.platform.paths import find_root

MOST_CPU = {"worktree": 0.15, "clone": 0.15}
MOST_DISK = {"worktree": 0.30, "clone": 1.05}
"""Shares of what the first worktree takes."""


def run(root: Path, home: Path, *arguments: str) -> tuple[float, float, dict[str, object]]:
    """Run `xscore … --json` in a fresh process; return CPU seconds (children counted), wall seconds
    and its JSON.

    Observed facts are off: they are no contents of files, so a clone judges its few again.
    """
    environment = os.environ | {"HOME": str(home), "XSCORE_MEMORY_OBSERVE": "false"}
    took = take([*XSCORE, *arguments, "--json", "--quiet"], root, environment)
    return took.cpu_s, took.wall_s, json.loads(took.out)


def store_bytes(root: Path) -> int:
    """Return the size of a root's store, its journal copied into it."""
    file = find_root(root).store_file
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return file.stat().st_size


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--packages", default=",".join(PACKAGES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        first, home, script = (
            Path(folder, "first"),
            Path(folder, "home"),
            Path(folder, "script.json"),
        )
        first.mkdir()
        build(first, options.packages.split(","))
        script.write_text(
            json.dumps({"default": 0.05, "rules": [{"entity": "*prompt*", "score": 0.8}]})
        )
        ask = ("context", TASK, "--judge", f"scripted:{script}")
        cold = run(first, home, "index")
        judged = run(first, home, *ask)[2]
        size = store_bytes(first)
        print(
            f"first     index {cold[0]:.2f} s CPU, {cold[1]:.2f} s; {size / 1e6:.1f} MB;"
            f" {judged['coverage']}"
        )
        worst = 0.0
        for name, make in (
            ("worktree", ("worktree", "add", "-q")),
            ("clone", ("clone", "-q", ".")),
        ):
            taken: list[tuple[float, float, dict[str, object]]] = []
            for number in range(options.runs):
                root = Path(folder, f"{name}{number}")
                subprocess.run(
                    ["git", *make, str(root)], cwd=first, check=True, capture_output=True
                )
                before = store_bytes(root) if find_root(root).store_file.exists() else 0
                taken.append(run(root, home, "index"))
                added = store_bytes(root) - before
            cpu, wall = (statistics.median(cost[part] for cost in taken) for part in (0, 1))
            coverage = run(root, home, *ask)[2]["coverage"]
            share, disk = cpu / cold[0], added / size
            took = f"{cpu:.2f} s CPU ({share:.1%}), {wall:.2f} s ({wall / cold[1]:.1%})"
            print(f"{name:9} index {took}; disk {disk:.0%}; {coverage}")
            assert isinstance(coverage, dict) and coverage["judged"] == 0, (
                "a judgment was paid for again"
            )
            worst = max(worst, share / MOST_CPU[name], disk / MOST_DISK[name])
            shutil.rmtree(root)
    return int(worst > 1)


if __name__ == "__main__":
    raise SystemExit(main())
