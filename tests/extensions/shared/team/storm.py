"""A storm over a team: members who state and ask, kills of members and of the server, and a network
that is cut, for so many seconds.

`python -m tests.extensions.shared.team.storm --members 50 --repositories 20 --seconds 600` runs it
by itself and prints the figures. The first third is calm, then come the faults, and the end is calm
again: what was stated must be on the server once, and once in every store of its repository.
"""

import argparse
import json
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec
import psycopg
from msgspec import Struct

from tests.extensions.shared.server_processes import KINDS, ServerProcess
from tests.extensions.shared.team.storm_members import (
    TASKS,
    StormPlan,
    join,
    settings_of,
)
from tests.servers.openai_server import OpenAIServer
from xscore.extensions.shared.team.address import team_address
from xscore.extensions.shared.team.setup import apply_setup
from xscore.extensions.shared.team.sync import synchronise
from xscore.platform.paths import find_root
from xscore.store.store import Store

KEY = bytes(range(1, 33)).hex()
PROCESSES = 4
"""Of members: two cores have no use for more."""
BLOCK = 65_536


class StormFigures(Struct, frozen=True, kw_only=True):
    """What came of it."""

    stated: int
    turns: int
    killed_members: int
    killed_servers: int
    cuts: int
    lost: tuple[str, ...]
    """Stated, and not on the server or in a store."""
    doubled: tuple[str, ...]
    judged: int
    """Pairs of turn and content that were paid for."""
    judged_twice_in_calm: int
    """Contents that were paid for more often than there are tasks, before the first fault."""
    paid_again: int
    """Pairs that were paid for and are not one row of the server: judged twice, or lost with a
    member that was killed while it had them."""
    median_s: float
    p95_s: float
    longest_s: float
    late: int
    """Turns longer than their deadline and its second of grace."""
    failed: tuple[str, ...]


