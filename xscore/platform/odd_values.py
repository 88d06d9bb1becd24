"""Whether a database that this process has used holds values of another type than its columns.

SQLite stores anything in any column, so a changed bit can turn a number into bytes, and code that
reads it fails in a way of its own. Asked only after an error that nothing else explains.
Trade-off: a value that is wrong but of the right type is not told.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from xscore.platform.database_files import opened_databases
from xscore.platform.errors import StoreDamaged, StoreError
from xscore.platform.sqlite_drivers import open_plain, read_note, recovery_hint

_TYPES = {
    "INTEGER": ("integer",),
    "REAL": ("real", "integer"),
    "TEXT": ("text",),
    "BLOB": ("blob",),
}
"""Declared type of a column -> what its values may be."""


def damage_by_odd_values() -> StoreDamaged | None:
    """Return an error for the first odd value of the databases that this process has opened;
    None if there is none, or they are encrypted."""
    for path in opened_databases():
        if not path.is_file() or read_note(path) is not None:
            continue
        try:
            with closing(open_plain(path, read_only=True)) as connection:
                place = next(_odd_columns(connection), "")
        except StoreDamaged as error:
            return error
        except (StoreError, sqlite3.Error):
            continue
        if place:
            return StoreDamaged(
                f"the store {path} is damaged: {place} holds a value of the wrong type",
                hint=recovery_hint(path),
            )
    return None


def _odd_columns(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield `table.column` of each column with an odd value."""
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table'"
    ).fetchall()
    for (table,) in tables:
        for _, column, declared, is_required, _, key in connection.execute(
            f'PRAGMA table_info("{table}")'
        ).fetchall():
            allowed = list(_TYPES.get(declared, ()))
            if not allowed:
                continue
            if not (is_required or key):
                allowed.append("null")
            types = ", ".join(f"'{name}'" for name in allowed)
            query = f'SELECT 1 FROM "{table}" WHERE typeof("{column}") NOT IN ({types}) LIMIT 1'
            if connection.execute(query).fetchone():
                yield f"{table}.{column}"
