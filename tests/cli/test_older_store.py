"""Commands on a store of an older or a newer xscore: one line, nothing paid twice, nothing
touched."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cli.basket import FILES
from tests.cli.conftest import Run, own_store
from tests.conftest import MakeRepo, store_dir, store_file
from tests.store.older_stores import write_older_store
from tests.waiting import wait_until
from xscore.cache.prune import prune_judgments
from xscore.platform.database import Migration
from xscore.platform.errors import UsageError
from xscore.platform.migration import Step, migrate
from xscore.platform.paths import user_data_dir
from xscore.platform.sqlite_drivers import KeySource
from xscore.store import opening
from xscore.store.migrations.steps import STEPS
from xscore.store.opening import SCHEMA

WITHOUT_INDEX = (
    *(
        "DELETE FROM memory_row WHERE version <> 0",
        "DELETE FROM file_row",
        "DELETE FROM file_version",
    ),
    *("DELETE FROM edge_row WHERE file <> 0", "DELETE FROM mentioned_name"),
    "DELETE FROM worktree_meta WHERE key GLOB 'index_*'",
)


@pytest.fixture
def older(basket: Path) -> Path:
    """A repository whose trusted store is of schema 1."""
    write_older_store(store_file(basket), 1)
    opening.accept_store(store_dir(basket), user_data_dir=user_data_dir(None))
    return basket


def set_version(path: Path, number: int) -> None:
    """Write another schema number."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {number}")


def test_what_was_migrated_is_said_once(older: Path, xscore: Run) -> None:
    """The first command says so in one line of stderr, and its result is what it always is."""
    done = xscore("status", "--json", cwd=older)
    assert done.returncode == 0
    assert json.loads(done.stdout)["judgments"] == 6
    (line,) = done.stderr.splitlines()
    assert f"from schema 1 to {SCHEMA.version}" in line
    assert str(store_dir(older) / "aside-1") in line
    assert xscore("status", cwd=older).stderr == ""


def test_a_quiet_command_migrates_in_silence(older: Path, xscore: Run) -> None:
    """`--quiet` silences this note as any other."""
    done = xscore("memory", "list", "--quiet", cwd=older)
    assert (done.returncode, done.stderr) == (0, "")
    assert "We name birds in Latin." in done.stdout


def test_the_user_s_own_store_is_migrated_too(basket: Path, xscore: Run) -> None:
    """A command that reads it says so; the preference is there."""
    write_older_store(user_data_dir(None) / "user.db", 1, kind="user")
    done = xscore("memory", "list", "--layer", "user", cwd=basket)
    assert "four spaces" in done.stdout
    assert f"from schema 1 to {SCHEMA.version}" in done.stderr


def test_a_newer_store_ends_every_command(older: Path, xscore: Run) -> None:
    """Exit 6 with both numbers; neither the store nor its folder changes, a rebuild included."""
    set_version(store_file(older), SCHEMA.version + 7)
    before = {file.name: file.read_bytes() for file in (store_dir(older)).iterdir()}
    for command in (
        ("status",),
        ("ask", "eggs"),
        ("memory", "add", "x"),
        ("store", "rebuild"),
        ("doctor",),
    ):
        done = xscore(*command, cwd=older)
        assert done.returncode == 6, done
        assert f"(schema {SCHEMA.version + 7}; this one reads {SCHEMA.version})" in done.stderr
        assert {file.name: file.read_bytes() for file in (store_dir(older)).iterdir()} == before


def test_a_hook_on_an_older_store_is_silent(older: Path, process: Run) -> None:
    """An agent's hook reads nothing of the migration."""
    event = {
        "session_id": "s",
        "cwd": str(older),
        "hook_event_name": "SessionStart",
        "source": "startup",
    }
    done = process("hook", "session-start", cwd=older, stdin=json.dumps(event))
    assert done.returncode == 0
    assert "schema" not in done.stdout + done.stderr
    assert (store_dir(older) / "aside-1").is_dir()


@pytest.mark.verify
def test_a_hook_leaves_a_long_migration_to_the_background(older: Path, process: Run) -> None:
    """A hook whose time is up before the store is migrated ends in time; the background process
    goes on."""
    path = store_file(older)
    event = {
        "session_id": "s",
        "cwd": str(older),
        "hook_event_name": "SessionStart",
        "source": "startup",
    }
    with closing(sqlite3.connect(path, isolation_level=None)) as lock_holder:
        lock_holder.execute("BEGIN IMMEDIATE")
        assert (
            process("hook", "session-start", cwd=older, stdin=json.dumps(event)).returncode == 0
        )
        lock_holder.execute("ROLLBACK")

    def is_migrated() -> bool:
        with closing(sqlite3.connect(path)) as connection:
            return bool(
                connection.execute("PRAGMA user_version").fetchone() == (SCHEMA.version,)
            )

    wait_until(is_migrated, otherwise="the background process did not migrate the store")


def test_nothing_is_paid_again_after_a_migration(
    make_repo: MakeRepo, xscore: Run, judge: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step drops the index; the next turn reads the files again and finds every judgment."""
    root = make_repo(FILES)
    ask = ("context", "sum the prices", *judge, "--json")
    first = json.loads(xscore(*ask, cwd=root).stdout)["coverage"]

    def drop_index(connection: sqlite3.Connection) -> None:
        for statement in WITHOUT_INDEX:
            connection.execute(statement)

    def to_next(
        connection: sqlite3.Connection, path: Path, keys: KeySource | None
    ) -> Migration | None:
        return migrate(
            connection, path, raised, {**STEPS, raised.version: Step(drop_index, {})}, keys
        )

    raised = replace(SCHEMA, version=SCHEMA.version + 1, migrate=to_next)
    monkeypatch.setattr(opening, "SCHEMA", raised)
    done = xscore(*ask, cwd=root)
    repeated = json.loads(done.stdout)["coverage"]
    assert f"from schema {SCHEMA.version} to {raised.version}" in done.stderr
    assert first["judged"] == first["candidates"] > 0
    assert repeated["judged"] == 0
    assert repeated["cached"] == first["candidates"]
    assert repeated["unjudged"] == 0


def test_judgments_wait_until_all_is_indexed_again(older: Path, xscore: Run) -> None:
    """Pruning before the index is complete would take paid judgments for useless, so it is
    refused."""
    xscore("status", cwd=older)
    with own_store(older) as store, pytest.raises(UsageError, match="still being built"):
        store.connection.execute("INSERT INTO worktree_meta VALUES (1, 'index_profile', 'p')")
        prune_judgments(store.connection)
