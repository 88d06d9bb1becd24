"""`xscore history list` and `xscore history show`: past turns and their output."""

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.basket import script_flags
from tests.cli.conftest import Run
from tests.cli.terminals import shown_on_terminal
from tests.conftest import MakeRepo, store_file

SOURCE = {
    "shop.py": (
        "def total(lines):\n"
        '    """Add up."""\n'
        "    return sum(lines)\n\n\n"
        "def other():\n"
        "    return 1\n"
    )
}
RULES = {
    "default": 0.1,
    "answer": "It adds up.",
    "rules": [{"entity": "total", "score": 0.9, "reason": "the sum"}],
}


@pytest.fixture
def repo(make_repo: MakeRepo) -> Path:
    """A committed repository of one file."""
    return make_repo(SOURCE)


@pytest.fixture
def models(tmp_path: Path) -> tuple[str, ...]:
    """Options for a scripted judge and answering model."""
    return script_flags(tmp_path / "script.json", RULES)


def change(repo: Path, sql: str, *parameters: object) -> None:
    """Change the store directly."""
    connection = sqlite3.connect(store_file(repo))
    # Damage asks no rule of the schema.
    connection.execute("PRAGMA ignore_check_constraints = ON")
    with connection:
        connection.execute(sql, parameters)
    connection.close()


def listed(xscore: Run, repo: Path, *options: str) -> list[dict[str, Any]]:
    """Return the listed turns as objects."""
    done = xscore("history", "list", "--json", *options, cwd=repo)
    turns: list[dict[str, Any]] = json.loads(done.stdout)["turns"]
    return turns


def test_turns_are_listed_newest_first(
    xscore: Run, repo: Path, models: tuple[str, ...]
) -> None:
    """Each turn with state, dollars, kept memories, command, judge and the first line of its
    task."""
    xscore("ask", "what is total\nand why", *models, cwd=repo)
    xscore("context", "another", *models[:2], cwd=repo)
    done = xscore("history", "list", cwd=repo)
    _, first, second = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == ""
    assert "context (scripted:" in first and first.rstrip().endswith("another")
    assert "done" in second and "$0" in second and "1 of 2" in second
    assert "ask (scripted:" in second and "what is total" in second and "and why" not in second
    newest, oldest = listed(xscore, repo)
    assert (newest["command"], oldest["command"]) == ("context", "ask")
    assert oldest["answer"] == "kept" and newest["answer"] == "none"
    assert oldest["task"] == "what is total\nand why"
    assert oldest["coverage"] == {
        "candidates": 2,
        "judged": 2,
        "cached": 0,
        "carried": 0,
        "unjudged": 0,
    }
    assert oldest["spent"]["attempts"] >= 2 and oldest["spent"]["cost_usd"] == "0"


@pytest.mark.parametrize("columns", [80, 120])
def test_a_task_is_read_in_a_narrow_window(
    columns: int, xscore: Run, repo: Path, own_home: Path
) -> None:
    """Under 110 columns the task has its own line below the figures; no line is wider than the
    window."""
    task = "where is the total of an order summed"
    xscore("context", task, "--judge", "lexical", cwd=repo)
    environ = {"TERM": "dumb", "NO_COLOR": "1", "HOME": str(own_home)}
    seen, _ = shown_on_terminal(
        ["-m", "xscore", "history", "list"], cwd=repo, environ=environ, columns=columns
    )
    assert (f"\n  {task}" in seen) == (columns == 80) and "where is the total" in seen
    assert max(map(len, seen.splitlines())) <= columns


def test_a_long_task_is_cut_in_a_pipe(xscore: Run, repo: Path, models: tuple[str, ...]) -> None:
    """A turn has one line of a sensible length; JSON has all of its task."""
    task = "what is total " + "and why " * 1_250
    xscore("context", task, *models[:2], cwd=repo)
    head, line = xscore("history", "list", cwd=repo).stdout.splitlines()
    assert "what is total and why" in line and line.endswith("…")
    assert len(line) < len(head) + 500
    assert listed(xscore, repo)[0]["task"].strip() == task.strip()


