"""What was imported, and from where: sessions of coding agents, and memories of a source.

Where a memory was imported from is in its details (`MemoryDetails.imported_from`), in the store
under the key `origin`. Trade-off: no index covers it, so each question reads all imported rows.
"""

import sqlite3
from collections.abc import Collection

from msgspec import Struct

from xscore.platform.hashing import integer_id, memory_id
from xscore.records.memory import Kind, Layer, Memory
from xscore.store.memory_rows import LIVE_CONDITION, select_memories

_FROM, _SESSION = (
    "json_extract(attrs, '$.origin')",
    "coalesce(json_extract(attrs, '$.session'), '')",
)
_OF_SESSIONS = f"source = 'import' AND {_FROM} <> '' AND kind IN ('exchange', 'failure')"
_SESSIONS = f"""
    SELECT DISTINCT {_FROM}, {_SESSION}, count(*) OVER one, min(created_at) OVER one,
        max(updated_at) OVER one, min(confidence) OVER one,
        first_value(title) OVER (one ORDER BY created_at, id)
    FROM memory WHERE {_OF_SESSIONS} AND kind = 'exchange'
    WINDOW one AS (PARTITION BY {_FROM}, {_SESSION}) ORDER BY 5 DESC, 1, 2
"""
_IDS = f"""
    SELECT id FROM memory WHERE {_OF_SESSIONS} AND :session IN ('', {_SESSION})
        AND :origin IN ('', {_FROM}) AND (:before IS NULL OR updated_at < :before)
    ORDER BY created_at, id
"""


def imported_exchange_ordinal(origin: str, identity: str) -> int:
    """Return the ordinal of an imported exchange, for its memory id.

    identity: see `sessions.session_reader.ImportedExchange`.
    """
    return integer_id("past exchange", origin, identity)


def imported_exchange_id(origin: str, identity: str) -> str:
    """Return the memory id that an exchange has once it is imported."""
    ordinal = imported_exchange_ordinal(origin, identity)
    return memory_id(Layer.SESSION, "", Kind.EXCHANGE, "", ordinal)


class ImportedSession(Struct, frozen=True, kw_only=True):
    """A session with remembered exchanges."""

    origin: str
    session: str
    exchanges: int
    first_at: float
    """Unix seconds."""
    last_at: float
    confidence: float
    """Lowest confidence of its exchanges."""
    title: str
    """Title of its first exchange."""


class ImportedSessions(Struct, frozen=True):
    """The imported sessions, latest first."""

    sessions: tuple[ImportedSession, ...]
    exchanges: int
    forgotten: int
    """Number of erased ids that no import brings back."""


def imported_sessions(
    connection: sqlite3.Connection, *, origins: Collection[str] = ()
) -> ImportedSessions:
    """Return the imported sessions of all agents, or of some."""
    names = ImportedSession.__struct_fields__
    chosen = []
    for row in connection.execute(_SESSIONS).fetchall():
        session = ImportedSession(**dict(zip(names, row, strict=True)))
        if not origins or session.origin in origins:
            chosen.append(session)
    (forgotten,) = connection.execute("SELECT count(*) FROM erased_memory").fetchone()
    exchanges = sum(session.exchanges for session in chosen)
    return ImportedSessions(tuple(chosen), exchanges, forgotten)


def imported_ids(
    connection: sqlite3.Connection,
    *,
    session: str = "",
    origin: str = "",
    before: float | None = None,
) -> list[str]:
    """Return the ids of imported memories that match all of these: exchanges, and failures found in
    them.

    before: Unix seconds.
    """
    parameters = {"session": session, "origin": origin, "before": before}
    return [id_ for (id_,) in connection.execute(_IDS, parameters).fetchall()]


def live_imported_from(connection: sqlite3.Connection, origin: str) -> list[Memory]:
    """Return the candidates that were imported from there, such as `source:tickets`."""
    return select_memories(connection, f"{_FROM} = ? AND {LIVE_CONDITION}", (origin,))
