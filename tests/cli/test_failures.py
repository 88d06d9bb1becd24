"""Every failure has one exit code, one message, one JSON object; an unknown name ends with 1, an
empty list with 0."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ci.reference import all_errors
from tests.cli.conftest import Run
from xscore.cli.main import EXIT_CODES
from xscore.cli.main import xscore_command as front_door
from xscore.cli.start import run_and_report
from xscore.platform.errors import BudgetExhausted, StoreDamaged, XscoreError

NAMES = [
    ("memory", "show", "m_nope"),
    ("memory", "update", "m_nope", "--title", "t"),
    ("memory", "delete", "m_nope"),
    ("memory", "feedback", "m_nope", "accept"),
    ("memory", "mute", "orm", "--undo"),
    ("memory", "wipe", "--kind", "todo", "--yes"),
    ("memory", "list", "--kind", "todo"),
    ("memory", "export", "--layer", "project"),
    ("memory", "update", "m_nope", "--fix", "set it"),
    ("session", "resume", "s_nope"),
    ("session", "close"),
    ("session", "load", "nope"),
    ("session", "delete", "nope"),
    ("session", "save", "nope"),
    ("memory", "imported", "--from", "aider"),
    ("memory", "wipe", "--session", "nope", "--yes"),
    ("history", "delete", "t_nope", "--yes"),
    ("graph", "related", "nope.py"),
    ("explain", "nope.py"),
    ("continue", "t_nope"),
    ("ask", "go on", "--checkpoint", "nope"),
]
LISTS = {
    ("memory", "list"): "memories",
    ("memory", "export"): "memories",
    ("memory", "mute", "--list"): "muted",
    ("memory", "suggest"): "suggestions",
    ("session", "list"): "sessions",
    ("session", "resume"): "sessions",
    ("session", "checkpoints"): "checkpoints",
    ("memory", "imported"): "sessions",
}


def raising(error: BaseException) -> Callable[[], object]:
    """Make a command that raises."""

    def work() -> object:
        raise error

    return work


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_every_error_ends_with_its_own_code(
    kind: type[XscoreError], capsys: pytest.CaptureFixture[str]
) -> None:
    """An error of the tree ends the process with its exit code, which is in the table."""
    assert run_and_report(raising(kind("it broke", hint="mend it")), []) == kind.exit_code
    assert kind.exit_code in EXIT_CODES
    assert "it broke" in capsys.readouterr().err


def test_error_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Under --json an error is one object on stdout and nothing on stderr."""
    code = run_and_report(
        raising(StoreDamaged("page 3 is torn", hint="rebuild it")), ["ask", "x", "--json"]
    )
    out, err = capsys.readouterr()
    assert json.loads(out) == {
        "schema": 1,
        "error": {
            "code": 6,
            "kind": "store_damaged",
            "message": "page 3 is torn",
            "hint": "rebuild it",
        },
    }
    assert (code, err) == (6, "")


def test_an_error_inside_a_group_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """An error wrapped by a task group still shows its own message."""
    group = ExceptionGroup(
        "tasks", [ExceptionGroup("inner", [BudgetExhausted("the cap is near")])]
    )
    assert run_and_report(raising(group), []) == 4
    assert "the cap is near" in capsys.readouterr().err


def test_a_bug_is_one_line_without_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown exception exits with 70, is called a bug, and shows its traceback only under
    --verbose."""
    assert run_and_report(raising(KeyError("x")), []) == 70
    assert "Traceback" not in (quiet := capsys.readouterr().err) and "--verbose" in quiet
    assert run_and_report(raising(KeyError("x")), ["--verbose"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_a_message_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences inside a message (a path out of a repository) are shown, not obeyed."""
    run_and_report(raising(StoreDamaged("bad \x1b[2Jname")), [])
    assert "bad \\x1b[2Jname" in capsys.readouterr().err


def test_usage_error_as_json(xscore: Run) -> None:
    """A command line that click rejects is JSON too if --json is among the arguments."""
    done = xscore("ask", "x", "--bogus", "--json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["code"], error["kind"]) == (2, 2, "usage")
    assert "--bogus" in error["message"]
    assert done.stderr == ""


def test_a_reader_who_left_is_no_error() -> None:
    """A closed pipe ends quietly: nothing on stderr."""
    for page in ("config show", "config show --json", "ask --help"):
        command = f"{sys.executable} -m xscore {page}; echo code $? >&2"
        done = subprocess.run(
            ["bash", "-c", f"({command}) | true"], capture_output=True, text=True, check=False
        )
        assert done.stderr == "code 0\n", page


def test_a_full_disk_is_told() -> None:
    """Unwritable output is an error with a code, not a traceback."""
    command = f"{sys.executable} -m xscore config show > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "standard output cannot be written" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("command", NAMES, ids=" ".join)
def test_what_matches_nothing_ends_with_one(
    xscore: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """P06: a name, id or filter without a match exits with 1, nothing on stdout, a message on
    stderr."""
    (tmp_path / "a.py").write_text("x = 1\n")
    done = xscore(*command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr and "nothing to read" not in done.stderr


@pytest.mark.parametrize("command", LISTS, ids=" ".join)
def test_an_empty_list_is_no_error(
    xscore: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """P06: an empty list exits with 0, a line on stderr, `[]` under --json."""
    done = xscore(*command, cwd=tmp_path)
    messages = [
        line for line in done.stderr.splitlines() if "there is no store here yet" not in line
    ]
    assert (done.returncode, done.stdout, len(messages)) == (0, "", 1)
    in_json = xscore(*command, "--json", cwd=tmp_path)
    assert in_json.returncode == 0 and json.loads(in_json.stdout)[LISTS[command]] == []


def test_the_tables_name_every_code() -> None:
    """The contract's table and the last lines of the help list every exit code of the program."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text("utf-8")
    table = page.split("| code | means |")[1]
    for code, means in EXIT_CODES.items():
        assert f"| {code} | {means} |" in table
        assert f"{code} " in str(front_door.epilog)
