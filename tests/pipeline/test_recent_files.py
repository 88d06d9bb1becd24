"""The files of recent commits, noted with the commit of HEAD."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import MakeRepo, git
from xscore.pipeline.recent_files import changes_before_head, recent_changes, with_edits
from xscore.platform.paths import find_root
from xscore.settings import Settings
from xscore.store.index_rows import read_index_meta, write_index_meta
from xscore.store.store import Store


@pytest.fixture
def repository(make_repo: MakeRepo) -> Path:
    """A repository of one commit."""
    return make_repo({"a.py": "one = 1\n", "b.py": "two = 2\n"})


@pytest.fixture
def store(repository: Path) -> Iterator[Store]:
    """The repository's store."""
    root = find_root(repository)
    with Store.open_with(root, Settings(), create=True) as opened:
        yield opened


def listed(store: Store, moment: float) -> dict[str, float]:
    """Return the files and their ages, as a turn sees them."""
    changes = changes_before_head(store.connection, store.root, moment)
    return {file.path: round(file.age_days, 6) for file in changes}


def moment_of_head(root: Path) -> float:
    """Return when the commit of HEAD was made."""
    return float(git(root, "log", "-1", "--format=%ct"))


def test_what_is_noted_is_what_git_lists(repository: Path, store: Store) -> None:
    """At any moment the noted list gives the same files and ages as git's."""
    for days in (0, 12, 29, 31):
        moment = moment_of_head(repository) + days * 86_400
        by_git = {
            file.path: round(file.age_days, 6) for file in recent_changes(store.root, moment)
        }
        assert listed(store, moment) == listed(store, moment) == by_git
        assert bool(by_git) is (days < 31)


def test_git_is_asked_again_only_after_a_commit(
    repository: Path, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same HEAD starts no git; a commit, another branch and a damaged note do."""
    moment = moment_of_head(repository)
    assert set(listed(store, moment)) == {"a.py", "b.py"}
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(tmp_path / "without git"))
    assert set(listed(store, moment)) == {"a.py", "b.py"}
    monkeypatch.setenv("PATH", path)
    (repository / "c.py").write_text("three = 3\n")
    git(repository, "add", "c.py")
    git(repository, "commit", "-qm", "three")
    assert set(listed(store, moment)) == {"a.py", "b.py", "c.py"}
    git(repository, "checkout", "-q", "--detach", "HEAD~1")
    assert set(listed(store, moment)) == {"a.py", "b.py"}
    write_index_meta(store.connection, "recent_files", "[1")
    assert set(listed(store, moment)) == {"a.py", "b.py"}


def test_a_git_that_fails_is_asked_again(
    repository: Path, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is noted where git gave nothing: the next turn has the files."""
    moment = moment_of_head(repository)
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(tmp_path / "without git"))
    assert listed(store, moment) == {}
    monkeypatch.setenv("PATH", path)
    assert set(listed(store, moment)) == {"a.py", "b.py"}


def test_a_name_that_is_a_secret_is_not_noted(repository: Path, store: Store) -> None:
    """A committed file whose name holds a key is in no note, and its neighbors are."""
    name = "AKIA" + "IOSFODNN7EXAMPLQ" + ".txt"
    (repository / name).write_text("x\n")
    (repository / "d.py").write_text("four = 4\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "four")
    names = set(listed(store, moment_of_head(repository)))
    assert "d.py" in names and name not in names
    rows = store.connection.execute("SELECT value FROM worktree_meta").fetchall()
    assert "AKIA" not in json.dumps(rows)


def test_an_edited_file_keeps_the_facts_of_its_commit(repository: Path, store: Store) -> None:
    """An uncommitted edit is of this moment, and boosts still know the file's last commit, also
    where the list was noted; a new file has none."""
    moment = moment_of_head(repository) + 86_400
    edits = {"b.py": [(1, 1)], "new.py": [(1, 2)]}
    for _ in range(2):
        recent = changes_before_head(store.connection, store.root, moment)
        edited, new, untouched = with_edits(recent, edits)
        assert (edited.path, edited.age_days, edited.lines) == ("b.py", 0.0, ((1, 1),))
        assert (new.path, new.commit) == ("new.py", None)
        assert (untouched.path, round(untouched.age_days, 6)) == ("a.py", 1.0)
        assert edited.commit == untouched.commit
        assert edited.commit and edited.commit.committed_at == moment_of_head(repository)


def test_a_list_noted_by_an_earlier_version_is_made_anew(
    repository: Path, store: Store
) -> None:
    """Its form is another; git has the same, and the note is written in today's form."""
    moment = moment_of_head(repository)
    listed(store, moment)
    noted = read_index_meta(store.connection, "recent_files")
    head = git(repository, "rev-parse", "HEAD").strip()
    earlier = json.dumps([head, [[moment, ["gone.py"]]]])
    write_index_meta(store.connection, "recent_files", earlier)
    assert set(listed(store, moment)) == {"a.py", "b.py"}
    assert read_index_meta(store.connection, "recent_files") == noted != earlier


def test_a_shallow_clone_that_gets_its_history_is_asked_again(
    repository: Path, tmp_path: Path
) -> None:
    """Its one commit touched every file; with the others each file has its own, at the same
    HEAD."""
    (repository / "a.py").write_text("one = 11\n")
    git(repository, "commit", "-qam", "edit")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", repository.as_uri(), str(clone))
    moment = moment_of_head(clone)

    def commits(store: Store) -> int:
        changes = changes_before_head(store.connection, store.root, moment)
        return len({id(file.commit) for file in changes})

    with Store.open_with(find_root(clone), Settings(), create=True) as store:
        assert commits(store) == 1
        git(clone, "fetch", "-q", "--unshallow")
        assert commits(store) == 2
