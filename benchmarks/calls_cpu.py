"""CPU of one judged memory at one prompt a memory, against bare SDK calls with the same bodies;
both vendors.

    python benchmarks/calls_cpu.py [--calls 1500] [--rounds 3]

Ours: the judging of a turn at `pack_size=1`, 64 calls in flight: prompts, claims, budget, ledger,
limits, retries, parsing, judgments committed. Stack: the same requests through
`Retrying(Limited(Metered(provider)))` alone. Anchors: the SDK's low-level `client.post` on its
aiohttp transport, and the SDK as its introduction shows it. Interleaved, medians of the ratios
within a round; the first round warms up and is not counted. Ends with 1 where ours takes more than
1.3 times the CPU of the bare calls or makes fewer than 2 times the calls a second of the default
client.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
from pathlib import Path

from judging_load import (
    TASK,
    Bench,
    Cost,
    all_of,
    bare_calls,
    default_calls,
    open_store,
    server,
    settings_for,
    write_tree,
)

from xscore.records.calls import Request
from xscore.records.turn import Turn

IN_FLIGHT = 64
MOST_CPU, LEAST_RATE = 1.3, 2.0


async def ours(bench: Bench, number: int) -> Cost:
    """Judge every memory for a task of its own, so that nothing is known."""
    turn = Turn(task=f"{TASK} ({number})", id=f"t_{number}")
    async with bench.resources(turn.id) as (resources, wrapped):
        return await bench.judge(resources, wrapped, turn, bench.candidates)


async def stack(bench: Bench, requests: list[Request], number: int) -> Cost:
    """Send the requests through the wrappers, with budget and ledger, and read the replies no
    further."""
    async with bench.resources(f"t_stack_{number}") as (_, wrapped):

        async def send(request: Request) -> None:
            assert (await wrapped.complete(request)).text

        return await all_of(send, requests, IN_FLIGHT)


def measure(vendor: str, url: str, home: Path, *, calls: int, rounds: int) -> bool:
    """Print the vendor's lines; say whether a target was missed."""
    tree = home / vendor
    write_tree(tree, calls)
    settings = settings_for(vendor, url, home, pack_size=1, concurrency=IN_FLIGHT)
    ratios: dict[str, list[float]] = {"cpu": [], "stack": [], "rate": [], "default cpu": []}
    millis: dict[str, list[float]] = {"bare": [], "stack": [], "ours": [], "default": []}
    with open_store(tree, settings) as store:
        bench = Bench.of(store, settings)
        turn = Turn(task=TASK, id="t_plan")
        requests = bench.requests(turn)
        bodies = [bench.body(request) for request in requests]
        for number in range(rounds + 1):
            bare = asyncio.run(bare_calls(vendor, url, bodies, in_flight=IN_FLIGHT))
            through = asyncio.run(stack(bench, requests, number))
            judged = asyncio.run(ours(bench, number))
            default = asyncio.run(default_calls(vendor, url, bodies, in_flight=IN_FLIGHT))
            assert judged.calls == len(bodies)
            if number == 0:
                continue
            for name, cost in (
                ("bare", bare),
                ("stack", through),
                ("ours", judged),
                ("default", default),
            ):
                millis[name].append(1_000 * cost.cpu_s / cost.calls)
            ratios["cpu"].append(judged.cpu_s / bare.cpu_s)
            ratios["stack"].append(through.cpu_s / bare.cpu_s)
            ratios["rate"].append(default.wall_s / judged.wall_s)
            ratios["default cpu"].append(default.cpu_s / judged.cpu_s)
    middle = {name: statistics.median(values) for name, values in (ratios | millis).items()}
    print(
        f"{vendor:10} CPU a call: bare {middle['bare']:.2f} ms, stack {middle['stack']:.2f}, ours"
        f" {middle['ours']:.2f}, default {middle['default']:.2f}"
    )
    cpu, rate = ratios["cpu"], ratios["rate"]
    print(
        f"{vendor:9} CPU {middle['cpu']:.2f} × the bare calls' ({min(cpu):.2f} to {max(cpu):.2f},"
        f" at most {MOST_CPU}); calls a second {middle['rate']:.2f} times the default's"
        f" ({min(rate):.2f} to {max(rate):.2f}, at least {LEAST_RATE})",
        flush=True,
    )
    return middle["cpu"] > MOST_CPU or middle["rate"] < LEAST_RATE


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=1_500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, server(0.0) as url:
        missed = [
            measure(vendor, url, Path(folder), calls=options.calls, rounds=options.rounds)
            for vendor in ("openai", "anthropic")
        ]
    print(f"load {os.getloadavg()[0]:.1f}")
    return 1 if any(missed) else 0


if __name__ == "__main__":
    raise SystemExit(main())
