"""Events between two runs of the action: a commit, a new machine, a hand-written baseline."""

import json
import shutil
from pathlib import Path
from typing import Any

from tests.ci.fake_runner import REPOSITORY, ActionRun, Runner
from tests.conftest import git, store_dir
from tests.programs import run
from xscore.store.opening import SCHEMA

EVAL = {"command": "eval questions.jsonl", "max-usd": "1"}
OURS = {"pull_request": {"number": 5, "head": {"repo": {"full_name": REPOSITORY}}}}
FORK = {"pull_request": {"number": 5, "head": {"repo": {"full_name": "mallory/shop"}}}}


def report_of(ran: ActionRun) -> dict[str, Any]:
    """Return the report that a run has as its output."""
    report: dict[str, Any] = json.loads(Path(ran.outputs["report"]).read_text("utf-8"))
    return report


def judged_on_main(runner: Runner) -> None:
    """Cache a store with every judgment of the questions, as a run on the default branch does."""
    done = run(*EVAL["command"].split(), cwd=runner.workspace, environ=runner.environ)
    assert done.returncode == 0
    kept = runner.temp / "caches/main"
    shutil.copytree(store_dir(runner.workspace), kept)
    runner.caches[f"xscore-Linux-s{SCHEMA.version}-1-main"] = kept


def without_key(runner: Runner) -> None:
    """Give the job what a fork gets: an empty secret."""
    runner.environ["OPENAI_API_KEY"] = ""


def edit(runner: Runner) -> None:
    """Change one function, as a commit does."""
    with (runner.workspace / "shop/prices.py").open("a") as file:
        file.write("\n\ndef tax() -> int:\n    return 19\n")
    git(runner.workspace, "commit", "-qam", "tax")


def baseline_of(runner: Runner, **changed: Any) -> Path:
    """Write the figures of the latest run as a baseline, some of them changed."""
    path = runner.temp / "baseline.json"
    words = ("report", "--baseline", str(path), "--update-baseline")
    assert (
        run(*words, cwd=runner.workspace, environ={"XSCORE_TRUST_STORE": "1"}).returncode == 0
    )
    figures = json.loads(path.read_text())
    figures.update(changed)
    path.write_text(json.dumps(figures))
    return path
