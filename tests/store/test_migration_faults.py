"""Migrations that are killed, run out of disk, meet each other, or concern encrypted and unwritable
stores."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.store.encrypted_stores import HEADER, files_containing
from tests.store.older_stores import (
    NUMBERS,
    Rows,
    common_columns,
    kept_rows,
    write_older_store,
)
from xscore.extensions.privacy import encryption
from xscore.platform import database, sqlite_drivers
from xscore.platform.database import Migration, Schema
from xscore.platform.errors import StoreDamaged, StoreError, StoreTooNew
from xscore.platform.migration import Step, migrate
from xscore.platform.sqlite_drivers import KeySource
from xscore.store import opening
from xscore.store.migrations.steps import STEPS
from xscore.store.opening import SCHEMA, connect_store
from xscore.store.scrubbing import leftover_files_with

KILLED_AT = """
import os, pathlib, signal, sys
from xscore.platform import sqlite_drivers
path, last = pathlib.Path(sys.argv[1]), int(sys.argv[2])
open_with, ran = sqlite_drivers.open_with, []

def counting(*given, **named):
    connection = open_with(*given, **named)
    def count(statement):
        ran.append(statement)
        if len(ran) == last:
            os.kill(os.getpid(), signal.SIGKILL)
    connection.set_trace_callback(count)
    return connection

sqlite_drivers.open_with = counting
from xscore.store.opening import connect_store
connect_store(path).close()
print(len(ran))
"""
"""Opens a store and kills itself when the last of so many statements begins."""
OPEN = """
import pathlib, sys
from xscore.platform.database import migration_of
from xscore.store.opening import connect_store
connection = connect_store(pathlib.Path(sys.argv[1]))
print(migration_of(connection) is not None)
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def rows_of(path: Path) -> Rows:
    """Return what has to be kept, of a store of either schema."""
    with closing(sqlite3.connect(path)) as connection:
        return kept_rows(connection, common_columns(path))


def copies(path: Path) -> list[str]:
    """Return everything in the set-aside folders next to a store."""
    return sorted(str(file.relative_to(path.parent)) for file in path.parent.glob("aside-*/*"))


def test_a_killed_migration_leaves_the_old_store(path: Path) -> None:
    """Killed at the last statement before its commit, nothing has changed; the next opening
    finishes."""
    _kill_at(path, statements_of_a_migration(path.parent / "counted" / "memory.db") - 4)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "step",
    [pytest.param(25, marks=pytest.mark.verify), pytest.param(6, marks=pytest.mark.nightly)],
)
def test_a_migration_may_be_killed_at_any_statement(tmp_path: Path, step: int) -> None:
    """Wherever it is killed, the next opening finds everything and leaves one whole copy."""
    total = statements_of_a_migration(tmp_path / "counted" / "memory.db")
    assert total > 200
    for number in range(1, total, step):
        _kill_at(tmp_path / str(number) / "memory.db", number)


def statements_of_a_migration(path: Path) -> int:
    """Count the statements from opening to closing."""
    write_older_store(path, 1)
    done = run(KILLED_AT, path, 0)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def _kill_at(path: Path, number: int) -> None:
    write_older_store(path, 1)
    before, columns = rows_of(path), common_columns(path)
    assert run(KILLED_AT, path, number).returncode == -signal.SIGKILL
    with closing(connect_store(path)) as connection:
        assert kept_rows(connection, columns) == before
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert [name.partition("/")[2] for name in copies(path)] in (
        ["memory.db", "schema-1.txt"],
        [],
    )


