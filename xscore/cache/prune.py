"""Sweep judgments that nothing can reach any more, and the oldest where there are too many.

It decides nothing about truth: an edited memory's old judgments are right, only useless unless the edit is undone. It
runs when asked. Trade-off: deleted rows are overwritten (`secure_delete`), which costs time, and the file keeps its
size for the next judgments.
"""

import sqlite3
from dataclasses import dataclass

from xscore import database

MAX_JUDGMENTS = 2_000_000
"""About 76 MB."""
_BATCH = 20_000
_OLDEST_FIRST = """
    SELECT query.id, (SELECT count(*) FROM judgment WHERE query_id = query.id)
    FROM query ORDER BY (
        SELECT max(started_at) FROM turn WHERE turn.turn_key = query.turn_key AND turn.judge = query.judge
    ) NULLS FIRST, query.id
"""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a sweep removed."""

    unreachable: int
    """Judgments of contents that no memory shows any more."""
    over_cap: int
    """Judgments of the turns longest unused, beyond the cap."""
    contents: int
    """Contents that neither a memory nor a judgment uses."""


def prune(connection: sqlite3.Connection, *, max_judgments: int = MAX_JUDGMENTS) -> Pruned:
    """Remove unreachable judgments, then whole turns, oldest first, until at most `max_judgments` are left.

    Works in short transactions, so that others can write in between; an interrupted sweep has lost nothing else.
    """
    unreachable = _remove_unreachable(connection)
    over_cap = _remove_over_cap(connection, max_judgments)
    return Pruned(unreachable, over_cap, _remove_contents(connection))


def _remove_unreachable(connection: sqlite3.Connection) -> int:
    removed = 0
    for (query,) in connection.execute("SELECT id FROM query").fetchall():
        with database.transaction(connection):
            removed += connection.execute(
                "DELETE FROM judgment WHERE query_id = ?"
                " AND NOT EXISTS (SELECT 1 FROM content WHERE id = content_id AND memories > 0)",
                (query,),
            ).rowcount
    return removed


def _remove_over_cap(connection: sqlite3.Connection, max_judgments: int) -> int:
    turns = connection.execute(_OLDEST_FIRST).fetchall()
    surplus = sum(count for _, count in turns) - max_judgments
    removed = 0
    for query, count in turns:
        if count and removed >= surplus:
            break
        with database.transaction(connection):
            removed += connection.execute("DELETE FROM judgment WHERE query_id = ?", (query,)).rowcount
            connection.execute("DELETE FROM query WHERE id = ?", (query,))
    return removed


def _remove_contents(connection: sqlite3.Connection) -> int:
    removed, last = 0, -1
    while last != 0:
        with database.transaction(connection):
            last = connection.execute(
                "DELETE FROM content WHERE id IN (SELECT id FROM content WHERE memories = 0"
                " AND id NOT IN (SELECT content_id FROM judgment) LIMIT ?)",
                (_BATCH,),
            ).rowcount
        removed += last
    return removed
