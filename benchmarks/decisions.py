"""A cold turn judged by a decision model at its vendor's stated limits: requests, tokens, dollars,
seconds, CPU.

    python benchmarks/decisions.py [--memories 8600] [--tokens-per-second 250000] [--rpm 1200]
    [--latency-ms 150]

The host is the project's loopback host of both wires in a process of its own, which keeps the
limits as vendors do. The repository is made up: memories of some 150 tokens. Printed with the
figures: the time that the limit alone takes, `estimate` of the same turn, dollars at the prices
of genai-prices, and what the same task asks after one function was edited. The seconds are
those of a process's first turn, imports included; CPU is that of a second cold turn, about
another task, beyond a cached one. Ends with 1 where a target is missed.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import NamedTuple

from measuring import Host, HostCounts, decision_host

from xscore.pipeline.build import Pipeline
from xscore.providers.prices import call_price
from xscore.records.calls import Usage
from xscore.records.estimates import Estimate
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import (
    BudgetSettings,
    DecisionSettings,
    HostAccess,
    JudgeSettings,
    Settings,
    StoreSettings,
)

TASK = "Why is an order with a voucher charged twice when the customer retries the payment?"
ANOTHER_TASK = "Where is the stock of a cart reserved before the report is mailed?"
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
MOST_USD = {
    "typesafe jev-1.14.0 api.typesafe.ai": "0.06",
    "openai-decisions gpt-6-luna api.openai.com": "0.14",
}


def write_tree(root: Path, memories: int) -> None:
    """Write functions of some 130 tokens each; with their fences, 150."""
    random = Random(8_600)
    for number in range(-(-memories // PER_FILE)):
        lines = []
        for at in range(PER_FILE):
            lines.append(
                f"def {random.choice(WORDS)}_{number}_{at}(value: int, rate: int) -> int:"
            )
            lines.append(f'    """Return the {" ".join(random.choices(WORDS, k=8))}."""')
            for step in range(8):
                lines.append(
                    f"    {random.choice(WORDS)}_{step} = value * {random.randrange(9)} + rate"
                )
            lines.append(f"    return {random.choice(WORDS)}_0 if False else value\n\n")
        path = root / f"shop_{number % 7}" / f"part_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines))


Figure = tuple[str, str, bool]
"""A name, what was measured, and whether it meets its target."""


class ColdTurn(NamedTuple):
    """A cold turn, its estimate, and the same task after one edit."""

    estimate: Estimate
    answer: Answer
    seconds: float
    cpu_s: float
    """Beyond that of a cached repeat."""
    counted: HostCounts
    after_edit: Answer


async def play(root: Path, settings: Settings, host: Host) -> ColdTurn:
    """Estimate and play a cold turn, then one about another task twice, edit one function and ask
    again."""
    turn, another = Turn(task=TASK), Turn(task=ANOTHER_TASK)
    async with Pipeline.open(root, settings) as pipeline:
        estimate = await pipeline.estimate(turn)
        began = time.monotonic()
        answer = await pipeline.ask(turn, answer=False)
        seconds = time.monotonic() - began
        counted = host.counted()
        cpu = []
        for _ in range(2):
            began = time.process_time()
            await pipeline.ask(another, answer=False)
            cpu.append(time.process_time() - began)
        edited = next(root.rglob("*.py"))
        edited.write_text(edited.read_text().replace("* ", "* 1 * ", 1))
        after_edit = await pipeline.ask(turn, answer=False)
    return ColdTurn(estimate, answer, seconds, cpu[0] - cpu[1], counted, after_edit)


def main() -> int:
    """Print the figures; return 1 where a target is missed."""
    options = _options()
    limits = {"tokens_per_second": options.tokens_per_second, "rpm": options.rpm}
    with (
        tempfile.TemporaryDirectory() as home,
        decision_host({}, latency_s=options.latency_ms / 1_000, **limits) as host,
    ):
        write_tree(Path(home, "repo"), options.memories)
        settings = Settings(
            judge=JudgeSettings(model="typesafe:jev-1.14.0", concurrency=64, probe=False),
            decisions=DecisionSettings(hosts={"typesafe": HostAccess(host.url)}),
            budget=BudgetSettings(max_usd=Decimal(1)),
            store=StoreSettings(user_data_dir=Path(home, "user")),
        )
        played = asyncio.run(play(Path(home, "repo"), settings, host))
    figures = [*figures_of(played, options.tokens_per_second), *prices_of(played)]
    for name, figure, is_met in figures:
        print(f"{name:38}{figure:>22}{'' if is_met else '   MISSED'}")
    return int(not all(is_met for *_, is_met in figures))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--memories", type=int, default=8_600)
    parser.add_argument("--tokens-per-second", type=float, default=250_000)
    parser.add_argument("--rpm", type=int, default=1_200)
    parser.add_argument("--latency-ms", type=float, default=150)
    return parser.parse_args()


def figures_of(played: ColdTurn, tokens_per_second: float) -> list[Figure]:
    """Return what the turn took, with the host's count and its limit."""
    requests, refused, tokens, questions = played.counted
    planned, coverage = played.estimate.judge, played.answer.coverage
    assert planned is not None
    edited = played.after_edit.coverage.judged
    estimate_miss = abs(planned.input_tokens / tokens - 1)
    least_s = tokens / tokens_per_second
    cpu_ms = 1_000 * played.cpu_s / max(1, coverage.judged)
    return [
        (
            "memories judged",
            f"{coverage.judged:,} of {coverage.candidates:,}",
            coverage.judged == questions,
        ),
        ("requests (refused)", f"{requests} ({refused})", requests <= MOST_REQUESTS),
        ("tokens, host's count", f"{tokens:,}", True),
        ("tokens, estimate", f"{planned.input_tokens:,}", estimate_miss <= MOST_MISS),
        (
            "seconds / limit's own",
            f"{played.seconds:.2f} / {least_s:.2f}",
            played.seconds <= MOST_TIME * least_s,
        ),
        ("CPU ms a candidate", f"{cpu_ms:.3f}", cpu_ms <= MOST_CPU_MS),
        ("asked after one edit", f"{edited}", edited == 1),
    ]


def prices_of(played: ColdTurn) -> list[Figure]:
    """Return what the same tokens cost at each host that has a target."""
    requests, _, tokens, _ = played.counted
    figures: list[Figure] = []
    for name, max_usd in MOST_USD.items():
        provider, model, at = name.split()
        cost = call_price(provider, model, at, Usage(input_tokens=tokens // max(1, requests)))
        total = None if cost is None else cost * requests
        is_met = total is not None and total <= Decimal(max_usd)
        figures.append((f"dollars, {provider}:{model}", f"{total:.4f}", is_met))
    return figures


if __name__ == "__main__":
    sys.exit(main())