def test_a_step_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is as it was, its copy is gone, and its own xscore still opens it."""

    last = STEPS[SCHEMA.version]

    def fail(connection: sqlite3.Connection) -> None:
        last.run(connection)
        raise StoreError("no room")

    write_older_store(path, 1)
    before = rows_of(path)
    with monkeypatch.context() as patch:
        steps = {**STEPS, SCHEMA.version: Step(fail, last.kept_rows)}
        patch.setattr("xscore.store.migrations.steps.STEPS", steps)
        with pytest.raises(StoreError, match="no room"):
            connect_store(path)
    assert rows_of(path) == before
    assert copies(path) == []
    with closing(sqlite3.connect(path)) as older:
        assert older.execute("PRAGMA user_version").fetchone() == (1,)


def test_dangling_rows_are_damage_and_nothing_is_migrated(path: Path) -> None:
    """A row that refers to a missing one is named with the remedy, before anything is committed."""
    write_older_store(path, 1)
    with closing(sqlite3.connect(path)) as older:
        older.execute("INSERT INTO receipt VALUES ('t_gone', 1, '{}')")
        older.commit()
    with pytest.raises(StoreDamaged, match="receipt refers to one of turn") as raised:
        connect_store(path)
    assert "rebuild" in raised.value.hint
    assert copies(path) == []


OTHER_NUMBERS = [
    (number, named)
    for number in (*NUMBERS, SCHEMA.version)
    for named in NUMBERS
    if number != named
]


@pytest.mark.parametrize(("number", "named"), OTHER_NUMBERS)
def test_a_number_that_does_not_fit_the_tables_is_damage(
    path: Path, number: int, named: int
) -> None:
    """A store of one schema with the number of another is named as damaged, with the remedy, and
    left as it is; or it is one that a step can bring over."""
    if number == SCHEMA.version:
        connect_store(path).close()
    else:
        write_older_store(path, number)
    with closing(sqlite3.connect(path)) as older:
        older.execute(f"PRAGMA user_version = {named}")
        older.commit()
    try:
        connect_store(path).close()
    except StoreDamaged as error:
        assert "rebuild" in error.hint
        assert copies(path) == []
        with closing(sqlite3.connect(path)) as older:
            assert older.execute("PRAGMA user_version").fetchone() == (named,)
    else:
        with closing(sqlite3.connect(path)) as brought:
            assert brought.execute("PRAGMA user_version").fetchone() == (SCHEMA.version,)


def test_a_damaged_store_is_named_not_its_copy(path: Path) -> None:
    """The copy is what meets the damage, but the store is what has to be rebuilt."""
    write_older_store(path, 3)
    with closing(sqlite3.connect(path)) as older:
        of_table = "SELECT rootpage FROM sqlite_master WHERE name = 'receipt'"
        (page,) = older.execute(of_table).fetchone()
        (page_bytes,) = older.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as damaged:
        damaged.seek((page - 1) * page_bytes)
        damaged.write(b"\xff" * page_bytes)
    with pytest.raises(StoreDamaged) as raised:
        connect_store(path)
    assert str(path) in raised.value.message
    assert copies(path) == []


@contextmanager
def files_below(size: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("size", [1, 40_000, 100_000, 300_000])
def test_a_full_disk_leaves_the_old_store(path: Path, size: int) -> None:
    """Where the copy, or what the steps write, finds no room, that is said, and the next opening
    finishes."""
    write_older_store(path, 1)
    before, columns = rows_of(path), common_columns(path)
    with files_below(size), pytest.raises(StoreError) as raised:
        connect_store(path)
    assert raised.value.exit_code == 6
    assert not isinstance(raised.value, StoreDamaged)
    assert rows_of(path) == before
    assert copies(path) == []
    with closing(connect_store(path)) as connection:
        assert kept_rows(connection, columns) == before


@pytest.mark.verify
def test_processes_may_open_an_older_store_at_once(tmp_path: Path) -> None:
    """One of six migrates it, the others wait and go on; there is one copy."""
    for number in range(5):
        path = tmp_path / str(number) / "memory.db"
        write_older_store(path, 1)
        before, columns = rows_of(path), common_columns(path)
        running = [
            subprocess.Popen(
                [sys.executable, "-c", OPEN, str(path)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(6)
        ]
        outputs = [process.communicate(timeout=60) for process in running]
        assert [process.returncode for process in running] == [0] * 6, outputs
        assert sorted(out.decode().strip() for out, _ in outputs) == ["False"] * 5 + ["True"]
        with closing(connect_store(path)) as connection:
            assert kept_rows(connection, columns) == before
        assert copies(path) == ["aside-1/memory.db", "aside-1/schema-1.txt"]


def test_a_second_opening_waits_for_the_first(path: Path) -> None:
    """Who finds the work done when it gets the lock goes on without a step."""
    write_older_store(path, 1)
    with closing(database.open_unchecked(path)) as waiting:
        connect_store(path).close()
        assert SCHEMA.migrate(waiting, path, None) is None
        assert waiting.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert copies(path) == ["aside-1/memory.db", "aside-1/schema-1.txt"]


@pytest.mark.parametrize("name", ["memory.db", "user.db"])
def test_an_encrypted_store_and_its_copy_stay_encrypted(
    tmp_path: Path, user_dir: Path, name: str
) -> None:
    """No word of an encrypted store is in the copy in the clear, and the user's key opens it."""
    path = tmp_path / name
    write_older_store(path, 1)
    encryption.encrypt_store(path, user_data_dir=user_dir)
    keys = opening.key_source(user_dir)
    with closing(connect_store(path, keys)) as connection:
        assert database.migration_of(connection) is not None
        count = connection.execute("SELECT count(*) FROM judgment").fetchone()
    copy = tmp_path / "aside-1" / name
    assert files_containing(tmp_path, "heron") == []
    assert not copy.read_bytes().startswith(HEADER)
    assert sqlite_drivers.read_note(copy) == sqlite_drivers.read_note(path)
    with closing(database.open_unchecked(copy, keys)) as older:
        assert older.execute("SELECT count(*) FROM judgment").fetchone() == count
    assert not encryption.encrypt_store(path, user_data_dir=user_dir).removed


