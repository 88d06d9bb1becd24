"""From cold: how many latencies pass until calls are sent at the steady rate?

    python benchmarks/ramp.py [--latency-s 2.0]

A turn's judging at one prompt a memory, with a ceiling of 64 and of 256 calls in flight, from the first call on; the
SDK has been imported before. The sends are counted in windows of one latency. The steady rate is the median of the
windows after the sixth; the ideal, ceiling / latency, is told beside it. Ends with 1 where none of the first 5 windows
reaches 90 % of the steady rate, or the steady rate is below 85 % of the ideal.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from judging_load import TASK, Bench, bare_calls, open_store, server, settings_for, write_tree

from xscore.providers.provider import OnText, Provider
from xscore.records import Completion, Request, Turn

CEILINGS = (64, 256)
WITHIN, LEAST = 5, 0.90
STEADY_SHARE = 0.85
WINDOWS = 10
TAIL = 6
"""Windows after this one are the steady ones."""


class Stamped:
    """A provider that notes when each call was sent."""

    def __init__(self, provider: Provider) -> None:
        self.name, self.host = provider.name, provider.host
        self.sent_at: list[float] = []
        self._provider = provider

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Note the time and pass the call on."""
        self.sent_at.append(time.perf_counter())
        return await self._provider.complete(request, on_text)

    async def aclose(self) -> None:
        """Close the provider within."""
        await self._provider.aclose()


async def sends(bench: Bench, number: int) -> list[float]:
    """Judge everything; return when each call was sent, in seconds after the first."""
    stamped: list[Stamped] = []

    def within(provider: Provider) -> Provider:
        stamped.append(Stamped(provider))
        return stamped[-1]

    turn = Turn(task=f"{TASK} {number}", id=f"t_ramp_{number}")
    async with bench.resources(turn.id, within) as (resources, wrapped):
        await bench.judge(resources, wrapped, turn, bench.candidates)
    times = stamped[0].sent_at
    return [at - times[0] for at in times]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-s", type=float, default=2.0)
    latency_s = parser.parse_args().latency_s
    reached = [measure(ceiling, latency_s) for ceiling in CEILINGS]
    print(f"load {os.getloadavg()[0]:.1f}")
    return 0 if all(reached) else 1


def measure(ceiling: int, latency_s: float) -> bool:
    """Print the windows of one ceiling; say whether the target was reached."""
    with tempfile.TemporaryDirectory() as folder, server(latency_s) as url:
        home, tree = Path(folder, "home"), Path(folder, "tree")
        write_tree(tree, ceiling * (WINDOWS - 1))
        settings = settings_for("openai", url, home, pack_size=1, concurrency=ceiling)
        with open_store(tree, settings) as store:
            bench = Bench.of(store, settings)
            body = bench.body(bench.requests(Turn(task=TASK, id="t_plan"))[0])
            asyncio.run(bare_calls("openai", url, [body], in_flight=1))
            at = asyncio.run(sends(bench, ceiling))
    counts = [sum(n * latency_s <= one < (n + 1) * latency_s for one in at) for n in range(WINDOWS)]
    steady = statistics.median(counts[TAIL : int(at[-1] / latency_s)])
    first = next((n + 1 for n, count in enumerate(counts) if count >= LEAST * steady), WINDOWS)
    print(
        f"ceiling {ceiling:3}: sent a latency {' '.join(map(str, counts))}; steady {steady:.0f},"
        f" {steady / ceiling:.0%} of the ideal (at least {STEADY_SHARE:.0%});"
        f" {LEAST:.0%} of it first in latency {first} (at most {WITHIN})",
        flush=True,
    )
    return first <= WITHIN and steady >= STEADY_SHARE * ceiling


if __name__ == "__main__":
    raise SystemExit(main())
