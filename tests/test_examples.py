"""Every example is run as a user would; the environment names a loopback host."""

import io
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.servers.decision_server import DecisionServer
from tests.servers.scoring import table
from tests.servers.threaded_server import ThreadedServer, serve_app
from tests.test_plugins import EXAMPLES, Install, install

__all__ = ["install"]

SCRIPTS = sorted(EXAMPLES.rglob("*.py"))
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[DecisionServer]:
    """A host of a decision model that recognises lost payments, discounts and politeness."""
    with DecisionServer(
        score=table({"lost": 90, "discount": 95, "sorry": 80}, default=4)
    ) as running:
        monkeypatch.setenv("SYSTEMONE_BASE_URL", running.url)
        monkeypatch.setenv("XSCORE_JUDGE_MODEL", "systemone:jev-1.14.0")
        monkeypatch.setenv("XSCORE_JUDGE_PROBE", "false")
        yield running


@pytest.fixture
def shop(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository as the current folder."""
    monkeypatch.chdir(shop)
    return shop


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run an example with arguments; return its exit code and stdout."""

    def execute(name: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        capsys.readouterr()
        code: object = 0
        try:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        except SystemExit as end:
            code = end.code
        return int(str(code or 0)), capsys.readouterr().out

    return execute


def test_examples_fit_a_screen() -> None:
    """An example has at most 40 lines and a docstring."""
    texts = {script: script.read_text("utf-8") for script in SCRIPTS}
    assert [
        script.name
        for script, text in texts.items()
        if text.count("\n") > 40 or not text.startswith('"""')
    ] == []
    assert len(SCRIPTS) >= 12


@pytest.mark.parametrize(
    "script",
    [script for script in SCRIPTS if "sys.argv[1]" in script.read_text("utf-8")],
    ids=lambda script: script.stem,
)
def test_an_example_without_its_argument_shows_its_usage(script: Path) -> None:
    """Without arguments it prints its docstring with the command to type, not a traceback."""
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (
        done.returncode == 1
        and f"{script.name} " in done.stderr
        and "Traceback" not in done.stderr
    ), done.stderr


def test_the_python_page_runs(
    shop: Path, host: DecisionServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its blocks run in order, as written, and each example that it names exists."""
    page = (EXAMPLES.parent / "docs/python.md").read_text("utf-8")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    out = capsys.readouterr().out
    assert "Coverage(candidates=12" in out and "Answer" in out and "0.9" in out


def test_a_frame_is_judged(tmp_path: Path, host: DecisionServer, run: Run) -> None:
    """Rows come back best first, with their scores."""
    (tmp_path / "tickets.csv").write_text(
        "id,text\n1,The font is small\n2,My payment was lost\n"
    )
    code, out = run("judge_frame.py", str(tmp_path / "tickets.csv"))
    rows = ['2,My payment was lost,0.9,judged,""', '1,The font is small,0.04,judged,""']
    assert (code, out.splitlines()) == (0, ["id,text,score,outcome,cause", *rows])


def test_a_rubric_of_ones_own(
    host: DecisionServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is shown the rubric, and scores come best first."""
    monkeypatch.setattr(
        sys, "stdin", io.StringIO("Go away.\nWe are sorry; please send the receipt.\n")
    )
    code, out = run("own_rubric.py")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()] == [["1", "0.8"], ["0", "0.04"]]
    assert "promises nothing" in json.dumps(host.bodies)


def test_a_turn_is_watched(shop: Path, host: DecisionServer, run: Run) -> None:
    """Stages, progress, the choice and the receipt come in this order."""
    code, out = run("turn_events.py", "Take the discount once")
    order = [
        out.index(words)
        for words in ("— index", "— judge", "of 12 scored", "1.00 shop/prices.py", "0 unjudged")
    ]
    assert code == 0 and order == sorted(order)


def test_a_nightly_rescore(shop: Path, host: DecisionServer, run: Run) -> None:
    """The second night judges nothing again."""
    (shop / "tasks.txt").write_text("Take the discount once\n\nWhere are prices summed?\n")
    code, first = run("nightly_rescore.py", "tasks.txt")
    again_code, second_night = run("nightly_rescore.py", "tasks.txt")
    assert (code, again_code) == (0, 0)
    assert first.count(" judged, 0 cached, 0 unjudged") == 2
    assert second_night.count(": 0 judged, ") == 2


def test_a_chat_over_general_memories(
    tmp_path: Path, host: DecisionServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A remembered entry is found, in a folder without a repository; a forgotten one is not."""
    typed = [
        "/remember A payment was lost in May.",
        "/remember Ann calls after six.",
        "which payments are lost?",
    ]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(typed)))
    code, out = run("general_memories.py", str(tmp_path))
    paid, ann, match, *_ = out.split("\n")
    assert code == 0 and paid in match and ann not in match
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"/forget {paid}\nwhich payments are lost?"))
    assert run("general_memories.py", str(tmp_path))[1].startswith("No model answers here")


def test_a_gate_for_ci(shop: Path, host: DecisionServer, run: Run) -> None:
    """It passes while each question finds its files, and fails with 5 if one does not."""
    question = {"task": "Take the discount once", "finds": ["shop/prices.py"]}
    (shop / "questions.jsonl").write_text(json.dumps(question))
    assert run("ci_gate.py") == (0, "every question finds its files\n")
    (shop / "questions.jsonl").write_text(
        json.dumps(question | {"finds": ["shop/prices.py", "pyproject.toml"]})
    )
    code, out = run("ci_gate.py")
    assert code == 5 and "missing ['pyproject.toml']" in out


def test_a_listener_writes_its_line(shop: Path, host: DecisionServer, run: Run) -> None:
    """A finished turn is one line of the log."""
    code, out = run("extend/listener.py", "Take the discount once")
    assert code == 0 and out.endswith("memories chosen\n")
    assert " ask exit 0 " in (shop / "turns.log").read_text()


def test_a_report_gets_a_column(shop: Path, host: DecisionServer, run: Run) -> None:
    """Every turn of the ledger has the new figure."""
    run("extend/listener.py", "Take the discount once")
    code, out = run("extend/report_column.py")
    head, line = out.splitlines()
    assert (code, head) == (0, "turn,task,kept,cost_usd,usd_per_kept")
    assert "Take the discount once" in line


class CustomModelHost(ThreadedServer):
    """A model behind an interface of its own that scores every memory 80."""

    async def serve(self) -> None:
        """Serve one path."""
        app = web.Application()
        app.router.add_post("/", self.answer)
        await serve_app(self, app)

    async def answer(self, request: web.Request) -> web.Response:
        """Score the prompt's memories."""
        from xscore.providers.scripted import shown_memories

        shown = shown_memories((await request.json())["prompt"])
        reply = {"scores": {memory.id: 80 for memory in shown}, "reasons": []}
        return web.json_response({"text": json.dumps(reply)})


def test_a_provider_of_ones_own(
    shop: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example's provider judges a whole turn."""
    import xscore

    install("custom_provider", providers="house = custom_provider:connect")
    with CustomModelHost() as house:
        monkeypatch.setenv("HOUSE_HOST", house.host)
        with xscore.open(shop, judge="house:small") as folder:
            answer = folder.context("what is sold?")
    assert answer.coverage.judged == answer.coverage.candidates and {
        memory.raw_score for memory in answer.selected
    } == {0.8}
