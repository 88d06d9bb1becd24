"""Which stores are trusted."""

import hmac
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import store_dir, store_file
from xscore.extensions.privacy import encryption
from xscore.extensions.recovery import rebuild
from xscore.platform import database
from xscore.platform.errors import StoreDamaged, StoreError, StoreTooNew, StoreUntrusted
from xscore.platform.hashing import hmac_sha256
from xscore.platform.paths import find_root
from xscore.store import opening, user_secret
from xscore.store.opening import connect_store
from xscore.store.store import Store


def open_at(folder: Path, user: Path, *, trust: bool = False) -> str:
    """Open the store of a folder and return its id."""
    folder.mkdir(exist_ok=True)
    with Store.open(find_root(folder), user_data_dir=user, trust=trust) as store:
        return store.store_id


def test_a_copied_store_is_refused_with_two_ways_on(tmp_path: Path, user_dir: Path) -> None:
    """A copied store, or a moved repository, is refused; the hint names both remedies."""
    open_at(tmp_path / "a", user_dir)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "c")
    for name in "bc":
        with pytest.raises(StoreUntrusted, match="not made by you") as caught:
            open_at(tmp_path / name, user_dir)
        assert "`xscore store trust`" in caught.value.hint
        assert "`xscore store rebuild`" in caught.value.hint


def test_a_store_put_in_the_place_of_ones_own_is_refused(
    tmp_path: Path, user_dir: Path
) -> None:
    """A known path does not vouch for another store: one brought by a branch is refused."""
    open_at(tmp_path / "mine", user_dir)
    open_at(tmp_path / "planted", tmp_path / "other_user")
    shutil.rmtree(store_dir(tmp_path / "mine"))
    shutil.copytree(store_dir(tmp_path / "planted"), store_dir(tmp_path / "mine"))
    with pytest.raises(StoreUntrusted):
        open_at(tmp_path / "mine", user_dir)


@pytest.mark.parametrize("name", [".xscore", ".xscore/memory.db", ".xscore/memory.db-wal"])
def test_what_is_no_store_at_all_is_refused(tmp_path: Path, user_dir: Path, name: str) -> None:
    """A pipe in place of the folder or a store file is refused at once, without waiting."""
    place = tmp_path / "planted" / name
    place.parent.mkdir(parents=True)
    os.mkfifo(place)
    with pytest.raises(StoreUntrusted, match=r"is not a (folder|regular file)"):
        open_at(tmp_path / "planted", user_dir)
    with pytest.raises(StoreUntrusted, match=r"is not a (folder|regular file)"):
        opening.accept_store(store_dir(tmp_path / "planted"), user_data_dir=user_dir)
    encryption.restore_note(place, user_data_dir=user_dir)  # `store encrypt` asks this first
    assert not list(place.parent.glob("*-key"))


def test_a_refused_store_is_not_touched(tmp_path: Path, user_dir: Path) -> None:
    """A refused store is neither read nor written."""
    open_at(tmp_path / "planted", tmp_path / "other_user")
    path = store_file(tmp_path / "planted")
    before = path.read_bytes()
    with pytest.raises(StoreUntrusted):
        open_at(tmp_path / "planted", user_dir)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.glob("memory*")] == ["memory.db"]


def test_trust_accepts_for_good_the_setting_for_once(tmp_path: Path, user_dir: Path) -> None:
    """XSCORE_TRUST_STORE opens a foreign store for a run; `xscore store trust` trusts it at this
    path."""
    identity = open_at(tmp_path / "planted", tmp_path / "other_user")
    assert open_at(tmp_path / "planted", user_dir, trust=True) == identity
    with pytest.raises(StoreUntrusted):
        open_at(tmp_path / "planted", user_dir)
    opening.accept_store(store_dir(tmp_path / "planted"), user_data_dir=user_dir)
    assert open_at(tmp_path / "planted", user_dir) == identity


def test_setting_aside_makes_room_for_a_new_store(tmp_path: Path, user_dir: Path) -> None:
    """A rebuild keeps the old files in a numbered folder and starts a new store."""
    old = open_at(tmp_path / "planted", tmp_path / "other_user")
    folder = store_dir(tmp_path / "planted")
    aside = rebuild.set_store_aside(folder / "memory.db")
    assert aside == folder / "aside-1"
    assert database.read_meta_value(aside / "memory.db", "store_id") == old
    assert open_at(tmp_path / "planted", user_dir) != old
    assert rebuild.set_store_aside(folder / "memory.db") == folder / "aside-2"
    assert rebuild.set_store_aside(folder / "memory.db") is None


