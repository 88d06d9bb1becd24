"""`xscore hook prompt` over 10,000 memories: with nothing to judge, and after one edit, against
`import click`.

    python benchmarks/hook.py [--runs 7] [--memories 0] [--latency-ms 150] [--keyless]

The host is the project's loopback host of decision models, in a process of its own. The repository
is the sources of installed packages (or, with --memories, made up), judged once for the prompt.
Then every hook is a process of its own with a session of its own, so that each adds the bundle: CPU
seconds, and wall seconds to the first byte of the answer, interleaved with the anchor, as medians.
The target is one of CPU, which a busy machine changes least. The deadline is out of the way, so
that each run is whole. Edits are not committed, so git is asked for a diff each time but the first.
--keyless: words judge, and nothing is sent. Exits 1 where a target is missed.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from cached_turn import TASK, build
from decisions import write_tree
from measuring import CHECKOUT, XSCORE, decision_host, take

MOST_CPU_S, MOST_CLICKS, MOST_EDITED_S = 0.35, 5.0, 1.0
HOOK = [*XSCORE, "hook", "prompt"]
CLICK = [sys.executable, "-c", "import click; print(click.Command)"]


class HookAnswer(NamedTuple):
    """What one process took."""

    cpu_s: float
    first_byte_s: float
    answer: bytes


def answered(
    command: list[str], environment: dict[str, str], event: dict[str, object] | None = None
) -> HookAnswer:
    """Run a process; its time counts from its start."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd="/", env=environment, **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(event).encode() if event else b"")
        process.stdin.close()
        first = process.stdout.read(1)
        first_byte_s = time.monotonic() - began
        answer = first + process.stdout.read()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return HookAnswer(
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        first_byte_s,
        answer,
    )


def measure(root: Path, environment: dict[str, str], runs: int) -> tuple[list[HookAnswer], ...]:
    """Return the anchors, the hooks with nothing to judge, and the hooks after an edit."""
    anchors, warm, edited = list[HookAnswer](), list[HookAnswer](), list[HookAnswer]()
    files = sorted(path for path in root.rglob("*.py") if "    return " in path.read_text())
    for number in range(-1, runs):
        event = {"cwd": str(root), "hook_event_name": "UserPromptSubmit", "prompt": TASK}
        anchors.append(answered(CLICK, environment))
        warm.append(answered(HOOK, environment, {**event, "session_id": f"warm-{number}"}))
        path = files[number]
        path.write_text(
            path.read_text().replace("    return ", f"    changed = {number}\n    return ", 1)
        )
        edited.append(answered(HOOK, environment, {**event, "session_id": f"edited-{number}"}))
    return anchors[1:], warm[1:], edited[1:]  # the first of each warms the caches of the disk


def main() -> int:
    """Print the figures; return 1 where a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument(
        "--memories", type=int, default=0, help="make up this many; 0: the packages' sources"
    )
    parser.add_argument("--latency-ms", type=float, default=150)
    parser.add_argument("--keyless", action="store_true", help="words judge: no host, no key")
    options = parser.parse_args()
    words, latency_s = {"prompt": 93, "order_1_": 93}, options.latency_ms / 1_000
    with (
        tempfile.TemporaryDirectory() as folder,
        decision_host(words, latency_s=latency_s) as host,
    ):
        root = Path(folder, "tree")
        root.mkdir()
        if options.memories:
            write_tree(root, options.memories)
            subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        else:
            build(root)
        environment = {
            **os.environ,
            "HOME": folder,
            "PYTHONDONTWRITEBYTECODE": "",  # an installed package has its bytecode
            "PYTHONPATH": str(CHECKOUT),
            "XSCORE_JUDGE_MODEL": "lexical" if options.keyless else "typesafe:jev-1.14.0",
            "TYPESAFE_API_KEY": "k",
            "XSCORE_AGENTS_HOOK_DEADLINE_S": "30",
            "TYPESAFE_BASE_URL": host.url,
        }
        cold = take([*XSCORE, "context", TASK, "--json", "--yes", "--quiet"], root, environment)
        coverage = json.loads(cold.out)["coverage"]
        anchors, warm, edited = measure(root, environment, options.runs)
    return report(coverage, anchors, warm, edited)


def report(
    coverage: dict[str, int],
    anchors: list[HookAnswer],
    warm: list[HookAnswer],
    edited: list[HookAnswer],
) -> int:
    """Print the figures; return 1 where a target is missed."""
    silent = sum(not answer.answer for answer in (*warm, *edited))
    click_s, warm_s, edited_s = (
        statistics.median(t.first_byte_s for t in answer) for answer in (anchors, warm, edited)
    )
    click_cpu_s = statistics.median(answer.cpu_s for answer in anchors)
    cpu_s = statistics.median(answer.cpu_s for answer in warm)
    print(
        f"candidates {coverage['candidates']:,}, judged before {coverage['judged']:,}; {len(warm)}"
        " runs each"
    )
    print(f"import click   {click_s:.3f} s to the first byte, {click_cpu_s:.3f} s CPU")
    clicks = cpu_s / click_cpu_s
    print(f"hook, warm     {warm_s:.3f} s to the first byte, bytes {len(warm[0].answer):,}")
    print(
        f"               {cpu_s:.3f} s CPU (at most {MOST_CPU_S}),"
        f" {clicks:.1f} times click (at most {MOST_CLICKS:.0f})"
    )
    cpus = [f"{answer.cpu_s:.2f}" for answer in edited]
    print(
        f"hook, one edit {edited_s:.3f} s (at most {MOST_EDITED_S:.0f}); CPU {', '.join(cpus)}"
    )
    print(f"hooks that added nothing: {silent}")
    return int(
        bool(silent) or cpu_s > MOST_CPU_S or clicks > MOST_CLICKS or edited_s > MOST_EDITED_S
    )


if __name__ == "__main__":
    raise SystemExit(main())
