"""The commands, end to end: real repositories, real stores, scripted models, a process each."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.basket import SCRIPT, TASK, script_flags
from tests.cli.conftest import Run
from tests.conftest import git, store_dir


def test_ask_answers(xscore: Run, basket: Path, scripted: tuple[str, ...]) -> None:
    """Only the answer goes to stdout; the chosen memories and one cost line go to stderr."""
    done = xscore("ask", TASK, *scripted, cwd=basket)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "It is summed in Basket.total.\n"
    assert "0.95" in done.stderr
    assert "shop/basket.py:7-9" in done.stderr
    assert "sums the prices" in done.stderr
    assert "kept " in done.stderr.splitlines()[-1] and "$0" in done.stderr.splitlines()[-1]
    assert "\x1b" not in done.stderr + done.stdout


def test_without_a_key(xscore: Run, basket: Path) -> None:
    """Without a key the lexical judge chooses, the bundle is the result, and one line says how to
    set a model."""
    done = xscore("ask", TASK, cwd=basket)
    assert done.returncode == 0, done.stderr
    assert "def total" in done.stdout
    assert done.stderr.count("OPENAI_API_KEY") == 1
    assert "no model" in done.stderr
    answer = json.loads(xscore("ask", TASK, "--json", cwd=basket).stdout)
    assert answer["answer"] is None
    assert answer["judge"]["is_model"] is False
    assert answer["primary"] is None
    assert "stores none" in next(
        line for line in xscore("status", cwd=basket).stdout.split("\n") if "judgments" in line
    )


@pytest.mark.parametrize("form", ["xml", "markdown", "json"])
def test_context_is_the_bundle_alone(form: str, xscore: Run, basket: Path) -> None:
    """`context` prints only the bundle on stdout, in the requested format."""
    done = xscore("context", TASK, "--format", form, "--quiet", cwd=basket)
    assert done.returncode == 0, done.stderr
    assert "def total" in done.stdout and done.stderr == ""
    if form == "json":
        json.loads(done.stdout)


def test_errors_without_an_end_are_refused(xscore: Run, basket: Path) -> None:
    """A device or a command that never ends fills no memory."""
    done = xscore("context", TASK, "--errors", "/dev/zero", cwd=basket)
    assert done.returncode == 2 and "more than 64 MiB" in done.stderr


def test_what_a_turn_is_given_is_in_the_receipt(
    xscore: Run, basket: Path, scripted: tuple[str, ...]
) -> None:
    """TASK from stdin, errors from a file, --glob and --type reach the turn; --all-scores has a
    line a candidate."""
    (basket / "trace.txt").write_text("KeyError in pay\n")
    options = (
        "--errors",
        "trace.txt",
        "--glob",
        "shop/**",
        "--type",
        "function",
        "--all-scores",
        "scores.jsonl",
    )
    done = xscore("ask", "-", *options, *scripted, "--json", cwd=basket, stdin=TASK + "\n")
    answer = json.loads(done.stdout)
    assert answer["task"] == TASK and "errors" in answer["judge"]["saw"]
    assert answer["scope"] == {
        "paths": ["shop/**"],
        "kinds": ["function"],
        "layers": [],
        "within": [],
        "also": [],
    }
    lines = [json.loads(line) for line in (basket / "scores.jsonl").read_text().splitlines()]
    assert len(lines) == answer["coverage"]["candidates"] == 2
    assert lines[0]["entity"] == "pay" and lines[0]["outcome"] == "judged"


def test_primary_failed_is_7(
    xscore: Run, basket: Path, scripted: tuple[str, ...], tmp_path: Path
) -> None:
    """Judged but not answered: exit 7, and the bundle is still printed."""
    (tmp_path / "p.json").write_text(
        json.dumps({"errors": [{"at": 1, "kind": "authentication"}]})
    )
    flags = (*scripted[:2], "--model", f"scripted:{tmp_path / 'p.json'}")
    done = xscore("ask", TASK, *flags, cwd=basket)
    assert done.returncode == 7, done.stderr
    assert "def total" in done.stdout


def test_explain(xscore: Run, basket: Path, scripted: tuple[str, ...]) -> None:
    """`explain` says why a memory was not chosen, found by name or id, in numbers and words."""
    xscore("ask", TASK, *scripted, "--no-answer", cwd=basket)
    explanation = json.loads(
        xscore("explain", "shop/basket.py::greet", "--json", cwd=basket).stdout
    )
    assert explanation["outcome"] == "below_threshold"
    assert explanation["memory"]["raw_score"] == 0.03
    page = xscore("explain", explanation["id"], cwd=basket).stdout
    assert "below threshold" in page and "raw score  0.03" in page and "threshold 0.7" in page
    assert xscore("explain", "shop/basket.py::nobody", cwd=basket).returncode == 1


def test_a_quiet_index_prints_nothing(xscore: Run, basket: Path) -> None:
    """`index -q` prints nothing; `--json` still prints its record."""
    done = xscore("index", "-q", cwd=basket)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (
        json.loads(xscore("index", "-q", "--json", cwd=basket).stdout)["files"]["unchanged"] > 0
    )


def test_a_store_from_elsewhere_is_refused(xscore: Run, basket: Path, tmp_path: Path) -> None:
    """A copied store is refused with 6; `trust` accepts it, `trust --rebuild` sets it aside."""
    xscore("index", cwd=basket)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "a.py").write_text("x = 1\n")
    git(copy, "init", "-q")
    shutil.copytree(store_dir(basket), store_dir(copy))
    refused = xscore("status", "--json", cwd=copy)
    assert refused.returncode == 6
    assert json.loads(refused.stdout)["error"]["kind"] == "store_untrusted"
    assert "xscore store trust" in json.loads(refused.stdout)["error"]["hint"]
    accepted = json.loads(xscore("store", "trust", "--json", cwd=copy).stdout)
    assert accepted["action"] == "trusted" and xscore("status", cwd=copy).returncode == 0
    rebuilt = json.loads(xscore("store", "rebuild", "--json", cwd=copy).stdout)
    assert rebuilt["action"] == "rebuilt" and Path(rebuilt["aside"]).is_dir()
    assert json.loads(xscore("status", "--json", cwd=copy).stdout)["files"] == 1


def test_an_estimate_of_a_script_names_no_host(
    xscore: Run, basket: Path, scripted: tuple[str, ...]
) -> None:
    """A script sends nothing, and its estimate says so in place of a host."""
    printed = xscore("estimate", TASK, *scripted[:2], cwd=basket).stdout
    (judging,) = (line for line in printed.splitlines() if line.startswith("judge "))
    assert judging.endswith("nothing is sent")


@pytest.mark.parametrize(
    ("flags", "key", "ways"),
    [
        (
            (),
            "sk-test-0123456789abcdef",
            ["decisions (chosen)", "chat cold", "chat warm", "lexical"],
        ),
        ((), "", ["lexical (chosen)", "decisions", "chat cold", "chat warm"]),
        (
            ("--judge", "openai:gpt-6-luna"),
            "",
            ["decisions (chosen)", "chat cold", "chat warm", "lexical"],
        ),
    ],
)
def test_an_estimate_compares_both_wires_with_words(
    xscore: Run, basket: Path, flags: tuple[str, ...], key: str, ways: list[str]
) -> None:
    """Each way has a line of at most 80 columns, the active one marked; without a key a note names
    who would score."""
    done = xscore("estimate", TASK, *flags, cwd=basket, environ={"OPENAI_API_KEY": key})
    assert done.returncode == 0 and ("lexical judge would score" in done.stderr) == (not key), (
        done.stderr
    )
    lines = done.stdout[done.stdout.index("judged by") :].splitlines()[1:]
    assert [line.split("  ")[0] for line in lines] == ways
    assert all("~$0.0" in line for line in lines if "lexical" not in line)
    assert max(map(len, lines)) <= 80 and "tariff" not in done.stdout


def test_a_turn_that_is_continued_is_not_told_to_get_a_key(
    xscore: Run, basket: Path, tmp_path: Path
) -> None:
    """Without a key `ask` says how to get a model's answer; a continued turn that keeps its own
    judge does not."""
    declines = {**SCRIPT, "rules": [*SCRIPT["rules"], {"entity": "greet", "refuse": True}]}
    judge = script_flags(tmp_path / "declining.json", declines)[:2]
    assert "To have a model judge and answer" in xscore("ask", TASK, cwd=basket).stderr
    assert xscore("ask", TASK, "--fresh", "--no-answer", *judge, cwd=basket).returncode == 1
    done = xscore("continue", cwd=basket)
    assert done.returncode == 1 and "1 of" in done.stderr and "is unjudged" in done.stderr, (
        done.stderr
    )
    assert "export" not in done.stderr
