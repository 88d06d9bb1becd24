"""From schema 7 to 8, which has the packs of what turns read of each version of a file.

Everything else stays as it is. The next index run packs what is stored; until then turns read its
rows.
"""

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
"""Of schema 7: what the index rebuilds is left out."""
_TABLES = ("version_pool", "unpacked_version")
_TRIGGERS = "TRIGGER pack_of_"


def run(connection: sqlite3.Connection) -> None:
    """Create the tables and their triggers, and note every version to be packed."""
    script = script_of(8)
    for table in _TABLES:
        connection.execute(script.tables[table])
    connection.execute("INSERT INTO unpacked_version (version) SELECT number FROM file_version")
    for statement in script.others:
        if _TRIGGERS in statement:
            connection.execute(statement)
