"""A tree in which git found no change is not asked about again until something in it changes."""

import os
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from tests.conftest import MakeRepo, git
from tests.waiting import wait_until
from xscore.indexer.index import index_repository
from xscore.pipeline.clean_tree import committed_state, note_clean, store_version
from xscore.pipeline.uncommitted import UncommittedWork, uncommitted_work
from xscore.platform.database import open_in_memory
from xscore.platform.paths import find_root
from xscore.settings import IndexSettings
from xscore.store.index_rows import CLEAN_TREE, read_index_meta
from xscore.store.opening import SCHEMA
from xscore.store.worktrees import enter_worktree

NOW = time.time()
"""When the changes are looked at: their ages are the same at each turn."""


class AskedTree:
    """A repository, and what git was asked by its turns."""

    def __init__(self, root: Path, log: Path) -> None:
        self.place = find_root(root)
        self.connection = open_in_memory(SCHEMA)
        self.log = log

    def turn(self) -> tuple[UncommittedWork, bool]:
        """Index, look at the change, and return it and whether git was asked for it."""
        before = self.diffs_asked()
        settings = IndexSettings()
        report = index_repository(self.connection, self.place, settings, now=time.time())
        work = uncommitted_work(
            self.connection, self.place, settings, now=NOW, is_unchanged=report.is_unchanged
        )
        return work, self.diffs_asked() > before

    def diffs_asked(self) -> int:
        """Return how often git was asked for the change."""
        return self.log.read_text().count(" diff ") if self.log.exists() else 0

    def rest(self) -> None:
        """Take turns until git is not asked any more: the times of the files have settled."""
        wait_until(lambda: not self.turn()[1], otherwise="git is asked every time")


@pytest.fixture
def tree(make_repo: MakeRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AskedTree:
    """Return a committed repository with a link and a file of secrets, and a git that keeps a
    log."""
    root = make_repo(
        {
            "a.py": "one = 1\n",
            "b.py": "two = 2\n",
            ".env": "FOO=plain\n",
            "package/inner/c.py": "c = 3\n",
        }
    )
    (root / "link").symlink_to("a.py")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "link")
    programs, log = tmp_path / "programs", tmp_path / "asked"
    programs.mkdir()
    program = programs / "git"
    program.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\nexec "{shutil.which("git")}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return AskedTree(root, log)


def test_a_clean_tree_is_asked_about_once(tree: AskedTree) -> None:
    """Nothing changed: the second turn asks no git for the change, and has the same work."""
    tree.rest()
    work, was_asked = tree.turn()
    assert not was_asked
    assert work.diff == ""
    assert {"a.py", "b.py"} <= {file.path for file in work.changed or ()}


def edit(root: Path) -> None:
    """Change a file that is indexed."""
    (root / "a.py").write_text("one = 3\n")


def edit_as_long_ago(root: Path) -> None:
    """Change a file and set its time back, as `cp -p` does."""
    info = (root / "a.py").stat()
    (root / "a.py").write_text("one = 3\n")
    os.utime(root / "a.py", ns=(info.st_atime_ns, info.st_mtime_ns))


def stage_and_restore(root: Path) -> None:
    """Change the index alone: the file is as it was."""
    text = (root / "a.py").read_text()
    (root / "a.py").write_text("one = 3\n")
    git(root, "add", "a.py")
    (root / "a.py").write_text(text)


def amend(root: Path) -> None:
    """Move HEAD and leave index and files: what was committed is a change again."""
    git(root, "reset", "-q", "--soft", "HEAD~1")


def delete(root: Path) -> None:
    """Remove a file."""
    (root / "b.py").unlink()


def relink(root: Path) -> None:
    """Change what is not indexed."""
    (root / "link").unlink()
    (root / "link").symlink_to("b.py")


def configure(root: Path) -> None:
    """Change git's settings of this repository."""
    git(root, "config", "core.autocrlf", "input")


def add(root: Path) -> None:
    """Write a file that git does not track."""
    (root / "c.py").write_text("three = 3\n")


def move_behind_an_ignored_link(root: Path) -> None:
    """Replace a folder by a link to where it went; git is to overlook both."""
    (root / ".git/info/exclude").write_text("elsewhere\npackage\n")
    (root / "package").rename(root / "elsewhere")
    (root / "package").symlink_to("elsewhere")


CHANGES = [
    edit,
    edit_as_long_ago,
    stage_and_restore,
    amend,
    delete,
    relink,
    configure,
    add,
    move_behind_an_ignored_link,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_after_any_change_git_is_asked_again(tree: AskedTree, change: object) -> None:
    """Whatever may make a difference is seen by the next turn, and its work is git's own."""
    tree.rest()
    assert callable(change)
    change(tree.place.path)
    work, was_asked = tree.turn()
    assert was_asked
    fresh = AskedTree(tree.place.path, tree.log)
    assert work == fresh.turn()[0]
    if change in {edit, edit_as_long_ago}:
        assert "+one = 3" in work.diff


def test_an_edit_that_another_process_has_indexed_is_a_change(tree: AskedTree) -> None:
    """The note goes with the first index run that finds a change, whichever process runs it."""
    tree.rest()
    edit(tree.place.path)
    index_repository(tree.connection, tree.place, IndexSettings(), now=time.time() + 3_600)
    work, was_asked = tree.turn()
    assert was_asked
    assert "+one = 3" in work.diff


def test_what_another_process_wrote_meanwhile_prevents_the_note(tmp_path: Path) -> None:
    """Another process may have indexed a later edit between git's answer and the note."""
    path = tmp_path / "memory.db"
    with sqlite3.connect(path) as first, sqlite3.connect(path) as second:
        first.execute("CREATE TABLE t (a)")
        first.commit()
        version = store_version(first)
        assert store_version(first) == version
        second.execute("INSERT INTO t VALUES (1)")
        second.commit()
        assert store_version(first) != version


def test_nothing_is_noted_of_an_unknown_state(tree: AskedTree) -> None:
    """Without a state there is nothing that a later turn could compare."""
    enter_worktree(tree.connection)
    version = store_version(tree.connection)
    note_clean(tree.connection, "", version=version)
    assert read_index_meta(tree.connection, CLEAN_TREE) == ""
    note_clean(tree.connection, "state", version=version + 1)
    assert read_index_meta(tree.connection, CLEAN_TREE) == ""
    note_clean(tree.connection, "state", version=version)
    assert read_index_meta(tree.connection, CLEAN_TREE) == "state"


def test_a_branch_that_names_another_one_is_never_noted(make_repo: MakeRepo) -> None:
    """Its own commit may stand in packed-refs, long outdated: then git is asked every time."""
    root = make_repo({"a.py": "one = 1\n"})
    wait_until(lambda: committed_state(find_root(root)) != "", otherwise="its times never settle")
    git(root, "branch", "alias")
    git(root, "pack-refs", "--all")
    git(root, "symbolic-ref", "refs/heads/alias", "refs/heads/other")
    git(root, "update-ref", "refs/heads/other", "HEAD")
    git(root, "symbolic-ref", "HEAD", "refs/heads/alias")
    assert committed_state(find_root(root)) == ""


def test_memories_of_a_folder_that_became_a_link_go(tree: AskedTree) -> None:
    """To git its files are deleted, and no link is followed to read them again."""
    tree.rest()
    move_behind_an_ignored_link(tree.place.path)
    report = index_repository(tree.connection, tree.place, IndexSettings(), now=time.time())
    assert report.files.removed == 1
    assert not report.is_unchanged
