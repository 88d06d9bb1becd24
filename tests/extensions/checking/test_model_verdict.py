"""A check with a model: what it is shown, how its scores become findings, what it costs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import host, priced
from tests.conftest import git
from tests.extensions.checking.conftest import CACHE, Run, append
from xscore.prompts.rubric import CHECK_RUBRIC, CODE_RUBRIC, named_rubric
from xscore.records.calls import DecisionForm

__all__ = ["host", "priced"]

RULES = [
    {"path": "docs/cache.md", "score": 0.93, "reason": "contradicted: it says drop_entry"},
    {"path": "tests/test_cache.py", "score": 0.85, "reason": "test of count is missing"},
    {"path": "shop/prices.py", "score": 0.75, "reason": "duplicated: counts as well"},
    {"text": "Entries are never copied", "score": 0.9, "reason": "contradicted: they are"},
]


def script(folder: Path, rules: list[dict[str, Any]], **settings: Any) -> tuple[str, str]:
    """Write a script; return the flags that make it the judge."""
    place = folder / "script.json"
    place.write_text(json.dumps({"default": 0.03, "rules": rules, **settings}))
    return ("--judge", f"scripted:{place}")


def report_of(run: Run, root: Path, *arguments: str) -> dict[str, Any]:
    """Return the JSON of a check."""
    done = run("check", "--json", *arguments, cwd=root)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_reasons_name_the_kind(repo: Path, xscore: Run, tmp_path: Path) -> None:
    """The first word of a reason says what is wrong; stated memories are contradicted."""
    xscore("memory", "add", "Entries are never copied.", cwd=repo)
    append(repo, "shop/cache.py", "\n\ndef count():\n    return 2\n")
    report = report_of(xscore, repo, *script(tmp_path, RULES))
    kinds = {entry["path"] or entry["title"]: entry["kind"] for entry in report["findings"]}
    assert kinds == {
        "docs/cache.md": "contradicted",
        "Entries are never copied.": "contradicted",
        "tests/test_cache.py": "missing-test",
        "shop/prices.py": "duplicated",
    }
    assert [entry["kind"] for entry in report["findings"]][:2] == ["contradicted"] * 2
    assert report["judge"].startswith("scripted")
    assert report["turn_id"].startswith("t_")


def test_it_works_in_a_folder_of_the_repository(
    repo: Path, xscore: Run, tmp_path: Path
) -> None:
    """Paths are those of the repository, also where the folder has a file of the same name."""
    (repo / "shop/docs").mkdir()
    (repo / "shop/docs/cache.md").write_text("# Another\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "another")
    append(repo, "shop/cache.py", "\n\ndef count():\n    return 2\n")
    report = report_of(xscore, repo / "shop", *script(tmp_path, RULES[1:2]))
    assert [entry["path"] for entry in report["findings"]] == ["tests/test_cache.py"]
    everywhere = report_of(xscore, repo / "shop", *script(tmp_path, RULES[:1]))
    assert "docs/cache.md" in [entry["path"] for entry in everywhere["findings"]]


def test_the_judge_has_the_last_word(repo: Path, xscore: Run, tmp_path: Path) -> None:
    """What history expects and the model finds right is not listed."""
    append(repo, "shop/cache.py", "\n\ndef count():\n    return 2\n")
    flags = script(tmp_path, [])
    assert report_of(xscore, repo, "--all")["findings"]
    assert report_of(xscore, repo, *flags)["findings"] == []
    done = xscore("check", *flags, cwd=repo)
    assert done.stdout == ""


def test_it_is_asked_with_the_diff_and_its_rubric(
    repo: Path, xscore: Run, tmp_path: Path
) -> None:
    """The diff is in sight, secrets are not, and the same change again costs nothing."""
    (repo / "shop/cache.py").write_text(
        CACHE + 'KEY = "ghp_A1b2C3d4E5A1b2C3d4E5A1b2C3d4E5F6g7H8"\n'
    )
    seen = [
        {"task": "*KEY =*", "text": "*", "score": 0.9, "reason": "change: the diff is seen"}
    ]
    flags = script(tmp_path, seen)
    findings = report_of(xscore, repo, *flags)["findings"]
    assert "change: the diff is seen" in str(findings)
    leaked = [{"task": "*ghp_*", "text": "*", "score": 0.9, "reason": "change: leaked"}]
    report = report_of(xscore, repo, *script(tmp_path, leaked))
    assert "leaked" not in str(report["findings"])
    turn = json.loads(xscore("history", "show", report["turn_id"], "--json", cwd=repo).stdout)
    assert turn["judge"]["prompt_version"] == "check-1"
    assert "diff" in turn["judge"]["saw"]


def test_a_host_that_fails_leaves_what_was_learned(
    repo: Path, xscore: Run, tmp_path: Path
) -> None:
    """It is a warning, and the exit code stays 0."""
    append(repo, "shop/cache.py", "\n\ndef count():\n    return 2\n")
    errors = [{"at": number, "kind": "authentication"} for number in range(1, 9)]
    done = xscore("check", "--all", *script(tmp_path, RULES, errors=errors), cwd=repo)
    assert done.returncode == 0, done.stderr
    assert "tests/test_cache.py" in done.stdout


def test_money_is_shown_and_capped(repo: Path, xscore: Run, priced: Mapping[str, str]) -> None:
    """The cost is in the report and in the ledger; a cap stops it, and nothing is blocked."""
    append(repo, "shop/cache.py", "\n\ndef count():\n    return 2\n")
    done = xscore("check", "--json", "-y", cwd=repo, environ=priced)
    report = json.loads(done.stdout)
    assert float(report["cost_usd"]) > 0
    second = json.loads(xscore("check", "--json", "-y", cwd=repo, environ=priced).stdout)
    assert float(second["cost_usd"]) == 0
    ledger = xscore("report", "--json", "--by", "command", cwd=repo, environ=priced)
    assert "check" in ledger.stdout
    append(repo, "shop/cache.py", "# more\n")
    capped = xscore("check", "--max-usd", "0.0000001", "-y", cwd=repo, environ=priced)
    assert capped.returncode == 0, capped.stderr


def test_a_silenced_change_asks_nobody(repo: Path, xscore: Run, tmp_path: Path) -> None:
    """A stated reason comes before the judge."""
    message = tmp_path / "message"
    message.write_text("xscore-check: ok on purpose\n")
    append(repo, "shop/cache.py", "# more\n")
    report = report_of(xscore, repo, "--message", str(message), *script(tmp_path, RULES))
    assert (report["findings"], report["turn_id"]) == ([], "")
    assert report["silenced"] == "on purpose"


@pytest.mark.parametrize("form", [None, *DecisionForm])
def test_the_rubric_has_a_text_and_a_name_of_its_own(form: DecisionForm | None) -> None:
    """Each way of asking has its file, and judgments of it are keyed apart."""
    assert named_rubric("check") is CHECK_RUBRIC
    assert "diff" in CHECK_RUBRIC.text(form)
    assert CHECK_RUBRIC.text(form) != CODE_RUBRIC.text(form)
    assert CHECK_RUBRIC.version(form) != CODE_RUBRIC.version(form)
