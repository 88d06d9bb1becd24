"""What REV means, in real repositories."""

from pathlib import Path

import pytest

from tests.conftest import MakeRepo, git
from tests.extensions.checking.conftest import append, commit_files
from xscore.extensions.checking.change import change_given, change_since
from xscore.platform.errors import UsageError
from xscore.platform.paths import find_root


def paths_since(root: Path, revision: str) -> set[str]:
    """Return what a change touches."""
    return {file.path for file in change_since(find_root(root), revision).files}


def test_head_means_everything_not_committed(repo: Path) -> None:
    """Staged, unstaged and new files count; ignored ones do not."""
    append(repo, "shop/cache.py", "# unstaged\n")
    append(repo, "README.md", "staged\n")
    git(repo, "add", "README.md")
    (repo / "new.py").write_text("def fresh():\n    return 1\n")
    (repo / ".gitignore").write_text("ignored.py\n")
    (repo / "ignored.py").write_text("x = 1\n")
    change = change_since(find_root(repo), "HEAD")
    by_path = {file.path: file for file in change.files}
    assert by_path.keys() == {"shop/cache.py", "README.md", "new.py", ".gitignore"}
    assert by_path["new.py"].added == ("def fresh():", "    return 1")
    assert change.base == git(repo, "rev-parse", "HEAD").strip()


def test_a_revision_is_compared_with_the_working_tree(repo: Path) -> None:
    """It is the change of `git diff REV`: what was committed since, and what is not
    committed."""
    commit_files(repo, {"README.md": "# Other\n"}, "Say it otherwise\n\nBecause.")
    append(repo, "settings.toml", "more = 2\n")
    change = change_since(find_root(repo), "HEAD~1")
    assert {file.path for file in change.files} == {"README.md", "settings.toml"}
    assert change.messages == ("Say it otherwise\n\nBecause.\n",)


def test_two_and_three_dots(repo: Path) -> None:
    """Two dots compare the ends; three, the second with where it parted."""
    start = git(repo, "rev-parse", "HEAD").strip()
    git(repo, "checkout", "-qb", "topic")
    commit_files(repo, {"README.md": "# Topic\n"}, "topic")
    git(repo, "checkout", "-q", "main")
    commit_files(repo, {"settings.toml": "[other]\n"}, "main")
    git(repo, "checkout", "-q", "topic")
    append(repo, "docs/cache.md", "not committed\n")
    assert paths_since(repo, "main..topic") == {"README.md", "settings.toml"}
    assert paths_since(repo, "main...topic") == {"README.md"}
    assert paths_since(repo, "main...") == {"README.md"}
    assert change_since(find_root(repo), "main...topic").base == start


def test_what_git_does_not_know_is_said(
    repo: Path, tmp_path: Path, make_repo: MakeRepo
) -> None:
    """An unknown revision, an option in its place, no commit, no git: each is named."""
    root = find_root(repo)
    for name in ("no-such", "--output=x", "HEAD:README.md", "nowhere..HEAD"):
        with pytest.raises(UsageError, match="git has no commit"):
            change_since(root, name)
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    with pytest.raises(UsageError, match="no commit yet"):
        change_since(find_root(empty), "HEAD")
    plain = tmp_path / "plain"
    plain.mkdir()
    with pytest.raises(UsageError, match="not a git repository"):
        change_since(find_root(plain), "HEAD")
    assert change_given(find_root(plain), "--- a/x\n+++ b/x\n").base == ""
    # Its objects lie elsewhere, where another user may change them.
    git(tmp_path, "clone", "-q", "--shared", str(repo), "shared")
    with pytest.raises(UsageError, match="leads out"):
        change_since(find_root(tmp_path / "shared"), "HEAD")
    with pytest.raises(UsageError, match="not a diff"):
        change_given(root, "hello\n")
    assert change_given(root, "").files == ()


def test_a_shallow_clone_is_named(repo: Path, tmp_path: Path) -> None:
    """Where the commit is missing because the clone is shallow, the hint says so."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", str(clone))
    with pytest.raises(UsageError) as error:
        change_since(find_root(clone), "HEAD~5")
    assert "shallow" in error.value.hint
    assert change_since(find_root(clone), "HEAD").files == ()
