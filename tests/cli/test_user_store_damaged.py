"""An unreadable user store: no command treats it as empty, and each names the remedy."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run, own_store
from tests.conftest import store_file
from tests.store.conftest import put, said
from xscore.platform.paths import user_data_dir
from xscore.records.memory import Kind, Layer
from xscore.records.statement import Observation
from xscore.store.lookup import list_observations, record_observations, record_project
from xscore.store.opening import user_store_path

TEXT = "prefers the ochre ledger to every other"
COMMANDS = (
    ("memory", "export", "--layer", "user"),
    ("memory", "list"),
    ("memory", "list", "--layer", "user"),
    ("memory", "show", "m_0123"),
    ("memory", "delete", "m_0123"),
    ("memory", "wipe", "--scope", "user", "--yes"),
)


@pytest.fixture
def user_file(tmp_path: Path, own_home: Path) -> Path:
    """Make a project store and a user store with a preference and an observation; return the
    latter's file."""
    with own_store(tmp_path) as store:
        put(store.connection, said("The heron keeps the project's own ledger", ordinal=1))
        user = store.user_connection(create=True)
        assert user is not None
        put(user, said(TEXT, layer=Layer.USER, kind=Kind.PREFERENCE, key="k"))
        record_project(user, "p", now=1.0)
        record_observations(user, [Observation("p", "k", "preference", TEXT, 1.0)])
        user.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return user_store_path(user_data_dir(None))


def tear(path: Path) -> None:
    """Break the page size in the header: nothing can open it any more, but the bytes hold the
    text."""
    data = bytearray(path.read_bytes())
    data[16:18] = b"\x00\x03"
    path.write_bytes(data)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_damaged_store_of_ones_own_never_looks_empty(
    xscore: Run, tmp_path: Path, user_file: Path, command: tuple[str, ...]
) -> None:
    """P06: each command names the damaged file and the remedy, and exits with 6; the bytes still
    hold the text."""
    tear(user_file)
    done = xscore(*command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (6, "")
    assert str(user_file) in done.stderr and "xscore store rebuild --user" in done.stderr
    assert TEXT.encode() in user_file.read_bytes()


def test_doctor_names_the_damaged_store_of_ones_own(
    xscore: Run, tmp_path: Path, user_file: Path
) -> None:
    """H05: a fully or partly unreadable user store is reported, with the command that repairs
    it."""
    assert "your store" in xscore("doctor", cwd=tmp_path).stdout
    tear(user_file)
    done = xscore("doctor", cwd=tmp_path)
    assert done.returncode == 3
    assert str(user_file) in done.stdout
    assert "store rebuild --user" in done.stdout


def test_ones_own_store_is_built_anew_alone(
    xscore: Run, tmp_path: Path, user_file: Path
) -> None:
    """What is readable is kept, observations included; the old file is set aside, and the project's
    is unchanged."""
    with closing(sqlite3.connect(user_file)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'event'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(user_file.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size
    user_file.write_bytes(data)
    project = store_file(tmp_path)
    before = project.read_bytes()
    done = xscore("store", "rebuild", "--user", cwd=tmp_path)
    assert (
        done.returncode == 0 and "1 memories" in done.stdout and "1 observations" in done.stdout
    ), done
    assert project.read_bytes() == before and (
        user_file.parent / "aside-1" / "user.db"
    ).read_bytes() == bytes(data)
    assert TEXT in xscore("memory", "export", "--layer", "user", cwd=tmp_path).stdout
    with closing(sqlite3.connect(user_file)) as connection:
        assert [observation.value for observation in list_observations(connection)] == [TEXT]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
