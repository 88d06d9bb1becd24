"""What `xscore mcp` takes: its handshake, many calls by several clients at once on one store, and
its memory when idle.

    python benchmarks/mcp_load.py [--memories 1000] [--calls 50] [--clients 4]

Each client starts a server of its own, as agents do, and sends its share of the calls at once; the
judge is the project's loopback decision host. CPU of the handshake is that of the server's process
from its start to the answer of `tools/list`, children counted, the least of three. Memory is
resident: before the first call, and 2.5 s after the last one. The seconds are those of the judging,
50 questions times the memories: with 8,600 they are minutes, and prove nothing more. Ends with 1
where a target is missed: the CPU of the handshake, memory before the first call, errors.
"""

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from decisions import WORDS, write_tree

from tests.extensions.agents.conftest import processes_in
from tests.extensions.agents.mcp_client import started
from tests.servers.decision_server import DecisionServer

MOST_HANDSHAKE_S, MOST_IDLE_MB = 0.7, 90.0
PATIENCE_S = 120
PAGE, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6


def cpu_s(pid: int) -> float:
    """Return the CPU of a process and the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


class Client(threading.Thread):
    """One client with a server of its own: all its calls at once, then silence."""

    def __init__(self, root: Path, tasks: list[str]) -> None:
        super().__init__()
        self.root, self.tasks = root, tasks
        self.errors: list[str] = []
        self.seconds: list[float] = []
        self.before_mb = self.after_mb = 0.0

    def run(self) -> None:
        """Play."""
        with started(self.root) as (client, process):
            client.initialize()
            client.ask("tools/list")
            self.before_mb = resident_mb(process.pid)
            began = time.monotonic()
            waiting = {
                client.call({"task": task, "deadline_s": PATIENCE_S}) for task in self.tasks
            }
            while waiting and (answer := client.read(PATIENCE_S)) is not None:
                if answer.get("id") not in waiting:
                    continue  # a notification
                waiting.remove(answer["id"])
                self.seconds.append(time.monotonic() - began)
                coverage = (
                    answer.get("result", {})
                    .get("_meta", {})
                    .get("xscore", {})
                    .get("coverage", {})
                )
                if coverage.get("unjudged") != 0:
                    self.errors.append(str(answer)[:300])
            self.errors += [f"no answer within {PATIENCE_S} s" for _ in waiting]
            time.sleep(2.5)
            client.ask("tools/list")
            self.after_mb = resident_mb(process.pid)
            client.leave()
            if process.wait(PATIENCE_S) != 0:
                self.errors.append(f"exit code {process.returncode}")


def least_handshake_s(root: Path) -> float:
    """Return the CPU of a start, the handshake and `tools/list`."""
    cpu_times = []
    for _ in range(3):
        with started(root) as (client, process):
            client.initialize()
            client.ask("tools/list")
            cpu_times.append(cpu_s(process.pid))
    return min(cpu_times)


@contextmanager
def judged_by(host: DecisionServer, home: Path) -> Iterator[None]:
    """Name the host as the judge's of every process started within."""
    os.environ |= {
        "SYSTEMONE_BASE_URL": host.url,
        "XSCORE_JUDGE_MODEL": "systemone:jev-1.14.0",
        "HOME": str(home),
    }
    os.environ |= {"XSCORE_JUDGE_PROBE": "0", "XSCORE_JUDGE_REASON_MODEL": "none"}
    yield


class Load(NamedTuple):
    """What all clients together had."""

    handshake_s: float
    clients: list[Client]
    took_s: float
    requests: int
    remaining: list[str]


def run_clients(options: argparse.Namespace) -> Load:
    """Let all clients ask at once, each at a server of its own over one repository."""
    tasks = []
    for number in range(options.calls):
        first, second = WORDS[number % len(WORDS)], WORDS[number * 7 % len(WORDS)]
        tasks.append(f"Where is the {first} of a {second} {number}?")
    with tempfile.TemporaryDirectory() as folder, DecisionServer(latency_s=0.15) as host:
        root = Path(folder).resolve() / "repo"
        root.mkdir()
        write_tree(root, options.memories)
        host.keep_bodies = False
        with judged_by(host, Path(folder)):
            handshake_s = least_handshake_s(root)
            clients = [
                Client(root, tasks[n :: options.clients]) for n in range(options.clients)
            ]
            began = time.monotonic()
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            took_s = time.monotonic() - began
            return Load(handshake_s, clients, took_s, host.requests, processes_in(root))


def main() -> int:
    """Run it, print the figures, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--memories", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--clients", type=int, default=4)
    load = run_clients(parser.parse_args())
    clients = load.clients
    errors = [error for client in clients for error in client.errors]
    seconds = [call_s for client in clients for call_s in client.seconds]
    before_mb = max(client.before_mb for client in clients)
    after_mb = max(client.after_mb for client in clients)
    print(
        f"handshake and tools/list: {load.handshake_s:.2f} s of CPU (at most {MOST_HANDSHAKE_S})"
    )
    print(
        f"{len(seconds)} calls by {len(clients)} clients in {load.took_s:.1f} s, {load.requests}"
        " requests to the host"
    )
    print(f"errors: {len(errors)}")
    print(
        f"seconds to an answer, all sent at once: median {statistics.median(seconds):.1f}, last"
        f" {max(seconds):.1f}"
    )
    print(f"resident, before: {before_mb:.0f} MB")
    print(f"resident, after: {after_mb:.0f} MB")
    print(f"processes left: {len(load.remaining)}")
    for error in errors[:5]:
        print(f"  {error}")
    is_slow_or_large = load.handshake_s > MOST_HANDSHAKE_S or before_mb > MOST_IDLE_MB
    return int(bool(errors or load.remaining) or is_slow_or_large)


if __name__ == "__main__":
    sys.exit(main())
