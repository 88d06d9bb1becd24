"""Opening SQLite databases."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import store_dir, store_file
from xscore.platform import database
from xscore.platform.errors import StoreDamaged, StoreError
from xscore.store.opening import connect_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database is, or will be."""
    return tmp_path / "memory.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    """A new store."""
    with closing(connect_store(path)) as opened:
        yield opened


def test_files_are_private_and_git_ignores_them(tmp_path: Path) -> None:
    """Database and side files are 0600 in a 0700 folder that ignores itself, under any umask."""
    old = os.umask(0o000)
    try:
        connection = connect_store(store_file(tmp_path))
        connection.execute("INSERT INTO meta VALUES ('a', 'b')")
    finally:
        os.umask(old)
    folder = store_dir(tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.glob("memory.db*")}
    assert modes == {"memory.db": 0o600, "memory.db-wal": 0o600, "memory.db-shm": 0o600}
    assert (folder / ".gitignore").read_text() == "*\n"
    connection.close()


def test_every_connection_is_set_up_alike(connection: sqlite3.Connection, path: Path) -> None:
    """WAL, NORMAL, secure_delete, foreign keys and a busy timeout are set on every connection."""
    names = ("journal_mode", "synchronous", "secure_delete", "foreign_keys", "busy_timeout")
    with closing(connect_store(path)) as second:
        for opened in (connection, second):
            pragmas = [opened.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
            assert pragmas == ["wal", 1, 1, 1, 30_000]


def test_a_deleted_text_leaves_the_file(connection: sqlite3.Connection, path: Path) -> None:
    """Deleted data is overwritten, not only unlinked."""
    connection.execute("INSERT INTO meta VALUES ('k', 'planted-words-to-find')")
    connection.execute("DELETE FROM meta WHERE key = 'k'")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"planted-words" not in path.read_bytes()


def test_a_transaction_is_all_or_nothing(connection: sqlite3.Connection) -> None:
    """An exception rolls everything back and leaves the connection usable."""
    with pytest.raises(KeyError), database.transaction(connection):
        connection.execute("INSERT INTO meta VALUES ('a', 'b')")
        raise KeyError("stop")
    assert connection.execute("SELECT count(*) FROM meta").fetchone() == (0,)
    with database.transaction(connection):
        connection.execute("INSERT INTO meta VALUES ('a', 'b')")
    assert connection.execute("SELECT count(*) FROM meta").fetchone() == (1,)


@pytest.mark.verify
def test_processes_may_create_one_store_at_once(tmp_path: Path) -> None:
    """Eight processes that open a new database together all succeed, and its tables are created
    once."""
    code = (
        "import sys, pathlib; from xscore.store.opening import connect_store;"
        " connect_store(pathlib.Path(sys.argv[1])).close()"
    )
    path = store_file(tmp_path)
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stderr=subprocess.PIPE)
        for _ in range(8)
    ]
    errors = [process.communicate()[1].decode() for process in running]
    assert [process.returncode for process in running] == [0] * 8, errors


def _store(path: Path, *statements: str) -> None:
    with closing(connect_store(path)) as opened:
        for statement in statements:
            opened.execute(statement)


def _of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE memory (a)")


def _with_a_name_that_is_no_text(path: Path) -> None:
    _store(path)
    path.write_bytes(
        path.read_bytes().replace(b"CREATE TABLE meta", b"CREATE TABLE \xff\xfe\xff (")
    )


def _with_a_torn_table(path: Path) -> None:
    _store(
        path,
        *(f"INSERT INTO meta VALUES ('k{number}', '{'v' * 500}')" for number in range(200)),
    )
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2].ljust(len(data), b"\xff"))


def _of_an_unknown_format(path: Path) -> None:
    _store(path)
    data = path.read_bytes()
    path.write_bytes(data[:44] + b"\0\0\0\x63" + data[48:])


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "foreign bytes": (
        lambda path: path.write_bytes(b"not a database, but long enough for one" * 99),
        "is damaged",
    ),
    "a header alone": (
        lambda path: path.write_bytes(b"SQLite format 3\0junk" * 99),
        "is damaged",
    ),
    "another program's tables": (_of_another_program, "not an xscore store"),
    "a lost version": (
        lambda path: _store(path, "PRAGMA user_version = 0"),
        "not an xscore store",
    ),
    "a negative version": (
        lambda path: _store(path, "PRAGMA user_version = -5"),
        "not an xscore store",
    ),
    "an unknown format": (_of_an_unknown_format, "unsupported file format"),
    "a name that is not text": (_with_a_name_that_is_no_text, "is damaged"),
    "a torn table": (_with_a_torn_table, "is damaged"),
    "a lost table": (lambda path: _store(path, "DROP TABLE meta"), "no such table"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_said_with_its_remedy(path: Path, damage: str) -> None:
    """Foreign files and damaged stores are refused when they are opened or read; nothing is
    migrated."""
    make, words = DAMAGES[damage]
    make(path)
    with pytest.raises(StoreDamaged, match=words) as caught:
        connect_store(path).execute("SELECT key, value FROM meta").fetchall()
    assert "store rebuild" in caught.value.hint


def test_a_column_that_lost_its_name_is_damage(connection: sqlite3.Connection) -> None:
    """A statement of ours that does not match the schema means damage, in reading and in
    writing."""
    connection.execute("ALTER TABLE meta RENAME COLUMN value TO valve")
    for statement in (
        "SELECT value FROM meta",
        "INSERT INTO meta (key, value) VALUES ('a', 'b')",
    ):
        with pytest.raises(StoreDamaged, match=r"no.* column"):
            connection.execute(statement)


def test_a_link_is_refused(tmp_path: Path) -> None:
    """A database is never a link to another file."""
    (tmp_path / "memory.db").symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(StoreError, match="symbolic link"):
        connect_store(tmp_path / "memory.db")
    assert not (tmp_path / "elsewhere.db").exists()


def test_a_lock_that_does_not_fall_says_so(path: Path) -> None:
    """A store locked by another process for too long is a StoreError that names the lock."""
    first, second = (connect_store(path) for _ in range(2))
    second.execute("PRAGMA busy_timeout = 20")
    with (
        database.transaction(first),
        pytest.raises(StoreError, match="locked"),
        database.transaction(second),
    ):
        pass
    first.close()
    second.close()


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    """A store cannot be below a file, and the message says where."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be created"):
        connect_store(tmp_path / "file" / "memory.db")


