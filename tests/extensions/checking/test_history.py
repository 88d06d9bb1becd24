"""What changed together before."""

import sqlite3
import subprocess
from pathlib import Path

from tests.conftest import git
from tests.extensions.checking.conftest import commit_files
from xscore.extensions.checking.history import (
    LARGEST_COMMIT,
    CommitHistory,
    history_figures,
    read_history,
)
from xscore.platform.git_log import PastCommit
from xscore.platform.paths import find_root
from xscore.store.index_rows import write_index_meta
from xscore.store.store import Store


def head(root: Path) -> str:
    """Return the newest commit."""
    return git(root, "rev-parse", "HEAD").strip()


def opened(root: Path, user_dir: Path) -> Store:
    """Open the store of a repository."""
    return Store.open(find_root(root), user_data_dir=user_dir)


def test_files_of_each_commit(repo: Path, user_dir: Path) -> None:
    """One entry a commit, newest first, those before the base alone."""
    with opened(repo, user_dir) as store:
        history = read_history(
            store.connection, store.root, git(repo, "rev-parse", "HEAD~2")[:40]
        )
    assert history.read == 19
    assert history.commits[0].files == ("docs/prices.md",)
    assert history.commits[1].files == ("shop/cache.py", "tests/test_cache.py")


def test_a_base_is_read_once(repo: Path, user_dir: Path) -> None:
    """The store keeps what git said; another base, or what is not ours, is read again."""
    with opened(repo, user_dir) as store:
        first = read_history(store.connection, store.root, head(repo))
        renamed = (repo / ".git").rename(repo / "away")
        assert read_history(store.connection, store.root, head_of(renamed)) == first
        renamed.rename(repo / ".git")
        write_index_meta(store.connection, "check_history", "no such thing")
        assert read_history(store.connection, store.root, head(repo)) == first
        commit_files(repo, {"README.md": "# New\n"})
        assert read_history(store.connection, store.root, head(repo)).read == first.read + 1


def head_of(git_dir: Path) -> str:
    """Return the newest commit of a repository that is not at its place."""
    return (git_dir / "refs/heads/main").read_text().strip()


def test_a_renamed_file_has_one_name(repo: Path, user_dir: Path) -> None:
    """Commits from before a rename count for the new name, over several renames."""
    for number, name in enumerate(("stash", "pantry")):
        source = ("cache", "stash")[number]
        git(repo, "mv", f"shop/{source}.py", f"shop/{name}.py")
        git(repo, "commit", "-qam", f"call it {name}")
    with opened(repo, user_dir) as store:
        history = read_history(store.connection, store.root, head(repo))
    names = {name for commit in history.commits for name in commit.files}
    assert "shop/pantry.py" in names
    assert not names & {"shop/cache.py", "shop/stash.py"}
    figures = history_figures(history, ["shop/pantry.py"])
    assert figures.together["tests/test_cache.py"].companion_together == 11


def test_huge_commits_say_nothing(repo: Path, user_dir: Path) -> None:
    """A commit of more than 30 files is left out, and merges are."""
    commit_files(repo, {f"gen/{number}.py": "x\n" for number in range(LARGEST_COMMIT + 1)})
    git(repo, "checkout", "-qb", "side", "HEAD~1")
    commit_files(repo, {"README.md": "# Side\n"})
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", "--no-edit", "side")
    with opened(repo, user_dir) as store:
        history = read_history(store.connection, store.root, head(repo))
    assert history.read == 23
    assert len(history.commits) == 22


def test_small_commits_say_more() -> None:
    """A pair in a small commit weighs more than a pair in a large one."""
    crowd = tuple(f"f{number}" for number in range(20))
    commits = (PastCommit(2, ("a", "b")), PastCommit(1, ("a", *crowd)))
    figures = history_figures(CommitHistory("x", commits, 2), ["a"])
    assert figures.together["b"].best > figures.together["f1"].best
    assert figures.together["b"].companion == "a"
    assert figures.together["b"].companion_commits == 2


def test_no_history_is_no_error(tmp_path: Path, user_dir: Path) -> None:
    """Without git, without a commit, and with one commit there are figures, if empty ones."""
    with opened(tmp_path, user_dir) as store:
        assert read_history(store.connection, store.root, "") == CommitHistory()
    assert history_figures(CommitHistory(), ["a"]).together == {}
    single = CommitHistory("x", (PastCommit(1, ("a",)),), 1)
    assert history_figures(single, []).together == {}
    assert history_figures(single, ["a", "b"]).often == {"a": 1.0}


def test_names_of_commits_stay_in_the_root(repo: Path, user_dir: Path) -> None:
    """A tree that was made by hand may hold names that lead out; they are left out."""
    blob = git(repo, "hash-object", "-w", "README.md").strip()
    inner = mktree(repo, f"100644 blob {blob}\tpasswd\n")
    outer = mktree(repo, f"040000 tree {inner}\t..\n100644 blob {blob}\tREADME.md\n")
    commit = git(repo, "commit-tree", outer, "-p", "HEAD", "-m", "crafted").strip()
    with opened(repo, user_dir) as store:
        history = read_history(store.connection, store.root, commit)
    assert not [name for entry in history.commits for name in entry.files if ".." in name]


def mktree(root: Path, listing: str) -> str:
    """Make a tree of git from a listing."""
    done = subprocess.run(
        ["git", "mktree"], cwd=root, input=listing, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_store_that_cannot_be_written_keeps_nothing(repo: Path, user_dir: Path) -> None:
    """Reading without keeping leaves no row."""
    with opened(repo, user_dir) as store:
        read_history(store.connection, store.root, head(repo), keep=False)
        rows = rows_of(store.connection)
    assert rows == 0


def rows_of(connection: sqlite3.Connection) -> int:
    """Count the rows in which a history is kept."""
    query = "SELECT count(*) FROM worktree_meta WHERE key = 'check_history'"
    return int(connection.execute(query).fetchone()[0])
