"""What git found changed is not asked about again until something in the tree changes."""

import asyncio
import json
import os
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from tests.conftest import MakeRepo, git
from tests.pipeline.conftest import TASK, settings_for
from tests.servers.openai_server import OpenAIServer
from tests.waiting import wait_until
from xscore.indexer.index import index_repository
from xscore.indexer.index_run import IndexRun
from xscore.pipeline.build import Pipeline
from xscore.pipeline.noted_change import (
    MOST_NOTED,
    NotedChange,
    committed_state,
    note_change,
    noted_change,
    store_version,
)
from xscore.pipeline.uncommitted import UncommittedWork, uncommitted_work
from xscore.platform.database import open_in_memory
from xscore.platform.paths import find_root
from xscore.settings import IndexSettings
from xscore.store.index_rows import NOTED_CHANGE, read_index_meta, write_index_meta
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

    def turn(self, *, needs_diff: bool = True) -> tuple[UncommittedWork, bool]:
        """Index, look at the change, and return it and whether git was asked for it."""
        before = self.diffs_asked()
        settings = IndexSettings()
        report = index_repository(self.connection, self.place, settings, now=time.time())
        work = uncommitted_work(
            self.connection,
            self.place,
            settings,
            now=NOW,
            is_unchanged=report.is_unchanged,
            needs_diff=needs_diff,
        )
        return work, self.diffs_asked() > before

    def diffs_asked(self) -> int:
        """Return how often git was asked for the change."""
        return self.log.read_text().count(" diff ") if self.log.exists() else 0

    def rest(self, *, needs_diff: bool = True) -> None:
        """Take turns until git is not asked any more: the times of the files have settled."""
        wait_until(
            lambda: not self.turn(needs_diff=needs_diff)[1], otherwise="git is asked every time"
        )


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


def edit_further(root: Path) -> None:
    """Change another line of a file that is changed already, and leave its size."""
    text = (root / "b.py").read_text()
    (root / "b.py").write_text(text.replace("two = 2", "two = 3"))


def commit(root: Path) -> None:
    """Commit what was changed: it is no change any more."""
    git(root, "commit", "-qam", "all")


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


@pytest.fixture
def edited(tree: AskedTree) -> AskedTree:
    """Return the same with an edit that is not committed."""
    (tree.place.path / "b.py").write_text("two = 2\nmore = 5\n")
    return tree


def test_the_lines_of_a_change_are_asked_for_once(edited: AskedTree) -> None:
    """While nothing changes, a turn that shows no diff has the same lines without git."""
    edited.rest(needs_diff=False)
    work, was_asked = edited.turn(needs_diff=False)
    assert not was_asked
    assert work.diff == ""
    by_path = {file.path: file.lines for file in work.changed or ()}
    assert by_path["b.py"] == ((2, 2),)
    with_text, was_asked = edited.turn()
    assert was_asked
    assert "+more = 5" in with_text.diff
    assert with_text.changed == work.changed


@pytest.mark.parametrize(
    "change", [*CHANGES, edit_further, commit], ids=lambda change: change.__name__
)
def test_after_any_further_change_git_is_asked_again(edited: AskedTree, change: object) -> None:
    """A change next to one that is noted is seen by the next turn, with git's own lines."""
    edited.rest(needs_diff=False)
    assert callable(change)
    change(edited.place.path)
    work, was_asked = edited.turn(needs_diff=False)
    assert was_asked
    fresh = AskedTree(edited.place.path, edited.log)
    assert work == fresh.turn(needs_diff=False)[0]


async def test_an_answering_model_sees_a_change_that_is_noted(
    shop: Path, server: OpenAIServer
) -> None:
    """A turn that shows the change asks git for it, whatever earlier turns have noted."""
    server.score = lambda memory, turn: (
        (90, "the sum") if "amount" in memory.text else (2, "no")
    )
    prices = shop / "shop" / "prices.py"
    prices.write_text(prices.read_text().replace("amount < 100", "amount < 250"))
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        enter_worktree(pipeline.store.connection)
        async with asyncio.timeout(120):
            # Until the times of the files have settled.
            while not read_index_meta(pipeline.store.connection, NOTED_CHANGE):
                await pipeline.context(TASK)
        await pipeline.ask(TASK)
    request = json.dumps(server.counts.bodies[-1])
    assert "+    return amount if amount < 250" in request


def test_no_text_of_a_change_is_noted(edited: AskedTree) -> None:
    """The note has paths and numbers of lines, so there is nothing in it to redact or erase."""
    edited.rest(needs_diff=False)
    noted = read_index_meta(edited.connection, NOTED_CHANGE)
    assert "b.py" in noted
    assert "more" not in noted


@pytest.mark.parametrize("written", ["of an earlier form", "[]", '["state",1,2]', "{", "[1"])
def test_a_note_that_cannot_be_read_is_none(tree: AskedTree, written: str) -> None:
    """Git is asked, as where nothing is noted."""
    enter_worktree(tree.connection)
    write_index_meta(tree.connection, NOTED_CHANGE, written)
    assert noted_change(tree.connection, "state") is None


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
    note_change(tree.connection, NotedChange(""), version=version)
    assert read_index_meta(tree.connection, NOTED_CHANGE) == ""
    note_change(tree.connection, NotedChange("state"), version=version + 1)
    assert read_index_meta(tree.connection, NOTED_CHANGE) == ""
    too_many = NotedChange("state", lines={"a.py": [(1, 1)] * (MOST_NOTED + 1)})
    note_change(tree.connection, too_many, version=version)
    assert read_index_meta(tree.connection, NOTED_CHANGE) == ""
    note_change(tree.connection, NotedChange("state"), version=version)
    assert noted_change(tree.connection, "state") == NotedChange("state")
    assert noted_change(tree.connection, "another") is None


def test_a_branch_that_names_another_one_is_never_noted(make_repo: MakeRepo) -> None:
    """Its own commit may be in packed-refs, long outdated: then git is asked every time."""
    root = make_repo({"a.py": "one = 1\n"})
    wait_until(
        lambda: committed_state(find_root(root)) != "", otherwise="its times never settle"
    )
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


def test_a_note_that_is_written_while_another_process_indexes_goes(
    tree: AskedTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn asks git; the file changes; another process lists it; the turn notes what git said;
    and only then is the index written."""
    tree.rest()
    edit(tree.place.path)
    tree.rest(needs_diff=False)
    noted = read_index_meta(tree.connection, NOTED_CHANGE)
    (tree.place.path / "a.py").write_text("zero = 0\none = 3\n")

    # What an index run does between its list of the files and the first thing that it writes.
    remove_absent = IndexRun.remove_absent

    def note_and_remove(run: IndexRun, present: set[str]) -> None:
        write_index_meta(tree.connection, NOTED_CHANGE, noted)
        remove_absent(run, present)

    monkeypatch.setattr(IndexRun, "remove_absent", note_and_remove)
    index_repository(tree.connection, tree.place, IndexSettings(), now=time.time() + 3_600)
    assert read_index_meta(tree.connection, NOTED_CHANGE) == ""


def test_a_link_that_another_process_has_indexed_is_a_change(tree: AskedTree) -> None:
    """What has no stamp is no less a change: the note goes with it."""
    tree.rest()
    relink(tree.place.path)
    index_repository(tree.connection, tree.place, IndexSettings(), now=time.time() + 3_600)
    assert read_index_meta(tree.connection, NOTED_CHANGE) == ""
