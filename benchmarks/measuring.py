"""What the benchmarks share: a process with what it took, a committed repository, and a decision
host on loopback.

Not a benchmark itself. Trade-off: CPU and memory are the system's own count of a process and the
children that it has waited for, so a daemon that it leaves behind is not in them.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT))  # for `tests.servers`
XSCORE = (sys.executable, "-m", "xscore")


class ProcessCost(NamedTuple):
    """What a process took, children counted, and what it printed."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    out: bytes


def take(
    command: Sequence[str],
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> ProcessCost:
    """Run a command to its end; a command that fails ends this program with its last words."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, err):
            file.seek(0)
        if process.returncode:
            raise SystemExit(
                f"{' '.join(command)[:300]}: exit {process.returncode}:"
                f" {err.read()[-2_000:].decode()}"
            )
        return ProcessCost(
            usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss * 1_024 / 1e6, out.read()
        )


def commit_tree(root: Path) -> None:
    """Make a committed repository of a folder."""
    identity = ("-c", "user.name=b", "-c", "user.email=b@example.invalid")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "sources")):
        subprocess.run(
            ["git", *identity, *command], cwd=root, check=True, stdout=subprocess.DEVNULL
        )


@contextmanager
def served(program: Path, *arguments: str) -> Iterator[str]:
    """Run a server in a process of its own, whose CPU is counted nowhere; yield the address that it
    prints."""
    command = [sys.executable, str(program), *arguments]
    serving = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert serving.stdout is not None
    try:
        yield serving.stdout.readline().strip()
    finally:
        serving.kill()
        serving.wait()


class HostCounts(NamedTuple):
    """What a decision host has counted so far."""

    requests: int
    refused: int
    tokens: int
    questions: int


class Host(NamedTuple):
    """A decision host in a process of its own."""

    url: str
    pipe: Connection

    def counted(self) -> HostCounts:
        """Ask what it has counted."""
        self.pipe.send(True)
        counts: HostCounts = self.pipe.recv()
        return counts


@contextmanager
def decision_host(scores: Mapping[str, int], **limits: Any) -> Iterator[Host]:
    """Run the tests' host of decision models in a process of its own, whose CPU is counted nowhere.

    scores: words of a memory -> its score; others get 4.
    limits: see `DecisionServer`.
    """
    ours, theirs = multiprocessing.Pipe()
    running = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(theirs, scores, limits), daemon=True
    )
    running.start()
    try:
        yield Host(ours.recv(), ours)
    finally:
        ours.send(False)
        running.join(10)


def _serve(pipe: Connection, scores: Mapping[str, int], limits: Mapping[str, Any]) -> None:
    from tests.servers.decision_server import DecisionServer
    from tests.servers.scoring import table

    host = DecisionServer(score=table(dict(scores), default=4), **limits)
    host.keep_bodies = False
    with host as server:
        pipe.send(server.url)
        while pipe.recv():
            pipe.send(
                HostCounts(server.requests, server.refused, server.tokens, server.questions)
            )
