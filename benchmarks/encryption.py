"""A fully cached turn over 10,000 memories on an encrypted store, against the same on a plain one.

    python benchmarks/encryption.py [--runs 9]

Prints CPU seconds (children counted) of both, interleaved, as medians, the seconds of the conversions, and the sizes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.cached_turn import TASK, TURN, build, cpu


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.json")
        script.write_text(
            json.dumps({"default": 0.03, "answer": "so", "rules": [{"entity": "*prompt*", "score": 0.9}]})
        )
        listing = str(Path(folder, "modules"))
        environment = {
            **os.environ,
            "HOME": str(Path(folder, "home")),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }
        turn = TURN.format(
            arguments=["ask", TASK, "--judge", f"scripted:{script}", "--model", f"scripted:{script}", "--json"],
            listing=listing,
        )
        roots = [Path(folder, name) for name in ("plain", "encrypted")]
        for root in roots:
            root.mkdir()
            build(root)
            cpu(turn, root, environment)
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "xscore", "store", "encrypt"], cwd=roots[1], env=environment, check=True)
        print(f"encrypt: {time.perf_counter() - began:.2f} s wall")
        runs: dict[str, list[float]] = {root.name: [] for root in roots}
        for _ in range(options.runs):
            for root in roots:
                runs[root.name].append(cpu(turn, root, environment))
        for root in roots:
            size = (root / ".xscore" / "memory.db").stat().st_size / 1e6
            taken = runs[root.name]
            print(f"{root.name}: {statistics.median(taken):.3f} CPU-s (least {min(taken):.3f}), {size:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
