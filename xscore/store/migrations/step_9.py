"""From schema 8 to 9, which has a sketch of every vector, and finds the memories of a text by an
index. Everything else stays as it is.

Sketches are left empty: schema 11 has none.
"""

import sqlite3

from xscore.platform.migration import NO_ROWS
from xscore.store.migrations.schema_texts import script_of

KEPT_ROWS = {
    "file_row": NO_ROWS,
    "file_version": NO_ROWS,
    "mentioned_name": NO_ROWS,
    "version_pool": NO_ROWS,
    "unpacked_version": NO_ROWS,
    "memory_row": "version = 0",
    "edge_row": "file = 0",
}
"""Of schema 8: what the index rebuilds is left out."""
_INDEXES = ("INDEX vec_by_embedder", "INDEX view_by_text")


def run(connection: sqlite3.Connection) -> None:
    """Add the column, and create both indexes."""
    connection.execute("ALTER TABLE vec ADD COLUMN sketch BLOB NOT NULL DEFAULT x''")
    for statement in script_of(9).others:
        if any(index in statement for index in _INDEXES):
            connection.execute(statement)
