"""CPU and peak memory of `xscore.judge` over a list of short items, cold and again, and of a stream
of a million.

    python benchmarks/judge_list.py [--items 100000] [--stream 1000000] [--rounds 3]

The host is the project's loopback host of decision models, without latency, in a process of its
own. Each pass is a process of its own with a new store, or with the store of the pass before it.
CPU is that of the call, threads included, without imports and without making the items, the least
of the rounds; memory is the peak of the process. The anchor, in the same process, hashes each item,
writes it as JSON and reads it back. Ends with 1 where a target is missed.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from measuring import decision_host, take

QUESTION = "Which tickets speak of lost payments?"
MOST_COLD_US, MOST_AGAIN_US, MOST_MB = 100.0, 15.0, 300.0
FLAT = 1.25
"""The stream's peak against that of a tenth of it."""


def items(count: int) -> Iterator[str]:
    """Yield short texts, each another one."""
    for number in range(count):
        yield (
            f"ticket {number}: branch {number % 97} asks about invoice {number * 7 % 10_007}, which"
            " was paid twice"
        )


def one_pass(kind: str, count: int) -> None:
    """Judge once, and print what it took as JSON."""
    import xscore.extensions.lists.interface  # loaded before the clock starts
    from xscore.platform.hashing import content_hash

    began = time.process_time()
    for text in items(count):
        json.loads(json.dumps({"text": text, "name": content_hash("", "", text)}))
    anchor_s = time.process_time() - began
    texts = items(count) if kind == "stream" else list(items(count))
    began, wall = time.process_time(), time.perf_counter()
    if kind == "stream":
        stream = xscore.judge_stream(QUESTION, texts, store=os.environ["BENCH_STORE"])
        assert sum(row.score is not None for row in stream) == count
        receipt = stream.receipt
    else:
        judged = xscore.judge(QUESTION, texts, store=os.environ["BENCH_STORE"])
        receipt = judged.receipt
    cpu_s, wall_s = time.process_time() - began, time.perf_counter() - wall
    shown = {
        "cpu_s": cpu_s,
        "wall_s": wall_s,
        "anchor_s": anchor_s,
        "calls": receipt.spent.calls,
    }
    print(
        json.dumps(
            shown | {"judged": receipt.coverage.judged, "cached": receipt.coverage.cached}
        )
    )


def run_pass(kind: str, count: int, url: str, store: Path) -> dict[str, float]:
    """Run a pass in a process of its own; return its figures per item."""
    environment = os.environ | {
        "SYSTEMONE_BASE_URL": url,
        "XSCORE_JUDGE_MODEL": "systemone:jev-1.14.0",
        "XSCORE_JUDGE_PROBE": "false",
        "HOME": str(store.parent),
        "BENCH_STORE": str(store),
    }
    command = [sys.executable, __file__, "--pass", kind, "--items", str(count)]
    took = take(command, environment=environment)
    figures: dict[str, float] = json.loads(took.out)
    per_item = {
        name: 1e6 * figures.pop(f"{name}_s") / count for name in ("cpu", "anchor", "wall")
    }
    return figures | per_item | {"mb": took.peak_mb}


def shown(name: str, figures: dict[str, float]) -> str:
    """Return a line of figures."""
    ratio = figures["cpu"] / figures["anchor"]
    cpu = (
        f"{figures['cpu']:6.1f} µs CPU an item ({ratio:.1f} anchors of {figures['anchor']:.1f}),"
        f" {figures['wall']:.1f} µs"
    )
    return f"{name:12} {cpu} wall, {figures['mb']:.0f} MB, {figures['calls']:,.0f} calls"


def main() -> int:
    """Print the figures; return 1 where a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--stream", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pass", dest="kind", default="")
    options = parser.parse_args()
    if options.kind:
        one_pass(options.kind, options.items)
        return 0
    colds, agains, peaks = [], [], [0.0]
    print(f"load {os.getloadavg()[0]:.1f}")
    with decision_host({}) as host, tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            store = Path(folder, f"home{number}", "lists")
            store.parent.mkdir()
            colds.append(run_pass("cold", options.items, host.url, store))
            print(shown("cold", colds[-1]), flush=True)
            agains.append(run_pass("again", options.items, host.url, store))
            print(shown("again", agains[-1]), flush=True)
            assert agains[-1]["calls"] == 0
        for count in (options.stream // 10, options.stream) if options.stream else ():
            store = Path(folder, f"stream{count}", "lists")
            store.parent.mkdir()
            for name in ("stream", "stream again"):
                figures = run_pass("stream", count, host.url, store)
                print(shown(name, figures), f"over {count:,}", flush=True)
            peaks.append(figures["mb"])
    cold, warm = (
        min(figures_of_pass["cpu"] for figures_of_pass in passes) for passes in (colds, agains)
    )
    peak = max(figures_of_pass["mb"] for figures_of_pass in (*colds, *agains))
    print(
        f"cold {cold:.1f} µs (at most {MOST_COLD_US:.0f}), again {warm:.1f} µs (at most"
        f" {MOST_AGAIN_US:.0f}),"
    )
    print(
        f"{peak:.0f} MB (at most {MOST_MB:.0f}); stream {peaks[-1]:.0f} MB (at most {FLAT:g} times"
        " a tenth's)"
    )
    flat = len(peaks) < 3 or peaks[-1] <= FLAT * peaks[-2]
    return (
        0 if cold <= MOST_COLD_US and warm <= MOST_AGAIN_US and peak <= MOST_MB and flat else 1
    )


if __name__ == "__main__":
    raise SystemExit(main())
