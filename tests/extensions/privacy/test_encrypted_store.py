"""P04: an encrypted store can be rebuilt, erased from and shared like any other."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.statements import facts, prefer, preferences, say
from tests.store.encrypted_stores import (
    HEADER,
    PLANTED,
    files_containing,
    make_encrypted_store,
    open_store,
)
from xscore.extensions.privacy import encryption
from xscore.extensions.privacy.erasure import erase_memories, erased_lines
from xscore.extensions.privacy.erasure_proof import verify_erasure
from xscore.extensions.recovery import rebuild
from xscore.platform import sqlite_drivers
from xscore.platform.encrypted_sqlite import open_with_cipher
from xscore.platform.errors import StoreDamaged
from xscore.store import encryption_key, opening
from xscore.store.opening import connect_store

WRITE = """
import pathlib, sys
from xscore.store.store import Store
from xscore.platform.paths import find_root
from tests.statements import say
root, user_dir = find_root(pathlib.Path(sys.argv[1])), pathlib.Path(sys.argv[2])
with Store.open(root, user_data_dir=user_dir) as store:
    for number in range(20):
        say(store, f"heron {sys.argv[3]} says {number}", now=30.0)
"""


def test_a_rebuilt_store_is_encrypted_too(tmp_path: Path, user_dir: Path) -> None:
    """Statements are kept, the new store and the old one are encrypted, and both have their
    marker."""
    path = make_encrypted_store(tmp_path / "r", user_dir)
    rebuilt = rebuild.rebuild_store(path.parent, user_data_dir=user_dir)
    assert rebuilt.salvaged is not None
    assert rebuilt.salvaged.kept["memories"] == 5
    assert rebuilt.set_aside_at is not None
    assert files_containing(path.parent) == []
    assert not path.read_bytes().startswith(HEADER)
    with open_store(tmp_path / "r", user_dir) as store:
        assert len(facts(store)) == 5
    assert sqlite_drivers.read_note(
        rebuilt.set_aside_at / "memory.db"
    ) == sqlite_drivers.read_note(path)
    assert encryption.decrypt_store(path, user_data_dir=user_dir).changed


def test_a_damaged_page_is_damage_and_is_read_around(tmp_path: Path, user_dir: Path) -> None:
    """With the right key, changed bytes are damage; a rebuild saves the other pages."""
    path = make_encrypted_store(tmp_path / "r", user_dir, memories=200)
    data = bytearray(path.read_bytes())
    with closing(connect_store(path, opening.key_source(user_dir))) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'event'"
        ).fetchone()
    data[(root - 1) * 4096 + 100] ^= 1
    path.write_bytes(data)
    with (
        closing(connect_store(path, opening.key_source(user_dir))) as connection,
        pytest.raises(StoreDamaged),
    ):
        connection.execute("SELECT * FROM event").fetchall()
    rebuilt = rebuild.rebuild_store(path.parent, user_data_dir=user_dir)
    assert rebuilt.salvaged is not None
    assert rebuilt.salvaged.kept["memories"] == 200
    assert rebuilt.salvaged.damaged_places >= 1
    assert files_containing(path.parent) == []


def test_erasing_and_its_proof(tmp_path: Path, user_dir: Path) -> None:
    """The proof says it read rows, not bytes; a remaining row is found; old encrypted stores are
    removed."""
    path = make_encrypted_store(tmp_path / "r", user_dir)
    rebuild.rebuild_store(path.parent, user_data_dir=user_dir)
    with open_store(tmp_path / "r", user_dir) as store:
        going = facts(store)[0]
        lines = erased_lines(store, [going.id])
        # Long ago, since two writes may fall into one tick of the file system's clock.
        os.utime(path, (1_000_000_000, 1_000_000_000))
        done = erase_memories(store, [going.id], now=40.0)
        proof = verify_erasure(store, lines)
        assert (done.memories, done.asides, done.is_clean) == (1, ("aside-1",), True)
        assert (proof.holds, proof.encrypted) == (True, 1)
        assert proof.lines > 0
        assert path.stat().st_mtime > 1_000_000_000
        store.connection.execute(
            "INSERT INTO meta VALUES ('left', ?)", (f"so {going.text} it says",)
        )
        assert verify_erasure(store, lines).found_in == (str(path),)


def test_two_processes_write_at_once(tmp_path: Path, user_dir: Path) -> None:
    """Both wait for each other's transactions, and everything is kept."""
    path = make_encrypted_store(tmp_path / "r", user_dir)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, str(tmp_path / "r"), str(user_dir), name]
        )
        for name in "ab"
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    with open_store(tmp_path / "r", user_dir) as store:
        assert len(facts(store)) == 45
    assert files_containing(path.parent) == []


def test_a_converted_store_needs_no_other_journal(tmp_path: Path, user_dir: Path) -> None:
    """It has the mode that it is used in, encrypted and plain again: switching would leave a
    rollback journal for a moment, which another process takes for a stranger's."""
    path = make_encrypted_store(tmp_path / "r", user_dir)
    key = encryption_key.load_encryption_key(user_dir)
    with closing(open_with_cipher(path, key)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    encryption.decrypt_store(path, user_data_dir=user_dir)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_users_own_store(tmp_path: Path, user_dir: Path) -> None:
    """`user.db` is encrypted with the same key, and no byte in the folder shows what it says."""
    (tmp_path / "r").mkdir()
    opening.open_user_store(user_dir).close()
    assert encryption.encrypt_store(
        opening.user_store_path(user_dir), user_data_dir=user_dir
    ).changed
    with open_store(tmp_path / "r", user_dir) as store:
        prefer(store, "bird", f"{PLANTED}", now=10.0)
        assert [memory.text for memory in preferences(store)] == [PLANTED]
    assert files_containing(user_dir) == []


def test_a_note_without_a_store_makes_an_encrypted_store(
    tmp_path: Path, user_dir: Path
) -> None:
    """A rebuild killed between two renames leaves only the marker: the next store is encrypted."""
    path = make_encrypted_store(tmp_path / "r", user_dir)
    path.unlink()
    with open_store(tmp_path / "r", user_dir) as store:
        say(store, PLANTED, now=10.0)
        assert files_containing(path.parent) == []
    assert not path.read_bytes().startswith(HEADER)
