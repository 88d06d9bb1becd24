"""What was imported, session by session, and which of it is to be forgotten. It erases nothing itself."""

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

_IMPORTED = "source = 'import' AND json_extract(attrs, '$.origin') <> '' AND kind IN ('exchange', 'failure')"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSession:
    """A session of which exchanges are remembered."""

    origin: str
    session: str
    exchanges: int
    first_at: float
    """Unix seconds."""
    last_at: float
    title: str
    """Of its first exchange."""


@dataclass(frozen=True, slots=True)
class PastSessions:
    """All of them, the latest first."""

    sessions: tuple[PastSession, ...]
    exchanges: int
    forgotten: int
    """Ids that no import brings back."""


def past_sessions(connection: sqlite3.Connection, *, origins: Collection[str] = ()) -> PastSessions:
    """Return the sessions of which exchanges are remembered, of all agents or of some."""
    rows = connection.execute(
        f"SELECT json_extract(attrs, '$.origin'), coalesce(json_extract(attrs, '$.session'), ''), created_at,"  # noqa: S608  the condition is ours
        f" updated_at, title FROM memory WHERE {_IMPORTED} AND kind = 'exchange' ORDER BY created_at, id"
    ).fetchall()
    sessions: dict[tuple[str, str], PastSession] = {}
    for origin, session, first, last, title in rows:
        known = sessions.get((origin, str(session)))
        sessions[origin, str(session)] = PastSession(
            origin=origin,
            session=str(session),
            exchanges=known.exchanges + 1 if known else 1,
            first_at=known.first_at if known else first,
            last_at=max(known.last_at, last) if known else last,
            title=known.title if known else title,
        )
    wanted = [one for one in sessions.values() if not origins or one.origin in origins]
    found = tuple(sorted(wanted, key=lambda one: (-one.last_at, one.origin, one.session)))
    (forgotten,) = connection.execute("SELECT count(*) FROM forgotten").fetchone()
    return PastSessions(found, sum(one.exchanges for one in found), forgotten)


def to_forget(
    connection: sqlite3.Connection,
    *,
    ids: Collection[str] = (),
    session: str = "",
    origin: str = "",
    before: float | None = None,
) -> list[str]:
    """Return the ids of what was imported and fits all that is given: exchanges, and failures read from them.

    before: Unix seconds. Ids are exact; one that was not imported is not among the result.
    """
    rows = connection.execute(
        f"SELECT id, json_extract(attrs, '$.session'), json_extract(attrs, '$.origin'), updated_at FROM memory"  # noqa: S608  the condition is ours
        f" WHERE {_IMPORTED} ORDER BY created_at, id"
    ).fetchall()
    return [
        identifier
        for identifier, its_session, its_origin, at in rows
        if (not ids or identifier in ids)
        and (not session or its_session == session)
        and (not origin or its_origin == origin)
        and (before is None or at < before)
    ]
