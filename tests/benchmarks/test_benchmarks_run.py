"""Every benchmark still runs: each at its smallest size, without its targets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PROGRAMS: dict[str, tuple[str, ...]] = {
    "cached_turn": ("--runs", "1"),
    "cost_table": ("--sizes", "100"),
    "calls_cpu": ("--calls", "40", "--rounds", "1"),
    "fanout": ("--candidates", "200", "--latency-s", "0.01"),
    "hook": ("--memories", "80", "--runs", "1"),
    "house": ("--fast",),
    "layers": ("--sizes", "100,200", "--runs", "1"),
    "mcp_load": ("--memories", "40", "--calls", "4", "--clients", "2"),
    "redaction_false_positives": ("benchmarks",),
    "report_million": ("--calls", "200", "--turns", "4"),
    "session_compression": ("--budgets", "20000"),
    "session_import": ("--mb", "1", "--largest-mb", "1"),
    "shared_packs": ("benchmarks", "--questions", "2"),
    "threads": ("--memories", "400", "--latency-s", "0.01"),
    "vectors": ("--rows", "200"),
    "worktree": ("--runs", "1", "--packages", "click"),
}
ONLY_IMPORTED = {
    "anytime",
    "base_rate",
    "card_questions",
    "cards",
    "check_diff",
    "definitions",
    "graph",
    "hook_economy",
    "judgments",
    "keyless",
    "lexical_docstrings",
    "links_of_tests",
    "peers",
}
"""Benchmarks that need packages or programs that may be missing, or that have one large size
only."""


LONG = {"cached_turn", "calls_cpu", "fanout", "house", "report_million"}
"""Run by `make nightly`; `house` by `make measure` as well."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.nightly if name in LONG else pytest.mark.verify)
        for name in PROGRAMS
    ],
)
def test_it_runs(name: str, tmp_path: Path) -> None:
    """A benchmark exits with 0, or 1 for a missed target, never with a traceback."""
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT)}
    program = CHECKOUT / "benchmarks" / f"{name}.py"
    command = [sys.executable, str(program), *PROGRAMS[name]]
    done = subprocess.run(
        command, check=False, cwd=CHECKOUT, env=environment, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr[-3_000:]
    assert "Traceback" not in done.stderr, done.stderr[-3_000:]


@pytest.mark.verify
@pytest.mark.parametrize("name", sorted(ONLY_IMPORTED))
def test_it_can_be_imported(name: str) -> None:
    """Every name that a benchmark imports from the package exists."""
    run = (
        "import runpy, sys; sys.path.insert(0, 'benchmarks'); runpy.run_path(sys.argv[1],"
        " run_name='imported')"
    )
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-c", run, f"benchmarks/{name}.py"]
    subprocess.run(command, check=True, cwd=CHECKOUT, env=environment, capture_output=True)
