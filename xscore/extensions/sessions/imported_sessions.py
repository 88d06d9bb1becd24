"""Look up imported sessions and the memories made from them. It erases nothing."""

import json
import sqlite3
from collections.abc import Collection

from msgspec import Struct

_ORIGIN, _SESSION = "json_extract(attrs, '$.origin')", "coalesce(json_extract(attrs, '$.session'), '')"
_IMPORTED = f"source = 'import' AND {_ORIGIN} <> '' AND kind IN ('exchange', 'failure')"


class ImportedSession(Struct, frozen=True, kw_only=True):
    """A session with remembered exchanges."""

    origin: str
    session: str
    exchanges: int
    first_at: float
    """Unix seconds."""
    last_at: float
    confidence: float
    """Lowest of its exchanges."""
    title: str
    """Of its first exchange."""


class ImportedSessions(Struct, frozen=True):
    """The imported sessions, latest first."""

    sessions: tuple[ImportedSession, ...]
    exchanges: int
    forgotten: int
    """Erased ids that no import brings back."""


def imported_sessions(connection: sqlite3.Connection, *, origins: Collection[str] = ()) -> ImportedSessions:
    """Return the imported sessions of all agents, or of some."""
    rows = connection.execute(
        f"SELECT DISTINCT {_ORIGIN}, {_SESSION}, count(*) OVER one, min(created_at) OVER one, max(updated_at) OVER one,"
        f" min(confidence) OVER one, first_value(title) OVER (one ORDER BY created_at, id) FROM memory"
        f" WHERE {_IMPORTED} AND kind = 'exchange' WINDOW one AS (PARTITION BY {_ORIGIN}, {_SESSION})"
        " ORDER BY 5 DESC, 1, 2"
    ).fetchall()
    names = ImportedSession.__struct_fields__
    found = [ImportedSession(**dict(zip(names, row, strict=True))) for row in rows]
    chosen = tuple(one for one in found if not origins or one.origin in origins)
    (forgotten,) = connection.execute("SELECT count(*) FROM erased_memory").fetchone()
    return ImportedSessions(chosen, sum(one.exchanges for one in chosen), forgotten)


def imported_ids(
    connection: sqlite3.Connection,
    *,
    names: Collection[str] = (),
    session: str = "",
    origin: str = "",
    before: float | None = None,
) -> list[str]:
    """Return the ids of imported memories that match everything given: exchanges, and failures found in them.

    names: ids of memories or names of whole sessions, exact. before: unix seconds.
    """
    rows = connection.execute(
        f"SELECT id FROM memory WHERE {_IMPORTED} AND (:names = '[]' OR id IN (SELECT value FROM json_each(:names))"
        f" OR {_SESSION} IN (SELECT value FROM json_each(:names))) AND :session IN ('', {_SESSION})"
        f" AND :origin IN ('', {_ORIGIN}) AND (:before IS NULL OR updated_at < :before) ORDER BY created_at, id",
        {"names": json.dumps(list(names)), "session": session, "origin": origin, "before": before},
    )
    return [id_ for (id_,) in rows]


def unknown_names(connection: sqlite3.Connection, names: Collection[str]) -> list[str]:
    """Return the names that belong to no imported memory or session."""
    rows = connection.execute(f"SELECT id, {_SESSION} FROM memory WHERE {_IMPORTED}").fetchall()
    known = {name for row in rows for name in row}
    return [name for name in dict.fromkeys(names) if name not in known]
