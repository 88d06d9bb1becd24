"""What each project says about a key, noted in the user's own store, so that what holds in several is the user's (L02).

A project is named by a hash of its store's id: the user's store does not tell where it is. A note goes when the memory
that said it goes (`memory.erasure`). Trade-off: notes hold the choice in words (one sentence,
redacted with the memory), because a hash could be compared but never be shown to the user it is about.
"""

import sqlite3
from collections.abc import Iterable, Sequence

from xscore.hashing import digest
from xscore.records import Observation


def project_name(store_id: str) -> str:
    """Name a project in the user's store; the store's id cannot be told from it."""
    return digest("project", store_id)


def observations(user: sqlite3.Connection) -> list[Observation]:
    """Return all observations, by key and project."""
    found = user.execute("SELECT project, key, kind, value, seen_at FROM observation ORDER BY key, project")
    return [Observation(*row) for row in found.fetchall()]


def projects(user: sqlite3.Connection) -> dict[str, float]:
    """Return every project that took part -> when it was last seen (unix seconds)."""
    return dict(user.execute("SELECT id, seen_at FROM project ORDER BY id").fetchall())


def noted_in(user: sqlite3.Connection | None) -> int:
    """Count the observations, or where there are none the projects, that the user's store holds; 0 without a store."""
    if user is None:
        return 0
    return len(observations(user)) or len(projects(user))


def see_project(user: sqlite3.Connection, project: str, *, now: float) -> None:
    """Note that a project takes part, in a transaction that is open."""
    user.execute(
        "INSERT INTO project (id, seen_at) VALUES (?, ?)"
        " ON CONFLICT (id) DO UPDATE SET seen_at = max(seen_at, excluded.seen_at)",
        (project, now),
    )


def observe(user: sqlite3.Connection, noted: Sequence[Observation]) -> None:
    """Note what a known project says, in a transaction that is open."""
    user.executemany(
        "INSERT INTO observation (project, key, kind, value, seen_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (key, project) DO UPDATE SET kind = excluded.kind, value = excluded.value,"
        " seen_at = excluded.seen_at",
        [(each.project, each.key, each.kind, each.value, each.seen_at) for each in noted],
    )


def forget_projects(user: sqlite3.Connection) -> int:
    """Remove every project with all that it said, in a transaction that is open; return how many `noted_in` counted."""
    gone = noted_in(user)
    user.execute("DELETE FROM observation")
    user.execute("DELETE FROM project")
    return gone


def forget_named(user: sqlite3.Connection, project: str, keys: Iterable[str]) -> int:
    """Remove what a project, by its name here, said about these keys."""
    gone = user.executemany(
        "DELETE FROM observation WHERE project = ? AND key = ?", [(project, key) for key in sorted(set(keys)) if key]
    )
    return max(gone.rowcount, 0)
