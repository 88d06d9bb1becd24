"""`xscore store cache` as a user sees it: two machines that share a key, pruning, and figures."""

import json
import zlib
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.cli.conftest import Run
from tests.conftest import git, store_file
from tests.programs import begin
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from tests.waiting import wait_until
from xscore.cache.judgment_store import insert_judgments
from xscore.extensions.transfer.judgment_files import export_judgments
from xscore.extensions.transfer.transfer_keys import TransferKey
from xscore.platform import database
from xscore.records.judgment import Judgment
from xscore.store.opening import connect_store

TASK = "the discount of total is taken twice"
KEY = bytes(range(32)).hex()
SCORES = {"shop/prices.py::total": 95, "shop/prices.py::discount": 80}


class Machine:
    """A clone of the shop with a user of its own."""

    def __init__(self, run: Run, root: Path, home: Path, server: OpenAIServer) -> None:
        self._run, self.root, self.home = run, root, home
        home.mkdir()
        self.environ = {
            "HOME": str(home),
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "sk-0123456789",
            "XSCORE_JUDGE_MODEL": "openai:judge-2",
            "XSCORE_JUDGE_PROBE": "false",
            "XSCORE_CACHE_KEY": KEY,
        }

    def run(self, *arguments: str, code: int = 0, **environ: str) -> CompletedProcess[str]:
        """Run a command there and check the exit code."""
        done = self._run(*arguments, cwd=self.root, environ=self.environ | environ)
        assert done.returncode == code, done.stderr
        return done

    def ask(self, *options: str) -> dict[str, int]:
        """Ask for the context of the task; return the coverage."""
        receipt = json.loads(self.run("context", TASK, "--json", *options).stdout)
        coverage: dict[str, int] = receipt["coverage"]
        return coverage

    @property
    def store(self) -> Path:
        """Return the path of its database."""
        return store_file(self.root)


@pytest.fixture
def machines(
    xscore: Run, shop: Path, tmp_path: Path, server: OpenAIServer
) -> tuple[Machine, Machine]:
    """Two machines with clones of one repository, and a judge that both use."""
    server.score = table(SCORES)
    git(tmp_path, "clone", "-q", str(shop), "two")
    return (
        Machine(xscore, shop, tmp_path / "home-one", server),
        Machine(xscore, tmp_path / "two", tmp_path / "home-two", server),
    )


def test_a_second_machine_pays_nothing(
    machines: tuple[Machine, Machine], server: OpenAIServer, tmp_path: Path
) -> None:
    """What one machine paid for, another with the key reuses: the turn is fully cached, without any
    call."""
    first, second = machines
    paid = first.ask()
    assert paid["judged"] == paid["candidates"] > 5
    file = str(tmp_path / "cache.xscore")
    assert f"exported {paid['judged']} judgments" in first.run("store", "export", file).stdout
    server.reset()
    assert (
        f"imported {paid['judged']} judgments of 1 turn"
        in second.run("store", "import", file).stdout
    )
    reused = second.ask()
    assert (reused["cached"], server.counts.requests) == (paid["candidates"], 0)
    first.run("store", "export", file, "--no-reasons")
    packed = Path(file).read_bytes().partition(b"\n")[2]
    exported = zlib.decompress(packed).decode()
    assert not any(
        word in exported for word in ("discount", "prices.py", "shares", str(first.root))
    )
    held = json.loads(second.run("store", "cache", "--json").stdout)
    assert held["judgments"] == paid["judged"]
    assert held["of_other_judges"] == 0
    assert held["unreachable"] == 0
    assert [one_["is_configured"] for one_ in held["judges"]] == [True]


def test_untrusted_scores_order_work_and_never_count(
    machines: tuple[Machine, Machine], server: OpenAIServer, tmp_path: Path
) -> None:
    """A stranger's scores only order the packs; scores, origins and sums are our own judge's."""
    first, second = machines
    own_receipt = json.loads(
        first.run("context", TASK, "--json", "--pack-size", "1", "--concurrency", "1").stdout
    )
    before = [json.dumps(body) for body in server.counts.bodies]
    file = str(tmp_path / "cache.xscore")
    # A stranger's high score for an unlikely memory.
    with connect_store(first.store) as connection:
        turn_key, judge = connection.execute("SELECT turn_key, judge FROM query").fetchone()
        favourite = connection.execute(
            "SELECT content_hash FROM memory WHERE path = 'pyproject.toml'"
        ).fetchone()[0]
        connection.execute("DELETE FROM judgment")
        with database.transaction(connection):
            insert_judgments(connection, [Judgment(favourite, 1.0)], (turn_key, judge, 0))
        export_judgments(connection, Path(file), TransferKey(bytes(range(1, 33))))
    connection.close()
    refused = second.run("store", "import", file, code=6)
    assert "another key" in refused.stderr and "--untrusted" in refused.stderr
    assert "into quarantine" in second.run("store", "import", file, "--untrusted").stdout
    assert "1 untrusted score" in second.run("store", "cache").stdout
    server.reset()
    receipt = json.loads(
        second.run("context", TASK, "--json", "--pack-size", "1", "--concurrency", "1").stdout
    )
    after = [json.dumps(body) for body in server.counts.bodies]
    asked_for = [
        ["pyproject.toml" in body for body in bodies].index(True) for bodies in (before, after)
    ]
    assert asked_for[0] > 3 and asked_for[1] <= 1
    assert receipt["coverage"] == own_receipt["coverage"] and receipt["coverage"]["cached"] == 0
    kept = [
        [(memory["id"], memory["raw_score"]) for memory in answer["selected"]]
        for answer in (own_receipt, receipt)
    ]
    assert kept[0] == kept[1]
    assert json.loads(second.run("store", "cache", "--json").stdout)["quarantined"] == 0


