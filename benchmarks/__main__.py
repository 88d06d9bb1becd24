"""Run the benchmarks, one process each, and say which missed its target.

    python -m benchmarks [--list] [NAME …]

Without names all are run but `peers`, which installs other people's programs. Downloads go through
the configured package indexes into `.cache/`. Ends with 1 when one failed.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from msgspec import Struct

FOLDER = Path(__file__).parent
CHECKOUT = FOLDER.parent
CACHE = CHECKOUT / ".cache"


class Benchmark(Struct, frozen=True):
    """One program of this folder."""

    name: str
    asks: str
    arguments: tuple[str, ...] = ()
    only_by_name: bool = False
    """Whether it is run only when it is asked for."""


BENCHMARKS = (
    Benchmark("cached_turn", "CPU of a fully cached turn over 10,000 memories"),
    Benchmark("worktree", "what a second worktree or clone costs: index, disk, judgments"),
    Benchmark(
        "hook",
        "a prompt's hook over 10,000 memories, against `import click`, and after one edit",
    ),
    Benchmark(
        "layers",
        "CPU of the local stages of a fully cached turn over 1,000 to 100,000 memories",
    ),
    Benchmark("cost_table", "the README's table: what a first question costs, by estimate"),
    Benchmark("judgments", "reading and writing judgments, a million of them"),
    Benchmark(
        "calls_cpu", "CPU of a judging call, against bare SDK calls and the SDKs' defaults"
    ),
    Benchmark(
        "decisions",
        "a cold turn of 8,600 memories by a decision model, against the host's limit",
    ),
    Benchmark(
        "judge_list",
        "CPU and memory of `xscore.judge` over 100,000 items, again, and of a stream of a million",
    ),
    Benchmark(
        "fanout",
        "50,000 candidates: share of the ideal rate, CPU beyond the calls, peak memory",
    ),
    Benchmark("anytime", "how much of the final top 15 is judged after a part of the packs"),
    Benchmark(
        "threads", "seconds and dollars of a follow-up in a thread, against its first turn"
    ),
    Benchmark(
        "session_import", "past sessions imported: MB a second of CPU, peak memory, by format"
    ),
    Benchmark("show", "bytes, CPU, first paint and frames of the page of a turn, in a browser"),
    Benchmark("report_million", "CPU and peak memory of a report over a million calls"),
    Benchmark(
        "shared_packs", "calls, tokens and dollars when 1, 2, 4 or 8 questions share a call"
    ),
    Benchmark(
        "mcp_load", "`xscore mcp`: handshake, 50 calls by 4 clients at once, memory when idle"
    ),
    Benchmark("peers", "three peers at the same faulty server", only_by_name=True),
    Benchmark("lexical_docstrings", "the lexical judge on docstring questions"),
    Benchmark("vectors", "search among 1,000 to 100,000 vectors, and near duplicates"),
    Benchmark(
        "redaction_false_positives",
        "what redaction takes out of Django and sympy",
        ("Django==5.1", "sympy==1.13.3", "--cache", str(CACHE / "redaction")),
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run; none: all")
    parser.add_argument("--list", action="store_true", help="name them and run none")
    options = parser.parse_args()
    by_name = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    unknown = [name for name in options.names if name not in by_name]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(by_name)}")
    if options.list:
        print("\n".join(f"{benchmark.name:28}{benchmark.asks}" for benchmark in BENCHMARKS))
        return 0
    every = [name for name, benchmark in by_name.items() if not benchmark.only_by_name]
    verdicts = {name: run(by_name[name]) for name in options.names or every}
    print("== verdict")
    for name, verdict in verdicts.items():
        print(f"{name:28}{verdict}")
    return 1 if any(verdict.startswith("failed") for verdict in verdicts.values()) else 0


def run(benchmark: Benchmark) -> str:
    """Run one benchmark in a process of its own, its output as it comes; return its verdict."""
    print(f"== {benchmark.name}: {benchmark.asks}", flush=True)
    started = time.perf_counter()
    command = [sys.executable, str(FOLDER / f"{benchmark.name}.py"), *benchmark.arguments]
    code = subprocess.run(command, cwd=CHECKOUT, check=False).returncode
    print(flush=True)
    took = f"{time.perf_counter() - started:.0f} s"
    return f"passed in {took}" if code == 0 else f"failed in {took}, exit {code}"


if __name__ == "__main__":
    raise SystemExit(main())
