"""Rows of facts that were extracted from sessions, and of the exchanges they come from.

A fact waits as an archived memory, so that no turn reads it; its details hold the quote, the
exchange that has it, and how the user reviewed it. An exchange says by itself that it was read,
so that no clock and no list of ids can go wrong. What was rejected is kept as digests apart
from the row, so that it stays rejected when the row is erased. It decides nothing. Trade-off: a
fact that waits counts as archived in the figures of a layer.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable
from typing import NamedTuple

from xscore.platform.hashing import digest
from xscore.records.memory import Kind, Layer, Memory
from xscore.store.memory_rows import IN_JSON_LIST, select_memories

EXTRACTION = 1
"""Version of the rules; what an older one has read is not read again."""
MOST_WAITING = 500
"""Most facts that wait at once; more are not kept."""
OVER_PREFIX = "session_over:"
"""First part of the keys in `meta` that name sessions whose agent said that they are over."""
REJECTED_PREFIX = "rejected_fact:"
"""First part of the keys in `meta` that hold digests of what the user has rejected."""
_TAKEN = """
    layer IN ('project', 'governance', 'user') AND status IN ('active', 'stale')
    AND source = 'inferred' AND json_extract(attrs, '$.review') = 'unreviewed'
"""
_WAITS = """
    layer IN ('project', 'governance', 'user') AND status = 'archived' AND source = 'inferred'
    AND json_extract(attrs, '$.review') = 'waiting'
"""
_UNREAD = """
    layer = 'session' AND kind = 'exchange' AND status IN ('active', 'stale') AND version = 0
    AND coalesce(json_extract(attrs, '$.extracted'), 0) = 0
"""
_UNREAD_SESSIONS = f"""
    SELECT thread, max(updated_at), count(*),
        EXISTS (SELECT 1 FROM meta WHERE key = '{OVER_PREFIX}' || thread)
        OR EXISTS (SELECT 1 FROM session WHERE session.thread = memory_row.thread
            AND closed_at IS NOT NULL)
    FROM memory_row WHERE {_UNREAD} AND thread <> '' GROUP BY thread ORDER BY 2, 1
"""
_KNOWN = """
    layer IN ('project', 'governance') AND source <> 'index'
    AND kind IN ('decision', 'convention', 'tech_stack', 'todo', 'context', 'architecture')
    AND (status = 'active' OR json_extract(attrs, '$.review') = 'waiting')
"""
_COMPARABLE = """
    layer = ? AND source <> 'index' AND kind NOT IN ('exchange', 'summary', 'pattern')
    AND status IN ('active', 'stale', 'archived', 'superseded')
"""


class UnreadSession(NamedTuple):
    """A session with exchanges that no extraction has read."""

    thread: str
    last_at: float
    """Unix seconds of the latest exchange."""
    exchanges: int
    is_over: bool
    """Whether the session's agent said that it has ended, or it was closed."""


def unread_sessions(connection: sqlite3.Connection) -> list[UnreadSession]:
    """Return the working sessions with unread exchanges, the oldest first."""
    rows = connection.execute(_UNREAD_SESSIONS).fetchall()
    return [
        UnreadSession(thread, last_at, count, bool(over))
        for thread, last_at, count, over in rows
    ]


def unread_exchanges(
    connection: sqlite3.Connection, thread: str | None = None, *, limit: int
) -> list[Memory]:
    """Return unread exchanges, the oldest first.

    thread: the working session; None: all of them. limit: the most to return; -1: no limit.
    """
    if thread is None:
        memories = select_memories(connection, _UNREAD, ())
    else:
        memories = select_memories(connection, f"{_UNREAD} AND thread = ?", (thread,))
    in_order = sorted(memories, key=lambda memory: (memory.created_at, memory.id))
    if limit < 0:
        return in_order
    return in_order[:limit]


def mark_read(connection: sqlite3.Connection, ids: Iterable[str]) -> int:
    """Mark these exchanges as read; return how many of them were unread."""
    return connection.execute(
        f"UPDATE memory_row SET attrs = json_set(attrs, '$.extracted', {EXTRACTION})"
        f" WHERE {_UNREAD} AND id {IN_JSON_LIST}",
        (json.dumps(list(ids)),),
    ).rowcount


