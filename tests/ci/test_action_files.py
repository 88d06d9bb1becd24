"""The action and the workflow as files: valid, pinned, no foreign text in a shell, minimal rights."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ci.fake_runner import ACTION, ROOT, STEPS
from xscore.extensions.evaluation import run

WORKFLOW = ROOT / ".github/workflows/xscore.yml"
MANUAL = ROOT / "docs/ci.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", MANUAL.read_text("utf-8"), re.DOTALL)
WORKFLOWS = {"ours": WORKFLOW.read_text("utf-8")} | {f"example-{n}": one for n, one in enumerate(EXAMPLES, 1)}
OURS = re.compile(r"^(\./|OWNER/xscore@TAG$)")


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a tool from this environment."""
    words = [str(Path(sys.executable).with_name(name)), *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def valid(schema: str, *paths: Path) -> bool:
    """Whether files are valid by GitHub's schema."""
    return tool("check-jsonschema", "--builtin-schema", f"vendor.github-{schema}", *map(str, paths)).returncode == 0


def used(of: Any) -> list[str]:
    """Return every value of `uses`."""
    if isinstance(of, dict):
        return [one for key, held in of.items() for one in ([held] if key == "uses" else used(held))]
    return [one for held in of for one in used(held)] if isinstance(of, list) else []


def test_the_action_is_one() -> None:
    """GitHub's schema of actions accepts it."""
    assert valid("actions", ROOT / "action.yml")


def test_the_workflows_are_some(tmp_path: Path) -> None:
    """GitHub's schema of workflows accepts ours and each example of the manual."""
    paths = [tmp_path / f"{name}.yml" for name in WORKFLOWS]
    for path in paths:
        path.write_text(WORKFLOWS[path.stem], "utf-8")
    assert valid("workflows", *paths)


def test_the_shell_is_clean() -> None:
    """shellcheck reports nothing for the scripts and the lines in the action."""
    for script in sorted((ROOT / "ci").glob("*.sh")):
        done = tool("shellcheck", str(script))
        assert done.returncode == 0, done.stdout
    for step in (one for one in STEPS if "run" in one):
        words = [str(Path(sys.executable).with_name("shellcheck")), "--shell=bash", "-"]
        done = subprocess.run(words, input=step["run"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["action", *WORKFLOWS])
def test_a_stranger_gets_nothing_of_it(name: str, tmp_path: Path) -> None:
    """zizmor finds no injection, no cache to poison, no token left behind, nothing unpinned."""
    folder = tmp_path if name == "action" else tmp_path / ".github/workflows"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("action.yml" if name == "action" else "workflow.yml")
    text = WORKFLOWS.get(name) or (ROOT / "action.yml").read_text("utf-8")
    path.write_text(text.replace("OWNER/xscore@TAG", f"OWNER/xscore@{'0' * 40}"), "utf-8")
    done = tool("zizmor", "--offline", "--no-progress", "--color=never", "--min-severity=medium", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_expression_is_in_a_shell() -> None:
    """Every input reaches the shell through the environment."""
    assert [step["id"] for step in STEPS if "${{" in step.get("run", "")] == []


def test_no_expression_names_a_folder_of_the_machine() -> None:
    """In a container an expression names the host's folder, missing there: the shell reads its own variable."""
    assert re.findall(r"\b(?:runner\.\w+|github\.(?:action_path|workspace|event_path))\b", str(STEPS)) == []


@pytest.mark.parametrize("name", ["action", *WORKFLOWS])
def test_what_is_used_is_pinned(name: str) -> None:
    """Actions of others are pinned by commit, which cannot be moved."""
    text = WORKFLOWS.get(name) or (ROOT / "action.yml").read_text("utf-8")
    found = used(yaml.safe_load(text))
    assert found
    assert [one for one in found if not (OURS.match(one) or re.search(r"@[0-9a-f]{40}$", one))] == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_has_no_rights_to_spare(name: str) -> None:
    """No rights by default, read for the job, write for the comment only; no token stays in the checkout."""
    read = yaml.safe_load(WORKFLOWS[name])
    triggers = read[True]  # YAML takes `on` for a truth
    assert "pull_request_target" not in triggers
    assert read["permissions"] == {}
    for job in read["jobs"].values():
        wanted = {"contents": "read"}
        if any(step.get("with", {}).get("comment") == "true" for step in job["steps"]):
            wanted["pull-requests"] = "write"
        assert job["permissions"] == wanted
        checkout = next(step for step in job["steps"] if "actions/checkout" in step["uses"])
        assert checkout["with"]["persist-credentials"] is False


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_gives_what_the_action_takes(name: str) -> None:
    """Each given input exists, and each required one is given."""
    for job in yaml.safe_load(WORKFLOWS[name])["jobs"].values():
        for step in (one for one in job["steps"] if OURS.match(one.get("uses", ""))):
            assert set(step["with"]) <= set(ACTION["inputs"])
            assert "command" in step["with"]


def test_the_manual_names_every_input_and_output() -> None:
    """docs/ci.md has a row for each input and output."""
    manual = MANUAL.read_text("utf-8")
    names = [*ACTION["inputs"], *ACTION["outputs"]]
    assert [name for name in names if f"| `{name}` |" not in manual] == []


def test_our_questions_have_answers() -> None:
    """Each gold entity of our own questions exists in our source."""
    for case in run.read_qrels(ROOT / ".github/questions.jsonl").cases:
        for gold in case.gold:
            source = (ROOT / gold.path).read_text("utf-8")
            assert re.search(rf"(def|class) {re.escape(gold.name)}\b", source), (case.id, gold)


def test_an_old_python_is_refused_clearly(tmp_path: Path) -> None:
    """If no Python is recent enough, the installation says so in an annotation and ends."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name in ("bash", "mkdir"):
        (binaries / name).symlink_to(str(shutil.which(name)))
    old = binaries / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    environ = {"PATH": str(binaries), "RUNNER_TEMP": str(tmp_path), "GITHUB_ACTION_PATH": str(ROOT)}
    words = [str(shutil.which("bash")), str(ROOT / "ci/install.sh")]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout.startswith("::error title=xscore::There is no Python 3.11")
