"""The entry point: what it imports, what it costs, which commands it lists."""

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.conftest import Run
from tests.conftest import MakeRepo
from xscore.cli.main import COMMANDS


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("histroy",), "Did you mean 'history'?"),
        (("memory", "lst"), "Did you mean 'list'?"),
        (("consolidate",), "Did you mean 'memory consolidate'?"),
        (("memory", "forget"), "Did you mean 'delete'?"),
        (("history", "rm"), "Did you mean 'delete'?"),
        (("session", "ls"), "Did you mean 'list'?"),
        (("memory", "get"), "Did you mean 'show'?"),
        (("audit",), "Did you mean 'memory audit'?"),
        (("config", "list"), "`xscore config` has: show, completion."),
        (("why is a store refused",), 'Did you mean `xscore ask "why is a store refused"`?'),
        (
            ("why", "is", "it", "refused", "--json"),
            'Did you mean `xscore ask "why is it refused"`?',
        ),
    ],
)
def test_a_misspelt_command_is_named_with_the_nearest(
    words: tuple[str, ...], named: str, xscore: Run
) -> None:
    """A command spelled nearly so, or one that belongs below a group, is suggested; `ask` for a
    question."""
    done = xscore(*words)
    message = done.stderr or json.loads(done.stdout)["error"]["message"]
    assert done.returncode == 2 and named in message


@pytest.mark.parametrize(
    "group", [name for name, entry in COMMANDS.items() if entry.place == "-"]
)
def test_a_group_alone_lists_what_it_has(group: str, xscore: Run, make_repo: MakeRepo) -> None:
    """`history` is `history list`, and takes its options; `--help` is the group's own."""
    repo = make_repo({"a.py": "def a(): pass\n"})
    in_full = xscore(group, next(iter(COMMANDS[group].commands)), "--json", cwd=repo)
    alone = xscore(group, "--json", cwd=repo)
    assert (alone.returncode, alone.stdout) == (
        in_full.returncode,
        in_full.stdout,
    )
    assert in_full.returncode in (0, 1)
    assert "Commands:" in xscore(group, "--help", cwd=repo).stdout


def test_directory_is_where_the_command_runs(xscore: Run, tmp_path: Path) -> None:
    """`-C DIR` reads the settings of the repository in DIR."""
    (tmp_path / ".xscore.toml").write_text("[selection]\ntop_k = 7\n")
    shown = json.loads(xscore("-C", str(tmp_path), "config", "show", "--json").stdout)
    values = {setting["name"]: setting["value"] for setting in shown["settings"]}
    assert values["selection.top_k"] == "7"


def test_completion_scripts(process: Run) -> None:
    """Each shell gets a completion script that calls xscore, and the call works."""
    for shell in ("bash", "zsh", "fish"):
        assert "_XSCORE_COMPLETE" in process("config", "completion", shell).stdout
    completion_request = {
        "_XSCORE_COMPLETE": "bash_complete",
        "COMP_WORDS": "xscore es",
        "COMP_CWORD": "1",
    }
    assert "estimate" in process(environ=completion_request).stdout


@pytest.mark.parametrize("page", ["", "ask"], ids=lambda page: page or "xscore")
def test_help(page: str, xscore: Run, snapshot: SnapshotAssertion) -> None:
    """A command's help changes only on purpose."""
    done = xscore(*page.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout == snapshot
