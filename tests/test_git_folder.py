"""A `.git` that arrives with a folder leads git nowhere else; real worktrees and submodules
work."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MakeRepo, commit_all, git, write_files
from tests.indexer.conftest import Index, connection, index
from xscore.indexer.discovery import discover_files
from xscore.platform.git import run_git, working_diff
from xscore.platform.git_folder import (
    DETACHED_HEAD,
    claims_git,
    earlier_branch_names,
    git_folder,
    head_branch,
    working_branch,
)
from xscore.platform.git_log import recent_commits
from xscore.platform.paths import find_root

__all__ = ["connection", "index"]

PRIVATE = "a phrase of the private repository"


def _repository(root: Path, files: dict[str, str]) -> Path:
    root.mkdir()
    write_files(root, files)
    return commit_all(root)


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Another repository on this machine, whose text must never be shown."""
    return _repository(
        tmp_path / "private", {"a.py": f"words = '{PRIVATE}'\n", "b.py": f"{PRIVATE}\n"}
    )


@pytest.fixture
def crafted(tmp_path: Path) -> Path:
    """An unpacked folder with its own repository."""
    return _repository(tmp_path / "unpacked", {"a.py": "one = 1\n"})


def _replace(place: Path, target: Path) -> None:
    place.rename(place.with_name(f"{place.name}.old"))
    place.symlink_to(target)


def _gitdir_file(root: Path, private: Path) -> None:
    (root / ".git").rename(root / "own")
    (root / ".git").write_text(f"gitdir: {private / '.git'}\n")


def _inner_commondir(root: Path, private: Path) -> None:
    (root / ".git" / "commondir").write_text(f"{private / '.git'}\n")


def _alternates(root: Path, private: Path) -> None:
    (root / ".git" / "objects" / "info" / "alternates").write_text(
        f"{private / '.git' / 'objects'}\n"
    )
    (root / ".git" / "refs" / "heads" / "main").write_text(git(private, "rev-parse", "HEAD"))


def _linked_object(root: Path, private: Path) -> None:
    for blob in (private / ".git" / "objects").glob("??/*"):
        mine = root / ".git" / "objects" / blob.parent.name / blob.name
        mine.parent.mkdir(exist_ok=True)
        mine.symlink_to(blob)
    (root / ".git" / "refs" / "heads" / "main").write_text(git(private, "rev-parse", "HEAD"))


def _included_settings(root: Path, private: Path) -> None:
    git(root, "config", "include.path", str(private / "b.py"))


REDIRECTIONS: dict[str, Callable[[Path, Path], None]] = {
    "a gitdir file": _gitdir_file,
    "a linked git folder": lambda root, private: _replace(root / ".git", private / ".git"),
    "a linked HEAD": lambda root, private: _replace(root / ".git" / "HEAD", private / "b.py"),
    "a linked index": lambda root, private: _replace(
        root / ".git" / "index", private / ".git" / "index"
    ),
    "linked references": lambda root, private: _replace(
        root / ".git" / "refs", private / ".git" / "refs"
    ),
    "linked objects": lambda root, private: _replace(
        root / ".git" / "objects", private / ".git" / "objects"
    ),
    "a linked object": _linked_object,
    "shared objects": _alternates,
    "a common folder elsewhere": _inner_commondir,
    "settings elsewhere": _included_settings,
}


@pytest.mark.parametrize("way", REDIRECTIONS)
def test_a_git_folder_that_leads_elsewhere_is_not_asked(
    crafted: Path, private: Path, way: str, index: Index
) -> None:
    """The folder is read as a plain one, with a note; nothing of the other repository is read."""
    REDIRECTIONS[way](crafted, private)
    root = find_root(crafted)
    assert (root.path, root.is_git, root.git_dir) == (crafted, False, None)
    assert run_git(crafted, "ls-files") is None
    assert working_diff(crafted).patch == ""
    assert recent_commits(crafted) == ()
    report = index.run(crafted)
    assert report.files.indexed >= 1
    assert any("leads out of this folder" in note for note in report.notes)
    assert not {".git", "b.py"} & set(discover_files(root).paths)


def test_another_work_tree_is_not_read(crafted: Path, private: Path) -> None:
    """`core.worktree` may name any folder: git lists and compares this folder's files."""
    git(crafted, "config", "core.worktree", str(private))
    assert "a.py" in discover_files(find_root(crafted)).paths
    assert working_diff(crafted).patch == ""
    (crafted / "a.py").write_text("one = 2\n")
    diff = working_diff(crafted).patch
    assert "+one = 2" in diff and PRIVATE not in diff


def test_a_plain_repository_a_worktree_and_a_submodule_are_asked(
    make_repo: MakeRepo, private: Path, tmp_path: Path
) -> None:
    """A git folder elsewhere counts if its own files name this folder; so do worktrees of a
    submodule."""
    root = make_repo({"a.py": "one = 1\n"})
    git(
        root,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(private),
        "deps/sub",
    )
    git(root, "commit", "-qm", "second")
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    git(
        root / "deps" / "sub", "worktree", "add", "-q", str(tmp_path / "subtree"), "-b", "third"
    )
    for place, branch in (
        (root, "main"),
        (root / "deps/sub", "main"),
        ("tree", "other"),
        ("subtree", "third"),
    ):
        folder = tmp_path / place
        (folder / "a.py").write_text("one = 2\n")
        repository = find_root(folder / "a.py")
        assert (repository.path, repository.is_git) == (folder, True)
        assert repository.git_dir and working_branch(repository.git_dir) == branch
        assert "+one = 2" in working_diff(folder).patch and recent_commits(folder)
        assert discover_files(repository).notes == []


