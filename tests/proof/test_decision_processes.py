"""`xscore` processes with a decision model: killed, under a deadline, replayed.

The engine is the one of chat prompts; what differs is that a request holds hundreds of questions,
so that is the most that each call in flight can cost again.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen
from zlib import crc32

import pytest

from tests.programs import begin, run
from tests.proof.conftest import package_tree
from tests.proof.test_kills import end, unpaid
from tests.servers.decision_server import DecisionServer
from tests.waiting import count_rows, slower_attempts, wait_until
from xscore.providers.scripted import ShownMemory

pytestmark = [pytest.mark.verify, pytest.mark.timeout(600)]

TASK = "Why does a prompt repeat its default twice?"
CONCURRENCY = 2
JUDGED_BY = ("--judge", "systemone:jev-1.14.0", "--concurrency", str(CONCURRENCY))
FLAGS = (*JUDGED_BY, "--no-answer", "--json")


class Host(DecisionServer):
    """A host that counts by content and records the size of its largest request.

    It scores far from the cut, so that nothing is drawn twice.
    """

    def __init__(self) -> None:
        super().__init__(score=self._scored)
        self.keep_bodies, self.largest = False, 0
        self.spoil = self._measured
        self.bills: Counter[tuple[str, str, str]] = Counter()
        """Path, name and text of a memory -> how often it was judged."""

    def _scored(self, memory: ShownMemory, _turn: str) -> int:
        self.bills[memory.path, memory.entity, memory.text] += 1
        return 95 if crc32(memory.text.encode()) % 50 == 0 else 4

    def _measured(self, reply: dict[str, object]) -> dict[str, object]:
        answers = reply["answers"]
        assert isinstance(answers, dict)
        self.largest = max(self.largest, len(answers))
        return reply

    @property
    def paid(self) -> int:
        """Return the number of answered, so billed, questions."""
        return self.bills.total()


@pytest.fixture
def host() -> Iterator[Host]:
    """A loopback host of decision models."""
    with Host() as running:
        yield running


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The source of three packages: about 3,100 memories, none in parts, in thirty requests."""
    root = tmp_path / "tree"
    root.mkdir()
    for name in ("rich", "jinja2", "click"):
        package_tree(name, root)
    return root


@pytest.fixture
def click(click_tree: Path, host: Host) -> Path:
    """The indexed source of click: about five requests."""
    done = run("estimate", TASK, *JUDGED_BY, "--json", cwd=click_tree, environ=environ(host))
    assert done.returncode == 0
    return click_tree


def environ(host: Host) -> dict[str, str]:
    """The variables of a user whose judge is at this host.

    Words are left out of the scores: joined, some would be so close to the threshold that they are
    judged, and paid, twice.
    """
    return {
        "SYSTEMONE_BASE_URL": host.url,
        "XSCORE_JUDGE_PROBE": "0",
        "XSCORE_SELECTION_WORDS": "0",
    }


def ask(host: Host, root: Path, *options: str) -> subprocess.Popen[str]:
    """Start a turn."""
    return begin("ask", TASK, *FLAGS, *options, cwd=root, environ=environ(host))


def take_what_was_sent(host: Host) -> None:
    """Let the host take all requests of ended processes and finish them: until a later request was
    answered and its count has not changed meanwhile."""
    while True:
        requests_before = host.requests
        with suppress(HTTPError):
            urlopen(f"http://{host.host}/nothing", timeout=60).close()
        wait_until(lambda: host.in_flight == 0)
        if host.requests == requests_before:
            return


@pytest.mark.parametrize("kills", [8, pytest.param(20, marks=pytest.mark.nightly)])
def test_sigkill_at_many_points_loses_what_was_in_flight(
    tree: Path, host: Host, kills: int
) -> None:
    """After every SIGKILL all committed judgments have their calls; only calls in flight are paid
    again."""
    dice = random.Random(14)
    host.latency_s = 0.3
    kept = wasted = 0
    # Every second kill waits for a call however slow the machine is; the others strike anywhere.
    for kill in range(3 * kills):
        if kill >= kills and kept and wasted:
            break
        process, goal = (
            ask(host, tree),
            host.requests + (dice.randrange(1, 4) if kill % 2 else 3),
        )
        patience = time.monotonic() + (60.0 if kill % 2 else dice.uniform(0.2, 6.0))
        while time.monotonic() < patience and process.poll() is None and host.requests < goal:
            time.sleep(0.01)
        time.sleep(dice.uniform(0, 0.25))
        assert process.poll() is None, process.communicate()[1][-500:]
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        # So that its bill is complete.
        take_what_was_sent(host)
        now = count_rows(tree, "judgment")
        assert now >= kept and (not now or unpaid(tree) == 0)
        assert host.paid - now - wasted <= CONCURRENCY * host.largest
        kept, wasted = now, host.paid - now
    host.latency_s = 0.0
    coverage = end(ask(host, tree))
    assert (coverage["cached"], coverage["unjudged"], unpaid(tree)) == (kept, 0, 0)
    assert host.paid == coverage["candidates"] + wasted
    assert kept > 0 and wasted > 0, "some of the kills struck while it judged"


def scores_of(tree: Path, host: Host, name: str, *flags: str) -> str:
    """Ask, and return all scores as the file of this name has them."""
    scores = tree.parent / name
    ended = run(
        "ask",
        TASK,
        *FLAGS,
        "--all-scores",
        str(scores),
        *flags,
        cwd=tree,
        environ=environ(host),
    )
    assert ended.returncode == 0, ended.stderr
    return scores.read_text()


def test_a_deadline_then_continue_then_replay(click: Path, host: Host) -> None:
    """In time with the best judged; `continue` pays only for the rest; a replay needs neither host
    nor key."""
    for attempt in slower_attempts():
        with attempt:
            host.bills.clear()
            host.latency_s, deadline_s = 1.5 * attempt.slowness, 5 * attempt.slowness
            process = ask(host, click, "--deadline", f"{deadline_s}s", "--concurrency", "1")
            out, err = process.communicate(timeout=120)
            assert process.returncode == 1, err
            receipt = json.loads(out)
            coverage = receipt["coverage"]
            assert receipt["unjudged"]["by_cause"] == {"deadline": coverage["unjudged"]}
            attempt.needs(coverage["judged"], "no memory was judged")
    host.latency_s = 0.0
    went_on = run(
        "continue",
        receipt["turn_id"],
        "--no-answer",
        "--json",
        cwd=click,
        environ=environ(host),
    )
    rest = json.loads(went_on.stdout)["coverage"]
    assert rest["carried"] == coverage["judged"]
    assert rest["judged"] == coverage["unjudged"]
    assert rest["unjudged"] == 0
    # The one call that the deadline may have struck.
    paid_again = [times for times in host.bills.values() if times > 1]
    assert len(paid_again) <= host.largest and set(paid_again) <= {2}
    requests_before = host.requests
    assert scores_of(click, host, "cached.jsonl") == scores_of(
        click, host, "replayed.jsonl", "--replay"
    )
    assert host.requests == requests_before
    nowhere = {**environ(host), "SYSTEMONE_BASE_URL": "http://127.0.0.1:9"}
    other_host = run("ask", TASK, *FLAGS, "--replay", cwd=click, environ=nowhere)
    cached_there = json.loads(other_host.stdout or "{}").get("coverage", {}).get("cached", 0)
    assert cached_there == 0, "another host, another judge"