def test_a_list_is_narrowed(xscore: Run, repo: Path, models: tuple[str, ...]) -> None:
    """Filters by number, time, state and session."""
    for task in ("one", "two", "three"):
        xscore("ask", task, *models, cwd=repo)
    change(repo, "UPDATE turn SET started_at = ? WHERE task = 'one'", time.time() - 90_000)
    change(repo, "UPDATE turn SET state = 'failed', thread = 's_other' WHERE task = 'two'")
    assert [turn["task"] for turn in listed(xscore, repo, "--limit", "2")] == ["three", "two"]
    assert [turn["task"] for turn in listed(xscore, repo, "--last", "24h")] == ["three", "two"]
    assert listed(xscore, repo, "--last", "30s") == listed(xscore, repo, "--last", "24h")
    assert [turn["task"] for turn in listed(xscore, repo, "--last", "2d")] == [
        "three",
        "two",
        "one",
    ]
    assert [turn["task"] for turn in listed(xscore, repo, "--state", "failed")] == ["two"]
    assert [turn["task"] for turn in listed(xscore, repo, "--session", "s_oth")] == ["two"]
    assert [turn["task"] for turn in listed(xscore, repo, "--grep", "TWO")] == ["two"]
    none = xscore("history", "list", "--grep", "four", cwd=repo)
    assert none.returncode == 1 and '"four"' in none.stderr and "begins one" not in none.stderr
    assert xscore("history", "list", "--state", "partial", cwd=repo).returncode == 1
    assert xscore("history", "list", "--last", "soon", cwd=repo).returncode == 2


def test_a_turn_whose_process_is_gone_is_unfinished(
    xscore: Run, repo: Path, models: tuple[str, ...]
) -> None:
    """Killed turns are distinguished from running ones, in the list and by `--state`; show says how
    to continue."""
    for task in ("killed", "at work"):
        xscore("ask", task, *models, cwd=repo)
    from xscore.platform.processes import process_identity

    for task, who in (
        ("killed", "999999999 1 aaaaaaaa nowhere"),
        ("at work", process_identity()),
    ):
        change(
            repo,
            "UPDATE turn SET state = 'running', started_at = ? WHERE task = ?",
            time.time() - 7_200,
            task,
        )
        change(
            repo,
            "UPDATE turn SET context = json_set(context, '$.process', ?) WHERE task = ?",
            who,
            task,
        )
    change(repo, "DELETE FROM receipt")
    change(repo, "DELETE FROM turn_figures")
    assert {turn["task"]: turn["state"] for turn in listed(xscore, repo)} == {
        "killed": "unfinished",
        "at work": "running",
    }
    (gone,) = listed(xscore, repo, "--state", "unfinished")
    assert (
        gone["coverage"] is None and gone["total_s"] is None and gone["spent"]["attempts"] >= 2
    )
    done = xscore("history", "show", gone["id"], cwd=repo)
    assert done.returncode == 1
    assert "left no receipt: it is unfinished" in done.stderr
    assert f"xscore continue {gone['id']}" in done.stderr
    assert xscore("history", "show", gone["id"], "--calls", cwd=repo).returncode == 0
    xscore("continue", gone["id"][:8], cwd=repo)  # the beginning of an id will do
    states = {turn["id"]: turn["state"] for turn in listed(xscore, repo)}
    assert states[gone["id"]] == "continued" and "unfinished" not in states.values()
    assert "it is continued" in xscore("history", "show", gone["id"], cwd=repo).stderr


def test_an_erased_answer_is_told_of(xscore: Run, repo: Path, models: tuple[str, ...]) -> None:
    """After its exchange was erased a turn is still listed and shown, and says what is missing."""
    xscore("ask", "what is total", *models, cwd=repo)
    (exchange,) = json.loads(xscore("memory", "list", "--json", cwd=repo).stdout)["memories"]
    done = xscore("memory", "delete", exchange["id"], "--yes", cwd=repo)
    assert done.returncode == 0, done.stderr
    (turn,) = listed(xscore, repo)
    assert turn["answer"] == "erased"
    assert "erased" in xscore("history", "list", cwd=repo).stdout
    shown = xscore("history", "show", "latest", cwd=repo)
    assert shown.returncode == 0
    assert "It adds up." not in shown.stdout + shown.stderr
    assert "its answer was erased" in shown.stderr


def test_a_turn_is_shown_as_it_was_printed(
    xscore: Run, repo: Path, models: tuple[str, ...]
) -> None:
    """The same answer on stdout; the same page on stderr below one line with the turn."""
    answered = xscore("ask", "what is total", *models, cwd=repo)
    shown = xscore("history", "show", cwd=repo)
    head, _, rest = shown.stderr.partition("\n")
    assert shown.returncode == 0
    assert shown.stdout == answered.stdout == "It adds up.\n"
    assert head.endswith('"what is total"') and head.startswith("turn t_")
    assert rest.strip() == answered.stderr.strip()


