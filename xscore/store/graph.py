"""Names of files and entities that come near one that nothing bears: the same name elsewhere, a part of it, a slip.

It is asked only where a name was wrong, so it may look at every name. Slips are found by `difflib`: a library that
compares faster would save a fraction of a second of an error message. Trade-off: of a path only the last part is
compared, since that is where names differ from each other.

Names of the graph: what a path, `path::entity` or memory id stands for, and how an end is called. SQL alone.

It walks nothing. Trade-off: only whole names stand for something; what may be meant is for `near_names` to say.

The links of the store as questions: what a file or entity depends on, what depends on it, what stands near it.

Two grains. Asked for a file, whole files answer: an edge between two entities ties their files. Asked for an entity
(`path::entity`, with all that belongs to it, or a memory id), entities answer. Remembered memories (decisions and their
like) stand for themselves in both, and are tied to the code they cite as to what they name. The walk goes breadth
first, one statement a level, and looks at nothing twice, so cycles and depth cost nothing. Trade-off: a recursive query
would be one statement, but SQLite's recursion cannot ask what it has reached, so with a distance in its rows it goes
round every cycle once for each level of the depth: among 60 functions that all call each other, 500 levels took it 1 s,
and this walk 10 ms.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.hashing import file_id
from xscore.records import Relation

NEAR_SHOWN = 3
_LIKENESS = 0.7
"""Least likeness of two names, of 1: one slip in a name of four letters passes, two do not."""
_ESCAPES = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


def near_paths(connection: sqlite3.Connection, path: str) -> tuple[str, ...]:
    """Return files that are called alike, the likeliest first."""
    base = _base(path)
    for part in (part for part in (base, base.partition(".")[0]) if part):
        rows = connection.execute(
            "SELECT path FROM file WHERE excluded = '' AND path LIKE ? ESCAPE '\\' ORDER BY length(path), path LIMIT ?",
            (f"%{escape_like(part)}%", NEAR_SHOWN),
        ).fetchall()
        if rows:
            return tuple(row[0] for row in rows)
    paths = connection.execute("SELECT path FROM file WHERE excluded = '' ORDER BY length(path), path").fetchall()
    return _closest(base, (row[0] for row in paths), _base)


def near_entities(connection: sqlite3.Connection, path: str, entity: str) -> tuple[str, ...]:
    """Return entities of this name elsewhere, else of a name alike, in files that are called alike if there are."""
    last = _last(entity)
    rows = connection.execute(
        "SELECT DISTINCT path || '::' || entity FROM memory WHERE layer = 'graph' AND source = 'index'"
        " AND (entity LIKE ? ESCAPE '\\' OR entity LIKE ? ESCAPE '\\') ORDER BY path <> ?, 1 LIMIT ?",
        (escape_like(last), f"%.{escape_like(last)}", path, NEAR_SHOWN),
    ).fetchall()
    if rows:
        return tuple(row[0] for row in rows)
    known = connection.execute(
        "SELECT DISTINCT path, entity FROM memory WHERE layer = 'graph' AND source = 'index'"
        " AND length(entity) >= ? ORDER BY path, start_line, id",
        (len(last) // 2,),
    ).fetchall()
    named = {f"{place}::{called}": place for place, called in known}
    files = {path, *near_paths(connection, path)}
    here = [name for name, place in named.items() if place in files]
    return _closest(last, here, _last) or _closest(last, named, _last)


def escape_like(text: str) -> str:
    """Return a text as a pattern of SQL that stands for itself."""
    return text.translate(_ESCAPES)


def _closest(wanted: str, names: Iterable[str], part: Callable[[str], str]) -> tuple[str, ...]:
    """Return the names whose part comes nearest; of equal ones those that come first."""
    bearing: dict[str, list[str]] = {}
    for name in names:
        bearing.setdefault(part(name), []).append(name)
    near = get_close_matches(wanted, bearing, n=NEAR_SHOWN, cutoff=_LIKENESS)
    return tuple(name for each in near for name in bearing[each])[:NEAR_SHOWN]


def _base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _last(entity: str) -> str:
    return entity.rpartition("::")[2].rpartition(".")[2]


class WalkStart(Struct, frozen=True):
    """Where a walk begins."""

    path: str
    ends: tuple[str, ...]
    is_file: bool


class GraphNames:
    """What the index knows, by name."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def has_index(self) -> bool:
        """Whether the repository was ever indexed here; it may be empty."""
        asked = "SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'index_profile') OR EXISTS (SELECT 1 FROM file)"
        return bool(self._connection.execute(asked).fetchone()[0])

    def start(self, name: str) -> WalkStart | None:
        """Return the ends that a name stands for; None where it stands for nothing."""
        if self._connection.execute("SELECT 1 FROM file WHERE path = ? AND excluded = ''", (name,)).fetchone():
            return WalkStart(name, (file_id(name),), is_file=True)
        if name.startswith("m_"):
            row = self._connection.execute("SELECT path FROM memory WHERE id = ?", (name,)).fetchone()
            return WalkStart(row[0], (name,), is_file=False) if row else None
        path, colons, entity = name.partition("::")
        ends = self._within(path, entity) if colons and entity else ()
        return WalkStart(path, ends, is_file=False) if ends else None

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
            (path, entity, f"{escape_like(entity)}.%", f"{escape_like(entity)} > %"),
        )
        return tuple(row[0] for row in rows.fetchall())


