"""The hook, the crontab line and the CI job of docs/batch.md, run as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import MakeRepo, git
from tests.pipeline.conftest import FILES
from tests.servers.openai_server import OpenAIServer
from tests.waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "batch.md").read_text("utf-8")
PATIENCE_S = 60.0
LIST = '{"id": "sum", "task": "where are prices added up?"}\n'


def block(language: str) -> str:
    """Return the one code block of this language."""
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(code)


class Machine:
    """A user's machine: a home, a repository, `xscore` on the path, and a judge."""

    def __init__(self, root: Path, home: Path, url: str) -> None:
        self.root, self.home, self.url = root, home, url
        program = home / "bin" / "xscore"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m xscore "$@"\n')
        program.chmod(0o755)
        (home / "shop").symlink_to(root)
        self.environ = {
            **os.environ,
            "HOME": str(home),
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "sk-test",
            "XSCORE_JUDGE_MODEL": "openai:judge-2",
            "XSCORE_JUDGE_PROBE": "false",
        }

    def run(self, command: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a line in a shell."""
        return subprocess.run(
            ["sh", "-c", command],
            cwd=self.root,
            env={**self.environ, **variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


@pytest.fixture
def machine(make_repo: MakeRepo, server: OpenAIServer, own_home: Path) -> Machine:
    """A repository with a list of questions."""
    root = make_repo({**FILES, "queries.jsonl": LIST, ".github/queries.jsonl": LIST})
    return Machine(root, own_home, server.url)


def merged(machine: Machine, name: str) -> "subprocess.CompletedProcess[str]":
    """Change a function on a branch and merge it, as a user does; the hook runs."""
    git(machine.root, "checkout", "-qb", name)
    path = machine.root / "shop" / "prices.py"
    path.write_text(path.read_text() + f"\n\ndef {name}() -> int:\n    return 1\n")
    git(machine.root, "commit", "-qam", name)
    git(machine.root, "checkout", "-q", "main")
    return machine.run(
        f"git -c user.name=t -c user.email=t@example.invalid merge -q --no-ff -m {name} {name}"
    )


@pytest.mark.verify
def test_the_hook_judges_what_a_merge_brought_and_never_fails_it(
    machine: Machine, server: OpenAIServer
) -> None:
    """The merge returns before the judging; its changes are judged for the recent task; failures
    are in the log."""
    hook = machine.root / ".git" / "hooks" / "post-merge"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(block("sh"))
    hook.chmod(0o755)
    log = machine.root / ".git" / "xscore-rescore.log"
    assert (
        machine.run("xscore ask 'where is the discount taken?' --no-answer -q").returncode == 0
    )
    sent, program, go = (
        server.counts.requests,
        machine.home / "bin" / "xscore",
        machine.home / "go",
    )
    wrapped = program.read_text()
    program.write_text(
        wrapped.replace("exec", f"until test -e '{go}'; do sleep 0.1; done\nexec")
    )
    assert merged(machine, "shipping").returncode == 0
    assert server.counts.requests == sent, "the merge waited for the judging"
    go.touch()
    wait_until(lambda: server.counts.requests > sent, otherwise="nothing was judged")
    assert machine.run(f"flock '{log}' true").returncode == 0  # it is over
    assert log.read_text() == "" and server.counts.judgments
    program.unlink()
    assert merged(machine, "returns").returncode == 0
    machine.run(f"flock '{log}' true")


@pytest.mark.verify
def test_the_line_for_cron_works_in_an_empty_environment(
    machine: Machine, server: OpenAIServer
) -> None:
    """cron provides only a home and a path; the second night costs nothing."""
    line = block("crontab").strip()
    fields = line.split(maxsplit=5)
    assert all(re.fullmatch(r"[\d*,/-]+", field) for field in fields[:5])
    key = machine.home / ".xscore-key"
    names = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "XSCORE_JUDGE_MODEL", "XSCORE_JUDGE_PROBE")
    key.write_text("".join(f"export {name}={machine.environ[name]}\n" for name in names))
    for _ in range(2):
        done = subprocess.run(
            ["/bin/sh", "-c", fields[5]],
            cwd="/",
            env={name: machine.environ[name] for name in ("HOME", "PATH")},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (machine.home / "results.jsonl").is_file() and server.counts.requests == 1


@pytest.mark.verify
def test_the_job_for_ci_judges_and_keeps_its_store(
    machine: Machine, server: OpenAIServer, tmp_path: Path
) -> None:
    """Its steps pass on a new machine with a restored store."""
    job = yaml.safe_load(block("yaml"))["jobs"]["rescore"]
    steps = {step.get("name", ""): step for step in job["steps"]}
    judge = steps["Judge"]["run"]
    temp = tmp_path / "runner"
    temp.mkdir()
    trust = {
        "XSCORE_TRUST_STORE": steps["Judge"]["env"]["XSCORE_TRUST_STORE"],
        "RUNNER_TEMP": str(temp),
    }
    for home in ("one", "two"):  # a runner has a new home each time; the store is restored
        (tmp_path / home).mkdir()
        done = machine.run(judge, **trust, HOME=str(tmp_path / home))
        assert done.returncode == 0, done.stderr
    assert server.counts.requests == 1 and (temp / "results.jsonl").is_file()
