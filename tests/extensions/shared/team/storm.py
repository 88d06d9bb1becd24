"""A storm over a team: members who state and ask, kills of members and of servers, a network that
is cut or slow, for so many seconds.

`python -m tests.extensions.shared.team.storm --members 50 --repositories 20 --seconds 600` runs it
by itself and prints the figures; with `--hot redis` judgments and claims are on Redis, which is
also replaced by an empty one. The first third is calm, then come the faults, and the end is calm
again: what was stated must be on the server once, and once in every store of its repository.
"""

import argparse
import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from msgspec import Struct

from tests.extensions.shared.server_processes import KINDS, ServerProcess, run_redis
from tests.extensions.shared.team.storm_members import (
    StormPlan,
    join,
    settings_of,
)
from tests.extensions.shared.team.storm_network import StormNetwork
from tests.extensions.shared.team.storm_payments import (
    StormFaults,
    StormJudge,
    is_alone,
    paid_twice,
    paid_twice_with_server,
)
from xscore.extensions.shared.team.address import team_address
from xscore.extensions.shared.team.setup import apply_setup
from xscore.extensions.shared.team.sync import synchronise
from xscore.platform.paths import find_root
from xscore.store.store import Store

KEY = bytes(range(1, 33)).hex()
PROCESSES = 4
"""Number of members' processes: two cores have no use for more."""
REPLACED = "replaced"


class StormFigures(Struct, frozen=True, kw_only=True):
    """What came of it."""

    stated: int
    turns: int
    faults: dict[str, int]
    lost: tuple[str, ...]
    """Stated, and not on the server or in a store."""
    doubled: tuple[str, ...]
    judged: int
    """Pairs of turn and content that were paid for."""
    judged_twice_in_calm: int
    """Pairs that were paid for again before the first fault, by turns that had the server."""
    paid_twice: dict[str, int]
    """Payments for a pair that had been paid for before, by cause."""
    turns_alone: int
    """That went on without the server of judgments, if only for a while."""
    median_s: float
    p95_s: float
    longest_s: float
    late: int
    """Turns longer than their deadline and its second of grace."""
    failed: tuple[str, ...]


class Storm:
    """The team, its servers and the processes of its members."""

    def __init__(
        self,
        home: Path,
        *,
        members: int,
        repositories: int,
        hot: str = "postgres",
        seed: int = 1,
    ) -> None:
        """hot: the kind of server of judgments and claims."""
        self.home = home
        self.chance = random.Random(seed)
        (home / "postgres").mkdir()
        self.server: ServerProcess = KINDS["postgres"](home / "postgres")
        self.servers = {"postgres": self.server}
        self.logins = [f"member_{number}" for number in range(members)]
        self.repositories = [f"repository_{number}" for number in range(repositories)]
        address = team_address(self.server.url, timeout_s=60, setting="shared.admin_url")
        apply_setup(address, "acme", self.logins, with_judgments=True)
        self.networks = {"postgres": StormNetwork(_port(self.server.url))}
        relayed = _through(self.networks["postgres"], self.server.url)
        self.urls = {login: relayed.replace("tester@", f"{login}@") for login in self.logins}
        self.hot_urls = self.urls
        if hot == "redis":
            (home / "redis").mkdir()
            self.servers["redis"] = run_redis(home / "redis")
            self.networks["redis"] = StormNetwork(_port(self.servers["redis"].url))
            relayed = _through(self.networks["redis"], self.servers["redis"].url)
            self.hot_urls = dict.fromkeys(self.logins, relayed)
        self.judge = StormJudge(latency_s=0.01, keep_bodies=False)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.starts = 0
        self.faults: Counter[str] = Counter()
        self.hot = hot
        self.away: list[tuple[float, float]] = []
        """When the server of judgments was not to be had."""
        self.emptied_at: list[float] = []

    def start(self, place: int) -> None:
        """Start one process of members."""
        self.starts += 1
        plan = self.plan(self.logins[place::PROCESSES], seed=self.starts, place=place)
        file = self.home / f"plan_{self.starts}.json"
        file.write_bytes(msgspec.json.encode(plan))
        command = [
            sys.executable,
            "-m",
            "tests.extensions.shared.team.storm_members",
            str(file),
        ]
        with (self.home / f"errors_{place}").open("ab") as errors:
            self.processes[place] = subprocess.Popen(
                command, stderr=errors, start_new_session=True
            )

    def plan(self, logins: list[str], *, seed: int, place: int) -> StormPlan:
        """Return what these members do."""
        return StormPlan(
            logins=tuple(logins),
            repositories=tuple(self.repositories),
            home=str(self.home / "members"),
            urls=self.urls,
            hot_urls=self.hot_urls,
            judge_url=self.judge.url,
            key=KEY,
            seed=seed,
            log=str(self.home / f"log_{place}_{seed}.jsonl"),
        )

    def rage(self, seconds: float) -> None:
        """Kill members and servers, cut and slow down the network, for so long, and until each
        fault has come once; none comes again before all others have."""
        until = time.monotonic() + seconds
        waiting: list[tuple[str, str]] = []
        struck = 0
        while time.monotonic() < until or struck < len(self._all_faults()):
            struck += 1
            time.sleep(self.chance.uniform(0.3, 1.5))
            if not waiting:
                waiting = self._all_faults()
                self.chance.shuffle(waiting)
            fault, kind = waiting.pop()
            began = time.time()
            self._strike(fault, kind)
            if kind == self.hot:
                self.away.append((began, time.time()))
            self.faults[f"{fault} {kind}".strip()] += 1

    def _all_faults(self) -> list[tuple[str, str]]:
        faults = [("kill", "member")] * 2
        for kind in self.servers:
            faults += [("kill", kind), ("cut", kind), ("slow", kind)]
        if "redis" in self.servers:
            faults.append((REPLACED, "redis"))
        return faults

    def _strike(self, fault: str, kind: str) -> None:
        match fault, kind:
            case "kill", "member":
                place = self.chance.randrange(PROCESSES)
                self.processes[place].send_signal(signal.SIGKILL)
                self.processes[place].wait()
                self.start(place)
            case "kill", _:
                self.servers[kind].kill()
                time.sleep(self.chance.uniform(0.0, 2.0))
                self.servers[kind].start()
            case "cut", _:
                self.networks[kind].cut(self.chance.uniform(0.2, 2.0))
            case "slow", _:
                delay_s = self.chance.uniform(0.1, 3.0)
                self.networks[kind].slow_down(self.chance.uniform(0.5, 2.0), delay_s=delay_s)
            case _:
                # As a failover to a replica that had received nothing.
                self.servers[kind].kill()
                self.emptied_at.append(time.time())
                shutil.rmtree(self.home / kind / "appendonlydir")
                self.servers[kind].start()

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


