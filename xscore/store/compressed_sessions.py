"""The tables of compressed sessions: how far each turn was shortened, what a model wrote in place
of words, and the frontier of work that an agent gets back after a compaction.

The turns themselves stay in the agent's log. Everything here is redacted before it comes.
Trade-off: an erasure that touches a session takes all that is derived from it, since the rest can
be made again from the log.
"""

import json
import sqlite3
from collections.abc import Collection, Sequence

from msgspec import Struct

from xscore.platform import database
from xscore.store.line_search import LineMatcher
from xscore.store.memory_rows import IN_JSON_LIST

_KEEP_SESSION = """
    INSERT INTO compressed_session (thread, origin, path, budget, frontier, updated_at)
    VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (thread) DO UPDATE SET origin = excluded.origin,
    path = excluded.path, budget = excluded.budget, frontier = excluded.frontier,
    updated_at = excluded.updated_at
"""
_KEEP_FRONTIER = """
    INSERT INTO compressed_session (thread, origin, path, budget, frontier, updated_at)
    VALUES (?, ?, ?, 0, ?, ?) ON CONFLICT (thread) DO UPDATE SET frontier = excluded.frontier,
    updated_at = excluded.updated_at
"""


class CompressedSession(Struct, frozen=True, kw_only=True):
    """A session of a coding agent, as it was last compressed."""

    thread: str
    """Name of the thread, `client-session`, as hooks use it."""
    origin: str
    path: str
    """Path of the session's log, with `~` for the home folder."""
    budget: int = 0
    """Budget in tokens; 0: only the frontier was saved."""
    frontier: str = ""


class PlacedTurn(Struct, frozen=True):
    """Where a turn is."""

    number: int
    memory_id: str
    """Memory of the turn's exchange, if that is imported."""
    tier: str
    level: int


def save_tiers(
    connection: sqlite3.Connection,
    session: CompressedSession,
    turns: Sequence[PlacedTurn],
    *,
    now: float,
) -> None:
    """Replace what is kept of a session, but for its summaries."""
    row = (session.thread, session.origin, session.path, session.budget, session.frontier, now)
    placed = [
        (session.thread, turn.number, turn.memory_id, turn.tier, turn.level) for turn in turns
    ]
    with database.transaction(connection):
        connection.execute(_KEEP_SESSION, row)
        connection.execute("DELETE FROM session_turn WHERE thread = ?", (session.thread,))
        connection.executemany("INSERT INTO session_turn VALUES (?, ?, ?, ?, ?)", placed)


def save_frontier(
    connection: sqlite3.Connection, session: CompressedSession, *, memory_id: str, now: float
) -> None:
    """Keep the frontier of a session; its tiers stay.

    memory_id: that of the exchange of the last request, so that erasing that comes here.
    """
    row = (session.thread, session.origin, session.path, session.frontier, now)
    with database.transaction(connection):
        connection.execute(_KEEP_FRONTIER, row)
        if memory_id:
            connection.execute(
                "INSERT INTO session_turn VALUES (?, 0, ?, 'current', 0) ON CONFLICT DO UPDATE"
                " SET memory_id = excluded.memory_id",
                (session.thread, memory_id),
            )


def load_frontier(connection: sqlite3.Connection, thread: str) -> str:
    """Return the frontier that was kept of a session; empty if there is none."""
    row = connection.execute(
        "SELECT frontier FROM compressed_session WHERE thread = ?", (thread,)
    ).fetchone()
    return str(row[0]) if row else ""


def load_tiers(
    connection: sqlite3.Connection, thread: str, *, budget: int
) -> tuple[PlacedTurn, ...]:
    """Return where the turns of a session were at this budget; empty if it had another."""
    rows = connection.execute(
        "SELECT number, memory_id, tier, level FROM session_turn JOIN compressed_session"
        " USING (thread) WHERE thread = ? AND budget = ? AND number > 0 ORDER BY number",
        (thread, budget),
    ).fetchall()
    with database.damage_if_invalid("a compressed session"):
        return tuple([PlacedTurn(*row) for row in rows])


def load_summary(connection: sqlite3.Connection, thread: str, text_hash: str) -> str | None:
    """Return what a model wrote in place of a text; None if it was not asked."""
    row = connection.execute(
        "SELECT text FROM turn_summary WHERE thread = ? AND hash = ?", (thread, text_hash)
    ).fetchone()
    return str(row[0]) if row else None


def save_summary(
    connection: sqlite3.Connection, thread: str, text_hash: str, summary: str, *, now: float
) -> None:
    """Keep what a model wrote, which is paid for. The session was saved before."""
    with database.transaction(connection):
        connection.execute(
            "INSERT INTO turn_summary VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (text_hash, thread, summary, now),
        )


def erased_ids(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the ids of memories that were erased: their turns are left out of compression."""
    rows = connection.execute("SELECT memory_id FROM erased_memory").fetchall()
    return frozenset(identifier for (identifier,) in rows)


def compressed_threads(
    connection: sqlite3.Connection, *, session: str = "", origin: str = ""
) -> tuple[str, ...]:
    """Return the threads of the sessions of which something is kept; all, if neither is named."""
    rows = connection.execute(
        "SELECT thread FROM compressed_session WHERE :origin IN ('', origin)"
        " AND (:session = '' OR thread = origin || '-' || :session) ORDER BY thread",
        {"origin": origin, "session": session},
    ).fetchall()
    return tuple([thread for (thread,) in rows])


def forget_compressed(connection: sqlite3.Connection, threads: Sequence[str]) -> None:
    """Remove what is kept of these sessions."""
    with database.transaction(connection):
        connection.executemany(
            "DELETE FROM compressed_session WHERE thread = ?", [(thread,) for thread in threads]
        )


def erase_compressed(
    connection: sqlite3.Connection,
    memory_ids: Collection[str],
    lines: LineMatcher,
    *,
    threads: Collection[str] = (),
) -> int:
    """Remove the compressed sessions that hold an erased exchange or quote an erased line; return
    how many. Within a transaction."""
    holding = connection.execute(
        f"SELECT DISTINCT thread FROM session_turn WHERE memory_id {IN_JSON_LIST}",
        (json.dumps(sorted(memory_ids)),),
    ).fetchall()
    gone = {thread for (thread,) in holding}
    texts = connection.execute(
        "SELECT thread, frontier FROM compressed_session UNION ALL SELECT thread, text FROM"
        " turn_summary"
    ).fetchall()
    for thread, text in texts:
        if thread in threads or (text and lines.found_in(text)):
            gone.add(thread)
    # Cascades take the turns and the summaries.
    connection.executemany(
        "DELETE FROM compressed_session WHERE thread = ?",
        [(thread,) for thread in sorted(gone)],
    )
    return len(gone)
