"""From schema 6 to 7, which has the purposes of files, classes and folders. Everything else stays
as it is."""

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
"""Of schema 6: what the index rebuilds is left out."""


def run(connection: sqlite3.Connection) -> None:
    """Create the table."""
    connection.execute(script_of(7).tables["purpose"])
