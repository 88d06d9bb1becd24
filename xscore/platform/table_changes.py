"""Changes that `ALTER TABLE` cannot make: tables recreated from a script, with the rows of the old
ones.

For steps of a migration, which run in a transaction with foreign keys off. A table keeps its
rows by the columns that old and new have in common; a new column gets the value that is given
for it, otherwise its default. Triggers and views are dropped first, so that no trigger sees the
copying, and rebuilt last. Nothing here knows what a table means. Trade-off: a table whose
definition differs in one column is rewritten as a whole.
"""

import re
import sqlite3
from collections.abc import Mapping

from msgspec import Struct

from xscore.platform.database import statements

_CREATE_TABLE = re.compile(r'CREATE TABLE "?(\w+)"?', re.IGNORECASE)
_COMMENT = re.compile(r"--[^\n]*")


class SchemaScript(Struct, frozen=True):
    """What a schema's SQL creates."""

    tables: dict[str, str]
    """Statement by table name, in order."""
    others: tuple[str, ...]
    """Indexes, triggers and views, in order."""


class TableChange(Struct, frozen=True):
    """What the definitions alone do not say about a table."""

    rows: str = "true"
    """SQL condition: rows to keep."""
    values: Mapping[str, str] = {}
    """SQL expression for each new column that has no default, or whose default is wrong."""


def parse_script(text: str) -> SchemaScript:
    """Return the statements of a schema's SQL, sorted by what they create."""
    tables: dict[str, str] = {}
    other_statements: list[str] = []
    for statement in statements(text):
        match = _CREATE_TABLE.search(_COMMENT.sub("", statement))
        if match:
            tables[match[1]] = statement
        else:
            other_statements.append(statement)
    return SchemaScript(tables, tuple(other_statements))


def reshape(
    connection: sqlite3.Connection, script: SchemaScript, changes: Mapping[str, TableChange]
) -> None:
    """Make every table of the script as the script has it; other tables stay. Drops all indexes,
    triggers and views.

    changes: by table. Call `create_others` once all rows are as they should be.
    """
    _drop_others(connection)
    for name, definition in script.tables.items():
        _reshape_table(connection, name, definition, changes.get(name, TableChange()))


def rename_table(connection: sqlite3.Connection, name: str, new_name: str) -> None:
    """Rename a table, and leave alone what refers to it."""
    connection.execute("PRAGMA legacy_alter_table = ON")
    try:
        connection.execute(f'ALTER TABLE "{name}" RENAME TO "{new_name}"')
    finally:
        connection.execute("PRAGMA legacy_alter_table = OFF")


def create_others(connection: sqlite3.Connection, script: SchemaScript) -> None:
    """Create the indexes, triggers and views."""
    for statement in script.others:
        connection.execute(statement)


def table_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns of a table; empty if there is none of this name."""
    return [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")').fetchall()]


def copy_common_columns(
    connection: sqlite3.Connection, source: str, target: str, change: TableChange
) -> None:
    """Copy rows between two tables, by the columns that both have."""
    columns = table_columns(connection, target)
    expressions: dict[str, str] = {}
    for name in table_columns(connection, source):
        if name in columns:
            expressions[name] = f'"{name}"'
    for name, value in change.values.items():
        expressions.setdefault(name, value)
    names = ", ".join(f'"{name}"' for name in expressions)
    connection.execute(
        f'INSERT INTO "{target}" ({names}) SELECT {", ".join(expressions.values())} FROM "{source}"'
        f" WHERE {change.rows}"
    )


def _reshape_table(
    connection: sqlite3.Connection, name: str, definition: str, change: TableChange
) -> None:
    row = connection.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)
    ).fetchone()
    if row is None:
        connection.execute(definition)
        return
    if same_statement(row[0], definition) and change.rows == "true":
        return
    sequence = _last_number(connection, name)
    former = f"former_{name}"
    rename_table(connection, name, former)
    connection.execute(definition)
    copy_common_columns(connection, former, name, change)
    connection.execute(f'DROP TABLE "{former}"')
    # Numbers that were dealt are never dealt again, also those of deleted rows.
    if sequence is not None:
        connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
        connection.execute(
            "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, sequence)
        )


def _last_number(connection: sqlite3.Connection, table: str) -> int | None:
    """Return the last number that an AUTOINCREMENT table dealt; None for other tables."""
    if not table_columns(connection, "sqlite_sequence"):
        return None
    row = connection.execute(
        "SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)
    ).fetchone()
    return int(row[0]) if row else None


def _drop_others(connection: sqlite3.Connection) -> None:
    for kind in ("trigger", "view", "index"):
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = ? AND sql IS NOT NULL", (kind,)
        )
        for (name,) in names.fetchall():
            connection.execute(f'DROP {kind} "{name}"')


def same_statement(left: str, right: str) -> bool:
    """Whether two statements differ only in comments, spaces and the quotes of names."""
    return _normalised(left) == _normalised(right)


def _normalised(statement: str) -> str:
    text = " ".join(_COMMENT.sub("", statement).replace('"', "").split())
    return re.sub(" ?([(),;]) ?", r"\1", text).rstrip("; ")
