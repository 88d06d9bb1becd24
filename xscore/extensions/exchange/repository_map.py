"""Maps of what an index held, files and link counts: of the index now, and of the times that snapshots brought.

Equal indexes have equal ids. Trade-off: no entities, since the index finds them again in the files.
"""

import json
import sqlite3
from collections.abc import Sequence

from msgspec.structs import replace

from xscore.platform import database
from xscore.platform.hashing import digest
from xscore.records import MappedFile, RepositoryMap, RepositoryMapId
from xscore.store.events import EventName

_FILES = """
    SELECT file.path, file.language, file_hash, count(memory.id) FROM file
    LEFT JOIN memory ON memory.path = file.path AND memory.source = 'index'
    WHERE excluded = '' GROUP BY file.path ORDER BY file.path
"""
_EDGES = """
    SELECT relation, count(*) FROM edge WHERE NOT (source GLOB 'm_*' AND source IN
        (SELECT id FROM memory WHERE source <> 'index')) GROUP BY relation ORDER BY relation
"""
_INDEXED = "SELECT coalesce(max(at), 0.0) FROM event WHERE name = ?"
_KEEP = "INSERT INTO repository_map (id, body) VALUES (?, ?) ON CONFLICT (id) DO NOTHING"


def repository_maps(connection: sqlite3.Connection) -> tuple[RepositoryMap, ...]:
    """Return the map of the index, where there is one, and those kept of snapshots; sorted by time."""
    found = {one.id: one for one in _kept(connection)}
    current = _current(connection)
    if current is not None:
        found[current.id] = current
    return tuple(sorted(found.values(), key=lambda one: (one.indexed_at, one.id)))


def save_repository_map(connection: sqlite3.Connection, one: RepositoryMap) -> bool:
    """Keep a map that a snapshot brought; whether it was new. Call it inside a transaction."""
    current = _current(connection)
    if current is not None and current.id == one.id:
        return False
    return connection.execute(_KEEP, (one.id, _body(one))).rowcount > 0


def make_repository_map(
    indexed_at: float, files: Sequence[MappedFile], edges: Sequence[tuple[str, int]]
) -> RepositoryMap:
    """Make a map, named by what it holds."""
    nameless = RepositoryMap(RepositoryMapId(""), indexed_at, tuple(files), tuple(edges))
    return replace(nameless, id=RepositoryMapId("g_" + digest("map", _body(nameless))[:20]))


def _current(connection: sqlite3.Connection) -> RepositoryMap | None:
    files = [MappedFile(*row) for row in connection.execute(_FILES).fetchall()]
    if not files:
        return None
    (indexed_at,) = connection.execute(_INDEXED, (EventName.INDEXED,)).fetchone()
    return make_repository_map(indexed_at, files, connection.execute(_EDGES).fetchall())


def _kept(connection: sqlite3.Connection) -> list[RepositoryMap]:
    found = []
    for (body,) in connection.execute("SELECT body FROM repository_map").fetchall():
        with database.damage_if_invalid("a repository map"):
            known = json.loads(body)
            files = [MappedFile(*one) for one in known["files"]]
            found.append(
                make_repository_map(known["indexed_at"], files, [(name, count) for name, count in known["edges"]])
            )
    return found


def _body(one: RepositoryMap) -> str:
    files = [[each.path, each.language, each.file_hash, each.memories] for each in one.files]
    return json.dumps({"indexed_at": one.indexed_at, "files": files, "edges": one.edges}, ensure_ascii=False)
