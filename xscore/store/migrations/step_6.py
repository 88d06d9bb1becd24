"""From schema 5 to 6, which has the tables of compressed sessions. Everything else stays as it
is."""

import sqlite3

from xscore.platform.migration import NO_ROWS
from xscore.store.migrations.schema_texts import script_of

KEPT_ROWS = {
    "file_row": NO_ROWS,
    "file_version": NO_ROWS,
    "mentioned_name": NO_ROWS,
    "memory_row": "version = 0",
    "edge_row": "file = 0",
}
"""Of schema 5: what the index rebuilds is left out."""
_TABLES = ("compressed_session", "session_turn", "turn_summary")
_INDEX = "session_turn_by_memory"


def run(connection: sqlite3.Connection) -> None:
    """Create the tables and their index."""
    script = script_of(6)
    for table in _TABLES:
        connection.execute(script.tables[table])
    for statement in script.others:
        if _INDEX in statement:
            connection.execute(statement)
