"""Run the benchmarks, one process each, and say which missed its target.

    python -m benchmarks [--list] [NAME …]

Without names all are run but `peers`, which installs other people's programs. Two need recorded cases that are not part
of this repository, and `anytime` asks them too where they are there: `XSCORE_BENCH_CASES` names the file of cases (JSON
lines, as `lexical_commits.py` describes), `XSCORE_BENCH_IDS` a file with the ids to take, `XSCORE_BENCH_JUDGMENTS` the
recorded judgments for `boosts_replay.py`. Where a variable is missing the benchmark is skipped with a line. Downloads
go through the configured package indexes into `.cache/`. Ends with 1 when one failed.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

FOLDER = Path(__file__).parent
CHECKOUT = FOLDER.parent
CACHE = CHECKOUT / ".cache"
CASES, IDS, JUDGMENTS = "XSCORE_BENCH_CASES", "XSCORE_BENCH_IDS", "XSCORE_BENCH_JUDGMENTS"
Arguments = Callable[[Mapping[str, str]], list[str]]


class Benchmark(Struct, frozen=True):
    """One program of this folder."""

    name: str
    asks: str
    arguments: Arguments = lambda environ: []
    needs: tuple[str, ...] = ()
    """Environment variables without which it cannot run."""
    only_by_name: bool = False
    """It is not run unless it is asked for."""


def of_commits(environ: Mapping[str, str]) -> list[str]:
    ids = ["--ids", environ[IDS]] if environ.get(IDS) else []
    return ["--cases", environ[CASES], *ids]


def of_boosts(environ: Mapping[str, str]) -> list[str]:
    archives = str(CACHE / "lexical" / "artifacts")
    return ["--judgments", environ[JUDGMENTS], "--cases", environ[CASES], "--archives", archives]


def of_anytime(environ: Mapping[str, str]) -> list[str]:
    return of_commits(environ) if environ.get(CASES) else []


def of_redaction(environ: Mapping[str, str]) -> list[str]:
    return ["Django==5.1", "sympy==1.13.3", "--cache", str(CACHE / "redaction")]


BENCHMARKS = (
    Benchmark("cached_turn", "CPU of a fully cached turn over 10,000 memories"),
    Benchmark("layers", "CPU of the local stages of a fully cached turn over 1,000 to 100,000 memories"),
    Benchmark("encryption", "CPU of a fully cached turn on an encrypted store and on a plain one"),
    Benchmark("judgments", "reading and writing judgments, a million of them"),
    Benchmark("calls_cpu", "CPU of a judging call, against bare SDK calls and the SDKs' defaults"),
    Benchmark("ledger_overhead", "CPU that metering and the ledger add to a call, with and without pricing"),
    Benchmark("fanout", "20,000 candidates at a second a call: share of the ideal rate, CPU beyond the calls"),
    Benchmark("ramp", "how soon the rate is steady, from cold"),
    Benchmark("fanout_memory", "peak memory over 50,000 candidates at 8, 64 and 256 calls in flight"),
    Benchmark("anytime", "how much of the final top 15 is judged after a part of the packs", of_anytime),
    Benchmark("session_import", "past sessions imported: MB a second of CPU, peak memory, by format"),
    Benchmark("tracing", "a trace: microseconds a call, seconds to a collector that is there, refuses, or is silent"),
    Benchmark("batch_plan", "50,000 requests planned and written as batch input: CPU, peak memory"),
    Benchmark(
        "batch_collect", "CPU and peak memory of 50,000 results entered in shuffled order, and of a million judgments"
    ),
    Benchmark("report_million", "CPU and peak memory of a report over a million calls"),
    Benchmark("ray_engine", "a list judged by actors of a local Ray, beside one process and two"),
    Benchmark("shared_packs", "calls, tokens and dollars when 1, 2, 4 or 8 questions share a call"),
    Benchmark("peers", "three peers at the same faulty server", only_by_name=True),
    Benchmark("lexical_docstrings", "the lexical judge on docstring questions"),
    Benchmark("lexical_nonsense", "the lexical judge on nonsense", lambda _: [str(CHECKOUT)]),
    Benchmark("lexical_commits", "the lexical judge on commit messages", of_commits, (CASES,)),
    Benchmark("vectors", "search among 1,000 to 100,000 vectors by numpy and FAISS, and near duplicates"),
    Benchmark("boosts_replay", "boosts replayed on recorded judgments", of_boosts, (CASES, JUDGMENTS)),
    Benchmark("redaction_false_positives", "what redaction takes out of Django and sympy", of_redaction),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run; none: all")
    parser.add_argument("--list", action="store_true", help="name them and run none")
    options = parser.parse_args()
    known = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    if options.list:
        print("\n".join(f"{benchmark.name:28}{benchmark.asks}" for benchmark in BENCHMARKS))
        return 0
    every = [name for name, benchmark in known.items() if not benchmark.only_by_name]
    verdicts = {name: run(known[name]) for name in options.names or every}
    print("== verdict")
    for name, verdict in verdicts.items():
        print(f"{name:28}{verdict}")
    return 1 if any(verdict.startswith("failed") for verdict in verdicts.values()) else 0


def run(benchmark: Benchmark) -> str:
    """Run one benchmark in a process of its own, its output as it comes; return its verdict."""
    print(f"== {benchmark.name}: {benchmark.asks}", flush=True)
    missing = [name for name in benchmark.needs if not os.environ.get(name)]
    if missing:
        verdict = f"skipped: {' and '.join(missing)} not set"
        print(verdict + "\n")
        return verdict
    started = time.perf_counter()
    command = [sys.executable, str(FOLDER / f"{benchmark.name}.py"), *benchmark.arguments(os.environ)]
    code = subprocess.run(command, cwd=CHECKOUT, check=False).returncode
    print(flush=True)
    took = f"{time.perf_counter() - started:.0f} s"
    return f"passed in {took}" if code == 0 else f"failed in {took}, exit {code}"


if __name__ == "__main__":
    raise SystemExit(main())
