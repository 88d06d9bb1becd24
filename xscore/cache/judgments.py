"""Judgments in the store, clustered by turn: what is known of a turn comes in one range scan.

It works on a connection it is given and decides nothing about staleness: an edited memory has another content hash and
is not found. A committed judgment is never changed; of two processes that judged the same pair, the first wins. Each
row has a checksum, verified on every read. Scores from an import that nobody vouches for are quarantined: they order
work, never count, and go once the content is judged. Trade-off: finding a memory's judgments over all turns is a scan.
"""

import json
import struct
from collections.abc import Iterable, Sequence
from sqlite3 import Connection
from typing import Any, NamedTuple

from xscore.cache.keys import JudgmentKey, judge_key
from xscore.platform import database, sqlite_drivers
from xscore.platform.errors import StoreDamaged
from xscore.platform.hashing import judgment_checksums, turn_checksum
from xscore.records import JudgeIdentity, Judgment

_KNOWN_OF_TURN = """
    SELECT hash, score, prior, pack, position, checksum
    FROM judgment CROSS JOIN content ON content.id = content_id
    WHERE query_id = ?
"""
_KNOWN_AMONG = """
    SELECT hash, score, prior, pack, position, checksum
    FROM json_each(?) CROSS JOIN content ON hash = value
    CROSS JOIN judgment ON query_id = ? AND content_id = content.id
"""
_ENTER = "INSERT INTO content (hash) SELECT value FROM json_each(?) WHERE true ON CONFLICT (hash) DO NOTHING"
_WRITE_JUDGMENT = """
    INSERT INTO judgment (query_id, content_id, score, prior, pack, position, checksum)
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


class WrittenJudgments(NamedTuple):
    """Judgments that were just kept."""

    query: int
    """The number of their turn by their judge (`find_or_add_query`)."""
    hashes: str
    """Of their contents, a JSON array: built once, since every write passes here."""


class Judgments:
    """The judgments of one store."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def known(self, turn_key: str, judge: JudgeIdentity, *, sample: int = 0) -> dict[str, Judgment]:
        """Return every judgment of this turn by this judge, by content hash, without reasons.

        Raises StoreDamaged rather than hand out a score that cannot be one.
        """
        return self.known_under(turn_key, judge_key(judge), sample=sample)

    def known_under(self, turn_key: str, judge: str, *, sample: int = 0) -> dict[str, Judgment]:
        """Return the same for a judge known by its key alone, as a past turn remembers it."""
        names = (turn_key, judge, sample)
        query = find_query(self.connection, names)
        if query is None:
            return {}
        return _checked_judgments(self.connection.execute(_KNOWN_OF_TURN, (query,)).fetchall(), names)

    def reasons(self, turn_key: str, judge: str, hashes: Iterable[str], *, sample: int = 0) -> dict[str, str]:
        """Return the reasons kept for these contents, by content hash, where there are any. judge: its key."""
        query = find_query(self.connection, (turn_key, judge, sample))
        if query is None:
            return {}
        return dict(self.connection.execute(_REASONS, (json.dumps(list(hashes)), query)).fetchall())

    def write(self, turn_key: str, judge: JudgeIdentity, judgments: Sequence[Judgment], *, sample: int = 0) -> None:
        """Keep judgments, in one transaction of their own."""
        with database.transaction(self.connection):
            insert_judgments(self.connection, judgments, turn_key=turn_key, judge=judge, sample=sample)


def known_judgments(
    connection: Connection, names: JudgmentKey, query: int, hashes: Iterable[str]
) -> dict[str, Judgment]:
    """Return the judgments that exist for these contents, without reasons. Raises StoreDamaged."""
    return _checked_judgments(connection.execute(_KNOWN_AMONG, (json.dumps(list(hashes)), query)).fetchall(), names)


def find_query(connection: Connection, names: JudgmentKey) -> int | None:
    """Return the number of a turn by a judge; None: nothing is filed under it yet."""
    row = connection.execute("SELECT id FROM query WHERE turn_key = ? AND judge = ? AND sample = ?", names).fetchone()
    return int(row[0]) if row else None


def find_or_add_query(connection: Connection, names: JudgmentKey) -> int:
    """Return the number of a turn by a judge, adding it at the first call. Within an open transaction."""
    known = find_query(connection, names)
    if known is not None:
        return known
    connection.execute("INSERT INTO query (turn_key, judge, sample) VALUES (?, ?, ?)", names)
    with database.damage_if_invalid("the index of turns"):
        return int(find_query(connection, names))  # type: ignore[arg-type]  # None is damage


