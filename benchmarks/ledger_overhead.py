"""What the ledger costs a call: CPU of metering, adding up, queueing and writing its row, with and without pricing.

Run it: `python benchmarks/ledger_overhead.py [CALLS]` (default 20,000 a round). The same calls are made of a provider
that answers at once, bare and metered, in waves of 64 that each wait for a commit, as calls in flight do for that of
their judgments; the difference is the ledger's, both threads and the kernel counted. Pricing (the cost, and what the
call would have cost in three other ways) is timed alone and taken off. Rounds alternate and the least of each counts,
beside an anchor of this very run, a million additions in a plain loop: where that takes more than 30 ms the target
grows with it.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from xscore.cache.group_commit import GroupCommit
from xscore.costs.ledger import Ledger
from xscore.costs.usage_totals import UsageTotals
from xscore.providers import prices
from xscore.providers.attempts import Metered
from xscore.providers.provider import OnText, Provider
from xscore.records import Completion, Finish, Request, Stage, Usage

HOST, MODEL = "api.openai.com", "gpt-6-luna"
IN_FLIGHT = 64
ROUNDS = 5
MOST_US = 20.0
ANCHOR_MS = 30.0
REQUEST = Request(
    stage=Stage.JUDGE,
    model=MODEL,
    system="s" * 4_000,
    content=("c" * 60_000, "t" * 2_000),
    max_output_tokens=1_000,
    input_tokens=17_000,
    reserved_input_tokens=26_000,
    candidates=20,
    frame_tokens=1_500,
)
USAGE = Usage(input_tokens=17_203, cached_input_tokens=15_872, output_tokens=241)
COMPLETION = Completion(text="", finish=Finish.STOP, usage=USAGE, model=MODEL)


class AtOnce:
    """A provider that answers without doing anything."""

    name, host = "openai", HOST

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Answer."""
        return COMPLETION

    async def aclose(self) -> None:
        """Close nothing."""


async def calls_us(calls: int, *, metered: bool) -> float:
    """CPU a call in microseconds, of all threads."""
    with tempfile.TemporaryDirectory() as folder:
        async with GroupCommit(Path(folder) / "memory.db") as commits:
            tab = UsageTotals(Ledger(commits).record)
            provider: Provider = Metered(AtOnce(), turn_id="t_1", record=tab.add) if metered else AtOnce()
            start = time.process_time()
            for _ in range(calls // IN_FLIGHT):
                for _ in range(IN_FLIGHT):
                    await provider.complete(REQUEST)
                await commits.submit(lambda connection: None)
            spent = time.process_time() - start
        assert tab.spent(Stage.JUDGE).calls == calls * metered
    return spent * 1e6 / calls


def anchor_ms() -> float:
    start = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number
    return (time.process_time() - start) * 1000


def cpu_us(work: Callable[[], object], calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        work()
    return (time.process_time() - start) * 1e6 / calls


def one_price() -> object:
    return prices.call_price("openai", MODEL, HOST, USAGE)


def every_price() -> object:
    cost = prices.call_price("openai", MODEL, HOST, USAGE)
    return prices.counterfactual_cost("openai", HOST, REQUEST, USAGE, cost=cost)


def main() -> int:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    calls -= calls % IN_FLIGHT
    rounds: dict[str, list[float]] = {"bare": [], "whole": [], "one price": [], "pricing": [], "anchor": []}
    for _ in range(ROUNDS):
        rounds["anchor"].append(anchor_ms())
        rounds["bare"].append(asyncio.run(calls_us(calls, metered=False)))
        rounds["whole"].append(asyncio.run(calls_us(calls, metered=True)))
        rounds["one price"].append(cpu_us(one_price, calls))
        rounds["pricing"].append(cpu_us(every_price, calls))
    least = {name: min(each) for name, each in rounds.items()}
    whole = least["whole"] - least["bare"]
    apart = whole - least["pricing"]
    allowed = MOST_US * max(1.0, least["anchor"] / ANCHOR_MS)
    print(f"ledger with pricing   {whole:6.1f} µs CPU a call (bare call {least['bare']:.1f})")
    print(f"pricing               {least['pricing']:6.1f} µs: the cost and three others (one {least['one price']:.1f})")
    print(f"ledger, pricing apart {apart:6.1f} µs")
    print(f"anchor                {least['anchor']:6.1f} ms; allowed {allowed:.1f} µs")
    if apart > allowed:
        print(f"missed: {apart:.1f} µs of {allowed:.1f}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
