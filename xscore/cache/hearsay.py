"""Scores from an import that nobody vouches for: in quarantine, where they order work and never count as judgments.

A turn that has nothing better sends what they praise first; whoever reads judgments never looks here, so they reach no
score, no cached status and no sum of a receipt. One goes as soon as the content is judged for this turn by this judge,
with a sweep of the cache, and with the erasure of its content. Trade-off: of two strangers who say different things of
one content the first is kept, since neither is believed.
"""

from collections.abc import Sequence
from sqlite3 import Connection

from xscore.cache.keys import Names

_OF_TURN = "turn_key = ? AND judge = ? AND sample = ?"
_IS_ANY = f"SELECT 1 FROM hearsay WHERE {_OF_TURN} LIMIT 1"  # noqa: S608  words are ours
_KEEP = """
    INSERT INTO hearsay (turn_key, judge, sample, hash, score) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (turn_key, judge, sample, hash) DO NOTHING
"""
_SETTLE = f"DELETE FROM hearsay WHERE {_OF_TURN} AND hash IN (SELECT value FROM json_each(?))"  # noqa: S608  words are ours


def heard(connection: Connection, names: Names) -> dict[str, float]:
    """Return what is said of contents for this turn by this judge: content hash -> 0..1."""
    found = connection.execute(f"SELECT hash, score FROM hearsay WHERE {_OF_TURN}", names)  # noqa: S608  words are ours
    return dict(found.fetchall())


def keep(connection: Connection, names: Names, said: Sequence[tuple[str, float]]) -> int:
    """Take content hashes with scores 0..1 into quarantine; return how many were new. Within an open transaction."""
    return connection.executemany(_KEEP, [(*names, *one) for one in said]).rowcount


def settle(connection: Connection, names: Names, hashes: str) -> None:
    """Drop what was said of contents (a JSON array) that are judged now. Within an open transaction."""
    if connection.execute(_IS_ANY, names).fetchone():  # hardly ever, and every judging comes by here
        connection.execute(_SETTLE, (*names, hashes))


def count(connection: Connection) -> int:
    """Count the rows in quarantine."""
    return int(connection.execute("SELECT count(*) FROM hearsay").fetchone()[0])


def drop(connection: Connection) -> int:
    """Empty the quarantine; return how many rows went. Within an open transaction."""
    return connection.execute("DELETE FROM hearsay").rowcount