def test_a_row_in_the_way_of_a_tried_statement_is_damage(
    connection: sqlite3.Connection,
) -> None:
    """A constraint broken by our own statement ends like other damage, with a remedy, not as a
    bug."""
    connection.execute("INSERT INTO meta VALUES ('a', 'b')")
    with pytest.raises(StoreDamaged, match="UNIQUE constraint failed") as caught:
        connection.execute("INSERT INTO meta VALUES ('a', 'c')")
    assert "`xscore store rebuild`" in caught.value.hint


def test_our_own_mistakes_pass_through(connection: sqlite3.Connection) -> None:
    """An invalid statement, or a missing value, is our bug and is not reported as damage."""
    with pytest.raises(sqlite3.OperationalError):
        connection.execute("SELEC 1")
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT ?")


def test_peeking_leaves_the_store_as_it_is(path: Path) -> None:
    """Reading one value of an unknown store neither migrates nor writes it."""
    connection = connect_store(path)
    connection.execute("INSERT INTO meta VALUES ('store_id', 'abc')")
    connection.close()
    before = path.read_bytes()
    assert database.read_meta_value(path, "store_id") == "abc"
    assert database.read_meta_value(path, "nothing") is None
    assert path.read_bytes() == before


def test_a_snapshot_may_end_after_its_connection(tmp_path: Path) -> None:
    """The snapshot of a generator that an error left half-read, and that is collected late, does
    so."""
    connection = connect_store(tmp_path / "memory.db")
    snapshot = database.read_snapshot(connection)
    snapshot.__enter__()
    connection.close()
    snapshot.__exit__(None, None, None)
