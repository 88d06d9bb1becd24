"""Where other repositories of this user come from: looked up once, within a time, whatever their
configs hold."""

import os
from pathlib import Path

import pytest

from tests.cpu_time import assert_growth
from xscore.store import clone_origins as module
from xscore.store.clone_origins import FILE, clone_origins, origin_mark

ADDRESS = "https://name:secret-word@host.example/team/shop"


def repository(place: Path, origin: str, *, blank_lines: int = 0) -> Path:
    """Make a folder whose git config states an origin."""
    folder = place / ".git"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config").write_text(
        "\n" * blank_lines + f'[remote "origin"]\n\turl = {origin}\n'
    )
    return place


def test_a_config_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    """The second look takes what the first one found; another config counts at once."""
    clone = repository(tmp_path / "clone", "/srv/one")
    config = clone / ".git" / "config"
    written = config.stat()
    assert list(clone_origins([clone], user_data_dir=tmp_path)) == [(clone, "/srv/one")]
    repository(clone, "/srv/two")
    # As long and as old as the first.
    os.utime(config, ns=(written.st_atime_ns, written.st_mtime_ns))
    assert list(clone_origins([clone], user_data_dir=tmp_path)) == [(clone, "/srv/one")]
    os.utime(config, ns=(written.st_atime_ns, written.st_mtime_ns + 1))
    assert list(clone_origins([clone], user_data_dir=tmp_path)) == [(clone, "/srv/two")]


def test_no_address_is_kept(tmp_path: Path) -> None:
    """An address may hold a password: its hash is kept, in a private file."""
    clone = repository(tmp_path / "clone", ADDRESS)
    assert list(clone_origins([clone], user_data_dir=tmp_path)) == [
        (clone, origin_mark(ADDRESS))
    ]
    kept = tmp_path / FILE
    assert "secret-word" not in kept.read_text() and "host.example" not in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_the_looking_ends_in_time_and_goes_on_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many repositories there are: what was found is kept, and no time is a reason to
    fail."""
    clones = [
        repository(tmp_path / f"clone-{number}", "/srv/one", blank_lines=900_000)
        for number in range(30)
    ]
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    assert list(clone_origins(clones, user_data_dir=tmp_path)) == []
    monkeypatch.setattr(module, "PATIENCE_S", 0.02)
    looks = 0
    while len(list(clone_origins(clones, user_data_dir=tmp_path))) < len(clones):
        looks += 1
        assert looks < 200
    assert looks > 0


def test_a_hostile_config_costs_its_length(tmp_path: Path) -> None:
    """Blank lines in another repository's config slow nothing down."""

    def look(lines: int) -> None:
        clone = repository(tmp_path / "clone", "/srv/one", blank_lines=lines)
        (tmp_path / FILE).unlink(missing_ok=True)
        assert list(clone_origins([clone], user_data_dir=tmp_path)) == [(clone, "/srv/one")]

    assert_growth(look, small=90_000, large=900_000, at_most=30)


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', "\xff"])
def test_an_unreadable_memo_is_made_anew(tmp_path: Path, content: str) -> None:
    """It is a memo, and its loss costs one look."""
    clone = repository(tmp_path / "clone", "/srv/one")
    (tmp_path / FILE).write_text(content, "latin-1")
    assert list(clone_origins([clone], user_data_dir=tmp_path)) == [(clone, "/srv/one")]
    (tmp_path / FILE).chmod(0o644)
    assert list(clone_origins([clone], user_data_dir=tmp_path)) == [(clone, "/srv/one")]
