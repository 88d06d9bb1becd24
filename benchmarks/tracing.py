"""What a trace costs: a call's spans, the import, the way to a collector that is there, refuses, or is silent.

    python benchmarks/tracing.py [--calls 10000]

The calls are read back from a ledger of their own, made into spans and exported over loopback; the collector runs in a
thread of this process. Judging itself pays nothing, since all of this comes after it; so there is no target.
"""

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

from tests.servers.collector import Collector
from xscore.cache.group_commit import GroupCommit
from xscore.costs.ledger import Ledger, calls_of_turn
from xscore.extensions.telemetry.spans import OtlpTracer, spans_of
from xscore.extensions.telemetry.traced_turn import StageSpan, TracedTurn
from xscore.records import CallRecord, Stage, Usage
from xscore.store.opening import connect_store

TURN = "t_0123456789abcdef"
STAGES = ("index", "pool", "cache", "judge", "select", "primary")
FEW = 40
IMPORT = (
    "import time; a = time.process_time();"
    " from xscore.extensions.telemetry.spans import OtlpTracer; OtlpTracer().prepare();"
)


def call(number: int) -> CallRecord:
    usage = Usage(input_tokens=8_000, cached_input_tokens=6_000, output_tokens=250)
    return CallRecord(
        id=f"c{number:020}",
        turn_id=TURN,
        stage=Stage.JUDGE,
        provider="openai",
        host="api.openai.com",
        model="gpt-5-mini",
        started_at=1_790_000_000 + number / 100,
        duration_s=1.5,
        outcome="ok",
        candidates=25,
        usage=usage,
        cost_usd=Decimal("0.00115"),
        estimated=False,
    )


def turn_of(calls: tuple[CallRecord, ...]) -> TracedTurn:
    laps = tuple(StageSpan(stage, 1_790_000_000.0 + i, 1_790_000_001.0 + i) for i, stage in enumerate(STAGES))
    began, ended = laps[0].began, laps[-1].ended
    return TracedTurn(
        id=TURN, thread="s_0", command="ask", began=began, ended=ended, laps=laps, calls=calls, figures=None, error=""
    )


def send(endpoint: str, turn: TracedTurn) -> tuple[str, float, float]:
    """Return what was said, seconds of wall, seconds of CPU."""
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
    wall, cpu = time.perf_counter(), time.process_time()
    said = OtlpTracer().send(turn)
    return said or "taken", time.perf_counter() - wall, time.process_time() - cpu


async def fill(store: Path, count: int) -> None:
    """Enter so many calls through the ledger, as a turn does."""
    async with GroupCommit(store) as commits:
        ledger = Ledger(commits)
        for number in range(count):
            ledger.record(call(number))


def import_s() -> float:
    """CPU seconds that the SDK and its exporter take to import, in a process of their own."""
    command = [sys.executable, "-c", f"{IMPORT} print(time.process_time() - a)"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def made(count: int) -> tuple[tuple[CallRecord, ...], float, float]:
    """Return the calls, and the least CPU seconds of three that reading them and making their spans took."""
    read_s, made_s = [], []
    with tempfile.TemporaryDirectory() as folder, closing(connect_store(Path(folder, "store.db"))) as connection:
        asyncio.run(fill(Path(folder, "store.db"), count))
        OtlpTracer().prepare()
        for _ in range(3):
            began = time.process_time()
            calls = tuple(calls_of_turn(connection, TURN))
            read = time.process_time()
            spans = spans_of(turn_of(calls))
            read_s.append(read - began)
            made_s.append(time.process_time() - read)
            assert len(spans) == count + len(STAGES) + 1
    return calls, min(read_s), min(made_s)


def ways(calls: tuple[CallRecord, ...]) -> Iterator[str]:
    """Send them to a collector, a few of them to it, to nobody, and to one that is silent: a line each."""
    few = turn_of(calls[:FEW])
    with Collector() as collector:
        said, wall, cpu = send(collector.url, turn_of(calls))
        sent, size = len(collector.spans), sum(map(len, collector.bodies))
    yield f"to a collector: {said}, {sent:,} spans, {size / 1e6:.1f} MB, {wall:.2f} s wall, {cpu:.2f} s CPU"
    with Collector() as collector:
        said, wall, cpu = send(collector.url, few)
        sent = len(collector.spans)
    yield f"to a collector: {said}, {sent} spans, {wall * 1e3:.0f} ms wall, {cpu * 1e3:.0f} ms CPU"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        said, wall, _ = send(f"http://127.0.0.1:{free.getsockname()[1]}", few)
    yield f"to nobody: {said}, {wall * 1e3:.0f} ms wall"
    with Collector(silent=True) as collector:
        said, wall, _ = send(collector.url, few)
    yield f"to a silent one: {said}, {wall * 1e3:.0f} ms wall"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=10_000)
    count: int = parser.parse_args().calls
    print(f"import of the SDK and its exporter: {import_s():.2f} s of CPU, once a process")
    calls, read_s, made_s = made(count)
    read_us, made_us = read_s / count * 1e6, made_s / count * 1e6
    print(f"a call: {read_us:.1f} µs read from the ledger, {made_us:.1f} µs to an ended span; nothing while judging")
    for line in ways(calls):
        print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
