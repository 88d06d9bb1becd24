"""Stores of every schema that was ever landed, loaded from `schemas/`: see `make_schema_fixture`."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from xscore.platform.table_changes import parse_script
from xscore.store.opening import SCHEMA

FOLDER = Path(__file__).with_name("schemas")
NUMBERS = sorted(int(file.stem) for file in FOLDER.glob("*.sql") if file.stem.isdecimal())
NEWEST_SHAPE = ""


def shapes_of(number: int) -> list[str]:
    """Return the names of the shapes that a schema number had, newest first."""
    return [NEWEST_SHAPE, *_sections(number)]


def write_older_store(path: Path, number: int, *, kind: str = "repository", shape: str = NEWEST_SHAPE) -> None:
    """Write a store of an older schema, with rows in every table, as its own xscore left it."""
    script = parse_script((FOLDER / f"{number}.sql").read_text("utf-8"))
    rows = (FOLDER / f"{number}.{kind}.sql").read_text("utf-8")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in script.tables.values():
            connection.execute(statement)
        connection.executescript(f"BEGIN; {rows} COMMIT;")
        for statement in script.others:
            connection.execute(statement)
        for section in _sections_back_to(number, shape):
            connection.executescript(f"PRAGMA legacy_alter_table = ON; BEGIN; {section} COMMIT;")
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
