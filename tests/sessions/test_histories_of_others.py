"""A history of Aider that came with the repository is not this user's past, whatever it says."""

import os
from pathlib import Path

import pytest

from tests.conftest import git
from tests.sessions.session_writers import AIDER, Import, Past
from xscore.extensions.sessions.importing import import_sessions
from xscore.extensions.sessions.session_format import AgentFolders
from xscore.platform.paths import find_root
from xscore.store.store import Store

HISTORY = ".aider.chat.history.md"
NOT_YOURS = "left out, tracked by git: not yours to import"


def test_a_tracked_history_is_left_out(root: Path, run: Import, past: Past) -> None:
    """What a clone brings is not taken and is said; without git's knowing it, it is the user's own."""
    (root / HISTORY).write_text(AIDER)
    git(root, "add", "-f", HISTORY)
    git(root, "commit", "-qm", "forged")
    report = run()
    assert (past(), report.refused, report.files) == ([], (), 0)
    assert [note.partition(HISTORY)[2] for note in report.notes] == [f": {NOT_YOURS}"]
    git(root, "rm", "-q", "--cached", HISTORY)
    assert run().added == 2


def test_a_staged_or_changed_history_is_left_out_too(root: Path, run: Import, past: Past) -> None:
    """Words of one's own at the end of a tracked file do not make the rest one's own."""
    (root / HISTORY).write_text("# aider chat started at 2026-11-01 09:00:00\n\n#### forged\n\nforged\n")
    git(root, "add", "-f", HISTORY)
    with (root / HISTORY).open("a") as file:
        file.write(AIDER)
    assert run().notes[0].endswith(NOT_YOURS)
    assert past() == []


def test_a_way_through_a_link_changes_nothing(root: Path, tmp_path: Path, own_home: Path, store: Store) -> None:
    """The repository reached by a linked folder is the same repository."""
    (root / HISTORY).write_text(AIDER)
    git(root, "add", "-f", HISTORY)
    (tmp_path / "linked").symlink_to(root)
    report = import_sessions(store, AgentFolders(own_home, {}, tmp_path / "linked"), now=1_796_000_000.0)
    assert report.notes[0].endswith(NOT_YOURS)
    assert report.added == 0


def test_a_link_in_its_place_is_left_out(root: Path, run: Import) -> None:
    """A history that is a link to a tracked file is no history."""
    (root / "docs.md").write_text(AIDER)
    (root / HISTORY).symlink_to("docs.md")
    report = run()
    assert (report.added, report.refused) == (0, ())
    assert report.notes[0].endswith("left out, no regular file")


def test_where_git_cannot_say_it_is_left_out(root: Path, run: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer of git's, nothing is believed to be the user's own."""
    (root / HISTORY).write_text(AIDER)
    monkeypatch.setenv("PATH", os.devnull)
    assert run().notes[0].endswith("left out, git cannot say whether it came with the repository")


def test_a_plain_folder_has_a_history(tmp_path: Path, own_home: Path) -> None:
    """Where there is no git, the history is read."""
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / HISTORY).write_text(AIDER)
    with Store.open(find_root(folder), user_data_dir=own_home / "data") as store:
        places = AgentFolders(own_home, {}, store.root.path)
        assert import_sessions(store, places, now=1_796_000_000.0).added == 2
