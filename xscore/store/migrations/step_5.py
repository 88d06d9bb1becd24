"""From schema 4 to 5, which has a table of calibrations. Everything else stays as it is."""

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
"""Of schema 4: what the index rebuilds is left out."""


def run(connection: sqlite3.Connection) -> None:
    """Create the table."""
    connection.execute(script_of(5).tables["calibration"])
