"""Read the turns of a thread: the wordings that a judge has judged under, and what its latest turn showed.

Turns whose task was erased are left out. Trade-off: turns are ordered by their start time, so after the clock is set
back, an earlier wording can count as the newest until the clock has caught up.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from xscore.store.memory_rows import IN_JSON_LIST

MOST_WORDINGS, MOST_TURNS = 8, 100
"""How many different questions of its thread, and how many turns, a follow-up looks at."""
_ASKED = """
    SELECT id, turn_key, task FROM turn WHERE thread = ? AND judge = ? AND turn_key <> ? AND task <> ''
    ORDER BY started_at DESC, id DESC LIMIT ?
"""
_SHOWN = """
    SELECT json_extract(value, '$.id') FROM receipt, json_each(body, ?) WHERE turn_id = ? AND json_valid(body)
"""
_OF_BRANCH = """
    SELECT thread FROM session WHERE branch = ? AND EXISTS (SELECT 1 FROM turn WHERE turn.thread = session.thread)
    ORDER BY last_updated DESC, thread LIMIT 1
"""


class Wording(Struct, frozen=True):
    """An earlier question of a thread."""

    turn_id: str
    key: str
    """Turn key; with the judge's key it finds the judgments."""
    task: str
    """As stored: redacted."""


def wordings_of_thread(
    connection: sqlite3.Connection, thread: str, *, judge: str, other_than: str
) -> Sequence[Wording]:
    """Return the questions that a judge was asked in a thread, newest first, each once.

    judge: the judge's key. other_than: the turn key of the current question. Turns that were cut short or killed are
    included: what they judged is in the cache.
    """
    found = dict[str, Wording]()
    for turn_id, key, task in connection.execute(_ASKED, (thread, judge, other_than, MOST_TURNS)):
        found.setdefault(key, Wording(turn_id, key, task))
    return list(found.values())[:MOST_WORDINGS]


def shown_in_turn(connection: sqlite3.Connection, turn_id: str) -> list[str]:
    """Return the ids of the memories that a turn kept and of its near misses, best first; none without a receipt."""
    parts = ("$.selected", "$.near_misses")
    return [str(id_) for part in parts for (id_,) in connection.execute(_SHOWN, (part, turn_id)) if id_]


def past_wordings(connection: sqlite3.Connection, turns: Iterable[str]) -> Mapping[str, Wording]:
    """Return these turns by id, newest first; the task of an erased turn is empty."""
    named = f"SELECT id, turn_key, task FROM turn WHERE id {IN_JSON_LIST} ORDER BY started_at DESC, id DESC"
    found = connection.execute(named, (json.dumps(list(turns)),))
    return {turn_id: Wording(turn_id, key, task) for turn_id, key, task in found.fetchall()}


def thread_of_latest_turn(connection: sqlite3.Connection, branch: str) -> str:
    """Return the thread of the latest turn on this branch; empty if there was none."""
    from xscore.store.redaction import redact  # lazy: an index run without changes redacts nothing

    row = connection.execute(_OF_BRANCH, (redact(branch).text,)).fetchone()
    return str(row[0]) if row else ""
