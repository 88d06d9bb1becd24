"""`xscore` processes with a decision model: killed, concurrent, under a deadline, replayed, erased.

The engine is the one of chat prompts; what differs is that a request holds hundreds of questions, so that is the most
that each call in flight can cost again.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from tests.proof.conftest import package_tree
from tests.proof.faults_processes import begin, run
from tests.proof.test_kills import end, unpaid
from tests.servers.decision_server import DecisionServer
from tests.waiting import count_rows, wait_until
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
    assert run("estimate", TASK, *JUDGED_BY, "--json", cwd=click_tree, environ=environ(host)).returncode == 0
    return click_tree


def environ(host: Host) -> dict[str, str]:
    """The environment of a user whose judge is at this host."""
    return {**os.environ, "SYSTEMONE_BASE_URL": host.url, "XSCORE_JUDGE_PROBE": "0"}


def ask(host: Host, root: Path, *more: str) -> subprocess.Popen[str]:
    """Start a turn."""
    return begin("ask", TASK, *FLAGS, *more, cwd=root, environ=environ(host))


def test_sigkill_at_twenty_points_loses_what_was_in_flight(tree: Path, host: Host) -> None:
    """After every SIGKILL all committed judgments have their calls; only calls in flight are paid again."""
    dice = random.Random(14)
    host.latency_s = 0.3
    kept = wasted = 0
    for kill in range(20):  # every second kill waits for a call however slow the machine is; the others strike anywhere
        process, goal = ask(host, tree), host.requests + (dice.randrange(1, 4) if kill % 2 else 3)
        patience = time.monotonic() + (60.0 if kill % 2 else dice.uniform(0.2, 6.0))
        while time.monotonic() < patience and process.poll() is None and host.requests < goal:
            time.sleep(0.01)
        time.sleep(dice.uniform(0, 0.25))
        assert process.poll() is None, process.communicate()[1][-500:]
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        wait_until_idle(host)
        now = count_rows(tree, "judgment")
        assert now >= kept and (not now or unpaid(tree) == 0)
        assert host.paid - now - wasted <= CONCURRENCY * host.largest
        kept, wasted = now, host.paid - now
    host.latency_s = 0.0
    coverage = end(ask(host, tree))
    assert (coverage["cached"], coverage["unjudged"], unpaid(tree)) == (kept, 0, 0)
    assert host.paid == coverage["candidates"] + wasted
    assert kept > 0 and wasted > 0, "some of the kills struck while it judged"


def wait_until_idle(host: Host) -> None:
    """Let the host finish its work, so that its bill is complete."""
    time.sleep(host.latency_s + 0.2)


def test_two_at_once_share_the_bill(click: Path, host: Host) -> None:
    """Both end with complete receipts; no question is asked twice, and no claim is left."""
    host.latency_s = 0.2
    found = [end(process) for process in [ask(host, click) for _ in range(2)]]
    assert set(host.bills.values()) == {1}
    assert sum(one["judged"] for one in found) == host.paid == found[0]["candidates"]
    assert [one["unjudged"] for one in found] == [0, 0]
    assert count_rows(click, "claim") == count_rows(click, "runner") == 0


def test_one_that_is_killed_is_taken_over(click: Path, host: Host) -> None:
    """SIGKILL of one of two: the other continues at once and pays again only for calls in flight."""
    host.latency_s = 1.5
    doomed, other = ask(host, click), ask(host, click)
    wait_until(lambda: count_rows(click, "runner") == 2, other)
    os.killpg(doomed.pid, signal.SIGKILL)
    killed_at = time.monotonic()
    coverage = end(other)
    doomed.communicate()
    assert time.monotonic() - killed_at < 25, "a lease lasts 30 s: no process waited for it"
    assert coverage["unjudged"] == 0
    assert host.paid - coverage["candidates"] <= CONCURRENCY * host.largest
    assert count_rows(click, "claim") == count_rows(click, "runner") == 0


def test_a_deadline_then_continue_then_replay(click: Path, host: Host) -> None:
    """In time with the best judged; `continue` pays only for the rest; a replay needs neither host nor key."""
    host.latency_s = 1.5
    process = ask(host, click, "--deadline", "5s", "--concurrency", "1")
    out, err = process.communicate(timeout=60)
    receipt = json.loads(out)
    assert process.returncode == 1, err
    coverage = receipt["coverage"]
    assert coverage["judged"] and receipt["unjudged"]["by_cause"] == {"deadline": coverage["unjudged"]}
    host.latency_s = 0.0
    went_on = run("continue", receipt["turn_id"], "--no-answer", "--json", cwd=click, environ=environ(host))
    rest = json.loads(went_on.stdout)["coverage"]
    assert (rest["carried"], rest["judged"], rest["unjudged"]) == (coverage["judged"], coverage["unjudged"], 0)
    again = [times for times in host.bills.values() if times > 1]  # the one call that the deadline may have struck
    assert len(again) <= host.largest and set(again) <= {2}
    asked = host.requests
    nowhere = {**environ(host), "SYSTEMONE_BASE_URL": "http://127.0.0.1:9"}
    scores = [click.parent / name for name in ("cached.jsonl", "replayed.jsonl")]
    cached = run("ask", TASK, *FLAGS, "--all-scores", str(scores[0]), cwd=click, environ=environ(host))
    replayed = run("ask", TASK, *FLAGS, "--all-scores", str(scores[1]), "--replay", cwd=click, environ=environ(host))
    assert (cached.returncode, replayed.returncode, host.requests) == (0, 0, asked), replayed.stderr
    assert scores[0].read_text() == scores[1].read_text()
    other_host = run("ask", TASK, *FLAGS, "--replay", cwd=click, environ=nowhere)
    assert json.loads(other_host.stdout or "{}").get("coverage", {}).get("cached", 0) == 0, (
        "another host, another judge"
    )


def test_an_erased_memory_is_gone_with_its_judgment(click: Path, host: Host) -> None:
    """Text, score and question of an erased memory are in no file of the store; its neighbours stay paid."""
    words = "The saffron ledger is kept behind the northern boiler"
    added = run("memory", "add", words, "--kind", "decision", "--json", cwd=click, environ=environ(host))
    identifier = json.loads(added.stdout)["id"]
    candidates = end(ask(host, click))["candidates"]
    assert any(words.encode() in path.read_bytes() for path in (click / ".xscore").iterdir() if path.is_file())
    gone = run("memory", "delete", identifier, cwd=click, environ=environ(host))
    assert gone.returncode == 0, gone.stderr
    for path in (click / ".xscore").rglob("*"):
        assert not path.is_file() or b"saffron" not in path.read_bytes(), path
    assert count_rows(click, "judgment") == candidates - 1
    again = end(ask(host, click))
    assert (again["candidates"], again["judged"], again["unjudged"]) == (candidates - 1, 0, 0)