FILE = "file"
"""The kind of an end that is a file."""
DEPENDS = (Relation.CALLS, Relation.IMPORTS, Relation.TESTS)
"""By which one end depends on another: a test depends on what it tests."""
NEAR = (*DEPENDS, Relation.REFERENCES)
RELATED_DEPTH, CHAIN_DEPTH = 1, 5
"""Steps taken unless asked for more."""

_HERE = """
    WITH here (place, own) AS (
        SELECT value, value FROM json_each(:here)
        UNION ALL
        SELECT value, memory.id FROM json_each(:here) JOIN memory ON memory.path = substr(value, 3)
        WHERE :files AND substr(value, 1, 2) = 'f_' AND memory.source = 'index'
    )
"""
_STEP = """
    SELECT place, relation, {incoming} AS incoming,
           CASE WHEN :files AND far.source = 'index' THEN 'f_' || far.path ELSE edge.{there} END AS other, count(*)
    FROM here CROSS JOIN edge ON edge.{here} = own LEFT JOIN memory AS far ON far.id = edge.{there}
    WHERE relation IN (SELECT value FROM json_each(:relations))
    GROUP BY 1, 2, 4
"""
_CITES = """
    SELECT place, 'references', 0 AS incoming,
           CASE WHEN code.id IS NULL THEN 'f_' || evidence.path ELSE code.id END AS other, count(*)
    FROM here CROSS JOIN evidence ON evidence.memory_id = own LEFT JOIN memory AS code
         ON NOT :files AND code.path = evidence.path AND {same_lines}
    WHERE 'references' IN (SELECT value FROM json_each(:relations))
    GROUP BY 1, 2, 4
"""
_CITED = """
    SELECT place, 'references', 1 AS incoming, evidence.memory_id AS other, count(*)
    FROM here CROSS JOIN evidence ON evidence.path = substr(own, 3)
    WHERE substr(own, 1, 2) = 'f_' AND 'references' IN (SELECT value FROM json_each(:relations))
    GROUP BY 1, 2, 4
    UNION ALL
    SELECT place, 'references', 1 AS incoming, evidence.memory_id AS other, count(*)
    FROM here CROSS JOIN memory AS code ON code.id = own AND NOT :files
         CROSS JOIN evidence ON evidence.path = code.path AND {same_lines}
    WHERE 'references' IN (SELECT value FROM json_each(:relations))
    GROUP BY 1, 2, 4
"""
_SAME_LINES = (  # what changed since stands elsewhere now; 0 is the whole file, which is none of its entities
    "code.source = 'index' AND code.entity <> '' AND evidence.start_line > 0 AND NOT evidence.changed"
    " AND code.start_line <= evidence.end_line AND code.end_line >= evidence.start_line"
)
_OUTWARD = (
    _STEP.format(incoming=0, here="source", there="target") + " UNION ALL " + _CITES.format(same_lines=_SAME_LINES)
)
_INWARD = (
    _STEP.format(incoming=1, here="target", there="source") + " UNION ALL " + _CITED.format(same_lines=_SAME_LINES)
)
_ORDER = " ORDER BY 4, 3, 2, 1"


class ReachedNode(Struct, frozen=True):
    """One end of the walk: a file, an entity or a remembered memory."""

    id: str
    """`f_<path>` or `m_…`."""
    path: str
    entity: str
    """Empty for a file; the title of a remembered memory."""
    kind: str
    """`file`, or the memory's kind."""
    relation: Relation
    """Of the edge by which it was reached first."""
    is_incoming: bool
    """Whether that edge points from it to what was asked for."""
    via: str
    """Id of the end before it on the way."""
    distance: int
    """Edges from what was asked for, at least 1."""
    ties: int
    """Edges between it and the ends one step nearer."""


class FileContext(Struct, frozen=True, kw_only=True):
    """A file among the others, one step in every direction."""

    path: str
    language: str
    entities: tuple[str, ...]
    """In the order of their lines."""
    depends_on: tuple[ReachedNode, ...]
    used_by: tuple[ReachedNode, ...]
    tests: tuple[ReachedNode, ...]
    """Files that test it."""
    mentioned_by: tuple[ReachedNode, ...]
    """Documents and remembered memories that name it."""