def test_a_copied_worktree_is_a_plain_folder(make_repo: MakeRepo, tmp_path: Path) -> None:
    """Its git folder names another place, or nothing."""
    root = make_repo({"a.py": "one = 1\n"})
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / ".git").write_bytes((tmp_path / "tree" / ".git").read_bytes())
    assert claims_git(tmp_path / "copy") and git_folder(tmp_path / "copy") is None
    (root / ".git" / "worktrees" / "tree" / "gitdir").unlink()
    assert git_folder(tmp_path / "tree") is None


def test_the_check_costs_little(make_repo: MakeRepo) -> None:
    """The check runs once a process, not once a call: a large repository is not walked each
    time."""
    root = make_repo({f"f{number}.py": f"{number}\n" for number in range(50)})
    git_folder(root)
    start = time.process_time()
    for _ in range(100):
        assert git_folder(root)
    assert time.process_time() - start < 1


def test_branch_files_that_lead_elsewhere_are_not_read(
    make_repo: MakeRepo, private: Path
) -> None:
    """A link, or a branch name with `..`, would show another file's first words as the branch."""
    folder = make_repo({"a.py": "1\n"}) / ".git"
    commit = git(folder.parent, "rev-parse", "HEAD")
    (folder / "HEAD").write_text(commit)
    (folder / "BISECT_START").symlink_to(private / "b.py")
    assert working_branch(folder) == DETACHED_HEAD
    (private / "log").write_text("x\tBranch: renamed refs/heads/secret to refs/heads/up\n")
    outside = os.path.relpath(private / "log", folder / "logs" / "refs" / "heads")
    assert earlier_branch_names(folder, outside) == ()


def test_the_branch_is_read_without_a_process(make_repo: MakeRepo) -> None:
    """HEAD names the branch; a detached head is its commit."""
    root = make_repo({"a.py": "1\n"})
    assert head_branch(root / ".git") == "main"
    git(root, "checkout", "-q", "--detach")
    assert len(head_branch(root / ".git")) == 40


def test_the_working_branch_is_the_one_it_began_on(make_repo: MakeRepo) -> None:
    """H28: a bisect counts as its branch, a detached head as none; both are read from files
    alone."""
    root = make_repo({"a.py": "1\n"})
    assert working_branch(root / ".git") == "main"
    git(root, "bisect", "start")
    git(root, "checkout", "-q", "--detach")
    assert working_branch(root / ".git") == "main"
    git(root, "bisect", "reset", "HEAD")
    assert working_branch(root / ".git") == DETACHED_HEAD


def test_a_rebase_that_stopped_counts_as_its_branch(make_repo: MakeRepo) -> None:
    """H28: during a rebase conflict its branch is the current one."""
    root = make_repo({"a.py": "1\n"})
    for name, text in (("feat/x", "2\n"), ("main", "3\n")):
        git(root, "checkout", "-q", *(("-b",) if name != "main" else ()), name)
        (root / "a.py").write_text(text)
        git(root, "commit", "-qam", name)
    git(root, "checkout", "-q", "feat/x")
    with pytest.raises(subprocess.CalledProcessError):
        git(root, "rebase", "main")
    assert len(head_branch(root / ".git")) == 40 and working_branch(root / ".git") == "feat/x"


def test_a_renamed_branch_tells_its_earlier_names(make_repo: MakeRepo, tmp_path: Path) -> None:
    """H28: earlier names come from the reflog, latest first, also in a worktree; most branches have
    none."""
    root = make_repo({"a.py": "1\n"})
    git(root, "checkout", "-q", "-b", "one")
    git(root, "branch", "-m", "feat/two")
    git(root, "branch", "-m", "three")
    assert earlier_branch_names(root / ".git", "three") == ("feat/two", "one")
    assert (
        earlier_branch_names(root / ".git", "main")
        == earlier_branch_names(root / ".git", "")
        == ()
    )
    git(root, "checkout", "-q", "main")
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"), "three")
    assert earlier_branch_names(root / ".git" / "worktrees" / "tree", "three") == (
        "feat/two",
        "one",
    )


def test_a_pipe_in_the_place_of_head_is_not_waited_for(tmp_path: Path) -> None:
    """A folder that only looks like a repository is a plain one without a branch."""
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    assert head_branch(tmp_path / ".git") == ""
    assert not find_root(tmp_path).is_git


def test_a_branch_name_that_is_not_utf8_is_still_a_name(tmp_path: Path) -> None:
    """Non-UTF-8 bytes are replaced, so that the name can be stored and shown."""
    (tmp_path / "HEAD").write_bytes(b"ref: refs/heads/caf\xe9\n")
    assert head_branch(tmp_path) == "caf\ufffd"
