"""What the first question of a cold clone takes where the team's server has every judgment.

    python benchmarks/cold_clone.py [--memories 5000] [--questions 20] [--server postgres]
        [--profile FILE]

One machine judges every question; then another one, with a clone, an index and a home of its own,
asks one of them. The server is a real one on loopback, the judge a loopback decision host. Seconds
are those of the whole command, start-up included. Ends with 1 where anything was judged again, or
where the best of the runs takes longer than the target.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from decisions import write_tree
from measuring import XSCORE, ProcessCost, commit_tree, take

from tests.extensions.shared.server_processes import KINDS
from tests.servers.decision_server import DecisionServer

TARGET_S = 1.5
PROFILED = """
import cProfile, sys, time
from xscore.__main__ import run
file = sys.argv.pop(1)
profile = cProfile.Profile(time.process_time)
try:
    profile.runcall(run)
finally:
    profile.dump_stats(file)
"""
"""Runs the command with a profile of CPU time."""


def question(number: int) -> str:
    """Return one of the questions."""
    return f"Where is rate number {number} rounded?"


def ask(
    root: Path, environment: dict[str, str], task: str, command: Sequence[str] = XSCORE
) -> ProcessCost:
    """Ask without an answer."""
    return take([*command, "ask", task, "--no-answer", "--json", "--quiet"], root, environment)


def servers_environment(*, host: str, server: str) -> dict[str, str]:
    """Return the environment of a command that asks this judge and shares through this server."""
    return os.environ | {
        "SYSTEMONE_BASE_URL": host,
        "XSCORE_JUDGE_MODEL": "systemone:jev-1.14.0",
        "XSCORE_JUDGE_PROBE": "0",
        "XSCORE_JUDGE_REASON_MODEL": "none",
        "XSCORE_MEMORY_OBSERVE": "false",
        "XSCORE_SHARED_URL": server,
        "XSCORE_SHARED_TIMEOUT_S": "30",
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--memories", type=int, default=5_000)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--server", choices=sorted(KINDS), default="postgres")
    parser.add_argument("--profile", default="")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "server").mkdir()
        server = KINDS[options.server](folder / "server")
        stack.callback(server.kill)
        host = stack.enter_context(DecisionServer(score=lambda _memory, _turn: 4))
        settings = servers_environment(host=host.url, server=server.url)
        warm, cold = folder / "warm" / "code", folder / "cold" / "code"
        write_tree(warm, options.memories)
        commit_tree(warm)
        shutil.copytree(warm, cold)
        at_home = settings | {"HOME": str(warm.parent)}
        for number in range(options.questions):
            ask(warm, at_home, question(number))
        judged = host.questions
        print(f"{judged} judgments on {options.server}")
        elsewhere = settings | {"HOME": str(cold.parent)}
        take([*XSCORE, "index", "--quiet"], cold, elsewhere)
        command = XSCORE
        if options.profile:
            command = (sys.executable, "-c", PROFILED, options.profile)
        runs = [
            ask(cold, elsewhere, question(number), command)
            for number in range(min(options.runs, options.questions))
        ]
        coverage = [json.loads(run.out)["coverage"] for run in runs]
        paid_again = host.questions - judged
        best = min(run.wall_s for run in runs)
        for run, account in zip(runs, coverage, strict=True):
            print(
                f"{account['candidates']} candidates, {account['judged']} judged:"
                f" {run.wall_s:.2f} s, {run.cpu_s:.2f} s of CPU"
            )
        print(f"target: 0 judged, {TARGET_S} s; judged {paid_again}, best {best:.2f} s")
    return int(paid_again > 0 or best > TARGET_S)


if __name__ == "__main__":
    sys.exit(main())
