"""A home folder is not a project: nothing there is read unless somebody named it."""

import json
from pathlib import Path

import pytest

import xscore as library
from tests.cli.conftest import Run
from tests.conftest import git, write_files
from tests.extensions.agents.hook_process import message, run_hook
from xscore.indexer.discovery import discover_files
from xscore.platform.errors import UsageError
from xscore.platform.paths import find_root

HOME_FILES = {
    "notes/plan.md": "# Plan\n\nA plan for the shop of the week.\n",
    ".ssh/config": "Host prod\n  User me\n",
    ".bash_history": "ls\n",
    ".local/share/xscore/left.md": "# Left\n\nA plan of the tool itself.\n",
    ".config/xscore/notes.md": "# Notes\n\nA plan of settings.\n",
}


@pytest.fixture
def home(own_home: Path) -> Path:
    """A home with a few files."""
    write_files(own_home, HOME_FILES)
    return own_home


COMMANDS = [
    ("ask", "what is the plan?"),
    ("context", "what is the plan?"),
    ("estimate", "what is the plan?"),
    ("index",),
    ("watch", "--once"),
    ("memory", "add", "we use tabs"),
    ("store", "rebuild", "--yes"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_home_folder_is_refused_before_anything_is_read(
    home: Path, xscore: Run, command: tuple[str, ...]
) -> None:
    """Exit 2 with what to do, and no store is made."""
    done = xscore(*command, cwd=home)
    assert done.returncode == 2
    assert f"xscore index {home}" in done.stderr
    assert not (home / ".xscore").exists()


def test_so_is_a_folder_above_and_the_library_says_the_same(home: Path) -> None:
    """`/` and the folder of all homes hold the home folder, too."""
    for folder in (home, home.parent, Path("/")):
        with pytest.raises(UsageError, match="home folder"):
            library.open(folder)
    assert not (home.parent / ".xscore").exists()


def test_a_user_without_a_home_may_use_any_project(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An arbitrary user id in a container has no home: folders of its own are enough to work
    anywhere."""
    write_files(tmp_path / "project", {"plan.md": "# Plan\n\nA plan for the shop.\n"})
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.delenv("HOME")
    # As for an id that is not in /etc/passwd.
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(home / "own"))
    with library.open(tmp_path / "project") as repository:
        assert repository.index().files.indexed == 1
    monkeypatch.delenv("XDG_DATA_HOME")
    with pytest.raises(UsageError, match="no home folder"):
        library.open(tmp_path / "project")


def test_a_hook_is_silent_there(home: Path) -> None:
    """An agent that was started in the home folder gets nothing, and nothing is made."""
    done = run_hook("prompt", message(home, "UserPromptSubmit", prompt="what is the plan?"))
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"plan" not in done.stdout
    assert not (home / ".xscore").exists()


def test_whoever_names_the_folder_has_it_indexed_without_its_secrets(
    home: Path, xscore: Run
) -> None:
    """`xscore index PATH` makes the store; keys, histories and xscore's own files stay out, then
    and later."""
    done = xscore("index", str(home), "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"]["indexed"] == 1
    assert xscore("context", "what is the plan?", cwd=home).returncode in (0, 1)


def test_a_git_folder_that_is_elsewhere_makes_no_home_a_repository(
    home: Path, xscore: Run
) -> None:
    """Where git is not asked, the folder is read as a plain one, whatever `GIT_DIR` or a `.git`
    file names."""
    (home / ".git").write_text("gitdir: /nowhere\n")
    assert xscore("context", "the total", cwd=home).returncode == 2


def test_a_repository_at_home_is_one(home: Path) -> None:
    """Dotfiles are kept so; xscore's own files are in none, tracked or not."""
    git(home, "init", "-q")
    git(home, "add", ".config", ".ssh")
    with library.open(home) as repository:
        assert repository.index().files.indexed == 1
    assert sorted(discover_files(find_root(home)).paths) == [
        ".bash_history",
        ".ssh/config",
        "notes/plan.md",
    ]


def test_a_project_below_is_none_of_this(home: Path, xscore: Run) -> None:
    """A plain folder in the home folder is indexed as ever."""
    assert xscore("index", cwd=home / "notes").returncode == 0
