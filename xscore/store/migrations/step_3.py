"""From schema 2 to 3, in which a turn keeps the branch that it was asked on.

Before, only the receipt had it. So a turn takes the branch of its receipt, and one that ended
without a receipt, or whose receipt is damaged, has none. Everything else stays as it is.
"""

import sqlite3

from xscore.platform.migration import NO_ROWS

KEPT_ROWS = {
    "file_row": NO_ROWS,
    "file_version": NO_ROWS,
    "mentioned_name": NO_ROWS,
    "memory_row": "version = 0",
    "edge_row": "file = 0",
}
"""Of schema 2: what the index makes again is left out."""
_ADD_BRANCH = "ALTER TABLE turn ADD COLUMN branch TEXT NOT NULL DEFAULT ''"
_BRANCH_OF_RECEIPT = """
    UPDATE turn SET branch = json_extract(body, '$.session.branch') FROM receipt
    WHERE turn_id = id
      AND CASE WHEN json_valid(body) THEN json_type(body, '$.session.branch') END = 'text'
"""


def run(connection: sqlite3.Connection) -> None:
    """Add the column, and fill it as far as receipts know."""
    connection.execute(_ADD_BRANCH)
    connection.execute(_BRANCH_OF_RECEIPT)
