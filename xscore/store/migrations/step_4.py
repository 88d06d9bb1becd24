"""From schema 3 to 4, in which each text of a memory that a judge may be shown has a row, and a
memory says what it was made from.

Before, a memory and the note that it is stale in a worktree each had two pairs of columns: hash and
tokens of what was shown by default, and of the full text. Judgments, contents and their numbers
stay as they are, and so does the index. Trade-off: every memory is written again, so that it has a
number that no VACUUM changes.
"""

import sqlite3

from xscore.platform.migration import NO_ROWS
from xscore.platform.table_changes import TableChange, create_others, reshape
from xscore.store.migrations.schema_texts import script_of

KEPT_ROWS = {
    "file_row": NO_ROWS,
    "file_version": NO_ROWS,
    "mentioned_name": NO_ROWS,
    "memory_row": "version = 0",
    "edge_row": "file = 0",
}
"""Of schema 3: what the index rebuilds is left out."""
_KEEP_VIEWS = """
    CREATE TEMP TABLE former_view AS
    SELECT id, version, 'whole' AS view, 0 AS worktree, text_hash AS hash, text_tokens AS tokens
      FROM memory_row
    UNION ALL SELECT id, version, 'card', 0, content_hash, tokens FROM memory_row
      WHERE content_hash <> text_hash
    UNION ALL SELECT id, version, 'whole', worktree, stale.text_hash, text_tokens
      FROM stale_memory AS stale JOIN memory_row ON id = memory_id AND version = 0
    UNION ALL SELECT id, version, 'card', worktree, stale.content_hash, tokens
      FROM stale_memory AS stale JOIN memory_row ON id = memory_id AND version = 0
      WHERE stale.content_hash <> stale.text_hash
"""
_WRITE_VIEWS = """
    INSERT INTO memory_view (memory, view, worktree, hash, tokens)
    SELECT number, view, worktree, hash, tokens FROM former_view JOIN memory_row USING (id, version)
"""


_ORIGIN = """
    CASE WHEN path <> '' OR source = 'index' THEN 'file'
    WHEN kind IN ('exchange', 'summary') THEN 'exchange' ELSE 'stated' END
"""


def run(connection: sqlite3.Connection) -> None:
    """Recreate the tables, and write a row for each pair of columns."""
    script = script_of(4)
    connection.execute(_KEEP_VIEWS)
    # A note of a memory that is gone has nothing to mark.
    noted = "memory_id IN (SELECT id FROM memory_row WHERE version = 0)"
    changes = {
        "stale_memory": TableChange(noted),
        "memory_row": TableChange(values={"origin": _ORIGIN}),
    }
    reshape(connection, script, changes)
    connection.execute(_WRITE_VIEWS)
    connection.execute("DROP TABLE former_view")
    create_others(connection, script)
