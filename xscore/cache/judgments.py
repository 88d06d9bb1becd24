"""Judgments in the store, clustered by turn: what is known of a turn comes in one range scan.

It reads and writes on a connection it is given and decides nothing about staleness: an edited memory has another
content hash and is simply not found. A judgment once committed is never changed; of two processes that judged the same
pair, the first wins. Each bears a seal (`hashing.judgment_seal`), looked at whenever it is read: a damaged score is
never handed out. Trade-off: finding a memory's judgments over all turns is a scan, finding a turn's is not.
"""

import json
import sqlite3
import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from xscore import database
from xscore.cache import hearsay
from xscore.cache.keys import Names, judge_key
from xscore.errors import StoreDamaged
from xscore.hashing import judgment_seals, turn_seal
from xscore.records import JudgeIdentity, Judgment

_KNOWN = """
    SELECT hash, score, prior, pack, position, seal
    FROM judgment CROSS JOIN content ON content.id = content_id
    WHERE query_id = ?
"""
_AMONG = """
    SELECT hash, score, prior, pack, position, seal
    FROM json_each(?) CROSS JOIN content ON hash = value
    CROSS JOIN judgment ON query_id = ? AND content_id = content.id
"""
_ENTER = "INSERT INTO content (hash) SELECT value FROM json_each(?) WHERE true ON CONFLICT (hash) DO NOTHING"
_WRITE = """
    INSERT INTO judgment (query_id, content_id, score, prior, pack, position, seal)
    SELECT ?, id, ?, ?, ?, ?, ? FROM content WHERE hash = ?
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


class Kept(NamedTuple):
    """Judgments that were kept just now."""

    query: int
    """What they are filed under (`enter_query`)."""
    hashes: str
    """Of their contents, a JSON array: made once, since every judging comes by here."""


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
        names = (turn_key, judge, sample)
        query = query_id(self.connection, names)
        if query is None:
            return {}
        return _unsealed(self.connection.execute(_KNOWN, (query,)).fetchall(), names)

    def reasons(self, turn_key: str, judge: str, hashes: Iterable[str], *, sample: int = 0) -> dict[str, str]:
        """Return the reasons kept for these contents, by content hash, where there are any. judge: its key."""
        query = query_id(self.connection, (turn_key, judge, sample))
        if query is None:
            return {}
        return dict(self.connection.execute(_REASONS, (json.dumps(list(hashes)), query)).fetchall())

    def write(self, turn_key: str, judge: JudgeIdentity, judgments: Sequence[Judgment], *, sample: int = 0) -> None:
        """Keep judgments, in one transaction of their own."""
        with database.transaction(self.connection):
            insert(self.connection, judgments, turn_key=turn_key, judge=judge, sample=sample)


def known_among(connection: sqlite3.Connection, names: Names, query: int, hashes: Iterable[str]) -> dict[str, Judgment]:
    """Return the judgments that exist for these contents, without reasons. Raises StoreDamaged."""
    return _unsealed(connection.execute(_AMONG, (json.dumps(list(hashes)), query)).fetchall(), names)


def query_id(connection: sqlite3.Connection, names: Names) -> int | None:
    """Return the number of a turn by a judge; None: nothing is filed under it yet."""
    row = connection.execute("SELECT id FROM query WHERE turn_key = ? AND judge = ? AND sample = ?", names).fetchone()
    return int(row[0]) if row else None


def enter_query(connection: sqlite3.Connection, names: Names) -> int:
    """Return the number of a turn by a judge, dealing it at the first call. Within an open transaction."""
    known = query_id(connection, names)
    if known is not None:
        return known
    connection.execute("INSERT INTO query (turn_key, judge, sample) VALUES (?, ?, ?)", names)
    with database.making_sense("the index of turns"):
        return int(query_id(connection, names))  # type: ignore[arg-type]  # None is damage


def insert(
    connection: sqlite3.Connection,
    judgments: Sequence[Judgment],
    *,
    turn_key: str,
    judge: JudgeIdentity,
    sample: int = 0,
) -> Kept:
    """Keep judgments within a transaction that is already open."""
    return insert_under(connection, judgments, (turn_key, judge_key(judge), sample))


def insert_under(connection: sqlite3.Connection, judgments: Sequence[Judgment], names: Names) -> Kept:
    """Do the same for a judge that is known by its key alone; what strangers said of these contents goes."""
    query, turn = enter_query(connection, names), turn_seal(*names)
    hashes = json.dumps([judgment.content_hash for judgment in judgments])
    connection.execute(_ENTER, (hashes,))
    rows = [  # + 0.0: SQLite keeps -0.0 as 0.0, and so must the seal
        (j.content_hash, j.score + 0.0, j.prior + 0.0, j.pack, j.position) for j in judgments
    ]
    seals = judgment_seals(turn, rows)
    connection.executemany(_WRITE, [(query, *row[1:], seal, row[0]) for row, seal in zip(rows, seals, strict=True)])
    connection.executemany(_WRITE_REASON, [(query, j.reason, j.content_hash) for j in judgments if j.reason])
    hearsay.settle(connection, names, hashes)
    return Kept(query, hashes)


def _unsealed(rows: list[tuple[Any, ...]], names: Names) -> dict[str, Judgment]:
    """Turn rows into judgments by content hash. Raises StoreDamaged where a seal does not fit."""
    try:
        seals = judgment_seals(turn_seal(*names), rows)
        if seals != [row[5] for row in rows]:
            raise ValueError("a judgment does not fit its seal")
        judgments = Judgment.many(
            [(content, score, "", pack, at, prior) for content, score, prior, pack, at, _ in rows]
        )
        return dict(zip([row[0] for row in rows], judgments, strict=True))
    except (ValueError, TypeError, AttributeError, struct.error) as error:
        raise StoreDamaged(f"the store is damaged: {error}", hint=database.REBUILD) from error
