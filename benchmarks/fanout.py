"""20,000 candidates in default packs, a second a call, 64 in flight: how near to the ideal, and at what CPU?

    python benchmarks/fanout.py [--candidates 20000] [--latency-s 1.0] [--only-judging]

The judging is a turn's from the open store on (`judging_load`); the controller is warm: a few hundred calls of another
turn went through the same limits before. Ideal: calls x latency / 64. CPU beyond the calls: that of the run less that
of as many bare SDK calls with the same bodies (median of three), divided by the candidates. Then the whole command
once, cold: `xscore ask --no-answer` over the same tree, index and selection included, without a target.
Ends with 1 below 85 % of the ideal or above 0.1 ms of CPU a candidate beyond the calls.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from judging_load import TASK, Bench, Cost, bare_calls, open_store, server, settings_for, write_tree

from xscore.pipeline.pool import pool_among
from xscore.records.turn import Turn

IN_FLIGHT = 64
LEAST_SHARE, MOST_CPU_MS = 0.85, 0.1
WARM_CALLS = 256


async def judged(bench: Bench) -> Cost:
    """Warm the controller on one task, then judge everything for another."""
    turn = Turn(task=TASK, id="t_fanout")
    async with bench.resources(turn.id) as (resources, wrapped):
        slots = bench.seat.slots(pool_among(bench.candidates, bench.candidates, {}))
        some = set(sorted({slot[0] for slot in slots.values()})[:WARM_CALLS])
        warming = [candidate for candidate in bench.candidates if slots[candidate.id][0] in some]
        await bench.judge(resources, wrapped, Turn(task="a task to warm up with", id=turn.id), warming)
        return await bench.judge(resources, wrapped, turn, bench.candidates)


def whole_command(tree: Path, home: Path, url: str, latency_s: float) -> None:
    """Run the command as a user would, and tell its wall time and CPU."""
    command = [sys.executable, "-m", "xscore", "ask", "why is the last part lost?", "--no-answer", "--quiet"]
    command += ["--judge", "openai:bench", "--concurrency", str(IN_FLIGHT), "--json"]
    own = {"HOME": str(home), "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none", "XSCORE_JUDGE_PROBE": "false"}
    own["XSCORE_STORE_USER_DATA_DIR"] = str(home / "user")
    before, started = os.times(), time.perf_counter()
    done = subprocess.run(command, cwd=tree, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - started, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    if done.returncode:
        print(f"whole command: exit {done.returncode}: {done.stderr[-300:]}")
        return
    said = json.loads(done.stdout)
    calls = said["usage"]["judge"]["calls"]
    print(f"whole command, cold: {wall:.1f} s wall, {cpu:.1f} s CPU, {calls:,} calls")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=20_000)
    parser.add_argument("--latency-s", type=float, default=1.0)
    parser.add_argument("--only-judging", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, server(options.latency_s) as url, server(0.0) as quick:
        home, tree = Path(folder, "home"), Path(folder, "tree")
        write_tree(tree, options.candidates)
        settings = settings_for("openai", url, home, concurrency=IN_FLIGHT)
        with open_store(tree, settings) as store:
            bench = Bench.of(store, settings)
            bodies = [bench.body(request) for request in bench.requests(Turn(task=TASK, id="t_plan"))]
            asyncio.run(bare_calls("openai", quick, bodies[:50], in_flight=IN_FLIGHT))
            bare = [asyncio.run(bare_calls("openai", quick, bodies, in_flight=IN_FLIGHT)) for _ in range(2)]
            cost = asyncio.run(judged(bench))
            bare.append(asyncio.run(bare_calls("openai", quick, bodies, in_flight=IN_FLIGHT)))
        share, beyond = verdict(cost, bare, candidates=len(bench.candidates), latency_s=options.latency_s)
        if not options.only_judging:
            whole_command(tree, home, url, options.latency_s)
    print(f"load {os.getloadavg()[0]:.1f}")
    return 1 if share < LEAST_SHARE or beyond > MOST_CPU_MS else 0


def verdict(cost: Cost, bare: list[Cost], *, candidates: int, latency_s: float) -> tuple[float, float]:
    """Print the figures; return the share of the ideal and the CPU-milliseconds a candidate beyond the calls."""
    ideal_s = cost.calls * latency_s / IN_FLIGHT
    calls_s = statistics.median(one.cpu_s for one in bare) * cost.calls / bare[0].calls
    share, beyond = ideal_s / cost.wall_s, 1_000 * (cost.cpu_s - calls_s) / candidates
    print(
        f"{candidates:,} candidates, {cost.calls:,} calls: {cost.wall_s:.1f} s, {share:.1%} of the ideal rate"
        f" ({ideal_s:.1f} s; at least {LEAST_SHARE:.0%})"
    )
    print(
        f"CPU {cost.cpu_s:.2f} s, {calls_s:.2f} s of it the bare calls'; beyond them {beyond:.3f} ms a candidate"
        f" (at most {MOST_CPU_MS})",
        flush=True,
    )
    return share, beyond


if __name__ == "__main__":
    raise SystemExit(main())
