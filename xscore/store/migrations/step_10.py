"""From schema 9 to 10, which notes the vectors that a server searches. Everything else stays as it
is."""

import sqlite3

from xscore.store.migrations import step_9
from xscore.store.migrations.schema_texts import script_of

KEPT_ROWS = step_9.KEPT_ROWS
"""Of schema 9: what the index rebuilds is left out."""
_TABLE = "vector_copy"


def run(connection: sqlite3.Connection) -> None:
    """Create the table, its index and its triggers."""
    script = script_of(10)
    connection.execute(script.tables[_TABLE])
    for statement in script.others:
        if _TABLE in statement:
            connection.execute(statement)
