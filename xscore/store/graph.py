"""Query the edges of a store: what a file or entity depends on, what depends on it, and what is
near it.

A query for a file returns whole files; one for an entity (`path::entity` or a memory id) returns
entities, and so do `callers` and `callees` in any case. Stated memories are nodes too, linked to
the code they cite and name. The walk is breadth first, one statement per level, so cycles and depth
are cheap. Trade-off: no recursive SQL, because it cannot skip visited nodes: among 60 functions
that all call each other, 500 levels took 1 s, and this walk 10 ms.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from xscore.platform.errors import UsageError
from xscore.platform.hashing import file_id
from xscore.records.memory import Relation
from xscore.store import naming
from xscore.store.memory_rows import IN_JSON_LIST

FILE = "file"
"""The kind of a node that is a file."""
DEPENDS = (Relation.CALLS, Relation.IMPORTS, Relation.TESTS)
"""Relations that are dependencies: a test depends on what it tests."""
NEAR = (*DEPENDS, Relation.REFERENCES)
CALLED = (Relation.CALLS, Relation.TESTS)
"""Relations of code that runs other code."""

_HERE = """
    WITH here (place, own) AS (
        SELECT value, value FROM json_each(:here)
        UNION ALL
        SELECT value, memory.id FROM json_each(:here) JOIN memory ON memory.path = substr(value, 3)
        WHERE :files AND substr(value, 1, 2) = 'f_' AND memory.source = 'index'
    )
"""
_STEP = """
    SELECT here.place, relation, {incoming} AS incoming,
           CASE WHEN :files AND far.source = 'index' THEN 'f_' || far.path
             ELSE edge.{there} END AS other, count(*)
    FROM here CROSS JOIN edge ON edge.{here} = own LEFT JOIN memory AS far ON far.id = edge.{there}
    WHERE relation IN (SELECT value FROM json_each(:relations)) OR :inherits
      AND relation = 'references' AND (
        EXISTS (SELECT 1 FROM memory WHERE id = edge.source AND kind = 'class')  -- to its bases
        OR EXISTS (
            SELECT 1 FROM memory AS block, memory AS user WHERE block.id = edge.target
              AND user.id = edge.source
            AND block.entity GLOB 'module:*' AND user.source = 'index'  -- to a value
        )
    )
    GROUP BY 1, 2, 4
"""
_CITES = """
    SELECT here.place, 'references', 0 AS incoming,
           CASE WHEN code.id IS NULL THEN 'f_' || evidence.path ELSE code.id END AS other, count(*)
    FROM here CROSS JOIN evidence_here AS evidence ON evidence.memory_id = own
      LEFT JOIN memory AS code
         ON NOT :files AND code.path = evidence.path AND {same_lines}
    WHERE 'references' IN (SELECT value FROM json_each(:relations))
    GROUP BY 1, 2, 4
"""
_CITED = """
    SELECT here.place, 'references', 1 AS incoming, evidence.memory_id AS other, count(*)
    FROM here CROSS JOIN evidence_here AS evidence ON evidence.path = substr(own, 3)
    WHERE substr(own, 1, 2) = 'f_' AND 'references' IN (SELECT value FROM json_each(:relations))
    GROUP BY 1, 2, 4
    UNION ALL
    SELECT here.place, 'references', 1 AS incoming, evidence.memory_id AS other, count(*)
    FROM here CROSS JOIN memory AS code ON code.id = own AND NOT :files
         CROSS JOIN evidence_here AS evidence ON evidence.path = code.path AND {same_lines}
    WHERE 'references' IN (SELECT value FROM json_each(:relations))
    GROUP BY 1, 2, 4
"""
# Changed lines may be elsewhere now; line 0 is the whole file, not one of its entities.
_SAME_LINES = (
    "code.source = 'index' AND code.entity <> '' AND evidence.start_line > 0 AND NOT"
    " evidence.changed AND code.start_line <= evidence.end_line AND code.end_line >="
    " evidence.start_line"
)
_OUTWARD = (
    _STEP.format(incoming=0, here="source", there="target")
    + " UNION ALL "
    + _CITES.format(same_lines=_SAME_LINES)
)
_INWARD = (
    _STEP.format(incoming=1, here="target", there="source")
    + " UNION ALL "
    + _CITED.format(same_lines=_SAME_LINES)
)
_ORDER = " ORDER BY 4, 3, 2, 1"


class ReachedNode(Struct, frozen=True):
    """A node of the walk: a file, an entity or a stated memory."""

    id: str
    """Id of the node: `f_<path>` or `m_…`."""
    path: str
    entity: str
    """Name of the entity; empty for a file; the title of a stated memory."""
    kind: str
    """`file`, or the memory's kind."""
    relation: Relation
    """Relation of the edge by which it was first reached."""
    is_incoming: bool
    """Whether that edge points back toward the start."""
    via: str
    """Id of the previous node on the path."""
    distance: int
    """Edges from the start, at least 1."""
    ties: int
    """Edges between it and the nodes one step nearer."""
    start_line: int = 0
    end_line: int = 0
    """Last line of an entity; 0 for a file or a stated memory."""


