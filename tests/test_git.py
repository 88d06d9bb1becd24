"""Git is called without ever running what a repository configures."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.conftest import MakeRepo, commit_all, git
from tests.waiting import wait_until
from xscore.indexer.discovery import discover_files
from xscore.platform import git as git_module
from xscore.platform.git import TIMEOUT_S, kill_git, run_git, working_diff
from xscore.platform.git_log import commits_with_files, recent_commits
from xscore.platform.paths import find_root


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Path]:
    """A file that a program of the repository would make, if git ran it."""
    place = tmp_path / "trap"
    yield place
    assert not place.exists()


def test_the_diff_is_the_uncommitted_change(make_repo: MakeRepo) -> None:
    """Staged and unstaged changes are both shown, with plain prefixes."""
    root = make_repo({"a.py": "one = 1\n", "b.py": "two = 2\n"})
    (root / "a.py").write_text("one = 11\n")
    (root / "b.py").write_text("two = 22\n")
    git(root, "add", "b.py")
    diff = working_diff(root).patch
    assert "+++ b/a.py" in diff
    assert "+two = 22" in diff


def test_a_configured_filter_hook_or_monitor_does_not_run(
    make_repo: MakeRepo, trap: Path
) -> None:
    """A repository that brings its own .git/config cannot run code through us."""
    root = make_repo({"a.py": "one = 1\n", ".gitattributes": "*.py filter=evil diff=evil\n"})
    for key in (
        "filter.evil.clean",
        "filter.evil.process",
        "diff.evil.textconv",
        "diff.external",
        "core.fsmonitor",
    ):
        git(root, "config", key, f"touch {trap}; cat")
    git(root, "config", "filter.evil.required", "true")
    git(root, "config", "core.pager", f"touch {trap}")
    (root / "a.py").write_text("one = 3\n")
    trap.unlink(missing_ok=True)
    working_diff(root)
    run_git(root, "ls-files", "-co", "--exclude-standard", "-z")
    recent_commits(root)


@pytest.mark.parametrize(
    "name", [".gitignore", ".gitattributes", ".mailmap", ".git/config", ".git/info/exclude"]
)
def test_git_is_not_left_waiting_for_a_pipe(make_repo: MakeRepo, name: str) -> None:
    """If git would read from a pipe or a device it is not called, and what is known without it is
    returned at once."""
    root = make_repo({"a.py": "one = 1\n"})
    (root / name).unlink(missing_ok=True)
    os.mkfifo(root / name)
    start = time.monotonic()
    assert working_diff(root).patch == ""
    assert recent_commits(root) == ()
    listing = discover_files(find_root(root))
    assert "a.py" in listing.paths
    assert "read without it" in listing.notes[0]
    assert time.monotonic() - start < TIMEOUT_S / 2  # what git is given before it is ended


def _kill_git_once_it_runs() -> None:
    wait_until(lambda: git_module._running)
    kill_git()


@pytest.mark.parametrize(
    "name", ["sub/deep/.gitignore", "sub/.gitattributes", ".git/refs/heads/odd"]
)
def test_a_pipe_in_a_folder_is_found_once_git_waits_for_it(
    make_repo: MakeRepo, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git is ended without its time being up; later commands are not even begun, until the pipe is
    gone."""
    root = make_repo({"a.py": "one = 1\n", "sub/deep/b.py": "two = 2\n"})
    (root / "sub" / "b.py").write_text("two = 2\n")
    commit_all(root)
    (root / "sub" / "b.py").write_text("three = 3\n")
    (root / "sub" / "deep" / "new.py").touch()
    os.mkfifo(root / name)
    monkeypatch.setattr(git_module, "_LOOK_S", 600.0)  # however busy the machine is
    # Longer than this test may take.
    assert run_git(root, *_COMMANDS[name], timeout_s=1_000.0) is None
    assert git_module._is_blocked(root)
    listing = discover_files(find_root(root))
    assert "sub/deep/b.py" in listing.paths
    (root / name).unlink()
    assert run_git(root, *_COMMANDS[name]) is not None


_COMMANDS = {
    "sub/deep/.gitignore": ("ls-files", "-co", "--exclude-standard"),
    "sub/.gitattributes": ("diff", "HEAD"),
    ".git/refs/heads/odd": ("for-each-ref",),
}
"""What opens each of these files."""


