"""Stores of every schema that was ever landed, loaded from `schemas/`: see
`make_schema_fixture`."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from xscore.platform import database
from xscore.platform.table_changes import parse_script
from xscore.store.opening import SCHEMA

FOLDER = Path(__file__).with_name("schemas")
NUMBERS = sorted(int(file.stem) for file in FOLDER.glob("*.sql") if file.stem.isdecimal())
NEWEST_SHAPE = ""
KEPT_WHOLE = """
    query judgment reason untrusted_score runner claim turn receipt turn_figures session checkpoint
    event call
    reservation spending capability chars_per_token occurrence erased_memory muted_key project
    observation
    repository_map evaluation calibration job job_question job_ask job_request batch pack_slot
    evidence compressed_session session_turn turn_summary purpose
"""
"""Tables of which every row is kept."""
Rows = dict[str, list[tuple[object, ...]]]


def shapes_of(number: int) -> list[str]:
    """Return the names of the shapes that a schema number had, newest first."""
    return [NEWEST_SHAPE, *_sections(number)]


def write_older_store(
    path: Path, number: int, *, kind: str = "repository", shape: str = NEWEST_SHAPE
) -> None:
    """Write a store of an older schema, with rows in every table, as its own xscore left it."""
    script = parse_script((FOLDER / f"{number}.sql").read_text("utf-8"))
    rows = (FOLDER / f"{number}.{kind}.sql").read_text("utf-8")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA legacy_alter_table = ON")
        pieces = [
            *script.tables.values(),
            rows,
            *script.others,
            *_sections_back_to(number, shape),
        ]
        connection.executescript("\n".join(["BEGIN;", *pieces, "COMMIT;"]))
        connection.execute(f"PRAGMA application_id = {SCHEMA.application_id}")
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("PRAGMA journal_mode = WAL")


def _sections(number: int) -> dict[str, str]:
    file = FOLDER / f"{number}.shapes.sql"
    if not file.exists():
        return {}
    _, *pieces = re.split(r"^-- shape: (.+)$", file.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


def _sections_back_to(number: int, shape: str) -> Iterator[str]:
    if shape == NEWEST_SHAPE:
        return
    for name, section in _sections(number).items():
        yield section
        if name == shape:
            return


def kept_rows(connection: sqlite3.Connection, columns: dict[str, str]) -> Rows:
    """Return what a migration has to keep: rows of these columns, and ids of contents by hash."""
    rows = {
        table: sorted(
            connection.execute(f"SELECT {columns[table]} FROM {table}").fetchall(), key=repr
        )
        for table in KEPT_WHOLE.split()
        if columns[table]  # a table that the older schema lacks had no rows
    }
    # Of today's: a view.
    stated = f"SELECT {columns['memory']} FROM memory WHERE source <> 'index' ORDER BY id"
    rows["memory"] = connection.execute(stated).fetchall()
    rows["content"] = connection.execute("SELECT id, hash FROM content ORDER BY id").fetchall()
    rows["mention"] = connection.execute(
        "SELECT source, relation, name, hint FROM mention"
        " WHERE source IN (SELECT id FROM memory WHERE source <> 'index') ORDER BY 1, 3, 4"
    ).fetchall()
    rows["edge"] = connection.execute(
        "SELECT source, target, relation, weight FROM edge WHERE path = '' ORDER BY 1, 2"
    ).fetchall()
    rows["numbers"] = connection.execute(
        "SELECT name, seq FROM sqlite_sequence WHERE name IN ('content', 'event') ORDER BY name"
    ).fetchall()
    rows["meta"] = connection.execute(
        "SELECT key, value FROM meta WHERE key IN ('store_id', 'latest_turn') ORDER BY key"
    ).fetchall()
    return rows


def common_columns(path: Path) -> dict[str, str]:
    """Return the columns that each table has both in this store and in today's schema."""
    with (
        closing(database.open_in_memory(SCHEMA)) as today,
        closing(sqlite3.connect(path)) as older,
    ):
        columns = {}
        for table in (*KEPT_WHOLE.split(), "memory"):
            names = [
                {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
                for connection in (today, older)
            ]
            columns[table] = ", ".join(sorted(names[0] & names[1]))
        return columns
