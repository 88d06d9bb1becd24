"""The session benchmark, end to end, with a scripted agent that has no model; no real agent is
run."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import MakeRepo, git

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT))  # the benchmarks are no installed package

from benchmarks.sessions.agents import AGENTS, CONDITIONS, MEMORY, Session  # noqa: E402  needs the line above

PROMPT = (
    "The discounted total of the prices is higher than their sum: the discount is added and not"
    " taken off."
)
DECISION = "discounted_total: a discount is taken off the prices, never added."
PARTS = {
    f"part_{number:02}.py": "\n\n".join(
        f"def step_{number}_{step}(x):\n    return x + {step}" for step in range(40)
    )
    for number in range(12)
}
WRONG = {
    "zz_discount.py": "def discounted_total(prices, rate):\n    return sum(prices) * (1 + rate)\n"
}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the harness as its README says."""
    environ = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-m", "benchmarks.sessions", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, check=False
    )


@pytest.fixture
def repository(make_repo: MakeRepo) -> Path:
    """A repository with a mistake in its last file."""
    return make_repo({**PARTS, **WRONG})


def task_list(folder: Path, repository: Path, *, correction: str) -> str:
    """Write a list of one task, which the scripted agent does by this correction."""
    task = {
        "name": "discount",
        "repository": str(repository),
        "commit": git(repository, "rev-parse", "HEAD").strip(),
        "prompt": f"{PROMPT}\n{json.dumps(['1 + rate', correction])}",
        "facts": [DECISION],
        "chats": [
            [
                {"role": "user", "text": "Is the discount a rate of the total of the prices?"},
                {"role": "assistant", "text": "Yes, discounted_total takes a rate."},
            ]
        ],
        "check": [
            "from zz_discount import discounted_total",
            "assert discounted_total([10], 0.5) == 5",
        ],
    }
    file = folder / "tasks.json"
    file.write_text(json.dumps([task]))
    return str(file)


@pytest.mark.verify
def test_sessions_are_run_recorded_and_told_again(repository: Path, tmp_path: Path) -> None:
    """Each condition runs from pinned files, gets the context, leaves the repository unchanged and
    replays alike."""
    tasks = task_list(tmp_path, repository, correction="1 - rate")
    done = run("--agent", "scripted", "--tasks", tasks, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:]}
    assert list(rows) == list(CONDITIONS)
    assert all(row[:2] == ["1", "1"] for row in rows.values())
    assert all(
        int(rows[with_xscore][2].replace(",", "")) < int(rows["bare"][2].replace(",", ""))
        for with_xscore in CONDITIONS[1:]
    )
    assert git(repository, "status", "--short") == ""
    for condition in CONDITIONS:
        file = tmp_path / f"out/scripted-discount-{condition}-0.jsonl"
        head, context, *records, end = map(json.loads, file.read_text().splitlines())
        injected = json.dumps([record for record in records if record["kind"] == "injected"])
        assert ("zz_discount.py" in injected) is (condition in MEMORY)
        assert (DECISION in injected) is (MEMORY.get(condition) in ("first", "every"))
        assert (head["condition"], head["task"]["name"]) == (condition, "discount")
        assert ("zz_discount.py" in context["line"]["text"]) is (condition != "bare")
        assert (end["exit_code"], end["passed"], end["our_usd"]) == (0, True, "0")
    assert run("--replay", "out", cwd=tmp_path).stdout == done.stdout


def test_a_task_that_is_not_done_is_not_passed(repository: Path, tmp_path: Path) -> None:
    """The check decides success, not the agent's own claim; the claim is recorded in the file."""
    tasks = task_list(tmp_path, repository, correction="2 - rate")
    done = run(
        "--agent",
        "scripted",
        "--tasks",
        tasks,
        "--out",
        "out",
        "--conditions",
        "bare",
        cwd=tmp_path,
    )
    assert done.stdout.splitlines()[1].split()[:3] == ["bare", "1", "0"]
    assert "AssertionError" in (tmp_path / "out/scripted-discount-bare-0.jsonl").read_text()


def test_an_agent_that_is_not_there_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the agent's program is missing, nothing runs and the exit code is 2."""
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("--agent", "codex", cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing was run" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_published_tasks_are_whole() -> None:
    """Six tasks of public repositories, each pinned to a commit, with a prompt and a check that is
    Python."""
    tasks = json.loads((CHECKOUT / "benchmarks/sessions/tasks.json").read_text())
    assert len({task["name"] for task in tasks}) == 6
    for task in tasks:
        assert re.fullmatch(r"https://github\.com/[\w-]+/[\w-]+\.git", task["repository"])
        assert re.fullmatch("[0-9a-f]{40}", task["commit"])
        assert len(task["prompt"].split()) > 30
        assert any(
            "assert" in line
            for line in compile("\n".join(task["check"]), "check", "exec") and task["check"]
        )


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_a_session_is_told_of_xscore_and_nothing_else(
    agent: str, condition: str, tmp_path: Path
) -> None:
    """One condition has the server, one the hook, the baseline neither; Codex's values are TOML."""
    (tmp_path / "outside").mkdir()
    command = AGENTS[agent].command(Session(PROMPT, condition, tmp_path, tmp_path / "outside"))
    options = [word for word in command if word.startswith(("mcp_servers.", "hooks."))]
    tomllib.loads("\n".join(options))
    written = " ".join(options) + "".join(file.read_text() for file in tmp_path.rglob("*.json"))
    assert PROMPT in command
    assert ("xscore hook prompt" in written) is (condition in MEMORY)
    assert ('["mcp"]' in written) is (condition == "mcp")


@pytest.mark.parametrize(
    ("agent", "lines"),
    [
        (
            "claude",
            [
                {"type": "assistant"},
                {"type": "result", "usage": {"input_tokens": 4, "output_tokens": 3}},
            ],
        ),
        (
            "codex",
            [
                {
                    "type": "turn.completed",
                    "usage": {"input_tokens": 5, "cached_input_tokens": 4, "output_tokens": 2},
                }
            ],
        ),
        (
            "gemini",
            [
                {"text": "words"},
                {"type": "result", "stats": {"total_tokens": 7, "input_tokens": 5}},
            ],
        ),
    ],
)
def test_tokens_are_those_that_the_agent_counted(
    agent: str, lines: list[dict[str, object]]
) -> None:
    """Cached tokens are counted once; lines without counts are skipped."""
    assert AGENTS[agent].tokens(lines) == 7
