"""A git config file that anyone may have written is read in one pass."""

from pathlib import Path

import pytest

from tests.conftest import MakeRepo, git
from tests.cpu_time import assert_growth
from xscore.platform.git_config import config_values, includes_files
from xscore.platform.git_folder import (
    MAX_CONFIG_BYTES,
    earlier_branch_names,
    git_folder,
    origin_url,
)

HOSTILE_LINES = {
    "blank lines": "\n",
    "lines of spaces": " \t\n",
    "one line of spaces": " ",
    "one line of brackets": "[",
    "headers": '[remote "origin"]\n',
    "names without a value": '[remote "origin"]\nurl =     ',
}


@pytest.mark.parametrize("kind", HOSTILE_LINES)
def test_no_config_costs_more_than_its_length(make_repo: MakeRepo, kind: str) -> None:
    """Ten times the config takes about ten times the CPU, whatever is in it."""
    root = make_repo({"a.py": "1\n"})
    config = root / ".git" / "config"
    plain = config.read_text()

    def ask_git_folder(size: int) -> None:
        filler = HOSTILE_LINES[kind] * (size // len(HOSTILE_LINES[kind]))
        config.write_text(f"{plain}\n{filler}x\n")
        assert git_folder(root) == root / ".git"
        origin_url(root)

    assert_growth(
        ask_git_folder, small=MAX_CONFIG_BYTES // 20, large=MAX_CONFIG_BYTES // 2, at_most=30
    )


def test_a_hostile_reflog_costs_no_more_than_its_length(tmp_path: Path) -> None:
    """A line that begins a renaming over and over is read once."""
    log = tmp_path / "logs" / "refs" / "heads" / "main"
    log.parent.mkdir(parents=True)

    def ask_names(size: int) -> None:
        log.write_text("\tBranch: renamed refs/heads/" * (size // 28))
        assert earlier_branch_names(tmp_path, "main") == ()

    assert_growth(ask_names, small=4_000, large=64_000, at_most=40)


@pytest.mark.parametrize(
    "text",
    [
        "[include]\npath = x\n",
        '[includeIf "gitdir:~/"]\npath = x\n',
        "\t [INCLUDE]\n",
        "[core] [include] path = x\n",
        '[core]\n\tbare = false\n[user] name = a\n[a "]"] [include]\n',
    ],
)
def test_an_include_is_seen_wherever_git_sees_it(text: str) -> None:
    """Git reads what follows a header on its line, so an include there counts."""
    assert includes_files(text)
    assert not includes_files("[core]\n\tbare = false\n[includes]\n\tx = 1\n")


def test_an_include_behind_another_header_is_refused(
    make_repo: MakeRepo, tmp_path: Path
) -> None:
    """Git follows it, so the folder is read as a plain one."""
    root = make_repo({"a.py": "1\n"})
    (tmp_path / "more").write_text("[planted]\n\tword = yes\n")
    with (root / ".git" / "config").open("a") as config:
        config.write(f"[a] [include] path = {tmp_path / 'more'}\n")
    assert git(root, "config", "planted.word").strip() == "yes"
    assert git_folder(root) is None


def test_values_are_read_as_git_writes_them(make_repo: MakeRepo) -> None:
    """The first address of `origin` is where the clone came from; other remotes are not looked
    at."""
    root = make_repo({"a.py": "1\n"})
    git(root, "remote", "add", "upstream", "https://host.example/up.git")
    git(root, "remote", "add", "origin", "https://host.example/a b.git")
    git(root, "config", "--add", "remote.origin.url", "https://host.example/second.git")
    assert origin_url(root) == "https://host.example/a b"
    text = (root / ".git" / "config").read_text()
    assert config_values(text, "url")[0] == "https://host.example/up.git"
    assert config_values('[core]\n\tWorkTree = "../../a"\r\n; worktree = x\n', "worktree") == [
        "../../a"
    ]