QUESTIONS = {
    "related": (NEAR, (_OUTWARD, _INWARD), 1),
    "deps": (DEPENDS, (_OUTWARD,), 5),
    "affected": (DEPENDS, (_INWARD,), 5),
    "callers": (CALLED, (_INWARD,), 1),
    "callees": (CALLED, (_OUTWARD,), 1),
}
"""Question -> the relations and directions to follow, and the default depth.

`related`: what is linked in either direction. `deps`: what it calls, imports, inherits, uses and
tests, and so on. `affected`: what calls, imports, inherits, uses or tests it, and what depends on
those. `callers`: the functions and tests that call it. `callees`: the functions that it calls.
"""


def ends_named(
    connection: sqlite3.Connection, name: str, question: str = ""
) -> tuple[str, ...]:
    """Return the ids that a name means; empty if unknown. question: one about functions takes
    those of a file."""
    file = naming.find_file(connection, name)
    if file and question not in ("callers", "callees"):
        return (file_id(file),)
    return tuple(naming.find_named(connection, name, inside=True))


def entity_names(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, str]:
    """Return what each of these ids is called: its entity, or the path of a file."""
    return {
        id_: place.entity or place.path for id_, place in _places(connection, list(ids)).items()
    }


def follow_links(
    connection: sqlite3.Connection, question: str, name: str, *, depth: int | None = None
) -> tuple[ReachedNode, ...]:
    """Return what a question about a name reaches, nearest and most linked first. Raises
    NothingMatched, UsageError.

    name: see `store.naming`.
    depth: links to follow at most; None: the question's own.
    """
    relations, ways, usual_depth = QUESTIONS[question]
    depth = usual_depth if depth is None else depth
    ends = ends_named(connection, name, question)
    if not ends:
        raise naming.unknown_name(connection, name)
    if depth < 1:
        raise UsageError(
            f"the depth must be at least 1, not {depth}", hint="Give a depth of 1 or more."
        )
    query = _HERE + " UNION ALL ".join(ways) + _ORDER
    parameters = {
        "relations": json.dumps(relations),
        "inherits": Relation.IMPORTS in relations,
        "files": ends[0].startswith(file_id("")),
    }
    seen = set(ends)
    frontier = list(ends)
    reached: dict[str, _Reached] = {}
    for distance in range(1, depth + 1):
        parameters["here"] = json.dumps(frontier)
        rows = connection.execute(query, parameters).fetchall()
        fresh: dict[str, _Reached] = {}
        for via, relation, is_incoming, end, count in rows:
            if end in seen:
                continue
            first = fresh.get(end)
            ties = count if first is None else first.ties + count
            # A test file also imports what it tests.
            if first is None or relation == Relation.TESTS:
                first = _Reached(Relation(relation), bool(is_incoming), via, distance, ties)
            fresh[end] = first._replace(ties=ties)
        if not fresh:
            break
        seen |= fresh.keys()
        reached |= fresh
        frontier = list(fresh)
    return tuple(sorted(_nodes_at(connection, reached), key=_nearest_first))


class _Reached(NamedTuple):
    """By which edge a node was first reached, as in `ReachedNode`."""

    relation: Relation
    is_incoming: bool
    via: str
    distance: int
    ties: int


def _nodes_at(
    connection: sqlite3.Connection, reached: Mapping[str, _Reached]
) -> list[ReachedNode]:
    """Return what was reached with its place, but for what has been deleted meanwhile."""
    nodes: list[ReachedNode] = []
    for id_, place in _places(connection, reached).items():
        lines = (place.start_line, place.end_line)
        nodes.append(
            ReachedNode(id_, place.path, place.entity, place.kind, *reached[id_], *lines)
        )
    return nodes


def _nearest_first(node: ReachedNode) -> tuple[int, int, str, str, str]:
    return node.distance, -node.ties, node.path, node.entity, node.id


class _Place(NamedTuple):
    """What a node is, and where."""

    path: str
    entity: str
    """Name of the entity; empty for a file; the title of a stated memory."""
    kind: str
    start_line: int = 0
    end_line: int = 0


def _places(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, _Place]:
    """Return the place of each of these ids that is in the store."""
    prefix = file_id("")
    places = {
        id_: _Place(id_.removeprefix(prefix), "", FILE) for id_ in ids if id_.startswith(prefix)
    }
    rows = connection.execute(
        "SELECT id, path, CASE WHEN source = 'index' THEN entity ELSE title END, kind, start_line,"
        f" end_line FROM memory WHERE id {IN_JSON_LIST}",
        (json.dumps([id_ for id_ in ids if id_ not in places]),),
    )
    return places | {id_: _Place(*place) for id_, *place in rows.fetchall()}
