"""The commands, end to end: real repositories, real stores, scripted models, a process each."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo, git

FILES = {
    "shop/basket.py": '"""A basket of goods."""\n\n\nclass Basket:\n    """Holds goods until they are paid for."""\n\n'
    '    def total(self) -> int:\n        """Sum the prices of the basket, in cents."""\n'
    "        return sum(item.price for item in self.items)\n\n\n"
    'def greet(name: str) -> str:\n    """Say hello."""\n    return f"hello {name}"\n',
    "shop/checkout.py": '"""Pay for a basket."""\n\nfrom shop.basket import Basket\n\n\n'
    'def pay(basket: Basket) -> int:\n    """Charge the total of the basket to a card."""\n    return basket.total()\n',
    "README.md": "# Shop\n\nA shop sells goods.\n\n## Refunds\n\nRefunds take three days.\n",
}
SCRIPT: dict[str, Any] = {
    "default": 0.03,
    "answer": "It is summed in Basket.total.",
    "rules": [
        {"entity": "*total", "score": 0.95, "reason": "sums the prices"},
        {"entity": "pay", "score": 0.62, "reason": "calls it"},
    ],
}
TASK = "where is the total of a basket summed?"


@pytest.fixture
def shop(make_repo: MakeRepo) -> Path:
    """A small repository."""
    return make_repo(FILES)


@pytest.fixture
def scripted(tmp_path: Path) -> tuple[str, ...]:
    """Flags for a scripted judge and answering model."""
    return script_flags(tmp_path / "script.json", SCRIPT)


def script_flags(path: Path, script: dict[str, Any]) -> tuple[str, ...]:
    """Write a script and name it as both models."""
    path.write_text(json.dumps(script))
    return ("--judge", f"scripted:{path}", "--model", f"scripted:{path}")


def test_ask_answers(xscore: Run, shop: Path, scripted: tuple[str, ...]) -> None:
    """Only the answer goes to stdout; the chosen memories and one cost line go to stderr."""
    done = xscore("ask", TASK, *scripted, cwd=shop)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "It is summed in Basket.total.\n"
    assert "0.95" in done.stderr and "shop/basket.py:7-9" in done.stderr and "sums the prices" in done.stderr
    assert "kept " in done.stderr.splitlines()[-1] and "$0" in done.stderr.splitlines()[-1]
    assert "\x1b" not in done.stderr + done.stdout


def test_without_a_key(xscore: Run, shop: Path) -> None:
    """Without a key the lexical judge chooses, the bundle is the result, and one line says how to set a model."""
    done = xscore("ask", TASK, cwd=shop)
    assert done.returncode == 0, done.stderr
    assert "def total" in done.stdout
    assert done.stderr.count("OPENAI_API_KEY") == 1
    assert "no model judged" in done.stderr
    answer = json.loads(xscore("ask", TASK, "--json", cwd=shop).stdout)
    assert answer["answer"] is None and answer["judge"]["is_model"] is False and answer["primary"] is None
    assert "stores none" in next(line for line in xscore("status", cwd=shop).stdout.split("\n") if "judgments" in line)


@pytest.mark.parametrize("form", ["xml", "markdown", "json"])
def test_context_is_the_bundle_alone(form: str, xscore: Run, shop: Path) -> None:
    """`context` prints only the bundle on stdout, in the requested format."""
    done = xscore("context", TASK, "--format", form, "--quiet", cwd=shop)
    assert done.returncode == 0, done.stderr
    assert "def total" in done.stdout and done.stderr == ""
    if form == "json":
        json.loads(done.stdout)


def test_task_and_errors_from_elsewhere(xscore: Run, shop: Path, scripted: tuple[str, ...]) -> None:
    """TASK may come from stdin, and errors from a file."""
    (shop / "trace.txt").write_text("KeyError in pay\n")
    done = xscore("ask", "-", "--errors", "trace.txt", *scripted, "--json", cwd=shop, stdin=TASK + "\n")
    answer = json.loads(done.stdout)
    assert answer["task"] == TASK
    assert "errors" in answer["judge"]["saw"]


def test_errors_without_an_end_are_refused(xscore: Run, shop: Path) -> None:
    """A device or a command that never ends fills no memory."""
    done = xscore("context", TASK, "--errors", "/dev/zero", cwd=shop)
    assert done.returncode == 2 and "more than 64 MiB" in done.stderr


def test_narrowing_is_in_the_receipt(xscore: Run, shop: Path, scripted: tuple[str, ...]) -> None:
    """--glob and --type narrow the pool, and the receipt names them."""
    done = xscore("ask", TASK, "--glob", "shop/**", "--type", "function", *scripted, "--json", cwd=shop)
    answer = json.loads(done.stdout)
    assert answer["scope"] == {"paths": ["shop/**"], "kinds": ["function"], "layers": [], "within": []}
    assert answer["coverage"]["candidates"] == 2


def test_all_scores(xscore: Run, shop: Path, scripted: tuple[str, ...]) -> None:
    """--all-scores writes one line a candidate."""
    done = xscore("ask", TASK, *scripted, "--all-scores", "scores.jsonl", "--json", cwd=shop)
    lines = [json.loads(line) for line in (shop / "scores.jsonl").read_text().splitlines()]
    assert len(lines) == json.loads(done.stdout)["coverage"]["candidates"]
    assert lines[0]["entity"] == "Basket.total" and lines[0]["outcome"] == "judged"


def test_some_unjudged_is_1(xscore: Run, shop: Path, tmp_path: Path) -> None:
    """A candidate that the judge declines is unjudged, counted, and the exit code is 1."""
    refusing = {**SCRIPT, "rules": [{"entity": "greet", "refuse": True}, *SCRIPT["rules"]]}
    done = xscore("ask", TASK, *script_flags(tmp_path / "r.json", refusing), "--json", cwd=shop)
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert answer["partial"] is True and answer["unjudged"]["by_cause"] == {"refused": 1}


def test_nothing_judged_is_3(xscore: Run, shop: Path, tmp_path: Path) -> None:
    """If the account has no money left, nothing is judged and the exit code is 3."""
    broke = {**SCRIPT, "errors": [{"at": 1, "kind": "quota"}, {"at": 2, "kind": "quota"}]}
    done = xscore("ask", TASK, *script_flags(tmp_path / "b.json", broke), "--json", cwd=shop)
    assert done.returncode == 3, done.stdout


def test_primary_failed_is_7(xscore: Run, shop: Path, scripted: tuple[str, ...], tmp_path: Path) -> None:
    """Judged but not answered: exit 7, and the bundle is still printed."""
    (tmp_path / "p.json").write_text(json.dumps({"errors": [{"at": 1, "kind": "authentication"}]}))
    flags = (*scripted[:2], "--model", f"scripted:{tmp_path / 'p.json'}")
    done = xscore("ask", TASK, *flags, cwd=shop)
    assert done.returncode == 7, done.stderr
    assert "def total" in done.stdout


def test_explain(xscore: Run, shop: Path, scripted: tuple[str, ...]) -> None:
    """`explain` says why a memory was not chosen, found by name or id, in numbers and words."""
    xscore("ask", TASK, *scripted, "--no-answer", cwd=shop)
    found = json.loads(xscore("explain", "shop/basket.py::greet", "--json", cwd=shop).stdout)
    assert found["outcome"] == "below_threshold" and found["memory"]["raw_score"] == 0.03
    page = xscore("explain", found["id"], cwd=shop).stdout
    assert "below threshold" in page and "raw score  0.03" in page and "threshold 0.7" in page
    assert xscore("explain", "shop/basket.py::nobody", cwd=shop).returncode == 1


def test_a_quiet_index_prints_nothing(xscore: Run, shop: Path) -> None:
    """`index -q` prints nothing; `--json` still prints its record."""
    done = xscore("index", "-q", cwd=shop)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads(xscore("index", "-q", "--json", cwd=shop).stdout)["files"]["unchanged"] > 0


def test_a_store_from_elsewhere_is_refused(xscore: Run, shop: Path, tmp_path: Path) -> None:
    """A copied store is refused with 6; `trust` accepts it, `trust --rebuild` sets it aside."""
    xscore("index", cwd=shop)
    other = tmp_path / "copy"
    other.mkdir()
    (other / "a.py").write_text("x = 1\n")
    git(other, "init", "-q")
    (other / ".xscore").mkdir(mode=0o700)
    for file in (shop / ".xscore").iterdir():
        if file.is_file():
            (other / ".xscore" / file.name).write_bytes(file.read_bytes())
    refused = xscore("status", "--json", cwd=other)
    assert refused.returncode == 6
    assert json.loads(refused.stdout)["error"]["kind"] == "store_untrusted"
    assert "xscore store trust" in json.loads(refused.stdout)["error"]["hint"]
    accepted = json.loads(xscore("store", "trust", "--json", cwd=other).stdout)
    assert accepted["action"] == "trusted" and xscore("status", cwd=other).returncode == 0
    rebuilt = json.loads(xscore("store", "rebuild", "--json", cwd=other).stdout)
    assert rebuilt["action"] == "rebuilt" and Path(rebuilt["aside"]).is_dir()
    assert json.loads(xscore("status", "--json", cwd=other).stdout)["files"] == 1


def test_a_subfolder_and_a_plain_folder(xscore: Run, shop: Path, tmp_path: Path) -> None:
    """A subfolder uses its repository's store; a plain folder has one of its own."""
    xscore("index", cwd=shop)
    inner = json.loads(xscore("status", "--json", cwd=shop / "shop").stdout)
    assert (inner["root"], inner["files"]) == (str(shop), 3)
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "notes.md").write_text("# Notes\n\nBuy milk.\n")
    found = json.loads(xscore("index", "--json", cwd=plain).stdout)
    assert found["files"]["indexed"] == 1


