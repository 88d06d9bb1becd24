"""Peak memory of `xscore ask` over 50,000 candidates, at 8, 64 and 256 calls in flight.

    python benchmarks/fanout_memory.py [--candidates 50000]

The whole command in a fresh process each time: store, pool, priors, packs, judging, boosts, selection, receipt. The
index is made beforehand, by a run of its own. The server answers in 50 ms, so that all calls are in flight. Ends with 1
above 350 MB, or where the three differ by more than a tenth.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from judging_load import server, write_tree

MOST_MB, FLAT = 350, 0.10
CONCURRENCY = (8, 64, 256)
LATENCY_S = 0.05


def peak_mb(command: list[str], cwd: Path, environment: dict[str, str]) -> float:
    """Run a command and return the largest resident size of its own process, in megabytes."""
    with (cwd.parent / "out").open("wb") as out:
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit {process.returncode}: {(cwd.parent / 'out').read_text('utf-8')[-500:]}")
    return usage.ru_maxrss * 1_024 / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=50_000)
    options = parser.parse_args()
    peaks = []
    with tempfile.TemporaryDirectory() as folder, server(LATENCY_S) as url:
        home, tree = Path(folder, "home"), Path(folder, "tree")
        home.mkdir()
        write_tree(tree, options.candidates)
        own = {"HOME": str(home), "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none"}
        environment = {**os.environ, **own, "XSCORE_JUDGE_PROBE": "false"}
        xscore = [sys.executable, "-m", "xscore"]
        print(f"index: {peak_mb([*xscore, 'index'], tree, environment):.0f} MB", flush=True)
        for concurrency in CONCURRENCY:
            task = f"which part is lost with {concurrency} calls in flight?"
            command = [*xscore, "ask", task, "--no-answer", "--quiet", "--json", "--judge", "openai:bench"]
            started = time.perf_counter()
            peaks.append(peak_mb([*command, "--concurrency", str(concurrency)], tree, environment))
            wall = time.perf_counter() - started
            print(f"{concurrency:4} in flight: {peaks[-1]:.0f} MB, {wall:.0f} s (at most {MOST_MB} MB)", flush=True)
    spread = max(peaks) / min(peaks) - 1
    print(f"{options.candidates:,} candidates; they differ by {spread:.1%} (at most {FLAT:.0%})")
    return 1 if max(peaks) > MOST_MB or spread > FLAT else 0


if __name__ == "__main__":
    raise SystemExit(main())
