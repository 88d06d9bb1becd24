"""What a second worktree costs: CPU, wall time, disk and judgments, against the first one of the same run.

    python benchmarks/worktree.py [--runs 3] [--packages openai.types,click]

Builds a repository of about 10,000 memories, indexes it and judges one task by a script; then adds a linked worktree
and a clone, indexes them and asks the same task. The anchor is the first index of the same run, start-up and children
counted on both sides. Exits 1 beyond a target.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from cached_turn import PACKAGES, TASK, build
from measuring import XSCORE, take

MOST_CPU = MOST_DISK = 0.05
"""Share of the first worktree's."""


def run(root: Path, home: Path, *arguments: str) -> tuple[float, float, dict[str, object]]:
    """Run `xscore … --json` in a fresh process; return CPU seconds (children counted), wall seconds and its JSON."""
    took = take([*XSCORE, *arguments, "--json", "--quiet"], root, os.environ | {"HOME": str(home)})
    return took.cpu_s, took.wall_s, json.loads(took.out)


def store_bytes(root: Path) -> int:
    """Return the size of a root's store."""
    return sum(file.stat().st_size for file in (root / ".xscore").iterdir())


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--packages", default=",".join(PACKAGES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        first, home, script = Path(folder, "first"), Path(folder, "home"), Path(folder, "script.json")
        first.mkdir()
        build(first, options.packages.split(","))
        script.write_text(json.dumps({"default": 0.05, "rules": [{"entity": "*prompt*", "score": 0.8}]}))
        ask = ("context", TASK, "--judge", f"scripted:{script}")
        cold = run(first, home, "index")
        judged = run(first, home, *ask)[2]
        size = store_bytes(first)
        print(f"first     index {cold[0]:.2f} s CPU, {cold[1]:.2f} s; {size / 1e6:.1f} MB; {judged['coverage']}")
        worst = 0.0
        for name, make in (("worktree", ("worktree", "add", "-q")), ("clone", ("clone", "-q", "."))):
            taken: list[tuple[float, float, dict[str, object]]] = []
            for number in range(options.runs):
                root = Path(folder, f"{name}{number}")
                subprocess.run(["git", *make, str(root)], cwd=first, check=True, capture_output=True)
                taken.append(run(root, home, "index"))
            cpu, wall = (statistics.median(one[part] for one in taken) for part in (0, 1))
            coverage = run(root, home, *ask)[2]["coverage"]
            share, disk = cpu / cold[0], store_bytes(root) / size
            took = f"{cpu:.2f} s CPU ({share:.1%}), {wall:.2f} s ({wall / cold[1]:.1%})"
            print(f"{name:9} index {took}; disk {disk:.0%}; {coverage}")
            assert isinstance(coverage, dict) and coverage["judged"] == 0, "a judgment was paid for again"
            worst = max(worst, share / MOST_CPU, disk / MOST_DISK)
            shutil.rmtree(root)
    return int(worst > 1)


if __name__ == "__main__":
    raise SystemExit(main())
