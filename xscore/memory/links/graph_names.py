"""Names of the graph: what a path, `path::entity` or memory id stands for, and how an end is called. SQL alone.

It walks nothing. Trade-off: only whole names stand for something; what may be meant is for `near_names` to say.
"""

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from xscore.hashing import file_id
from xscore.memory.near_names import like, near_entities, near_paths


@dataclass(frozen=True, slots=True)
class Start:
    """Where a walk begins."""

    path: str
    ends: tuple[str, ...]
    is_file: bool


class Names:
    """What the index knows, by name."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def has_index(self) -> bool:
        """Whether any file was ever indexed here."""
        return self._connection.execute("SELECT 1 FROM file LIMIT 1").fetchone() is not None

    def start(self, name: str) -> Start | None:
        """Return the ends that a name stands for; None where it stands for nothing."""
        if self._connection.execute("SELECT 1 FROM file WHERE path = ? AND excluded = ''", (name,)).fetchone():
            return Start(name, (file_id(name),), is_file=True)
        if name.startswith("m_"):
            row = self._connection.execute("SELECT path FROM memory WHERE id = ?", (name,)).fetchone()
            return Start(row[0], (name,), is_file=False) if row else None
        path, colons, entity = name.partition("::")
        ends = self._within(path, entity) if colons and entity else ()
        return Start(path, ends, is_file=False) if ends else None

    def near(self, name: str) -> tuple[str, ...]:
        """Return known names that this one may be meant for, the likeliest first, at most three."""
        path, colons, entity = name.partition("::")
        return (colons and near_entities(self._connection, path, entity)) or near_paths(self._connection, path)

    def entities(self, path: str) -> tuple[str, ...]:
        """Return the entities of a file in the order of their lines."""
        rows = self._connection.execute(
            "SELECT entity FROM memory WHERE path = ? AND source = 'index' ORDER BY start_line, end_line DESC, id",
            (path,),
        )
        return tuple(row[0] for row in rows.fetchall())

    def language(self, path: str) -> str:
        """Return the language of an indexed file; empty where it has none."""
        row = self._connection.execute("SELECT language FROM file WHERE path = ?", (path,)).fetchone()
        return str(row[0]) if row else ""

    def places(self, ids: Iterable[str]) -> dict[str, tuple[str, str, str]]:
        """Return path, entity (or title) and kind of memories by id."""
        rows = self._connection.execute(
            "SELECT id, path, CASE WHEN source = 'index' THEN entity ELSE title END, kind FROM memory"
            " WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(ids)),),
        )
        return {row[0]: (row[1], row[2], row[3]) for row in rows.fetchall()}

    def _within(self, path: str, entity: str) -> tuple[str, ...]:
        """Ids of an entity and of all that belongs to it."""
        rows = self._connection.execute(
            "SELECT id FROM memory WHERE path = ? AND source = 'index'"
            " AND (entity = ? OR entity LIKE ? ESCAPE '\\' OR entity LIKE ? ESCAPE '\\') ORDER BY start_line, id",
            (path, entity, f"{like(entity)}.%", f"{like(entity)} > %"),
        )
        return tuple(row[0] for row in rows.fetchall())