def note_session_over(connection: sqlite3.Connection, thread: str, *, now: float) -> None:
    """Note that the agent of a session has ended it, if anything in it is left to read: most
    sessions that are opened and closed again leave nothing."""
    connection.execute(
        "INSERT OR REPLACE INTO meta (key, value) SELECT ?, ?"
        f" WHERE EXISTS (SELECT 1 FROM memory_row WHERE {_UNREAD} AND thread = ?)",
        (f"{OVER_PREFIX}{thread}", repr(now), thread),
    )


def forget_session_over(connection: sqlite3.Connection, thread: str) -> None:
    """Forget that a session has ended: it was read, and may go on."""
    connection.execute("DELETE FROM meta WHERE key = ?", (f"{OVER_PREFIX}{thread}",))


def waiting_facts(connection: sqlite3.Connection) -> list[Memory]:
    """Return the facts that wait for a review: those said most often first, then the latest."""
    waiting = select_memories(connection, _WAITS, ())
    return sorted(
        waiting, key=lambda memory: (-memory.evidence_count, -memory.updated_at, memory.id)
    )


def taken_facts(connection: sqlite3.Connection) -> list[Memory]:
    """Return the facts that were taken without a review, the latest first."""
    taken = select_memories(connection, _TAKEN, ())
    return sorted(taken, key=lambda memory: (-memory.updated_at, memory.id))


def note_rejected(
    connection: sqlite3.Connection, digests: Iterable[str], *, now: float
) -> None:
    """Keep the digests of a fact that was rejected, in a transaction that is open."""
    for fact_digest in digests:
        connection.execute(
            "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)",
            (f"{REJECTED_PREFIX}{fact_digest}", repr(now)),
        )


def was_rejected(connection: sqlite3.Connection, digests: Iterable[str]) -> bool:
    """Whether one of these digests is of a fact that the user has rejected."""
    keys = [f"{REJECTED_PREFIX}{fact_digest}" for fact_digest in digests]
    query = f"SELECT 1 FROM meta WHERE key {IN_JSON_LIST} LIMIT 1"
    return connection.execute(query, (json.dumps(keys),)).fetchone() is not None


def count_waiting(connection: sqlite3.Connection) -> int:
    """Return how many facts wait for a review."""
    (count,) = connection.execute(
        f"SELECT count(*) FROM memory_row WHERE version = 0 AND {_WAITS}"
    ).fetchone()
    return int(count)


def comparable_memories(connection: sqlite3.Connection, layer: Layer) -> list[Memory]:
    """Return what a fact of this layer may repeat or contradict, in any status."""
    return select_memories(connection, _COMPARABLE, (layer,))


def all_facts(connection: sqlite3.Connection) -> list[Memory]:
    """Return what was stated or extracted in a repository, but failures; not what was rejected."""
    return select_memories(connection, _KNOWN, ())


def note_saying(connection: sqlite3.Connection, memory_id: str, exchange: str) -> bool:
    """Note that a fact was said in an exchange; False if it was noted before."""
    noted = connection.execute(
        "INSERT INTO occurrence (id, memory_id, source_exchange) VALUES (?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (digest("said", memory_id, exchange), memory_id, exchange),
    )
    return noted.rowcount > 0


def exchanges_saying(connection: sqlite3.Connection, memory_id: str) -> set[str]:
    """Return the ids of the exchanges in which a fact was said."""
    rows = connection.execute(
        "SELECT source_exchange FROM occurrence WHERE memory_id = ?", (memory_id,)
    )
    return {exchange for (exchange,) in rows.fetchall()}


def sessions_of(connection: sqlite3.Connection, exchanges: Collection[str]) -> set[str]:
    """Return the sessions of these exchanges: the working session, otherwise the agent's name
    for it."""
    rows = connection.execute(
        "SELECT CASE WHEN thread <> '' THEN thread"
        " ELSE coalesce(json_extract(attrs, '$.session'), id) END FROM memory_row"
        f" WHERE version = 0 AND kind = '{Kind.EXCHANGE}' AND id {IN_JSON_LIST}",
        (json.dumps(list(exchanges)),),
    )
    return {session for (session,) in rows.fetchall()}