class LinkGraph:
    """Questions to the links of one store; ends are found by path, `path::entity` or memory id."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.names = GraphNames(connection)

    def related_files(self, name: str, *, depth: int = RELATED_DEPTH) -> tuple[ReachedNode, ...]:
        """Return what is tied to it in either direction, nearest and most tied first. Raises NothingMatched."""
        return self._walk(self._start(name), NEAR, (_OUTWARD, _INWARD), depth)

    def dependency_chain(self, name: str, *, depth: int = CHAIN_DEPTH) -> tuple[ReachedNode, ...]:
        """Return what it calls, imports and tests, and what those do in turn. Raises NothingMatched, UsageError."""
        return self._walk(self._start(name), DEPENDS, (_OUTWARD,), depth)

    def affected_files(self, name: str, *, depth: int = CHAIN_DEPTH) -> tuple[ReachedNode, ...]:
        """Return what calls, imports or tests it, and what in turn depends on those. Raises NothingMatched."""
        return self._walk(self._start(name), DEPENDS, (_INWARD,), depth)

    def file_context(self, path: str) -> FileContext:
        """Return a file's entities and all that is one step from it. Raises NothingMatched, UsageError."""
        start = self._start(path)
        if not start.is_file:
            raise UsageError(f"{path} is an entity, not a file", hint="Name the file alone.")
        inward = self._walk(start, DEPENDS, (_INWARD,), 1)
        named = self._walk(start, (Relation.REFERENCES,), (_INWARD,), 1)
        return FileContext(
            path=start.path,
            language=self.names.language(start.path),
            entities=self.names.entities(start.path),
            depends_on=self._walk(start, DEPENDS, (_OUTWARD,), 1),
            used_by=tuple(one for one in inward if one.relation is not Relation.TESTS),
            tests=tuple(one for one in inward if one.relation is Relation.TESTS),
            mentioned_by=named,
        )

    def _start(self, name: str) -> WalkStart:
        start = self.names.start(name)
        if start is None:
            near = self.names.near(name)
            hint = f"Did you mean {', '.join(near)}?" if near else "Name a file as the index does, or path::entity."
            hint = hint if self.names.has_index() else "Nothing is indexed here yet: run `xscore index`."
            raise NothingMatched(f"the index knows no `{name}`", hint=hint)
        return start

    def _walk(
        self, start: WalkStart, relations: Sequence[Relation], ways: Sequence[str], depth: int
    ) -> tuple[ReachedNode, ...]:
        if depth < 1:
            raise UsageError(f"a walk takes at least one step, not {depth}", hint="Give a depth of 1 or more.")
        seen, found, frontier = set(start.ends), list[ReachedNode](), list(start.ends)
        for distance in range(1, depth + 1):
            fresh = self._level(frontier, relations, ways, seen, distance=distance, files=start.is_file)
            if not fresh:
                break
            seen |= fresh.keys()
            found += fresh.values()
            frontier = list(fresh)
        return self._named(found)

    def _level(
        self,
        frontier: Sequence[str],
        relations: Sequence[Relation],
        ways: Sequence[str],
        seen: Collection[str],
        *,
        distance: int,
        files: bool,
    ) -> dict[str, ReachedNode]:
        asked = {"here": json.dumps(frontier), "relations": json.dumps(relations), "files": files}
        rows = self._connection.execute(_HERE + " UNION ALL ".join(ways) + _ORDER, asked).fetchall()
        fresh: dict[str, ReachedNode] = {}
        for place, relation, incoming, other, count in rows:
            if other in fresh:
                fresh[other] = replace(fresh[other], ties=fresh[other].ties + count)
            elif other not in seen:
                fresh[other] = ReachedNode(
                    other, "", "", FILE, Relation(relation), bool(incoming), place, distance, ties=count
                )
        return fresh

    def _named(self, found: Iterable[ReachedNode]) -> tuple[ReachedNode, ...]:
        """Say where each end is; those that left the store meanwhile are left out."""
        found = list(found)
        known = self.names.places([one.id for one in found if not one.id.startswith("f_")])
        named = [_with_place(one, known) for one in found]
        kept = [one for one in named if one is not None]
        return tuple(sorted(kept, key=lambda one: (one.distance, -one.ties, one.path, one.entity, one.id)))


def _with_place(one: ReachedNode, known: Mapping[str, tuple[str, str, str]]) -> ReachedNode | None:
    if one.id.startswith("f_"):
        return replace(one, path=one.id.removeprefix(file_id("")))
    if one.id not in known:
        return None
    path, entity, kind = known[one.id]
    return replace(one, path=path, entity=entity, kind=kind)
