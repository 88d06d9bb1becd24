"""Judgments in the store, clustered by turn: what is known of a turn comes in one range scan.

It reads and writes on a connection it is given and decides nothing about staleness: an edited memory has another
content hash and is simply not found. A judgment once committed is never changed; of two processes that judged the same
pair, the first wins. Trade-off: finding a memory's judgments over all turns is a scan, finding a turn's is not.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import starmap

from xscore import database
from xscore.cache.keys import judge_key
from xscore.errors import StoreDamaged
from xscore.records import JudgeIdentity, Judgment

_KNOWN = """
    SELECT hash, score, '', pack, position, prior
    FROM judgment CROSS JOIN content ON content.id = content_id
    WHERE query_id = ?
"""
_WRITE = """
    INSERT INTO judgment (query_id, content_id, score, prior, pack, position)
    SELECT ?, id, ?, ?, ?, ? FROM content WHERE hash = ?
    ON CONFLICT (query_id, content_id) DO NOTHING
"""
_WRITE_REASON = """
    INSERT INTO reason (query_id, content_id, text)
    SELECT ?, id, ? FROM content WHERE hash = ?
    ON CONFLICT (query_id, content_id) DO NOTHING
"""
_REASONS = """
    SELECT hash, text FROM json_each(?) JOIN content ON hash = value
    JOIN reason ON query_id = ? AND content_id = content.id
"""


class Judgments:
    """The judgments of one store."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def known(self, turn_key: str, judge: JudgeIdentity, *, sample: int = 0) -> dict[str, Judgment]:
        """Return every judgment of this turn by this judge, by content hash, without reasons.

        Raises StoreDamaged rather than hand out a score that cannot be one.
        """
        return self.known_under(turn_key, judge_key(judge), sample=sample)

    def known_under(self, turn_key: str, judge: str, *, sample: int = 0) -> dict[str, Judgment]:
        """Return the same for a judge that is known by its key alone, as a past turn remembers it."""
        query = self._query(turn_key, judge, sample)
        if query is None:
            return {}
        rows = self.connection.execute(_KNOWN, (query,)).fetchall()
        try:
            return dict(zip([row[0] for row in rows], starmap(Judgment, rows), strict=True))
        except (ValueError, TypeError) as error:
            raise StoreDamaged(f"the store is damaged: {error}", hint=database.REBUILD) from error

    def reasons(self, turn_key: str, judge: str, hashes: Iterable[str], *, sample: int = 0) -> dict[str, str]:
        """Return the reasons kept for these contents, by content hash, where there are any. judge: its key."""
        query = self._query(turn_key, judge, sample)
        if query is None:
            return {}
        return dict(self.connection.execute(_REASONS, (json.dumps(list(hashes)), query)).fetchall())

    def write(self, turn_key: str, judge: JudgeIdentity, judgments: Sequence[Judgment], *, sample: int = 0) -> None:
        """Keep judgments, in one transaction of their own."""
        with database.transaction(self.connection):
            insert(self.connection, judgments, turn_key=turn_key, judge=judge, sample=sample)

    def _query(self, turn_key: str, judge: str, sample: int) -> int | None:
        row = self.connection.execute(
            "SELECT id FROM query WHERE turn_key = ? AND judge = ? AND sample = ?",
            (turn_key, judge, sample),
        ).fetchone()
        return int(row[0]) if row else None


def insert(
    connection: sqlite3.Connection,
    judgments: Sequence[Judgment],
    *,
    turn_key: str,
    judge: JudgeIdentity,
    sample: int = 0,
) -> None:
    """Keep judgments within a transaction that is already open."""
    names = (turn_key, judge_key(judge), sample)
    connection.execute(
        "INSERT INTO query (turn_key, judge, sample) VALUES (?, ?, ?) ON CONFLICT (turn_key, judge, sample) DO NOTHING",
        names,
    )
    row = connection.execute("SELECT id FROM query WHERE turn_key = ? AND judge = ? AND sample = ?", names).fetchone()
    with database.making_sense("the index of turns"):
        query = row[0]
    connection.executemany(
        "INSERT INTO content (hash) VALUES (?) ON CONFLICT (hash) DO NOTHING",
        [(judgment.content_hash,) for judgment in judgments],
    )
    connection.executemany(_WRITE, [(query, j.score, j.prior, j.pack, j.position, j.content_hash) for j in judgments])
    connection.executemany(_WRITE_REASON, [(query, j.reason, j.content_hash) for j in judgments if j.reason])