def test_the_first_bytes_do_not_wait_for_a_pipe_either(
    make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command of which only the beginning is read is ended as well."""
    monkeypatch.setattr(git_module, "_LOOK_S", 600.0)  # however busy the machine is
    root = make_repo({"a.py": "one = 1\n", "sub/b.py": "two = 2\n"})
    os.mkfifo(root / "sub" / ".gitattributes")
    run_git(root, "log", "-p", timeout_s=1_000.0, most_bytes=1_000_000)
    assert git_module._is_blocked(root)


def test_a_command_that_hangs_can_be_ended(
    make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that must end at once ends its git too."""
    monkeypatch.setattr(git_module, "PATIENCE_S", 20.0)  # nothing else ends it before
    root = make_repo({"a.py": "one = 1\n", "sub/b.py": "two = 2\n"})
    os.mkfifo(root / "sub" / ".gitignore")
    (root / "sub" / "new.py").touch()
    began = time.monotonic()
    ending = Thread(target=_kill_git_once_it_runs)
    ending.start()
    assert run_git(root, "ls-files", "--others", "--exclude-standard", timeout_s=20.0) is None
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("name", [b"a=b", b"\xff\xfe"], ids=["equals", "bytes"])
def test_a_filter_of_an_odd_name_does_not_run(
    make_repo: MakeRepo, trap: Path, name: bytes
) -> None:
    """A filter whose name cannot be passed on a command line stays off too."""
    root = make_repo({"a.py": "one = 1\n"})
    with (root / ".git" / "config").open("ab") as config:
        config.write(b'[filter "%b"]\n\tclean = touch %b; cat\n' % (name, bytes(trap)))
    (root / ".gitattributes").write_bytes(b"*.py filter=%b\n" % name)
    (root / "a.py").write_text("one = 3\n")
    working_diff(root)


def test_a_filter_of_the_worktree_alone_does_not_run(make_repo: MakeRepo, trap: Path) -> None:
    """Git reads a second settings file that the first includes; its filters stay off too."""
    root = make_repo({"a.py": "one = 1\n", ".gitattributes": "*.py filter=evil\n"})
    git(root, "config", "extensions.worktreeConfig", "true")
    git(root, "config", "--worktree", "filter.evil.clean", f"touch {trap}; cat")
    (root / "a.py").write_text("one = 3\n")
    assert "+one = 3" in working_diff(root).patch


def test_a_submodule_runs_nothing_of_its_own(
    make_repo: MakeRepo, tmp_path: Path, trap: Path
) -> None:
    """A submodule has its own settings; the diff does not enter it."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "b.py").write_text("two = 2\n")
    commit_all(inner)
    root = make_repo({"a.py": "one = 1\n"})
    git(
        root,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(inner),
        "sub",
    )
    git(root, "commit", "-qm", "second")
    git(root, "config", "diff.submodule", "diff")
    git(root / "sub", "config", "diff.external", f"touch {trap}")
    git(root / "sub", "config", "filter.evil.clean", f"touch {trap}; cat")
    (root / ".git" / "modules" / "sub" / "info" / "attributes").write_text("*.py filter=evil\n")
    (root / "sub" / "b.py").write_text("two = 3\n")
    (root / "a.py").write_text("one = 3\n")
    assert "+one = 3" in working_diff(root).patch


def test_signatures_are_not_checked_by_a_repositorys_program(
    make_repo: MakeRepo, tmp_path: Path, trap: Path
) -> None:
    """`log.showSignature` would run the repository's `gpg.program` on a signed commit."""
    root = make_repo({"a.py": "one = 1\n"})
    program, commit = tmp_path / "evil.sh", tmp_path / "commit"
    program.write_text(f"#!/bin/sh\ntouch {trap}\n")
    program.chmod(0o755)
    tree = git(root, "write-tree").strip()
    people = "".join(
        f"{who} t <t@example.invalid> 1700000000 +0000\n" for who in ("author", "committer")
    )
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n aaaa\n -----END PGP SIGNATURE-----\n"
    commit.write_text(f"tree {tree}\n{people}{signature}\nsigned\n")
    git(
        root,
        "update-ref",
        "HEAD",
        git(root, "hash-object", "-t", "commit", "-w", str(commit)).strip(),
    )
    git(root, "config", "log.showSignature", "true")
    git(root, "config", "gpg.program", str(program))
    assert [file.path for file in recent_commits(root)] == ["a.py"]


def test_a_missing_object_is_not_fetched(
    make_repo: MakeRepo, tmp_path: Path, trap: Path
) -> None:
    """A partial clone that allows every protocol makes git start no transport, which could be any
    program."""
    root = make_repo({"a.py": "one = 1\n"})
    blob = git(root, "rev-parse", "HEAD:a.py").strip()
    for key, value in (
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "far"),
        ("remote.far.promisor", "true"),
        ("remote.far.url", str(tmp_path)),
        ("remote.far.uploadpack", f"touch {trap}"),
        ("protocol.file.allow", "always"),
    ):
        git(root, "config", key, value)
    (root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    (root / "a.py").write_text("one = 3\n")
    working_diff(root)


def test_recent_commits_name_each_path_once_with_its_newest_time(make_repo: MakeRepo) -> None:
    """A file changed twice has the time of the later commit; names with spaces work."""
    root = make_repo({"a b.py": "1\n", "c.py": "1\n"})
    (root / "a b.py").write_text("2\n")
    git(root, "commit", "-qam", "again")
    commits = recent_commits(root)
    assert sorted(file.path for file in commits) == ["a b.py", "c.py"]
    assert all((file.commit.at or 0) > 1_000_000_000 for file in commits)


def test_outside_git_everything_is_empty(tmp_path: Path) -> None:
    """A plain folder has no diff and no commits, and asking is no error."""
    assert working_diff(tmp_path).patch == ""
    assert recent_commits(tmp_path) == ()
    assert run_git(tmp_path / "nowhere", "status") is None


def test_the_diff_has_plain_prefixes_whatever_is_configured(make_repo: MakeRepo) -> None:
    """Settings that change or drop `a/` and `b/` have no effect: names are read from those
    lines."""
    root = make_repo({"a.py": "one = 1\n"})
    (root / "a.py").write_text("one = 11\n")
    for key in ("diff.noprefix", "diff.mnemonicPrefix"):
        git(root, "config", key, "true")
        assert "\n--- a/a.py\n+++ b/a.py\n" in working_diff(root).patch


def test_a_file_name_is_no_date(make_repo: MakeRepo) -> None:
    """A name that begins with the mark of a commit is a name, whatever digits it goes on with."""
    names = {"\x01abc.py", f"\x01{'9' * 200}"}
    root = make_repo(dict.fromkeys(names, "1\n"))
    assert {file.path for file in recent_commits(root)} == names
    assert all(
        commit.committed_at < 10**18 for commit in commits_with_files(root, "HEAD", limit=9)
    )
