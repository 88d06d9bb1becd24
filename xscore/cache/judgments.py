"""Judgments in the store, clustered by turn, so that one range scan reads all judgments of a turn.

Nothing here decides about staleness: an edited memory has another content hash and is not found. A committed judgment
never changes; if two processes judge the same pair, the first wins. Each row has a checksum, verified on every read.
Scores from an untrusted import are quarantined: they only order the work, and are deleted once the content is judged.
Trade-off: finding a memory's judgments over all turns is a full scan.
"""

import json
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple

from xscore.cache.keys import JudgmentKey
from xscore.platform import database, sqlite_drivers
from xscore.platform.errors import StoreDamaged, StoreError
from xscore.platform.hashing import judgment_checksums, turn_checksum
from xscore.records.judgment import Judgment

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
_ADD_REASON = """
    INSERT INTO reason (query_id, content_id, text)
    SELECT query_id, content_id, ? FROM content JOIN judgment ON query_id = ? AND content_id = content.id WHERE hash = ?
    ON CONFLICT (query_id, content_id) DO NOTHING
"""
_REASONS = """
    SELECT hash, text FROM json_each(?) JOIN content ON hash = value
    JOIN reason ON query_id = ? AND content_id = content.id
"""


class WrittenJudgments(NamedTuple):
    """Judgments just written."""

    query: int
    """Row id of turn and judge (`find_or_add_query`)."""
    hashes: str
    """Their content hashes as a JSON array, built once."""


def read_judgments(
    connection: Connection, names: JudgmentKey, hashes: Iterable[str] | None = None
) -> dict[str, Judgment]:
    """Return the judgments of a turn by content hash, without reasons. hashes: only these contents.

    Raises StoreDamaged for a row that fails its checksum.
    """
    query = find_query(connection, names)
    if query is None:
        return {}
    if hashes is None:
        rows = connection.execute(_KNOWN_OF_TURN, (query,)).fetchall()
    else:
        rows = connection.execute(_KNOWN_AMONG, (json.dumps(list(hashes)), query)).fetchall()
    return _checked_judgments(rows, names)


def read_reasons(connection: Connection, names: JudgmentKey, hashes: Iterable[str]) -> dict[str, str]:
    """Return the stored reasons for these contents, by content hash."""
    query = find_query(connection, names)
    return dict(connection.execute(_REASONS, (json.dumps(list(hashes)), query)).fetchall())


def add_reasons(connection: Connection, names: JudgmentKey, reasons: Mapping[str, str]) -> None:
    """Store reasons of judgments that this store holds, by content hash; one that is there stays."""
    query = find_query(connection, names)
    with database.transaction(connection):
        connection.executemany(_ADD_REASON, [(text, query, hash_) for hash_, text in reasons.items()])


def find_query(connection: Connection, names: JudgmentKey) -> int | None:
    """Return the row id of turn and judge; None if there is none."""
    row = connection.execute("SELECT id FROM query WHERE turn_key = ? AND judge = ? AND sample = ?", names).fetchone()
    return int(row[0]) if row else None


def find_or_add_query(connection: Connection, names: JudgmentKey) -> int:
    """Return the row id of turn and judge, adding it at the first call. Within an open transaction."""
    known = find_query(connection, names)
    if known is not None:
        return known
    connection.execute("INSERT INTO query (turn_key, judge, sample) VALUES (?, ?, ?)", names)
    with database.damage_if_invalid("the index of turns"):
        return int(find_query(connection, names))  # type: ignore[arg-type]  # TypeError for None is caught as damage


def insert_judgments(connection: Connection, judgments: Sequence[Judgment], names: JudgmentKey) -> WrittenJudgments:
    """Write judgments in an open transaction; delete quarantined scores of these contents."""
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
    if connection.execute(_ANY_UNTRUSTED, names).fetchone():  # rarely true; saves a statement per write
        connection.execute(_SETTLE_UNTRUSTED, (*names, hashes))
    return WrittenJudgments(query, hashes)


def take_over_judgments(
    connection: Connection, names: JudgmentKey, hashes: Collection[str], stores: Iterable[Path]
) -> int:
    """Copy the judgments of these contents that other stores of this user hold; return how many. Raises StoreError.

    A store that is damaged, held by another process or gone is passed over.
    """
    from xscore.store.siblings import opened_sibling  # few turns have one

    found: dict[str, Judgment] = {}
    for store in stores:
        with suppress(StoreError), opened_sibling(store) as sibling:
            found = read_judgments(sibling, names, [one for one in hashes if one not in found]) | found
    if found:
        with database.transaction(connection):
            insert_judgments(connection, list(found.values()), names)
    return len(found)


def _checked_judgments(rows: list[tuple[Any, ...]], names: JudgmentKey) -> dict[str, Judgment]:
    """Turn rows into judgments by content hash. Raises StoreDamaged if a checksum does not match."""
    try:
        checksums = judgment_checksums(turn_checksum(*names), rows)
        if checksums != [row[5] for row in rows]:
            raise ValueError("a judgment does not fit its checksum")
        judgments = Judgment.from_rows(
            [(content, score, "", pack, at, prior, ()) for content, score, prior, pack, at, _ in rows]
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


def count_untrusted(connection: Connection) -> int:
    """Count the rows in quarantine."""
    return int(connection.execute("SELECT count(*) FROM untrusted_score").fetchone()[0])


def drop_untrusted(connection: Connection) -> int:
    """Empty the quarantine; return the number of rows. Within an open transaction."""
    return connection.execute("DELETE FROM untrusted_score").rowcount
