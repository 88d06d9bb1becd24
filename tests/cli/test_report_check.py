"""A check sees a worse program: real turns at a priced provider, held by the command to the baseline of better ones."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo
from tests.servers import OpenAIServer

MEMORIES = 40
TASK = "Why is the discount of an order taken twice?"
SOURCE = '''def step_{n}(order, rate):
    """Take step {n} of an order to its price, with the discount where one is due."""
    amount = order.amounts[{n}] * rate
    return amount - order.discount_{n}
'''


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """The judge."""
    with OpenAIServer(keep_bodies=False) as running:
        yield running


@pytest.fixture
def shop(make_repo: MakeRepo) -> Path:
    """A repository of forty functions."""
    return make_repo({f"shop/step_{n}.py": SOURCE.format(n=n) for n in range(MEMORIES)})


class Turns:
    """Turns in one repository at the vendor's name, which the server answers as if it were a proxy."""

    def __init__(self, xscore: Run, shop: Path, server: OpenAIServer) -> None:
        self.xscore, self.shop = xscore, shop
        self.baseline = shop.parent / "baseline.json"
        self.environ = {
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": "http://api.openai.com/v1",
            "HTTP_PROXY": f"http://{server.host}",
            "XSCORE_JUDGE_WIRE": "chat",
        }

    def ask_twice(self, *worse: str, forget: bool = False) -> None:
        """Begin with an empty ledger; judge, and do the same again."""
        for file in self.shop.glob(".xscore/*"):
            file.unlink()
        for again in (False, True):
            if again and forget:
                with closing(sqlite3.connect(self.shop / ".xscore" / "memory.db")) as store, store:
                    store.execute("DELETE FROM judgment")
            done = self.xscore("ask", TASK, "--no-answer", *worse, cwd=self.shop, environ=self.environ)
            assert done.returncode == 0, done.stderr

    def report(self, *arguments: str, what: str = "--check") -> tuple[int, str, str]:
        """Hold the ledger to the baseline, or write that; return exit code and both streams."""
        done = self.xscore("report", what, "--baseline", str(self.baseline), *arguments, cwd=self.shop)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def turns(xscore: Run, shop: Path, server: OpenAIServer) -> Turns:
    """Two turns, the second fully cached, and their baseline."""
    made = Turns(xscore, shop, server)
    made.ask_twice()
    assert made.report(what="--update-baseline")[0] == 0
    return made


def failed(err: str) -> set[str]:
    """Names of the gates that the lines on stderr tell of."""
    return {line.split(": ")[1] for line in err.splitlines() if line.startswith("gate failed: ")}


def test_the_same_turns_hold(turns: Turns) -> None:
    """The same work again has the same calls, tokens and dollars: nothing fails, and dollars are no zero."""
    turns.ask_twice()
    code, _, err = turns.report()
    assert (code, failed(err)) == (0, set())
    assert json.loads(turns.baseline.read_text())["cost_usd"] > "0"


def test_a_slow_provider_is_an_alert(xscore: Run, shop: Path, server: OpenAIServer) -> None:
    """B13: the same turns at a host that takes a second longer: the p95 of live calls is an alert, and exit 0."""
    made = Turns(xscore, shop, server)
    made.ask_twice("--pack-size", "1")
    assert made.report(what="--update-baseline")[0] == 0
    server.latency_s = 1.0
    made.ask_twice("--pack-size", "1")
    code, _, err = made.report()
    assert (code, failed(err)) == (0, set())
    assert "gate alert: p95 of judge calls, live: " in err
    (shop / ".xscore.toml").write_text('[gates]\nlatency = "fail"\n')
    code, _, err = made.report()
    assert (code, failed(err)) == (5, {"p95 of judge calls, live"})


def test_the_repository_sets_its_tolerances(turns: Turns) -> None:
    """`[gates]` of the repository's own file: what it allows holds, and the rest fails as before."""
    turns.ask_twice("--pack-size", "5")
    (turns.shop / ".xscore.toml").write_text("[gates]\ncost = 9.0\n")
    code, _, err = turns.report()
    assert code == 5
    assert "dollars" not in failed(err)
    assert {"calls", "attempts"} <= failed(err)