def test_a_newer_encrypted_store_is_named_and_left_alone(
    tmp_path: Path, user_dir: Path
) -> None:
    """What its header hides, its first page says; the file is not changed."""
    path = tmp_path / "memory.db"
    connect_store(path).close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 90")
    encryption.encrypt_store(path, user_data_dir=user_dir)
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match="schema 90"):
        connect_store(path, opening.key_source(user_dir))
    assert path.read_bytes() == before


def test_a_newer_store_keeps_the_journal_of_a_killed_process(path: Path) -> None:
    """What a newer xscore committed before it was killed stays in its journal."""
    connect_store(path).close()
    code = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA user_version"
        " = 90'); os._exit(0)"
    )
    run(code, path)
    before = {
        file.name: file.read_bytes()
        for file in path.parent.glob("memory.db*")
        if file.suffix != ".db-shm"
    }
    assert before["memory.db-wal"]
    with pytest.raises(StoreTooNew, match="schema 90"):
        connect_store(path)
    after = {
        file.name: file.read_bytes()
        for file in path.parent.glob("memory.db*")
        if file.suffix != ".db-shm"
    }
    assert after == before


def raise_schema(
    monkeypatch: pytest.MonkeyPatch, run_step: object = lambda connection: None
) -> Schema:
    """Let this process read a schema with one more step."""
    number = SCHEMA.version + 1
    steps = {**STEPS, number: Step(run_step, {})}  # type: ignore[arg-type]  # each test passes a function

    def to_next(
        connection: sqlite3.Connection, path: Path, keys: KeySource | None
    ) -> Migration | None:
        return migrate(connection, path, raised, steps, keys)

    raised = replace(SCHEMA, version=number, migrate=to_next)
    monkeypatch.setattr(opening, "SCHEMA", raised)
    return raised


def test_an_open_store_that_is_migrated_takes_no_more_writes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of the older xscore learns that it is the older one: nothing is written, nothing is
    called damage."""
    with closing(connect_store(path)) as older:
        raise_schema(
            monkeypatch,
            lambda connection: connection.execute(
                "ALTER TABLE meta RENAME COLUMN value TO worth"
            ),
        )
        with closing(connect_store(path)) as newer:
            assert database.migration_of(newer) is not None
            with pytest.raises(StoreTooNew), database.transaction(older):
                raise AssertionError
            with pytest.raises(StoreTooNew, match="newer xscore"):
                older.execute("SELECT value FROM meta")
            assert newer.execute("SELECT count(*) FROM meta").fetchone() == (0,)


def test_only_the_latest_copy_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each migration removes the copy of the one before; what a rebuild set aside stays."""
    write_older_store(path, 1)
    rebuilt = path.parent / "aside-7"
    rebuilt.mkdir()
    (rebuilt / "memory.db").write_bytes(b"damaged")
    connect_store(path).close()
    raise_schema(monkeypatch)
    connect_store(path).close()
    assert copies(path) == [
        "aside-2/memory.db",
        f"aside-2/schema-{SCHEMA.version}.txt",
        "aside-7/memory.db",
    ]


def test_an_erasure_finds_the_copy(path: Path) -> None:
    """The copy is one of the leftovers that an erasure searches and removes."""
    write_older_store(path, 1)
    connect_store(path).close()
    assert leftover_files_with(path.parent, ["We name birds in Latin."]) == [
        path.parent / "aside-1"
    ]
    assert leftover_files_with(path.parent, ["We name boats in Latin."]) == []


def test_a_reader_of_one_value_migrates_nothing(path: Path) -> None:
    """Reading whose store it is leaves an older one as it is."""
    write_older_store(path, 1)
    before = path.read_bytes()
    assert database.read_meta_value(path, "store_id")
    assert path.read_bytes() == before


def test_an_older_store_that_cannot_be_written_says_so(open_ground: Path) -> None:
    """A store of another user, or on a read-only disk, is not called damaged, and nothing
    appears next to it."""
    path = open_ground / "memory.db"
    write_older_store(path, 1)
    path.chmod(0o444)
    open_ground.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:  # to whom nothing is read-only
        os.seteuid(65534)
    try:
        with pytest.raises(StoreError, match="cannot be") as raised:
            connect_store(path)
    finally:
        if is_root:
            os.seteuid(0)
        open_ground.chmod(0o755)
    assert not isinstance(raised.value, StoreDamaged)
    assert [file.name for file in open_ground.iterdir()] == ["memory.db"]
