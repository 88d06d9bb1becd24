"""What offline jobs tell of erased memories: questions that say a line of one are blanked, pieces lose their hashes.

A piece keeps its place in its prompt, since the ids of a reply are dealt by places; without a hash it is never sent
again, and a score that comes back for it is entered nowhere. Judgments of others' hearsay go as well. What a vendor was
sent is beyond it. Trade-off: a blanked question is not asked any more, whatever else it said.
"""

import json
import sqlite3

from xscore.hashing import seal
from xscore.memory.erasure.plan import AMONG, Plan
from xscore.records import Cause

ERASED = f"{Cause.INTERRUPTED}: the question was erased"
NO_PIECE = [""]
_SHOWN = f"SELECT hash FROM content WHERE memories > 0 AND hash {AMONG}"  # noqa: S608  words are ours
_UNASKED = """
    UPDATE job_request SET state = 'lost', cause = ? WHERE job = ? AND question = ? AND state = 'planned'
"""


def forget_in_jobs(connection: sqlite3.Connection, plan: Plan) -> int:
    """Strip jobs of what goes, once its own rows are gone; return how many questions were blanked."""
    hashes = sorted(plan.hashes)
    shown = {row[0] for row in connection.execute(_SHOWN, (json.dumps(hashes),)).fetchall()}
    gone = frozenset(hashes) - shown
    connection.execute(f"DELETE FROM hearsay WHERE hash {AMONG}", (json.dumps(sorted(gone)),))  # noqa: S608  words are ours
    _pieces(connection, gone)
    told = connection.execute("SELECT job, number, name, moment, turn_key FROM job_question").fetchall()
    said = [(job, number, key) for job, number, name, moment, key in told if _says(plan, name, moment)]
    connection.executemany(
        "UPDATE job_question SET name = '', moment = '{}', seal = ? WHERE job = ? AND number = ?",
        [(seal(job, str(number), "{}", key), job, number) for job, number, key in said],
    )
    connection.executemany(_UNASKED, [(ERASED, job, number) for job, number, _ in said])
    return len(said)


def _says(plan: Plan, name: str, moment: str) -> bool:
    texts = (name, *json.loads(moment).values())
    return any(plan.lines.found_in(text) for text in texts if isinstance(text, str))


def _pieces(connection: sqlite3.Connection, gone: frozenset[str]) -> None:
    """Take the hashes of what is gone, whole or in parts, out of every ask."""
    if not gone:
        return
    changed: list[tuple[str, int, str, int]] = []
    for job, number, pack, written in connection.execute("SELECT job, number, pack, pieces FROM job_ask"):
        pieces = json.loads(written)
        left = [piece if gone.isdisjoint(piece[:2]) else NO_PIECE for piece in pieces]
        if left != pieces:
            stripped = json.dumps(left)
            changed.append((stripped, seal(job, str(number), pack, stripped), job, number))
    connection.executemany("UPDATE job_ask SET pieces = ?, seal = ? WHERE job = ? AND number = ?", changed)
