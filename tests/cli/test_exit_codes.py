"""One rule for missing things: an unknown name exits with 1, a list of an empty store with 0."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from xscore.cli.main import EXIT_CODES
from xscore.cli.main import xscore_command as front_door

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


@pytest.mark.parametrize("command", NAMES, ids=" ".join)
def test_what_matches_nothing_ends_with_one(xscore: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    """P06: a name, id or filter without a match exits with 1, nothing on stdout, a message on stderr."""
    (tmp_path / "a.py").write_text("x = 1\n")
    done = xscore(*command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr and "nothing to read" not in done.stderr


@pytest.mark.parametrize("command", LISTS, ids=" ".join)
def test_an_empty_list_is_no_error(xscore: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    """P06: an empty list exits with 0, a line on stderr, `[]` under --json."""
    done = xscore(*command, cwd=tmp_path)
    said = [line for line in done.stderr.splitlines() if "there is no store here yet" not in line]
    assert (done.returncode, done.stdout, len(said)) == (0, "", 1)
    told = xscore(*command, "--json", cwd=tmp_path)
    assert told.returncode == 0 and json.loads(told.stdout)[LISTS[command]] == []


def test_the_tables_name_every_code() -> None:
    """The contract's table and the last lines of the help list every exit code of the program."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text("utf-8")
    table = page.split("| code | means |")[1]
    for code, means in EXIT_CODES.items():
        assert f"| {code} | {means} |" in table
        assert f"{code} " in str(front_door.epilog)