def test_a_sweep_asks_before_it_takes_what_is_of_use(machines: tuple[Machine, Machine]) -> None:
    """Unreachable judgments are deleted at once; reusable ones need a yes after a preview."""
    machine, _ = machines
    count = machine.ask()["judged"]
    assert "would remove 0 judgments" in machine.run("store", "prune", "--dry-run").stdout
    refused = machine.run("store", "prune", "--max-judgments", "0", code=2)
    assert "--dry-run" in refused.stderr
    foreseen = json.loads(
        machine.run("store", "prune", "--max-judgments", "0", "--dry-run", "--json").stdout
    )
    assert foreseen["judgments"] == count
    assert foreseen["over_cap"] == count
    assert foreseen["dry_run"] is True
    done = json.loads(
        machine.run(
            "store", "prune", "--max-judgments", "0", "--yes", "--vacuum", "--json"
        ).stdout
    )
    assert done["judgments"] == count and done["freed_bytes"] is not None
    assert machine.ask()["judged"] == count


def test_keys_come_from_the_user_alone(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    """No key, a key file others can read, and a repository's own file are refused or ignored; a
    private one works."""
    machine, _ = machines
    machine.ask()
    file = str(tmp_path / "c.xscore")
    (machine.root / ".xscore.toml").write_text(f'[cache]\nkey = "{KEY}"\n')
    refused = machine.run("store", "export", file, code=2, XSCORE_CACHE_KEY="")
    assert "there is no key" in refused.stderr and "xscore store key" in refused.stderr
    refused = machine.run("store", "import", file, code=2, XSCORE_CACHE_KEY="")
    assert "there is no key" in refused.stderr and "exported with" in refused.stderr
    assert KEY not in machine.run("config", "show").stdout
    generated_key = machine.run("store", "key").stdout.strip()
    place = tmp_path / "key"
    place.write_text(generated_key)
    place.chmod(0o644)
    assert (
        "chmod 600"
        in machine.run("store", "export", file, "--key-file", str(place), code=2).stderr
    )
    place.chmod(0o600)
    machine.run("store", "export", file, "--key-file", str(place))
    machine.run("store", "import", file, code=6)
    assert (
        "0 judgments" in machine.run("store", "import", file, "--key-file", str(place)).stdout
    )


def big_export(folder: Path, count: int) -> Path:
    """Export judgments of ten turns."""
    connection = connect_store(folder / "big" / "memory.db")
    for turn in range(10):
        judgments = [
            Judgment(f"{number:032x}", number % 101 / 100) for number in range(count // 10)
        ]
        with database.transaction(connection):
            insert_judgments(connection, judgments, (f"{turn:032x}", "b" * 32, 0))
    export_judgments(connection, folder / "big.xscore", TransferKey(bytes.fromhex(KEY)))
    connection.close()
    return folder / "big.xscore"


@pytest.mark.verify
def test_a_killed_import_is_completed_by_the_next(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    """Killed between two of its transactions and run again, an import leaves the store as an
    undisturbed one does."""
    first, second = machines
    file = big_export(tmp_path, 150_000)
    second.run("store", "cache")
    second.ask()
    process = begin("store", "import", str(file), cwd=second.root, environ=second.environ)
    connection = connect_store(second.store)

    def count() -> int:
        return int(connection.execute("SELECT count(*) FROM judgment").fetchone()[0])

    before = count()
    wait_until(lambda: count() > before, process)
    process.kill()
    process.communicate()
    assert before < count() < before + 150_000
    report = json.loads(second.run("store", "import", str(file), "--json").stdout)
    assert report["known"] > 0 and count() == before + 150_000
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert first.ask()["unjudged"] == 0