def test_the_calls_of_a_turn_are_a_table(
    xscore: Run, repo: Path, models: tuple[str, ...]
) -> None:
    """`--calls`: one line for each attempt, and all its figures as JSON."""
    xscore("ask", "what is total", *models, cwd=repo)
    shown = xscore("history", "show", "latest", "--calls", cwd=repo)
    table = shown.stdout.split("It adds up.\n")[1].splitlines()
    assert table[0].split() == [
        "at",
        "stage",
        "outcome",
        "took",
        "in",
        "out",
        "dollars",
        "memories",
        "model",
    ]
    assert [line.split()[2] for line in table[1:]] == ["judge"] * (len(table) - 2) + ["primary"]
    calls = json.loads(
        xscore("history", "show", "latest", "--calls", "--json", cwd=repo).stdout
    )["calls"]
    assert len(calls) == len(table) - 1
    assert calls[0]["stage"] == "judge"
    assert calls[0]["outcome"] == "ok"
    assert calls[0]["cost_usd"] == "0"


def test_the_objects_keep_their_fields(
    xscore: Run, repo: Path, models: tuple[str, ...]
) -> None:
    """X25: within a schema version fields of turns and calls may be added, never renamed or
    removed."""
    xscore("ask", "what is total", *models, cwd=repo)
    (turn,) = listed(xscore, repo)
    usage = {
        "input_tokens",
        "cached_input_tokens",
        "cache_write_tokens",
        "cache_write_1h_tokens",
    }
    usage |= {"output_tokens", "reasoning_tokens", "cost_usd", "estimated"}
    assert set(turn) >= {
        *(
            "id",
            "at",
            "thread",
            "state",
            "command",
            "judge",
            "task",
            "task_is_erased",
            "answer",
            "coverage",
        ),
        *("kept", "threshold", "spent", "total_s"),
    }
    assert set(turn["spent"]) >= {"calls", "attempts", *usage}
    shown = json.loads(
        xscore("history", "show", turn["id"], "--calls", "--json", cwd=repo).stdout
    )
    assert next(iter(shown)) == "schema" and shown["schema"] == 1
    assert set(shown["calls"][0]) >= {
        *(
            "id",
            "stage",
            "provider",
            "host",
            "model",
            "started_at",
            "duration_s",
            "outcome",
            "candidates",
        ),
        *usage,
    }


def test_damaged_rows_are_named_and_hide_no_turn(
    xscore: Run, repo: Path, models: tuple[str, ...]
) -> None:
    """The other turns are listed, with the number of omitted rows; never "no turns"."""
    xscore("ask", "first", *models, cwd=repo)
    xscore("ask", "second", *models, cwd=repo)
    change(repo, "UPDATE turn SET started_at = -1e18 WHERE task = 'first'")
    change(repo, "UPDATE call SET cost = -1 WHERE stage = 'primary'")
    done = xscore("history", "list", cwd=repo)
    assert done.returncode == 0
    assert "second" in done.stdout
    assert "first" not in done.stdout
    assert (
        "left out, since they are damaged: 1 rows of turns. Rebuild it with `xscore store rebuild`"
        in done.stderr
    )
    assert "1 rows of calls" in done.stderr
    listing = json.loads(xscore("history", "list", "--json", cwd=repo).stdout)
    assert ([turn["task"] for turn in listing["turns"]], listing["left_out"]) == (["second"], 2)


def test_your_own_memories_are_shown_as_such(
    xscore: Run, repo: Path, models: tuple[str, ...]
) -> None:
    """A receipt holds no text of the user's memories; the page says so instead."""
    xscore(
        "memory",
        "add",
        "I write tests first",
        "--layer",
        "user",
        "--kind",
        "preference",
        "--key",
        "tests",
        cwd=repo,
    )
    options = [*models, "--threshold", "0.05"]
    answered = xscore("ask", "how do I work", *options, cwd=repo)
    shown = xscore("history", "show", "latest", cwd=repo)
    assert answered.returncode == 0 and "one of your own memories" in shown.stderr
    assert "tests first" not in shown.stdout + shown.stderr
