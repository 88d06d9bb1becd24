"""Git is asked without ever running what a repository configures."""

from pathlib import Path

from tests.conftest import MakeRepo, git
from xscore.git import ask_git, branch, recent_commits, working_diff


def test_the_diff_is_the_uncommitted_change(make_repo: MakeRepo) -> None:
    """Staged and unstaged changes both show, with plain prefixes."""
    root = make_repo({"a.py": "one = 1\n", "b.py": "two = 2\n"})
    (root / "a.py").write_text("one = 11\n")
    (root / "b.py").write_text("two = 22\n")
    git(root, "add", "b.py")
    diff = working_diff(root)
    assert "+++ b/a.py" in diff
    assert "+two = 22" in diff


def test_a_configured_filter_hook_or_monitor_does_not_run(make_repo: MakeRepo, tmp_path: Path) -> None:
    """A repository that arrives with its .git/config cannot run code through us."""
    root = make_repo({"a.py": "one = 1\n", ".gitattributes": "*.py filter=evil diff=evil\n"})
    trap = tmp_path / "trap"
    for key in ("filter.evil.clean", "filter.evil.process", "diff.evil.textconv", "diff.external", "core.fsmonitor"):
        git(root, "config", key, f"touch {trap}; cat")
    git(root, "config", "filter.evil.required", "true")
    git(root, "config", "core.pager", f"touch {trap}")
    (root / "a.py").write_text("one = 3\n")
    trap.unlink(missing_ok=True)
    working_diff(root)
    ask_git(root, "ls-files", "-co", "--exclude-standard", "-z")
    recent_commits(root)
    assert not trap.exists()


def test_recent_commits_name_each_path_once_with_its_newest_time(make_repo: MakeRepo) -> None:
    """A file touched twice has the time of the later commit; names with spaces survive."""
    root = make_repo({"a b.py": "1\n", "c.py": "1\n"})
    (root / "a b.py").write_text("2\n")
    git(root, "commit", "-qam", "again")
    found = recent_commits(root)
    assert sorted(path for _, path in found) == ["a b.py", "c.py"]
    assert all(at > 1_000_000_000 for at, _ in found)


def test_outside_git_everything_is_empty(tmp_path: Path) -> None:
    """A plain folder has no diff and no commits, and asking is no error."""
    assert working_diff(tmp_path) == ""
    assert recent_commits(tmp_path) == ()
    assert ask_git(tmp_path / "nowhere", "status") is None


def test_the_branch_is_read_without_a_process(make_repo: MakeRepo) -> None:
    """HEAD names the branch; a detached head is its commit."""
    root = make_repo({"a.py": "1\n"})
    assert branch(root / ".git") == "main"
    git(root, "checkout", "-q", "--detach")
    assert len(branch(root / ".git")) == 40
