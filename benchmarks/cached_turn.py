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
from typing import NamedTuple

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


class Measured(NamedTuple):
    """CPU seconds of each run, and what the turn said and loaded."""

    turns: list[float]
    anchors: list[float]
    cold_s: float
    candidates: int
    cached: int
    heavy: list[str]


def measure(folder: Path, runs: int) -> Measured:
    """Ask once, then again and again, alternating with the anchor."""
    root = folder / "tree"
    listing = folder / "modules"
    root.mkdir()
    build(root)
    script = folder / "script.json"
    script.write_text(
        json.dumps({"default": 0.05, "rules": [{"entity": "*prompt*", "score": 0.8}]})
    )
    options = ["--judge", f"scripted:{script}", "--no-answer", "--json", "--quiet"]
    arguments = ["ask", TASK, *options]
    # As installed.
    environment = {**os.environ, "HOME": str(folder / "home"), "PYTHONDONTWRITEBYTECODE": ""}
    turn = [sys.executable, "-c", TURN.format(arguments=arguments, listing=str(listing))]
    anchor = [sys.executable, "-c", ANCHOR.format(listing=str(listing))]
    cold_s = take(turn, root, environment).cpu_s
    coverage = json.loads(take([*XSCORE, *arguments], root, environment).out)["coverage"]
    take(turn, root, environment)
    turns: list[float] = []
    anchors: list[float] = []
    for _ in range(runs):
        turns.append(take(turn, root, environment).cpu_s)
        anchors.append(take(anchor, root, environment).cpu_s)
    loaded = set(listing.read_text().split("\n"))
    heavy = [name for name in HEAVY if name in loaded]
    return Measured(turns, anchors, cold_s, coverage["candidates"], coverage["cached"], heavy)


def show(name: str, seconds: list[float]) -> None:
    """Print the median of the runs, and how far they lie apart."""
    print(
        f"{name:6} {statistics.median(seconds):.3f} s CPU (min {min(seconds):.3f}, max"
        f" {max(seconds):.3f})"
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(Path(folder), options.runs)
    above = statistics.median(measured.turns) - statistics.median(measured.anchors)
    print(
        f"candidates {measured.candidates:,}, cached {measured.cached:,}, cold"
        f" {measured.cold_s:.2f} s CPU"
    )
    show("turn", measured.turns)
    show("anchor", measured.anchors)
    print(
        f"above the anchor {above:.3f} s, target {TARGET_S:.2f} at 10,000; heavy modules:"
        f" {measured.heavy or 'none'}"
    )
    most_s = TARGET_S * max(1.0, measured.candidates / 10_000)
    return 1 if measured.heavy or above > most_s else 0


if __name__ == "__main__":
    raise SystemExit(main())
