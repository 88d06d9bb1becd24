"""Files and stores behind a link that leads where this user may not look: named, never a crash."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import git, write_files
from tests.programs import run_without_root_powers

RUN = """
import runpy, sys
sys.argv = ["xscore", *{arguments!r}]
runpy.run_module("xscore", run_name="__main__")
"""
OPEN = """
import xscore
try:
    with xscore.open({path!r}) as opened:
        opened.status()
except xscore.XscoreError as error:
    print(type(error).__name__)
"""
QUESTION = '{"id": "1", "task": "total"}\n'


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """Make a project with a link to a file and one to a folder, in a folder that is closed."""
    root = tmp_path / "project"
    files = {"a.py": "def total():\n    return 1\n", "questions.jsonl": QUESTION}
    write_files(root, files)
    git(root, "init", "--quiet")
    closed = tmp_path / "closed"
    (closed / "folder").mkdir(parents=True)
    (root / "folder").symlink_to(closed / "folder")
    (root / "file.jsonl").symlink_to(closed / "folder" / "file.jsonl")
    closed.chmod(0)
    yield root
    closed.chmod(0o700)


@pytest.mark.parametrize(
    "command",
    [
        "report --format html -o folder/report.html",
        "report --check --baseline folder/baseline.json",
        "ask total --no-answer --judge llama:folder/model.gguf",
        "ask total --no-answer --judge lexical --all-scores folder/scores.jsonl",
        "ask total --no-answer --judge lexical --all-scores file.jsonl",
        "batch run questions.jsonl --judge lexical -o folder/results.jsonl",
        "batch run questions.jsonl --judge lexical -o file.jsonl",
        "batch run file.jsonl --judge lexical",
        "memory import file.jsonl",
        "eval file.jsonl",
    ],
)
def test_a_command_names_a_place_that_is_closed(project: Path, command: str) -> None:
    """Whatever option names it: one sentence and the exit code of a wrong command."""
    ended = run_without_root_powers(RUN.format(arguments=command.split()), cwd=project)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "folder" in ended.stderr or "file.jsonl" in ended.stderr


def test_an_export_is_not_written_behind_a_closed_link(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export of judgments, which is signed, ends as an export of memories does."""
    monkeypatch.setenv("XSCORE_CACHE_KEY", "0" * 64)
    arguments = ["store", "export", "folder/judgments.xscore"]
    ended = run_without_root_powers(RUN.format(arguments=arguments), cwd=project)
    assert ended.returncode in (1, 2), ended.stderr


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("project/folder", "UsageError"),
        ("plain", "StoreUntrusted"),
        ("linked", "StoreUntrusted"),
        ("unreadable", "StoreError"),
    ],
)
def test_the_python_interface_raises_its_own_errors(
    project: Path, place: str, error: str
) -> None:
    """A folder, a store's folder and a store that are closed to this user."""
    above = project.parent
    write_files(above / "plain", {"a.py": "A = 1\n"})
    (above / "plain" / ".xscore").symlink_to(above / "closed" / "folder")
    write_files(above / "linked", {"a.py": "A = 1\n"})
    git(above / "linked", "init", "--quiet")
    (above / "linked" / ".git" / "xscore").symlink_to(above / "closed" / "folder")
    write_files(above / "unreadable", {"a.py": "A = 1\n", ".xscore/memory.db": "x"})
    (above / "unreadable" / ".xscore" / "memory.db").chmod(0)
    ended = run_without_root_powers(OPEN.format(path=str(above / place)), cwd=above)
    assert ended.stdout == f"{error}\n", ended.stderr
