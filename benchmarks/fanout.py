"""50,000 candidates in default packs: how near to the ideal rate, at what CPU, and in how much
memory?

    python benchmarks/fanout.py [--candidates 50000] [--latency-s 1.0] [--only-judging]

The judging is a turn's from the open store on (`judging_load`), a second a call, 64 in flight; the
controller is warm: a few hundred calls of another turn went through the same limits before. Ideal:
calls x latency / 64. CPU beyond the calls: that of the run less that of as many bare SDK calls with
the same bodies (median of three), divided by the candidates. Then the whole command, `xscore ask
--no-answer` over the same tree, in a fresh process at 8, 64 and 256 calls in flight, at a server
that answers in 50 ms so that all of them are. Ends with 1 below 85 % of the ideal, above 0.1 ms of
CPU a candidate beyond the calls, above 350 MB, or where the three peaks differ by more than a
tenth.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
from pathlib import Path

from judging_load import (
    TASK,
    Bench,
    Cost,
    bare_calls,
    open_store,
    server,
    settings_for,
    write_tree,
)
from measuring import XSCORE, take

from xscore.pipeline.judged_memories import pack_slots
from xscore.pipeline.pool import pool_among
from xscore.records.turn import Turn

IN_FLIGHT = 64
LEAST_SHARE, MOST_CPU_MS = 0.85, 0.1
WARM_CALLS = 256
CONCURRENCY = (8, 64, 256)
MOST_MB, FLAT = 350, 0.10


async def judged(bench: Bench) -> Cost:
    """Warm the controller on one task, then judge everything for another."""
    turn = Turn(task=TASK, id="t_fanout")
    async with bench.resources(turn.id) as (resources, wrapped):
        slots = pack_slots(bench.described, pool_among(bench.candidates, bench.candidates, {}))
        warm_packs = set(sorted({slot[0] for slot in slots.values()})[:WARM_CALLS])
        warming = [
            candidate for candidate in bench.candidates if slots[candidate.id][0] in warm_packs
        ]
        await bench.judge(
            resources, wrapped, Turn(task="a task to warm up with", id=turn.id), warming
        )
        return await bench.judge(resources, wrapped, turn, bench.candidates)


def whole_commands(tree: Path, home: Path, url: str) -> list[float]:
    """Ask over the indexed tree as a user would, at each number of calls in flight; return the
    peaks in megabytes."""
    variables = {
        "HOME": str(home),
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "none",
        "XSCORE_JUDGE_PROBE": "false",
    }
    variables["XSCORE_STORE_USER_DATA_DIR"] = str(home / "user")
    command = [*XSCORE, "ask", "--no-answer", "--quiet", "--json", "--judge", "openai:bench"]
    peaks = []
    for number in CONCURRENCY:
        task = f"which part is lost with {number} calls in flight?"
        took = take(
            [*command, task, "--concurrency", str(number)], tree, os.environ | variables
        )
        calls, peak = json.loads(took.out)["usage"]["judge"]["calls"], took.peak_mb
        peaks.append(peak)
        print(
            f"`ask`, {number} in flight: {took.wall_s:.1f} s, {took.cpu_s:.1f} s CPU, {calls:,}"
            f" calls, {peak:.0f} MB"
        )
    spread = max(peaks) / min(peaks) - 1
    print(f"at most {MOST_MB} MB; they differ by {spread:.1%} (at most {FLAT:.0%})", flush=True)
    return peaks


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--candidates", type=int, default=50_000)
    parser.add_argument("--latency-s", type=float, default=1.0)
    parser.add_argument("--only-judging", action="store_true")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        server(options.latency_s) as url,
        server(0.05) as quick,
    ):
        home, tree = Path(folder, "home"), Path(folder, "tree")
        write_tree(tree, options.candidates)
        settings = settings_for("openai", url, home, concurrency=IN_FLIGHT)
        with open_store(tree, settings) as store:
            bench = Bench.of(store, settings)
            bodies = [
                bench.body(request) for request in bench.requests(Turn(task=TASK, id="t_plan"))
            ]
            asyncio.run(bare_calls("openai", quick, bodies[:50], in_flight=IN_FLIGHT))
            bare = [
                asyncio.run(bare_calls("openai", quick, bodies, in_flight=IN_FLIGHT))
                for _ in range(2)
            ]
            cost = asyncio.run(judged(bench))
            bare.append(asyncio.run(bare_calls("openai", quick, bodies, in_flight=IN_FLIGHT)))
        share, beyond = verdict(
            cost, bare, candidates=len(bench.candidates), latency_s=options.latency_s
        )
        peaks = [0.0] if options.only_judging else whole_commands(tree, home, quick)
    print(f"load {os.getloadavg()[0]:.1f}")
    is_missed = share < LEAST_SHARE or beyond > MOST_CPU_MS
    return 1 if is_missed or max(peaks) > MOST_MB or max(peaks) > (1 + FLAT) * min(peaks) else 0


def verdict(
    cost: Cost, bare: list[Cost], *, candidates: int, latency_s: float
) -> tuple[float, float]:
    """Print the figures; return the share of the ideal and the CPU-milliseconds a candidate beyond
    the calls."""
    ideal_s = cost.calls * latency_s / IN_FLIGHT
    calls_s = (
        statistics.median(measured.cpu_s for measured in bare) * cost.calls / bare[0].calls
    )
    share, beyond = ideal_s / cost.wall_s, 1_000 * (cost.cpu_s - calls_s) / candidates
    print(
        f"{candidates:,} candidates, {cost.calls:,} calls: {cost.wall_s:.1f} s, {share:.1%} of the"
        f" ideal rate ({ideal_s:.1f} s; at least {LEAST_SHARE:.0%})"
    )
    print(
        f"CPU {cost.cpu_s:.2f} s, {calls_s:.2f} s of it the bare calls'; beyond them {beyond:.3f}"
        f" ms a candidate (at most {MOST_CPU_MS})",
        flush=True,
    )
    return share, beyond


if __name__ == "__main__":
    raise SystemExit(main())
