"""Read judgments from the store, clustered by turn, so that one range scan reads all judgments of a
turn.

Nothing here decides about staleness: an edited memory has another content hash and is not found.
Each row has a checksum, verified on every read. Trade-off: finding a memory's judgments over all
turns is a full scan.
"""

import json
import struct
from collections.abc import Iterable
from sqlite3 import Connection
from typing import Any

from xscore.cache.keys import JudgmentKey
from xscore.platform import sqlite_drivers
from xscore.platform.errors import StoreDamaged
from xscore.platform.hashing import judgment_column_checksums, turn_checksum
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
# CROSS JOIN keeps this order. SQLite's own choice read the whole list of hashes once for each
# reason: 3 s of CPU at 2,400 reasons among 17,600 memories.
_REASONS = """
    SELECT hash, text FROM json_each(?) CROSS JOIN content ON hash = value
    CROSS JOIN reason ON query_id = ? AND content_id = content.id
"""


def read_judgments(
    connection: Connection, key: JudgmentKey, hashes: Iterable[str] | None = None
) -> dict[str, Judgment]:
    """Return the judgments of a turn by content hash, without reasons. hashes: only these contents.

    Raises StoreDamaged for a row that fails its checksum.
    """
    query = find_query(connection, key)
    if query is None:
        return {}
    if hashes is None:
        rows = connection.execute(_KNOWN_OF_TURN, (query,)).fetchall()
    else:
        rows = connection.execute(_KNOWN_AMONG, (json.dumps(list(hashes)), query)).fetchall()
    return _checked_judgments(rows, key)


def read_reasons(
    connection: Connection, key: JudgmentKey, hashes: Iterable[str]
) -> dict[str, str]:
    """Return the stored reasons for these contents, by content hash."""
    query = find_query(connection, key)
    return dict(connection.execute(_REASONS, (json.dumps(list(hashes)), query)).fetchall())


def find_query(connection: Connection, key: JudgmentKey) -> int | None:
    """Return the row id of turn and judge; None if there is none."""
    row = connection.execute(
        "SELECT id FROM query WHERE turn_key = ? AND judge = ? AND sample = ?", key
    ).fetchone()
    return int(row[0]) if row else None


def _checked_judgments(rows: list[tuple[Any, ...]], key: JudgmentKey) -> dict[str, Judgment]:
    """Turn rows into judgments by content hash.

    Raises StoreDamaged if a checksum does not match.
    """
    if not rows:
        return {}
    try:
        # By column: a cached turn reads one of each memory, and took twice as long row by row.
        *columns, checksums = zip(*rows, strict=True)
        if judgment_column_checksums(turn_checksum(*key), columns) != list(checksums):
            raise ValueError("a judgment does not fit its checksum")
        hashes, scores, priors, packs, positions = columns
        judgments = Judgment.from_columns(
            hashes, scores, packs=packs, positions=positions, priors=priors
        )
        return dict(zip(hashes, judgments, strict=True))
    except (ValueError, TypeError, AttributeError, struct.error) as error:
        raise StoreDamaged(
            f"the store is damaged: {error}", hint=sqlite_drivers.REBUILD_HINT
        ) from error
