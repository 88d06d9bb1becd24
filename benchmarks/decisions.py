"""A cold turn judged by a decision model at its vendor's stated limits: requests, tokens, dollars, seconds, CPU.

    python benchmarks/decisions.py [--memories 8600] [--tokens-per-second 250000] [--rpm 1200] [--latency-ms 150]

The host is the project's loopback host of both wires in a process of its own, which keeps the limits as vendors do.
The repository is made up: memories of some 150 tokens. Printed beside the figures: the time that the limit alone takes,
`estimate` of the same turn, and dollars at the prices of genai-prices. Ends with 1 where a target is missed.
"""

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.servers.decision_server import DecisionServer
from tests.servers.scoring import table
from xscore.pipeline.build import Pipeline
from xscore.providers.prices import call_price
from xscore.records.calls import Usage
from xscore.records.receipt import Answer
from xscore.records.reports import Estimate
from xscore.records.turn import Turn
from xscore.settings import BudgetSettings, DecisionSettings, HostAccess, JudgeSettings, Settings, StoreSettings

TASK = "Why is an order with a voucher charged twice when the customer retries the payment?"
WORDS = [
    "order",
    "voucher",
    "price",
    "retry",
    "customer",
    "ledger",
    "cart",
    "refund",
    "queue",
    "payment",
    "cache",
    "index",
    "stock",
    "mail",
    "report",
]
PER_FILE = 40
MOST_TIME, MOST_REQUESTS, MOST_MISS, MOST_CPU_MS = 1.25, 60, 0.05, 0.08
MOST_USD = {"typesafe jev-1.14.0 api.typesafe.ai": "0.06", "openai-decisions gpt-6-luna api.openai.com": "0.14"}


def write_tree(root: Path, memories: int) -> None:
    """Write functions of some 130 tokens each; with their fences, 150."""
    random = Random(8_600)
    for number in range(-(-memories // PER_FILE)):
        lines = []
        for at in range(PER_FILE):
            lines.append(f"def {random.choice(WORDS)}_{number}_{at}(value: int, rate: int) -> int:")
            lines.append(f'    """Return the {" ".join(random.choices(WORDS, k=8))}."""')
            for step in range(8):
                lines.append(f"    {random.choice(WORDS)}_{step} = value * {random.randrange(9)} + rate")
            lines.append(f"    return {random.choice(WORDS)}_0 if False else value\n\n")
        path = root / f"shop_{number % 7}" / f"part_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines))


def serve(pipe: Connection, options: argparse.Namespace) -> None:
    """Run the host until told to stop; then send what it counted."""
    host = DecisionServer(
        score=table({}, default=4),
        latency_s=options.latency_ms / 1_000,
        tokens_per_second=options.tokens_per_second,
        rpm=options.rpm,
    )
    host.keep_bodies = False
    with host as server:
        pipe.send(server.url)
        pipe.recv()
        pipe.send((server.requests, server.refused, server.tokens, server.questions))


async def play(root: Path, settings: Settings) -> tuple[Estimate, Answer, float, float]:
    """Estimate and play a cold turn; return both, its seconds, and its CPU seconds beyond a cached repeat's."""
    turn = Turn(task=TASK)
    async with Pipeline.open(root, settings) as pipeline:
        estimate = await pipeline.estimate(turn)
        cpu, began = time.process_time(), time.monotonic()
        answer = await pipeline.ask(turn, answer=False)
        cold_s, cold_cpu = time.monotonic() - began, time.process_time() - cpu
        cpu = time.process_time()
        await pipeline.ask(turn, answer=False)
        return estimate, answer, cold_s, cold_cpu - (time.process_time() - cpu)


def main() -> int:
    """Print the figures; return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=8_600)
    parser.add_argument("--tokens-per-second", type=float, default=250_000)
    parser.add_argument("--rpm", type=int, default=1_200)
    parser.add_argument("--latency-ms", type=float, default=150)
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    host = context.Process(target=serve, args=(theirs, options), daemon=True)
    host.start()
    with tempfile.TemporaryDirectory() as home:
        write_tree(Path(home, "repo"), options.memories)
        settings = Settings(
            judge=JudgeSettings(model="typesafe:jev-1.14.0", concurrency=64, probe=False),
            decisions=DecisionSettings(hosts={"typesafe": HostAccess(ours.recv())}),
            budget=BudgetSettings(max_usd=Decimal(1)),
            store=StoreSettings(user_data_dir=Path(home, "user")),
        )
        estimate, answer, seconds, cpu_s = asyncio.run(play(Path(home, "repo"), settings))
    ours.send(None)
    requests, refused, tokens, questions = ours.recv()
    least_s = tokens / options.tokens_per_second
    planned = estimate.judge
    assert planned is not None
    judged = answer.coverage.judged
    figures = [
        ("memories judged", f"{judged:,} of {answer.coverage.candidates:,}", judged == questions),
        ("requests (refused)", f"{requests} ({refused})", requests <= MOST_REQUESTS),
        ("tokens, host's count", f"{tokens:,}", True),
        ("tokens, estimate", f"{planned.input_tokens:,}", abs(planned.input_tokens / tokens - 1) <= MOST_MISS),
        ("seconds / limit's own", f"{seconds:.2f} / {least_s:.2f}", seconds <= MOST_TIME * least_s),
        ("CPU ms a candidate", f"{1_000 * cpu_s / max(1, judged):.3f}", 1_000 * cpu_s / max(1, judged) <= MOST_CPU_MS),
    ]
    for name, most in MOST_USD.items():
        provider, model, at = name.split()
        cost = call_price(provider, model, at, Usage(input_tokens=tokens // max(1, requests)))
        total = None if cost is None else cost * requests
        figures.append((f"dollars, {provider}:{model}", f"{total:.4f}", total is not None and total <= Decimal(most)))
    for name, figure, is_met in figures:
        print(f"{name:38}{figure:>22}{'' if is_met else '   MISSED'}")
    return int(not all(is_met for *_, is_met in figures))


if __name__ == "__main__":
    sys.exit(main())