class CutNetwork:
    """A relay before the server: what goes through it ends when the network is cut."""

    def __init__(self, port: int) -> None:
        self._far = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port: int = self._listener.getsockname()[1]
        self._is_cut = Event()
        self._open: set[socket.socket] = set()
        Thread(target=self._accept, daemon=True).start()

    def cut(self, seconds: float) -> None:
        """Break every connection, and answer none for so long."""
        self._is_cut.set()
        for one_end in list(self._open):
            with suppress(OSError):
                one_end.shutdown(socket.SHUT_RDWR)
        time.sleep(seconds)
        self._is_cut.clear()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                Thread(target=self._relay, args=(near,), daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        # A cut network says nothing: the connection hangs until it is mended.
        while self._is_cut.is_set():
            time.sleep(0.05)
        try:
            far = socket.create_connection(("127.0.0.1", self._far))
        except OSError:
            near.close()
            return
        self._open |= {near, far}
        back = Thread(target=self._pass_on, args=(far, near), daemon=True)
        back.start()
        self._pass_on(near, far)
        back.join()
        self._open -= {near, far}
        near.close()
        far.close()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while block := source.recv(BLOCK):
                target.sendall(block)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


class Storm:
    """The team, its servers and the processes of its members."""

    def __init__(self, home: Path, *, members: int, repositories: int, seed: int = 1) -> None:
        self.home = home
        self.chance = random.Random(seed)
        (home / "postgres").mkdir()
        self.server: ServerProcess = KINDS["postgres"](home / "postgres")
        self.logins = [f"member_{number}" for number in range(members)]
        self.repositories = [f"repository_{number}" for number in range(repositories)]
        address = team_address(self.server.url, timeout_s=60, setting="shared.admin_url")
        apply_setup(address, "acme", self.logins, with_judgments=True)
        port = int(self.server.url.rpartition(":")[2].partition("/")[0])
        self.network = CutNetwork(port)
        relayed = self.server.url.replace(f":{port}/", f":{self.network.port}/")
        self.urls = {login: relayed.replace("tester@", f"{login}@") for login in self.logins}
        self.judge = OpenAIServer(latency_s=0.01, keep_bodies=False)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.starts = 0
        self.killed_members = self.killed_servers = self.cuts = 0

    def start(self, place: int) -> None:
        """Start one process of members."""
        self.starts += 1
        plan = self.plan(self.logins[place::PROCESSES], seed=self.starts, place=place)
        file = self.home / f"plan_{self.starts}.json"
        file.write_bytes(msgspec.json.encode(plan))
        self.processes[place] = subprocess.Popen(
            [sys.executable, "-m", "tests.extensions.shared.team.storm_members", str(file)],
            stderr=(self.home / f"errors_{place}").open("ab"),
            start_new_session=True,
        )

    def plan(self, logins: list[str], *, seed: int, place: int) -> StormPlan:
        """Return what these members do."""
        return StormPlan(
            logins=tuple(logins),
            repositories=tuple(self.repositories),
            home=str(self.home / "members"),
            urls=self.urls,
            judge_url=self.judge.url,
            key=KEY,
            seed=seed,
            log=str(self.home / f"log_{place}_{seed}.jsonl"),
        )

    def rage(self, seconds: float) -> None:
        """Kill members and the server, and cut the network, for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(self.chance.uniform(0.5, 3.0))
            match self.chance.choice(("member", "member", "server", "network")):
                case "member":
                    place = self.chance.randrange(PROCESSES)
                    self.processes[place].send_signal(signal.SIGKILL)
                    self.processes[place].wait()
                    self.killed_members += 1
                    self.start(place)
                case "server":
                    self.server.kill()
                    self.killed_servers += 1
                    time.sleep(self.chance.uniform(0.0, 2.0))
                    self.server.start()
                case "network":
                    self.network.cut(self.chance.uniform(0.2, 3.0))
                    self.cuts += 1

    def stop(self) -> None:
        """Kill every process of members."""
        for process in self.processes.values():
            process.send_signal(signal.SIGKILL)
            process.wait()

    def lines(self) -> list[dict[str, Any]]:
        """Return what the members have noted."""
        noted: list[dict[str, Any]] = []
        for file in sorted(self.home.glob("log_*.jsonl")):
            for line in file.read_text().splitlines():
                # The last line of a killed process may be cut.
                with suppress(ValueError):
                    noted.append(json.loads(line))
        return noted

    def judged_twice(self) -> int:
        """Return how many judgments were paid for beyond one for each task."""
        task_count = len(TASKS)
        excess = 0
        for count in self.judge.counts.judgments.values():
            excess += max(0, count - task_count)
        return excess

    def settle(self) -> tuple[dict[str, set[str]], list[str]]:
        """Let every store exchange what it has; return what each repository has on the server, and
        what is wrong in a store."""
        clones = [
            (login, repository)
            for login in self.logins
            for repository in self.repositories
            if (self.home / "members" / login / repository).exists()
        ]
        texts_of: dict[str, set[str]] = {repository: set() for repository in self.repositories}
        problems: list[str] = []
        # All are sent before all are taken.
        for is_last in (False, True):
            for login, repository in clones:
                copies_of_text = self._exchange(login, repository)
                if not is_last:
                    texts_of[repository] |= copies_of_text.keys()
                    continue
                for text, count in copies_of_text.items():
                    if count > 1:
                        problems.append(f"{text}: {count} times with {login}")
                for text in texts_of[repository] - copies_of_text.keys():
                    problems.append(f"{text}: not with {login}")
        return texts_of, problems

    def _exchange(self, login: str, repository: str) -> Counter[str]:
        settings = settings_of(self.plan([login], seed=0, place=0), login)
        root = find_root(self.home / "members" / login / repository)
        with Store.open_with(root, settings, create=True) as store:
            join(store, login, repository)
            synchronise(store, settings.shared)
            rows = store.connection.execute("SELECT text FROM memory WHERE kind = 'decision'")
            return Counter(text for (text,) in rows.fetchall())

    def on_server(self, table: str) -> int:
        """Return how many rows of a table the server has."""
        with closing(psycopg.connect(self.server.url)) as admin:
            row = admin.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
        return int(row[0]) if row else 0


def run_storm(home: Path, *, members: int, repositories: int, seconds: float) -> StormFigures:
    """Run a storm of so many seconds, and look what came of it."""
    storm = Storm(home, members=members, repositories=repositories)
    with storm.judge:
        for place in range(PROCESSES):
            storm.start(place)
        time.sleep(seconds / 3)
        twice_in_calm = storm.judged_twice()
        storm.rage(seconds / 3)
        time.sleep(seconds / 3)
        storm.stop()
        texts_of, problems = storm.settle()
        figures = _figures(storm, texts_of, problems, twice_in_calm=twice_in_calm)
    storm.server.kill()
    return figures


def _figures(
    storm: Storm, texts_of: dict[str, set[str]], problems: list[str], *, twice_in_calm: int
) -> StormFigures:
    lines = storm.lines()
    stated = {line["stated"]: line["repository"] for line in lines if "stated" in line}
    lost = [text for text, repository in stated.items() if text not in texts_of[repository]]
    lost += [problem for problem in problems if "not with" in problem]
    doubled = [problem for problem in problems if "times" in problem]
    texts = set().union(*texts_of.values())
    on_server = storm.on_server("xscore_team.entry")
    if on_server != len(texts):
        doubled.append(f"{on_server} on the server, {len(texts)} known")
    judged = storm.judge.counts.judgments.total()
    turns = [line for line in lines if "took_s" in line]
    seconds = sorted(line["took_s"] for line in turns)
    deadline = settings_of(storm.plan(["member_0"], seed=0, place=0), "member_0").budget.deadline_s
    assert deadline is not None
    return StormFigures(
        stated=len(stated),
        turns=len(turns),
        killed_members=storm.killed_members,
        killed_servers=storm.killed_servers,
        cuts=storm.cuts,
        lost=tuple(lost),
        doubled=tuple(doubled),
        judged=judged,
        judged_twice_in_calm=twice_in_calm,
        paid_again=judged - storm.on_server("xscore.judgment"),
        median_s=statistics.median(seconds),
        p95_s=seconds[int(len(seconds) * 0.95)],
        longest_s=seconds[-1],
        late=sum(took > deadline + 1 for took in seconds),
        failed=tuple(Counter(line["error"] for line in turns if "error" in line)),
    )


def main() -> None:
    """Run one as told, and print its figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--members", type=int, default=12)
    parser.add_argument("--repositories", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--home", type=Path)
    options = parser.parse_args()
    home = options.home or Path(tempfile.mkdtemp(prefix="storm-"))
    figures = run_storm(
        home,
        members=options.members,
        repositories=options.repositories,
        seconds=options.seconds,
    )
    print(json.dumps(msgspec.to_builtins(figures), indent=1))  # the output of a program


if __name__ == "__main__":
    main()
