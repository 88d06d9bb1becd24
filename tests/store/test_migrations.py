"""Migrations: stores of every older schema and shape come to today's, with every row that cannot be
made again."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.make_schema_fixture import DIGESTS, NOW, schema_digest
from tests.store.older_stores import (
    NUMBERS,
    common_columns,
    kept_rows,
    shapes_of,
    write_older_store,
)
from xscore.cache.judgments import read_judgments
from xscore.extensions.vectors.sign_blocks import read_signs
from xscore.pipeline.stored_receipt import read_receipt
from xscore.platform import database
from xscore.platform.errors import StoreTooNew
from xscore.platform.migration import NO_ROWS
from xscore.platform.table_changes import _normalised
from xscore.store import turn_history
from xscore.store.checkpoints import list_checkpoints
from xscore.store.migrations.steps import STEPS
from xscore.store.opening import SCHEMA, connect_store
from xscore.store.vector_copies import uncopied_texts
from xscore.store.vector_rows import all_vectors
from xscore.store.working_session import load_session

OLDER = [
    (number, shape)
    for number in NUMBERS
    if number < SCHEMA.version
    for shape in shapes_of(number)
]


def objects(connection: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Return everything that a database's schema says, without comments."""
    rows = connection.execute(
        "SELECT type, name, coalesce(sql, '') FROM sqlite_master WHERE name <> 'sqlite_stat1'"
    )
    return {(kind, name, _normalised(sql)) for kind, name, sql in rows.fetchall()}


@pytest.mark.parametrize(("number", "shape"), OLDER)
@pytest.mark.parametrize("kind", ["repository", "user"])
def test_every_older_store_comes_over_whole(
    path: Path, number: int, shape: str, kind: str
) -> None:
    """What was stated, judged, paid and asked is there row by row; the schema is that of a new
    store."""
    write_older_store(path, number, kind=kind, shape=shape)
    columns = common_columns(path)
    with closing(sqlite3.connect(path)) as older:
        before = kept_rows(older, columns)
    with (
        closing(connect_store(path)) as connection,
        closing(database.open_in_memory(SCHEMA)) as fresh,
    ):
        assert kept_rows(connection, columns) == before
        assert objects(connection) == objects(fresh)
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA.version,)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
        assert connection.execute("SELECT 1 FROM memory WHERE terms = x''").fetchall() == []
        migration = database.migration_of(connection)
        assert migration is not None
        assert (migration.before, migration.after) == (number, SCHEMA.version)


@pytest.mark.parametrize(("number", "shape"), OLDER)
def test_judgments_of_an_older_store_count(path: Path, number: int, shape: str) -> None:
    """Every judgment is read back by its content, and fits its checksum."""
    write_older_store(path, number, shape=shape)
    with closing(connect_store(path)) as connection:
        (names,) = connection.execute("SELECT turn_key, judge, sample FROM query").fetchall()
        hashes = [
            row[0]
            for row in connection.execute("SELECT hash FROM content ORDER BY id").fetchall()
        ]
        judged = read_judgments(connection, names, hashes)
    assert len(judged) == 6


@pytest.mark.parametrize(("number", "shape"), OLDER)
def test_what_rows_hold_inside_is_read(path: Path, number: int, shape: str) -> None:
    """Receipts, turns, checkpoints and sessions of an older store have forms that this xscore
    reads."""
    write_older_store(path, number, shape=shape)
    with closing(connect_store(path)) as connection:
        (body,) = connection.execute("SELECT body FROM receipt").fetchone()
        assert read_receipt(body).coverage.candidates == 7
        listing = turn_history.list_turns(connection, turn_history.TurnFilter(), now=NOW)
        assert (len(listing.turns), listing.damaged_turns, listing.damaged_calls) == (1, 0, 0)
        (checkpoint,) = list_checkpoints(connection)
        assert checkpoint.notes == ("eggs",)
        assert load_session(connection, "s_birds") is not None


def test_names_in_statements_are_found_again(path: Path) -> None:
    """The first shapes began a hint with its kind; today's index would not find what such a hint
    names."""
    write_older_store(path, 1, shape=shapes_of(1)[-1])
    hints = {
        "entity:nest": "::nest",
        "path:a/b.py": "a/b.py",
        "inside:a.py::f": "a.py::f",
        "memory:m_1": "m_1",
    }
    with closing(sqlite3.connect(path)) as older:
        (source,) = older.execute("SELECT id FROM memory WHERE source <> 'index'").fetchone()
        older.execute("DELETE FROM mention")
        rows = [(source, hint) for hint in hints]
        older.executemany("INSERT INTO mention VALUES ('', ?, 'references', 'n', ?)", rows)
        older.commit()
    with closing(connect_store(path)) as connection:
        assert {hint for (hint,) in connection.execute("SELECT hint FROM mention")} == set(
            hints.values()
        )