def test_an_estimate_of_a_script_names_no_host(xscore: Run, shop: Path, scripted: tuple[str, ...]) -> None:
    """A script sends nothing, and its estimate says so in place of a host."""
    said = xscore("estimate", TASK, *scripted[:2], cwd=shop).stdout
    (judging,) = (line for line in said.splitlines() if line.startswith("judge "))
    assert judging.endswith("nothing is sent")


def test_an_estimate_compares_both_wires_with_words(xscore: Run, shop: Path) -> None:
    """Each way to judge has a line of at most 80 columns, without what is known; the active one is marked."""
    said = xscore("estimate", TASK, cwd=shop, environ={"OPENAI_API_KEY": "sk-test-0123456789abcdef"}).stdout
    lines = said[said.index("judged by") :].splitlines()[1:]
    assert [line.split("  ")[0] for line in lines] == ["decisions (chosen)", "chat cold", "chat warm", "lexical"]
    assert all("$" in line for line in lines)
    assert "openai-decisions:gpt-6-luna" in lines[0] and "openai:gpt-6-luna" in lines[1]
    assert max(map(len, lines)) <= 80 and "tariff" not in said


@pytest.mark.parametrize(
    ("flags", "ways"),
    [
        ((), ["lexical (chosen)", "decisions", "chat cold", "chat warm"]),
        (("--judge", "openai:gpt-6-luna"), ["decisions (chosen)", "chat cold", "chat warm", "lexical"]),
    ],
)
def test_an_estimate_needs_no_key(xscore: Run, shop: Path, flags: tuple[str, ...], ways: list[str]) -> None:
    """Without a key all ways are still compared, and a note names the judge that would score now."""
    done = xscore("estimate", TASK, *flags, cwd=shop)
    assert done.returncode == 0 and "lexical judge would score" in done.stderr, done.stderr
    lines = done.stdout[done.stdout.index("judged by") :].splitlines()[1:]
    assert [line.split("  ")[0] for line in lines] == ways
    assert all("~$0.0" in line for line in lines if "lexical" not in line)


def test_a_turn_that_is_continued_is_not_told_to_get_a_key(xscore: Run, shop: Path, tmp_path: Path) -> None:
    """Without a key `ask` says how to get a model's answer; a continued turn that keeps its own judge does not."""
    declines = {**SCRIPT, "rules": [*SCRIPT["rules"], {"entity": "greet", "refuse": True}]}
    judge = script_flags(tmp_path / "declining.json", declines)[:2]
    assert "To have a model judge and answer" in xscore("ask", TASK, cwd=shop).stderr
    assert xscore("ask", TASK, "--fresh", "--no-answer", *judge, cwd=shop).returncode == 1
    done = xscore("continue", cwd=shop)
    assert done.returncode == 1 and "1 of" in done.stderr and "is unjudged" in done.stderr, done.stderr
    assert "export" not in done.stderr
