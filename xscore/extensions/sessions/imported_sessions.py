"""What was imported, session by session, and which of it is to be forgotten. It erases nothing itself."""

import sqlite3
from collections.abc import Collection

from msgspec import Struct

_IMPORTED = "source = 'import' AND json_extract(attrs, '$.origin') <> '' AND kind IN ('exchange', 'failure')"


class ImportedSession(Struct, frozen=True, kw_only=True):
    """A session of which exchanges are remembered."""

    origin: str
    session: str
    exchanges: int
    first_at: float
    """Unix seconds."""
    last_at: float
    confidence: float
    """Of the least certain of its exchanges."""
    title: str
    """Of its first exchange."""


class ImportedSessions(Struct, frozen=True):
    """All of them, the latest first."""

    sessions: tuple[ImportedSession, ...]
    exchanges: int
    forgotten: int
    """Ids that no import brings back."""


def imported_sessions(connection: sqlite3.Connection, *, origins: Collection[str] = ()) -> ImportedSessions:
    """Return the sessions of which exchanges are remembered, of all agents or of some."""
    rows = connection.execute(
        f"SELECT json_extract(attrs, '$.origin'), coalesce(json_extract(attrs, '$.session'), ''), created_at,"
        f" updated_at, confidence, title FROM memory WHERE {_IMPORTED} AND kind = 'exchange' ORDER BY created_at, id"
    ).fetchall()
    sessions: dict[tuple[str, str], ImportedSession] = {}
    for origin, session, first, last, confidence, title in rows:
        known = sessions.get((origin, str(session)))
        sessions[origin, str(session)] = ImportedSession(
            origin=origin,
            session=str(session),
            exchanges=known.exchanges + 1 if known else 1,
            first_at=known.first_at if known else first,
            last_at=max(known.last_at, last) if known else last,
            confidence=min(known.confidence, confidence) if known else confidence,
            title=known.title if known else title,
        )
    wanted = [one for one in sessions.values() if not origins or one.origin in origins]
    found = tuple(sorted(wanted, key=lambda one: (-one.last_at, one.origin, one.session)))
    (forgotten,) = connection.execute("SELECT count(*) FROM forgotten").fetchone()
    return ImportedSessions(found, sum(one.exchanges for one in found), forgotten)


def imported_ids(
    connection: sqlite3.Connection,
    *,
    names: Collection[str] = (),
    session: str = "",
    origin: str = "",
    before: float | None = None,
) -> list[str]:
    """Return the ids of what was imported and fits all that is given: exchanges, and failures read from them.

    names: of memories or of whole sessions, exact; what was not imported is not among the result.
    before: Unix seconds.
    """
    rows = connection.execute(
        f"SELECT id, json_extract(attrs, '$.session'), json_extract(attrs, '$.origin'), updated_at FROM memory"
        f" WHERE {_IMPORTED} ORDER BY created_at, id"
    ).fetchall()
    return [
        identifier
        for identifier, its_session, its_origin, at in rows
        if (not names or identifier in names or its_session in names)
        and (not session or its_session == session)
        and (not origin or its_origin == origin)
        and (before is None or at < before)
    ]


def unknown_names(connection: sqlite3.Connection, names: Collection[str]) -> list[str]:
    """Return those names that neither an imported memory nor a session has."""
    rows = connection.execute(f"SELECT id, json_extract(attrs, '$.session') FROM memory WHERE {_IMPORTED}").fetchall()
    known = {name for row in rows for name in row}
    return [name for name in dict.fromkeys(names) if name not in known]
