"""Drafts out of a store and back into it: SQL and nothing else.

New memories and new texts go through the write door; what only moved (status, confidence, evidence, key) is updated in
place, so that use counts, vectors and the working session of an exchange stay. Trade-off: a change made by another
process between reading and writing is excluded by reading inside the transaction that writes.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable

from xscore.learning.actions import Scope
from xscore.learning.draft import Draft
from xscore.learning.users_share import Noted
from xscore.memory import door, rows, writing
from xscore.memory.events import EventName, emit
from xscore.memory.observations import forget_named, observe, see_project
from xscore.records import Kind, Memory

_MOVED = (
    "UPDATE memory SET status = ?, content_hash = ?, text_hash = ?, superseded_by = ?, confidence = ?, importance = ?,"
    " evidence_count = ?, key = ?, updated_at = ?, source = ?, attrs = json_patch(attrs, ?) WHERE id = ?"
)
_FADED = "faded_at:"


def read(connection: sqlite3.Connection) -> Draft:
    """Read everything that is not the index's."""
    found = rows.memories(connection, "source <> 'index'", ())
    threads = connection.execute("SELECT id, thread FROM memory WHERE thread <> '' AND source <> 'index'").fetchall()
    marks = connection.execute("SELECT key, value FROM meta WHERE key LIKE ?", (f"{_FADED}%",)).fetchall()
    faded_at = {key.removeprefix(_FADED): float(at) for key, at in marks}
    return Draft(found, threads=dict(threads), faded_at=faded_at)


def says_anything(connection: sqlite3.Connection, kinds: Collection[Kind]) -> bool:
    """Whether anything of these kinds was said under a key."""
    found = connection.execute(
        "SELECT 1 FROM memory WHERE source <> 'index' AND key <> ''"
        " AND kind IN (SELECT value FROM json_each(?)) LIMIT 1",
        (json.dumps(sorted(kinds)),),
    )
    return found.fetchone() is not None


def closed_sessions(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the threads of all closed sessions."""
    found = connection.execute("SELECT thread FROM session WHERE closed_at IS NOT NULL").fetchall()
    return frozenset(thread for (thread,) in found)


def forgotten(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the ids that must not come back."""
    return frozenset(id_ for (id_,) in connection.execute("SELECT memory_id FROM forgotten").fetchall())


def write(connection: sqlite3.Connection, draft: Draft, *, now: float) -> None:
    """Make the store like the draft, but for what it erases, in a transaction that is open."""
    going = (json.dumps(draft.erased),)  # they go later; what takes their place may need their keys now
    connection.execute("UPDATE memory SET key = '' WHERE key <> '' AND id IN (SELECT value FROM json_each(?))", going)
    for memory in draft.changed:
        known = draft.before.get(memory.id)
        if known is None or known.text != memory.text:
            _put(connection, memory, known, thread=draft.threads.get(memory.id, ""), now=now)
        else:
            connection.execute(_MOVED, _moved(memory))
    for summary, exchanges in draft.members.items():
        _tie(connection, summary, exchanges)
    if draft.actions:
        counts = Counter(str(action.kind) for action in draft.actions)
        emit(connection, EventName.UPDATED, at=now, payload={"consolidated": dict(sorted(counts.items()))})


def mark_faded(connection: sqlite3.Connection, scopes: Iterable[Scope], *, now: float) -> None:
    """Note that confidence has fallen up to now; a clock that was set back changes nothing."""
    connection.executemany(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        " WHERE CAST(excluded.value AS REAL) > CAST(value AS REAL)",
        [(f"{_FADED}{scope}", repr(now)) for scope in scopes],
    )


def write_notes(user: sqlite3.Connection, noted: Noted, *, now: float) -> None:
    """Note in the user's store what this project says, in a transaction that is open."""
    see_project(user, noted.project, now=now)
    observe(user, noted.new)
    forget_named(user, noted.project, noted.ended)


def _put(connection: sqlite3.Connection, memory: Memory, known: Memory | None, *, thread: str, now: float) -> None:
    if thread:  # a summary stays with its session
        door.put(connection, [memory], thread=thread)
        emit(connection, EventName.UPDATED if known else EventName.STORED, at=now, subject=memory.id)
    else:
        writing.write(connection, memory, before=known, now=now)


def _moved(memory: Memory) -> tuple[object, ...]:
    said = door.facts_to_json(memory.facts, memory.particulars)
    state = (memory.status, memory.content_hash, memory.text_hash, memory.superseded_by)
    weight = (memory.confidence, memory.importance, memory.evidence_count)
    return (*state, *weight, memory.key, memory.updated_at, memory.source, said, memory.id)


def _tie(connection: sqlite3.Connection, summary: str, exchanges: Collection[str]) -> None:
    among = "source NOT IN (SELECT value FROM json_each(?))"
    connection.execute(
        f"DELETE FROM edge WHERE target = ? AND relation = 'belongs_to' AND {among}",  # noqa: S608  words are ours
        (summary, json.dumps(list(exchanges))),
    )
    connection.executemany(
        "INSERT INTO edge (source, target, relation) VALUES (?, ?, 'belongs_to') ON CONFLICT DO NOTHING",
        [(exchange, summary) for exchange in exchanges],
    )