@pytest.mark.parametrize(
    "name", ["", "memory.db", "memory.db-wal", "memory.db-shm", "memory.db-journal"]
)
def test_links_are_refused_even_when_trusted(tmp_path: Path, user_dir: Path, name: str) -> None:
    """Neither the folder nor a database file may be a link, which could overwrite any user file."""
    victim = tmp_path / "victim"
    link = store_dir(tmp_path / "project") / name
    link.parent.mkdir(parents=True, exist_ok=True)
    if name:
        victim.write_text("precious")
    else:
        victim.mkdir()
    link.symlink_to(victim)
    with pytest.raises(StoreUntrusted, match="symbolic link"):
        open_at(tmp_path / "project", user_dir, trust=True)
    assert victim.is_dir() or victim.read_text() == "precious"


def test_a_journal_without_a_database_is_refused(tmp_path: Path, user_dir: Path) -> None:
    """A planted journal must not be replayed into our new store."""
    (store_dir(tmp_path / "project")).mkdir(parents=True)
    (store_dir(tmp_path / "project") / "memory.db-wal").write_bytes(b"x" * 100)
    with pytest.raises(StoreUntrusted, match="journal"):
        open_at(tmp_path / "project", user_dir)


def test_a_half_made_store_is_made_anew(tmp_path: Path, user_dir: Path) -> None:
    """Remains of a killed first start are no obstacle."""
    folder = store_dir(tmp_path / "project")
    folder.mkdir(parents=True)
    (folder / "memory.db.new").write_bytes(b"half a database")
    (folder / "memory.db.new-wal").write_bytes(b"half a journal")
    assert open_at(tmp_path / "project", user_dir)
    assert not (folder / "memory.db.new").exists()


def test_the_secret_file_is_private(tmp_path: Path, user_dir: Path) -> None:
    """The secret is 0600 under any umask, and refused with a remedy once others can read it."""
    old = os.umask(0)
    try:
        open_at(tmp_path / "a", user_dir)
    finally:
        os.umask(old)
    path = user_dir / "trust.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(StoreError, match="others may") as caught:
        open_at(tmp_path / "a", user_dir)
    assert "chmod 600" in caught.value.hint


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "\0" * 300,
        '{"secret": "zz", "stores": {}}',
        '{"secret": "00", "stores": {}}',
        '{"secret": "00", "stores": []}',
        "[" * 100_000,
    ],
)
def test_a_secret_file_that_makes_no_sense_is_set_aside_and_trusts_nothing(
    tmp_path: Path, user_dir: Path, content: str
) -> None:
    """A store made before asks for trust once more, by an error that names the damaged file; new
    stores are made as ever."""
    identity = open_at(tmp_path / "mine", user_dir)
    (user_dir / "trust.json").write_text(content)
    with pytest.raises(StoreUntrusted, match=r"trust\.json\.damaged") as caught:
        open_at(tmp_path / "mine", user_dir)
    assert "`xscore store trust`" in caught.value.hint
    damaged = user_dir / "trust.json.damaged"
    assert damaged.read_text() == content
    assert stat.S_IMODE(damaged.stat().st_mode) == 0o600
    assert open_at(tmp_path / "new", user_dir)
    opening.accept_store(store_dir(tmp_path / "mine"), user_data_dir=user_dir)
    assert open_at(tmp_path / "mine", user_dir) == identity


def test_what_a_truncated_secret_file_still_shows_goes_on(
    tmp_path: Path, user_dir: Path
) -> None:
    """Wherever it breaks off, a store whose mark is whole stays trusted, no other is, and it is
    said once."""
    first, last = tmp_path / 'of "mine" \u00e9', tmp_path / "mine too"
    for folder in (first, last):
        open_at(folder, user_dir)
    path = user_dir / "trust.json"
    content = path.read_bytes()
    secret = user_secret.load_user_secret(user_dir).secret
    end_of_secret = content.index(b'",') + 1
    end_of_mark = content.index(b'",', content.index(b'"stores"')) + 1
    for length in (0, 30, end_of_secret - 1, end_of_secret, end_of_mark - 1, end_of_mark):
        path.write_bytes(content[:length])
        read_again = user_secret.known_user_secret(user_dir)
        assert (read_again.secret == secret) is (length >= end_of_secret)
        assert len(read_again.trusted_stores) == (length == end_of_mark)
        path.write_bytes(content)
    path.write_bytes(content[:end_of_mark])
    notes: list[str] = []
    for _ in range(2):
        with Store.open(find_root(first), user_data_dir=user_dir) as store:
            store.listen(notes.append)
    assert len(notes) == 1
    assert "trust.json.damaged" in notes[0]
    with pytest.raises(StoreUntrusted, match="mark was lost"):
        open_at(last, user_dir)
    assert user_secret.load_user_secret(user_dir).secret == secret


