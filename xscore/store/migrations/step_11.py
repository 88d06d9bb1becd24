"""From schema 10 to 11, which has the signs of many vectors side by side, and notes which embedders
have a vector of every text. Everything else stays as it is.

Signs are made by the first search, embedders are noted by the next turn. A server that searches
gets long vectors again: it now has their projections.
"""

import sqlite3

from xscore.platform.table_changes import TableChange, copy_common_columns, rename_table
from xscore.store.migrations import step_10
from xscore.store.migrations.schema_texts import script_of
from xscore.store.vector_copies import FORGET_COMPLETE

KEPT_ROWS = step_10.KEPT_ROWS
"""Of schema 10: what the index rebuilds is left out."""
_TABLES = ("vec", "sign_block", "complete_embedder")
_FORMER = "former_vec"
_LONG_COPIES = """
    UPDATE vector_copy SET is_there = 0 WHERE EXISTS (
        SELECT 1 FROM vec WHERE vec.text_hash = vector_copy.text_hash
          AND vec.embedder = vector_copy.embedder AND length(data) > 2 * 384)
"""


def run(connection: sqlite3.Connection) -> None:
    """Make the table of vectors anew, and create the tables, indexes and triggers that it needs."""
    script = script_of(11)
    rename_table(connection, "vec", _FORMER)
    for table in _TABLES:
        connection.execute(script.tables[table])
    copy_common_columns(connection, _FORMER, "vec", TableChange())
    # Its index and its triggers go with it.
    connection.execute(f"DROP TABLE {_FORMER}")
    for statement in script.others:
        if _is_of_vectors(statement):
            connection.execute(statement)
    connection.execute(_LONG_COPIES)
    connection.execute(FORGET_COMPLETE)


def _is_of_vectors(statement: str) -> bool:
    """Whether a statement creates an index or trigger that schema 10 lacks, or has lost."""
    names = (" ON vec ", " ON vec\n", "DELETE FROM complete_embedder")
    return any(name in statement for name in names)
