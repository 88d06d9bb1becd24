"""The turns of a thread: under which wordings a judge has judged in it, and what its latest turn showed.

A turn whose task was erased is none of them. Trade-off: turns are ordered by their start, so after a clock was set back
an earlier wording can count as the newer one until the clock has caught up.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from xscore.store.memory_rows import IN_JSON_LIST
from xscore.store.redaction import redact

MOST_WORDINGS, MOST_TURNS = 8, 100
"""A follow-up looks back on at most so many different questions of its thread, and so many turns."""
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
    """Return the questions that this judge (its key) was asked in a thread, the newest first, each once.

    other_than: the turn key of the present one. A turn that was cut short or killed is among them: what it judged
    is in the cache.
    """
    found = dict[str, Wording]()
    for turn_id, key, task in connection.execute(_ASKED, (thread, judge, other_than, MOST_TURNS)):
        found.setdefault(key, Wording(turn_id, key, task))
    return list(found.values())[:MOST_WORDINGS]


def shown_in_turn(connection: sqlite3.Connection, turn_id: str) -> list[str]:
    """Return the ids of what a turn kept and of its near misses, best first; none if it has no receipt."""
    parts = ("$.selected", "$.near_misses")
    return [str(id_) for part in parts for (id_,) in connection.execute(_SHOWN, (part, turn_id)) if id_]


def past_wordings(connection: sqlite3.Connection, turns: Iterable[str]) -> Mapping[str, Wording]:
    """Return these turns by id, the newest first; one that was erased has no task."""
    named = f"SELECT id, turn_key, task FROM turn WHERE id {IN_JSON_LIST} ORDER BY started_at DESC, id DESC"
    found = connection.execute(named, (json.dumps(list(turns)),))
    return {turn_id: Wording(turn_id, key, task) for turn_id, key, task in found.fetchall()}


def thread_of_latest_turn(connection: sqlite3.Connection, branch: str) -> str:
    """Return the thread of the latest turn on this branch; empty if there was none."""
    row = connection.execute(_OF_BRANCH, (redact(branch).text,)).fetchone()
    return str(row[0]) if row else ""