def test_damage_never_trusts_what_was_not_trusted(tmp_path: Path, user_dir: Path) -> None:
    """A mark that damage changed fits no store, and one of another path or secret neither."""
    open_at(tmp_path / "mine", user_dir)
    open_at(tmp_path / "planted", tmp_path / "other_user")
    path = user_dir / "trust.json"
    text = path.read_text()
    planted = os.path.realpath(store_file(tmp_path / "planted"))
    mine = os.path.realpath(store_file(tmp_path / "mine"))
    path.write_text(text.replace(json.dumps(mine), json.dumps(planted))[:-3])
    assert list(user_secret.known_user_secret(user_dir).trusted_stores) == [planted]
    with pytest.raises(StoreUntrusted):
        open_at(tmp_path / "planted", user_dir)


def test_later_damage_keeps_the_earlier_file(user_dir: Path) -> None:
    """Each damaged file is kept under a name of its own."""
    user_secret.load_user_secret(user_dir)
    for content in ("first", "second"):
        (user_dir / "trust.json").write_text(content)
        assert "was damaged" in user_secret.set_damaged_aside(user_dir)
        assert user_secret.set_damaged_aside(user_dir) == ""
    kept = sorted(user_dir.glob("trust.json.damaged*"))
    assert [file.read_text() for file in kept] == ["first", "second"]


def test_the_secret_is_not_printed(user_dir: Path) -> None:
    """The secret stays out of representations and so out of logs."""
    user = user_secret.load_user_secret(user_dir)
    assert user.secret.hex() not in repr(user)
    assert str(user.secret) not in repr(user)
    assert json.loads((user_dir / "trust.json").read_text())["secret"] == user.secret.hex()


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 200])
def test_marks_are_those_of_the_standard_hmac(size: int) -> None:
    """A store that was trusted by `hmac` stays trusted, whatever the length of the key."""
    key, message = bytes(range(size)), b"a message" * size
    assert hmac_sha256(key, message) == hmac.digest(key, message, "sha256")


def test_processes_may_make_secret_and_stores_at_once(tmp_path: Path, user_dir: Path) -> None:
    """Two processes at a new store, and many at new stores, all succeed with one secret and lose no
    mark."""
    code = (
        "import sys, pathlib; from xscore.store.store import Store; from xscore.platform.paths"
        " import find_root\nwith Store.open(find_root(pathlib.Path(sys.argv[1])),"
        " user_data_dir=pathlib.Path(sys.argv[2])) as s: print(s.store_id)"
    )
    folders = [tmp_path / f"p{number // 2}" for number in range(8)]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder), str(user_dir)],
            stdout=-1,
            stderr=-1,
            text=True,
        )
        for folder in folders
    ]
    done = [process.communicate() for process in running]
    assert all(process.returncode == 0 for process in running), done
    ids = [out.strip() for out, _ in done]
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 4
    assert [open_at(folder, user_dir) for folder in folders] == ids


def test_a_store_without_an_id_cannot_be_accepted(tmp_path: Path, user_dir: Path) -> None:
    """`xscore store trust` on a database without an id is damage."""
    connect_store(store_file(tmp_path)).close()
    with pytest.raises(StoreDamaged, match="no store id"):
        opening.accept_store(store_dir(tmp_path), user_data_dir=user_dir)


def test_what_a_clone_leaves_in_the_way_is_named(tmp_path: Path) -> None:
    """A folder in place of the scratch file, or a file in place of the store's folder, is an error
    that names it."""
    (tmp_path / "a" / "memory.db.new" / "inner").mkdir(parents=True)
    (tmp_path / "b").write_text("no folder")
    for folder in ("a", "b"):
        with pytest.raises(StoreError, match=r"memory\.db\.new"):
            opening.create_scratch(tmp_path / folder / "memory.db", "id", None)


def test_a_newer_store_is_not_accepted(tmp_path: Path, user_dir: Path) -> None:
    """`store trust` refuses a store that this xscore cannot read, and records nothing."""
    (tmp_path / "project").mkdir()
    root = find_root(tmp_path / "project")
    with Store.open(root, user_data_dir=tmp_path / "another user"):
        pass
    with closing(sqlite3.connect(root.store_file)) as newer:
        newer.execute("PRAGMA user_version = 90")
    with pytest.raises(StoreTooNew):
        opening.accept_store(root.store_dir, user_data_dir=user_dir)
    assert not user_dir.exists()
