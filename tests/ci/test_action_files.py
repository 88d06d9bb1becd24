"""The action and the workflow as files: valid, pinned, no foreign text in a shell, minimal
rights."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.ci.fake_runner import ACTION, ROOT, STEPS
from xscore.extensions.evaluation import cases

MANUAL = ROOT / "docs/ci.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", MANUAL.read_text("utf-8"), re.DOTALL)
EVERY = {
    path.stem: path.read_text("utf-8")
    for path in sorted((ROOT / ".github/workflows").glob("*.yml"))
}
EVERY |= {f"example-{n}": one for n, one in enumerate(EXAMPLES, 1)}
WORKFLOWS = {
    name: text for name, text in EVERY.items() if name == "xscore" or name.startswith("example")
}
"""The workflows that use the action."""
OURS = re.compile(r"^(\./|OWNER/xscore@TAG$)")


def tool(name: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a tool from this environment. given: its standard input."""
    words = [str(Path(sys.executable).with_name(name)), *arguments]
    return subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)


def assert_sound(schema: str, texts: Mapping[Path, str]) -> None:
    """Assert that GitHub's schema accepts the files, and that zizmor finds nothing unpinned and
    nothing for strangers."""
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("OWNER/xscore@TAG", f"OWNER/xscore@{'0' * 40}"), "utf-8")
    # Both tools take seconds to start, so each reads all files at once.
    paths = [str(path) for path in texts]
    by_schema = ("--builtin-schema", f"vendor.github-{schema}")
    for done in (
        tool("check-jsonschema", *by_schema, *paths),
        tool(
            "zizmor",
            "--offline",
            "--no-progress",
            "--color=never",
            "--min-severity=medium",
            *paths,
        ),
    ):
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_action_is_sound(tmp_path: Path) -> None:
    """Valid, with no injection, no cache to poison, no token left behind, all that it uses pinned
    by commit."""
    action = (ROOT / "action.yml").read_text("utf-8")
    assert_sound("actions", {tmp_path / "action.yml": action})


def test_every_workflow_is_sound(tmp_path: Path) -> None:
    """Ours and each example of the manual: the same."""
    folder = tmp_path / ".github/workflows"
    assert_sound("workflows", {folder / f"{name}.yml": text for name, text in EVERY.items()})


@pytest.mark.parametrize("name", EVERY)
def test_no_workflow_has_rights_to_spare(name: str) -> None:
    """No right is global."""
    assert yaml.safe_load(EVERY[name])["permissions"] == {}


def test_the_shell_is_clean() -> None:
    """shellcheck reports nothing for the scripts and the lines in the action."""
    for script in sorted((ROOT / "ci").glob("*.sh")):
        done = tool("shellcheck", str(script))
        assert done.returncode == 0, done.stdout
    for step in (candidate for candidate in STEPS if "run" in candidate):
        done = tool("shellcheck", "--shell=bash", "-", stdin=step["run"])
        assert done.returncode == 0, done.stdout


def test_no_expression_is_in_a_shell() -> None:
    """Every input reaches the shell through the environment."""
    assert [step["id"] for step in STEPS if "${{" in step.get("run", "")] == []


def test_no_expression_names_a_folder_of_the_machine() -> None:
    """In a container an expression names the host's folder, missing there: the shell reads its own
    variable."""
    places = r"\b(?:runner\.\w+|github\.(?:action_path|workspace|event_path))\b"
    assert re.findall(places, str(STEPS)) == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_gives_the_action_what_it_takes(name: str) -> None:
    """Read for the job, write for the comment only, no token in the checkout; inputs exist,
    required ones are given."""
    read = yaml.safe_load(WORKFLOWS[name])
    assert "pull_request_target" not in read[True]  # YAML takes `on` for a truth
    for job in read["jobs"].values():
        permissions = {"contents": "read"}
        for inputs in (
            step["with"] for step in job["steps"] if OURS.match(step.get("uses", ""))
        ):
            assert {"command"} <= set(inputs) <= set(ACTION["inputs"])
            permissions |= {"pull-requests": "write"} if inputs.get("comment") == "true" else {}
        assert job["permissions"] == permissions
        checkout = next(step for step in job["steps"] if "actions/checkout" in step["uses"])
        assert checkout["with"]["persist-credentials"] is False


def test_the_manual_names_every_input_and_output() -> None:
    """docs/ci.md has a row for each input and output."""
    manual = MANUAL.read_text("utf-8")
    names = [*ACTION["inputs"], *ACTION["outputs"]]
    assert [name for name in names if f"| `{name}` |" not in manual] == []


def test_our_questions_have_answers() -> None:
    """Each gold entity of our own questions exists in our source."""
    for case in cases.read_cases(ROOT / ".github/questions.jsonl").cases:
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
    environ = {
        "PATH": str(binaries),
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_ACTION_PATH": str(ROOT),
    }
    words = [str(shutil.which("bash")), str(ROOT / "ci/install.sh")]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout.startswith("::error title=xscore::There is no Python 3.11")