def run_storm(
    home: Path, *, members: int, repositories: int, seconds: float, hot: str = "postgres"
) -> StormFigures:
    """Run a storm of so many seconds, and look what came of it."""
    storm = Storm(home, members=members, repositories=repositories, hot=hot)
    with ExitStack() as stack:
        for server in storm.servers.values():
            stack.callback(server.kill)
        stack.enter_context(storm.judge)
        stack.callback(storm.stop)
        for place in range(PROCESSES):
            storm.start(place)
        time.sleep(seconds / 3)
        calm_until = time.time()
        storm.rage(seconds / 3)
        time.sleep(seconds / 3)
        storm.stop()
        texts_of, problems = storm.settle()
        return _figures(storm, texts_of, problems, calm_until=calm_until)


def _figures(
    storm: Storm, texts_of: dict[str, set[str]], problems: list[str], *, calm_until: float
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
    deadline = settings_of(
        storm.plan(["member_0"], seed=0, place=0), "member_0"
    ).budget.deadline_s
    assert deadline is not None
    faults = StormFaults(away=tuple(storm.away), emptied_at=tuple(storm.emptied_at))
    return StormFigures(
        stated=len(stated),
        turns=len(turns),
        faults=dict(storm.faults),
        lost=tuple(lost),
        doubled=tuple(doubled),
        judged=judged,
        judged_twice_in_calm=paid_twice_with_server(
            storm.judge.payments, lines, until=calm_until
        ),
        paid_twice=dict(paid_twice(storm.judge.payments, lines, faults)),
        turns_alone=sum(map(is_alone, turns)),
        median_s=statistics.median(seconds),
        p95_s=seconds[int(len(seconds) * 0.95)],
        longest_s=seconds[-1],
        late=sum(took > deadline + 1 for took in seconds),
        failed=tuple(Counter(line["error"] for line in turns if "error" in line)),
    )


def _port(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def _through(network: StormNetwork, url: str) -> str:
    """Return the URL of a server as it is reached through a network."""
    return url.replace(f":{_port(url)}/", f":{network.port}/")


def main() -> None:
    """Run one as told, and print its figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--members", type=int, default=12)
    parser.add_argument("--repositories", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--hot", choices=sorted(KINDS), default="postgres")
    parser.add_argument("--home", type=Path)
    options = parser.parse_args()
    home = options.home or Path(tempfile.mkdtemp(prefix="storm-"))
    figures = run_storm(
        home,
        members=options.members,
        repositories=options.repositories,
        seconds=options.seconds,
        hot=options.hot,
    )
    print(json.dumps(msgspec.to_builtins(figures), indent=1))  # the output of a program


if __name__ == "__main__":
    main()