@pytest.mark.parametrize("number", [8, 10])
def test_vectors_of_an_older_store_get_their_signs(path: Path, number: int) -> None:
    """A search by signs finds what was embedded before there were blocks of them, and blocks follow
    what is removed."""
    write_older_store(path, number)
    vector, text_hash = b"\x00\x3c\x00\xbc" * 32, "5f" * 16
    with closing(sqlite3.connect(path)) as older:
        older.execute(
            "INSERT INTO vec (text_hash, embedder, data) VALUES (?, 'small', ?)",
            (text_hash, vector),
        )
        older.commit()
    with closing(connect_store(path)) as connection:
        assert all_vectors(connection, "small") == [(text_hash, vector)]
        assert len(read_signs(connection, "small", dimensions=64)) == 1
        connection.execute("DELETE FROM vec WHERE text_hash = ?", (text_hash,))
        assert len(read_signs(connection, "small", dimensions=64)) == 0


def test_servers_get_long_vectors_again(path: Path) -> None:
    """Schema 10 sent them whole; short ones are there as they are now."""
    write_older_store(path, 10)
    with closing(sqlite3.connect(path)) as older:
        for text_hash, numbers in (("5e" * 16, 384), ("5f" * 16, 385)):
            older.execute(
                "INSERT INTO vec (text_hash, embedder, data) VALUES (?, 'small', ?)",
                (text_hash, b"\x00\x3c" * numbers),
            )
            older.execute(
                "INSERT INTO vector_copy VALUES (?, 'small', 'Qdrant in /q', 1, 0)",
                (text_hash,),
            )
        older.commit()
    with closing(connect_store(path)) as connection:
        assert uncopied_texts(connection, "small", "Qdrant in /q") == ["5f" * 16]


def test_a_change_of_the_schema_has_a_number_and_a_step() -> None:
    """`schema.sql` is what is written down for its number, and each number is reached by a step."""
    written = json.loads(DIGESTS.read_text("utf-8"))
    assert schema_digest(SCHEMA.file.read_text("utf-8")) == written.get(str(SCHEMA.version)), (
        f"schema.sql changed, and its number is still {SCHEMA.version}. If a store of this number"
        " was ever landed: put the change into a step (xscore/store/migrations/steps.py says how)"
        " and raise the number. If not: run `python -m tests.store.make_schema_fixture --digest`."
    )
    assert sorted(STEPS) == list(range(2, SCHEMA.version + 1))
    assert [number for number in range(1, SCHEMA.version) if number not in NUMBERS] == []


def test_a_turn_takes_the_branch_of_its_receipt(path: Path) -> None:
    """Of schema 2 only receipts knew it: a turn without one, or with a damaged one, has none."""
    write_older_store(path, 2)
    receipts = {
        "t_on": '{"session": {"branch": "feat/eggs"}}',
        "t_odd": '{"session": {"branch": 7}}',
    }
    with closing(sqlite3.connect(path)) as older:
        for turn in (*receipts, "t_cut"):
            older.execute(
                "INSERT INTO turn (id, thread, turn_key, task, started_at, state)"
                " VALUES (?, 's', 'k', 'eggs?', 1.0, 'failed')",
                (turn,),
            )
        older.executemany(
            "INSERT INTO receipt (turn_id, schema, body) VALUES (?, 1, ?)", receipts.items()
        )
        older.commit()
    with closing(connect_store(path)) as connection:
        branches = dict(connection.execute("SELECT id, branch FROM turn WHERE thread = 's'"))
    assert branches == {"t_on": "feat/eggs", "t_odd": "", "t_cut": ""}


@pytest.mark.parametrize("number", [number for number in NUMBERS if number < SCHEMA.version])
def test_the_copy_holds_what_cannot_be_made_again(path: Path, number: int) -> None:
    """The copy is a whole store of the older schema without the index, so its own xscore opens
    it."""
    write_older_store(path, number)
    columns = common_columns(path)
    with closing(sqlite3.connect(path)) as older:
        before = kept_rows(older, columns)
    connect_store(path).close()
    copy = path.parent / "aside-1" / path.name
    mark = f"schema-{number}.txt"
    assert sorted(file.name for file in copy.parent.iterdir()) == [path.name, mark]
    with closing(sqlite3.connect(copy)) as older:
        assert kept_rows(older, columns) == before
        assert older.execute("PRAGMA user_version").fetchone() == (number,)
        assert older.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        unsaved_tables = [
            table for table, rows in STEPS[number + 1].kept_rows.items() if rows == NO_ROWS
        ]
        assert unsaved_tables
        for table in unsaved_tables:
            assert older.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


@pytest.mark.parametrize("name", ["memory.db", "user.db"])
def test_a_newer_store_is_named_and_left_alone(tmp_path: Path, name: str) -> None:
    """Nothing of it changes, no journal appears, and no hint invites to throw it away."""
    path = tmp_path / name
    connect_store(path).close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version = {SCHEMA.version + 7}")
    before = {
        file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in tmp_path.iterdir()
    }
    with pytest.raises(StoreTooNew) as raised:
        connect_store(path)
    assert (
        f"made by a newer xscore (schema {SCHEMA.version + 7}; this one reads {SCHEMA.version})"
        in str(raised.value)
    )
    assert raised.value.exit_code == 6
    assert "Upgrade" in raised.value.hint
    assert "rebuild" not in raised.value.hint
    assert {
        file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in tmp_path.iterdir()
    } == before