def insert_judgments(
    connection: Connection,
    judgments: Sequence[Judgment],
    *,
    turn_key: str,
    judge: JudgeIdentity,
    sample: int = 0,
) -> WrittenJudgments:
    """Keep judgments within a transaction that is already open."""
    return insert_judgments_under(connection, judgments, (turn_key, judge_key(judge), sample))


def insert_judgments_under(
    connection: Connection, judgments: Sequence[Judgment], names: JudgmentKey
) -> WrittenJudgments:
    """Do the same for a judge known by its key alone; quarantined scores of these contents go."""
    query, turn = find_or_add_query(connection, names), turn_checksum(*names)
    hashes = json.dumps([judgment.content_hash for judgment in judgments])
    connection.execute(_ENTER, (hashes,))
    rows = [  # + 0.0: SQLite keeps -0.0 as 0.0, and so must the checksum
        (j.content_hash, j.score + 0.0, j.prior + 0.0, j.pack, j.position) for j in judgments
    ]
    checksums = judgment_checksums(turn, rows)
    connection.executemany(
        _WRITE_JUDGMENT, [(query, *row[1:], checksum, row[0]) for row, checksum in zip(rows, checksums, strict=True)]
    )
    connection.executemany(_WRITE_REASON, [(query, j.reason, j.content_hash) for j in judgments if j.reason])
    settle_untrusted(connection, names, hashes)
    return WrittenJudgments(query, hashes)


def _checked_judgments(rows: list[tuple[Any, ...]], names: JudgmentKey) -> dict[str, Judgment]:
    """Turn rows into judgments by content hash. Raises StoreDamaged where a checksum does not fit."""
    try:
        checksums = judgment_checksums(turn_checksum(*names), rows)
        if checksums != [row[5] for row in rows]:
            raise ValueError("a judgment does not fit its checksum")
        judgments = Judgment.from_rows(
            [(content, score, "", pack, at, prior) for content, score, prior, pack, at, _ in rows]
        )
        return dict(zip([row[0] for row in rows], judgments, strict=True))
    except (ValueError, TypeError, AttributeError, struct.error) as error:
        raise StoreDamaged(f"the store is damaged: {error}", hint=sqlite_drivers.REBUILD_HINT) from error


_UNTRUSTED_OF_TURN = "turn_key = ? AND judge = ? AND sample = ?"
_ANY_UNTRUSTED = f"SELECT 1 FROM untrusted_score WHERE {_UNTRUSTED_OF_TURN} LIMIT 1"
_KEEP_UNTRUSTED = """
    INSERT INTO untrusted_score (turn_key, judge, sample, hash, score) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (turn_key, judge, sample, hash) DO NOTHING
"""
_SETTLE_UNTRUSTED = (
    f"DELETE FROM untrusted_score WHERE {_UNTRUSTED_OF_TURN} AND hash IN (SELECT value FROM json_each(?))"
)


def untrusted_scores(connection: Connection, names: JudgmentKey) -> dict[str, float]:
    """Return the quarantined scores for this turn by this judge: content hash -> 0..1."""
    found = connection.execute(f"SELECT hash, score FROM untrusted_score WHERE {_UNTRUSTED_OF_TURN}", names)
    return dict(found.fetchall())


def keep_untrusted(connection: Connection, names: JudgmentKey, scores: Sequence[tuple[str, float]]) -> int:
    """Quarantine content hashes with scores 0..1; return how many were new. Within an open transaction."""
    return connection.executemany(_KEEP_UNTRUSTED, [(*names, *one) for one in scores]).rowcount


def settle_untrusted(connection: Connection, names: JudgmentKey, hashes: str) -> None:
    """Drop the quarantined scores of contents (a JSON array) that are judged now. Within an open transaction."""
    if connection.execute(_ANY_UNTRUSTED, names).fetchone():  # hardly ever true, and every write passes here
        connection.execute(_SETTLE_UNTRUSTED, (*names, hashes))


def count_untrusted(connection: Connection) -> int:
    """Count the rows in quarantine."""
    return int(connection.execute("SELECT count(*) FROM untrusted_score").fetchone()[0])


def drop_untrusted(connection: Connection) -> int:
    """Empty the quarantine; return how many rows went. Within an open transaction."""
    return connection.execute("DELETE FROM untrusted_score").rowcount
