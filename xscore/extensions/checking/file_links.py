"""Which files are linked to the changed lines, by the edges of the index.

Links of the entities that a change touches count apart from those of the rest of their files: a
test of the function that changed says more than one of its neighbor. Trade-off: what the change
deletes has no links any more; `removed_names` looks for it by its name.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from xscore.extensions.checking.records import Change, LineSpan
from xscore.platform.hashing import file_id
from xscore.records.candidates import Candidate
from xscore.records.memory import Edge, Relation
from xscore.store.store import Store

MOST_TOUCHED = 2_000
"""Entities of a change whose links are read."""


class LinkedFile(Struct):
    """How a file is linked to a change, in numbers of edges."""

    tests: int = 0
    """Edges from its tests to a touched entity that they run."""
    tested: int = 0
    """Edges from a touched test to an entity of it."""
    calls: int = 0
    """Its calls of a touched entity."""
    called: int = 0
    """Calls of its entities by a touched one."""
    names: int = 0
    """Its mentions of a touched entity, as in a document."""
    named: int = 0
    imports: int = 0
    """Its imports of a changed file."""
    imported: int = 0
    near: int = 0
    """All other edges to a changed file."""
    of_entity: str = ""
    """The touched entity of the first of these edges."""


def linked_files(
    store: Store, change: Change, candidates: Sequence[Candidate]
) -> dict[str, LinkedFile]:
    """Return the files that are linked to a change, by path."""
    path_of: dict[str, str] = {}
    name_of: dict[str, str] = {}
    touched: list[str] = []
    rest: list[str] = []
    spans_of = {file.path: file.spans for file in change.files}
    for candidate in candidates:
        for id_ in (candidate.id, *candidate.duplicates):
            path_of[id_] = candidate.path
        if candidate.path in spans_of:
            name_of[candidate.id] = candidate.entity
            is_touched = _overlaps(candidate, spans_of[candidate.path])
            (touched if is_touched else rest).append(candidate.id)
    linked: dict[str, LinkedFile] = {}
    inside = frozenset(change.paths)
    touched = touched[:MOST_TOUCHED]
    rest = rest[:MOST_TOUCHED]
    for id_, linked_path, edge in _links(store, touched, path_of, inside):
        _count_touched(linked.setdefault(linked_path, LinkedFile()), edge, id_, name_of)
    files = [file_id(path) for path in sorted(inside)]
    for id_, linked_path, edge in _links(store, [*files, *rest], path_of, inside):
        _count_near(linked.setdefault(linked_path, LinkedFile()), edge, id_)
    return linked


def _overlaps(candidate: Candidate, spans: Iterable[LineSpan]) -> bool:
    first = candidate.start_line
    last = candidate.end_line
    return any(start <= last and end >= first for start, end in spans)


def _links(
    store: Store, ids: Sequence[str], path_of: Mapping[str, str], inside: frozenset[str]
) -> Iterable[tuple[str, str, Edge]]:
    """Yield the id of an end that was asked for, the file of the other end, and the edge."""
    near_ends = frozenset(ids)
    prefix = file_id("")
    for edge in store.edges_touching(ids) if ids else ():
        near, far = (edge.source, edge.target) if edge.source in near_ends else _turned(edge)
        if far.startswith(prefix):
            path = far.removeprefix(prefix)
        else:
            path = path_of.get(far, "")
        if path and path not in inside:
            yield near, path, edge


def _turned(edge: Edge) -> tuple[str, str]:
    return edge.target, edge.source


def _count_touched(
    linked: LinkedFile, edge: Edge, touched: str, name_of: Mapping[str, str]
) -> None:
    is_incoming = edge.target == touched
    if not linked.of_entity:
        linked.of_entity = name_of.get(touched, "")
    match edge.relation, is_incoming:
        case Relation.TESTS, True:
            linked.tests += 1
        case Relation.TESTS, False:
            linked.tested += 1
        case Relation.CALLS, True:
            linked.calls += 1
        case Relation.CALLS, False:
            linked.called += 1
        case Relation.REFERENCES, True:
            linked.names += 1
        case Relation.REFERENCES, False:
            linked.named += 1
        case _:
            linked.near += 1


def _count_near(linked: LinkedFile, edge: Edge, near_id: str) -> None:
    if edge.relation is not Relation.IMPORTS:
        linked.near += 1
    elif edge.target == near_id:
        linked.imports += 1
    else:
        linked.imported += 1
