"""A fully cached turn over 10,000 memories, against an anchor that only imports the same modules.

    python benchmarks/cached_turn.py [--runs 7]

Builds a repository from the sources of installed packages, judges it once by a script, then runs
the same `ask` again in fresh processes. Prints CPU seconds (children counted) of turn and anchor,
interleaved, as medians, and the heavy modules that the turn loaded. Exits 1 beyond the target.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from measuring import XSCORE, commit_tree, take

TARGET_S = 0.20
HEAVY = ("openai", "anthropic", "polars", "numpy", "aiohttp", "tree_sitter", "genai_prices")
PACKAGES = ("openai.types", "click", "rich", "aiohttp")
"""About 10,000 memories in 2,000 files."""
TASK = "Why does a prompt repeat its default twice?"
TURN = """
import sys
from xscore.cli.main import run_command_line
sys.argv = ["xscore", *{arguments!r}]
try:
    run_command_line()
finally:
    open({listing!r}, "w").write("\\n".join(sys.modules))
"""
ANCHOR = """
import importlib
for name in open({listing!r}).read().split("\\n"):
    try:
        importlib.import_module(name)
    except ImportError:  # `__main__` and other names that stand for no file
        pass
"""


def build(root: Path, packages: Sequence[str] = PACKAGES) -> None:
    """Copy the packages into a committed repository."""
    for name in packages:
        spec = find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            continue
        source = Path(next(iter(spec.submodule_search_locations)))
        shutil.copytree(
            source, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.a")
        )
    commit_tree(root)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, home, listing = (
            Path(folder, "tree"),
            Path(folder, "home"),
            str(Path(folder, "modules")),
        )
        root.mkdir()
        build(root)
        script = Path(folder, "script.json")
        script.write_text(
            json.dumps({"default": 0.05, "rules": [{"entity": "*prompt*", "score": 0.8}]})
        )
        arguments = [
            "ask",
            TASK,
            "--judge",
            f"scripted:{script}",
            "--no-answer",
            "--json",
            "--quiet",
        ]
        # As installed.
        environment = {**os.environ, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": ""}
        turn = [sys.executable, "-c", TURN.format(arguments=arguments, listing=listing)]
        anchor = [sys.executable, "-c", ANCHOR.format(listing=listing)]
        cold = take(turn, root, environment).cpu_s
        coverage = json.loads(take([*XSCORE, *arguments], root, environment).out)["coverage"]
        take(turn, root, environment)
        turns, anchors = [], []
        for _ in range(options.runs):
            turns.append(take(turn, root, environment).cpu_s)
            anchors.append(take(anchor, root, environment).cpu_s)
        loaded = [name for name in HEAVY if name in set(Path(listing).read_text().split("\n"))]
    above = statistics.median(turns) - statistics.median(anchors)
    print(
        f"candidates {coverage['candidates']:,}, cached {coverage['cached']:,}, cold {cold:.2f}"
        " s CPU"
    )
    print(
        f"turn   {statistics.median(turns):.3f} s CPU (min {min(turns):.3f}, max {max(turns):.3f})"
    )
    print(
        f"anchor {statistics.median(anchors):.3f} s CPU (min {min(anchors):.3f}, max"
        f" {max(anchors):.3f})"
    )
    print(
        f"above the anchor {above:.3f} s, target {TARGET_S:.2f} at 10,000; heavy modules:"
        f" {loaded or 'none'}"
    )
    return 1 if loaded or above > TARGET_S * max(1.0, coverage["candidates"] / 10_000) else 0


if __name__ == "__main__":
    raise SystemExit(main())
