"""Erase memories from stored batch jobs: blank the questions that quote them, drop the hashes of their pieces.

A piece keeps its place in its prompt, since replies refer to places; without a hash it is never sent again and its
score is not stored. Trade-off: a blanked question is not asked any more. What a vendor has received stays there.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection

from xscore.platform.hashing import row_checksum
from xscore.records.judgment import UnjudgedCause
from xscore.store.line_search import LineMatcher

_CAUSE = f"{UnjudgedCause.INTERRUPTED}: the question was erased"
_NO_PIECE = [""]
_SHOWN = "SELECT hash FROM content WHERE memories > 0 AND hash IN (SELECT value FROM json_each(?))"
_UNASKED = """
    UPDATE job_request SET state = 'lost', cause = ? WHERE job = ? AND question = ? AND state = 'planned'
"""


def erase_from_jobs(connection: sqlite3.Connection, hashes: Collection[str], lines: LineMatcher) -> Counter[str]:
    """Strip jobs in the open transaction, after the memories' own rows are gone; count the blanked questions."""
    shown = {hash_ for (hash_,) in connection.execute(_SHOWN, (json.dumps(sorted(hashes)),))}
    _drop_pieces(connection, frozenset(hashes) - shown)
    rows = connection.execute("SELECT job, number, name, context, turn_key FROM job_question").fetchall()
    quoting = [
        (job, number, key)
        for job, number, name, context, key in rows
        if any(lines.found_in(text) for text in (name, *json.loads(context).values()) if isinstance(text, str))
    ]
    connection.executemany(
        "UPDATE job_question SET name = '', context = '{}', checksum = ? WHERE job = ? AND number = ?",
        [(row_checksum(job, str(number), "{}", key), job, number) for job, number, key in quoting],
    )
    connection.executemany(_UNASKED, [(_CAUSE, job, number) for job, number, _ in quoting])
    return Counter(questions=len(quoting))


def _drop_pieces(connection: sqlite3.Connection, gone: frozenset[str]) -> None:
    changed: list[tuple[str, int, str, int]] = []
    rows = connection.execute("SELECT job, number, pack, pieces FROM job_ask") if gone else []
    for job, number, pack, written in rows:
        pieces = json.loads(written)
        left = [piece if gone.isdisjoint(piece[:2]) else _NO_PIECE for piece in pieces]
        if left != pieces:
            stripped = json.dumps(left)
            changed.append((stripped, row_checksum(job, str(number), pack, stripped), job, number))
    connection.executemany("UPDATE job_ask SET pieces = ?, checksum = ? WHERE job = ? AND number = ?", changed)
