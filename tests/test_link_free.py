"""Git folders without links are looked through once, and again after any change in them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from xscore.platform import link_free
from xscore.platform.git_folder import _stays_within, git_folder
from xscore.platform.users_folders import users_folder

FOLDERS = 80


@pytest.fixture
def repository(make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with many folders of objects; all changes count as long ago."""
    monkeypatch.setattr(link_free, "SETTLED_S", -60.0)
    root = make_repo({"a.py": "one = 1\n"})
    for number in range(FOLDERS):
        folder = root / ".git" / "objects" / f"{number:02x}"
        folder.mkdir(exist_ok=True)
        (folder / "0").write_text("x")
    return root


def asked(root: Path) -> bool:
    """Return whether git is asked at a root, as a new process finds it."""
    _stays_within.cache_clear()
    return git_folder(root) is not None


def notes() -> list[Path]:
    """Return the notes of this user."""
    folder = users_folder("cache") / "git-folders"
    return sorted(folder.iterdir()) if folder.exists() else []


def plant_object(root: Path, outside: Path) -> None:
    """A link in place of one object."""
    place = root / ".git" / "objects" / "07" / "0"
    place.unlink()
    place.symlink_to(outside)


def plant_folder(root: Path, outside: Path) -> None:
    """A link in place of a folder of objects."""
    place = root / ".git" / "objects" / "07"
    (place / "0").unlink()
    place.rmdir()
    place.symlink_to(outside.parent)


def plant_new_folder(root: Path, outside: Path) -> None:
    """A new folder of objects, with a link in it."""
    place = root / ".git" / "objects" / "fe"
    place.mkdir()
    (place / "0").symlink_to(outside)


def plant_branch(root: Path, outside: Path) -> None:
    """A link in place of a branch."""
    (root / ".git" / "refs" / "heads" / "other").symlink_to(outside)


@pytest.mark.parametrize("plant", [plant_object, plant_folder, plant_new_folder, plant_branch])
def test_a_link_that_comes_later_is_found(
    repository: Path, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    """A note says what the folders were like: after any change they are looked through again."""
    outside = tmp_path / "outside" / "file"
    outside.parent.mkdir()
    outside.write_text("private")
    assert asked(repository) and len(notes()) == 1
    assert asked(repository)
    times = [path.stat().st_mtime_ns for path in (repository / ".git" / "objects").iterdir()]
    plant(repository, outside)
    # Times that a program can set say nothing.
    for path in (repository / ".git" / "objects").iterdir():
        os.utime(path, ns=(min(times), min(times)), follow_symlinks=False)
    assert not asked(repository)


def test_a_note_is_used(repository: Path, tmp_path: Path) -> None:
    """Folders that did not change are not looked through: a note that is wrong is believed, so it
    must be this user's alone."""
    plant_object(repository, tmp_path)
    assert not asked(repository) and not notes()
    objects = repository / ".git" / "objects"
    folders = [repository / ".git", repository / ".git" / "info", repository / ".git" / "refs"]
    folders += [repository / ".git" / "refs" / "heads", objects]
    places = [*map(str, folders), str(repository / ".git")]
    places += [str(path) for path in objects.iterdir()]
    link_free.note(repository / ".git", link_free.fingerprint(sorted(places)))
    assert asked(repository)
    (written,) = notes()
    written.chmod(0o644)
    assert not asked(repository)


def test_nothing_is_noted_of_what_changed_just_now(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later change could have the same time. Nor of few folders, and none of it is an error."""
    monkeypatch.setattr(link_free, "SETTLED_S", 3_600.0)
    assert asked(repository) and not notes()
    monkeypatch.setattr(link_free, "SETTLED_S", -60.0)
    monkeypatch.setattr(link_free, "FEWEST_FOLDERS", 1_000)
    assert asked(repository) and not notes()
    monkeypatch.setattr(link_free, "FEWEST_FOLDERS", 60)
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    assert asked(repository)


def test_a_link_within_is_allowed_and_not_noted(repository: Path) -> None:
    """Where it leads to may change without a change of the folders that are looked through."""
    objects = repository / ".git" / "objects"
    (objects / "07" / "1").symlink_to(objects / "08" / "0")
    assert asked(repository) and not notes()
