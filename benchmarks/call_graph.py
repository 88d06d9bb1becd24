"""The call edges of a Python tree against those that jedi finds: precision and recall.

    python benchmarks/call_graph.py PATH [--show 10]

Needs jedi (not installed with xscore). Functions, methods and classes count, on both ends, and a decorator is a call.
jedi follows each called name to its definition; a name that it cannot follow is no edge.
"""

import argparse
import ast
import sqlite3
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from xscore.indexer import index_repository
from xscore.platform.paths import find_root
from xscore.settings import IndexSettings
from xscore.store.opening import connect_store


class Span(NamedTuple):
    """One entity: where it is, from which line to which."""

    path: str
    start: int
    end: int
    name: str


Edges = set[tuple[Span, Span]]


def own_edges(root: Path) -> tuple[list[Span], Edges]:
    """Index the tree; return its functions and classes, and the calls between them."""
    with tempfile.TemporaryDirectory() as folder:
        connection: sqlite3.Connection = connect_store(Path(folder) / "memory.db")
        index_repository(connection, find_root(root), IndexSettings(), now=2e9)
        found = connection.execute(
            "SELECT id, path, start_line, end_line, entity FROM memory WHERE language = 'python'"
            " AND kind IN ('function', 'method', 'class')"
        )
        spans = {name: Span(*row) for name, *row in found}
        linked = connection.execute("SELECT source, target FROM edge WHERE relation = 'calls'").fetchall()
    return list(spans.values()), {(spans[a], spans[b]) for a, b in linked if a in spans and b in spans}


def calls_of(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield line and column of the last part of each called name; a decorator is a call too."""
    for node in ast.walk(tree):
        called: list[ast.expr] = [node.func] if isinstance(node, ast.Call) else []
        called += getattr(node, "decorator_list", [])
        for one in called:
            if isinstance(one, ast.Name):
                yield one.lineno, one.col_offset
            elif isinstance(one, ast.Attribute) and one.end_lineno and one.end_col_offset:
                yield one.end_lineno, one.end_col_offset - len(one.attr)


def jedi_edges(root: Path, spans: list[Span]) -> Edges:
    """Return the calls between these entities that jedi finds."""
    import jedi  # may not be installed

    by_path: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_path[span.path].append(span)
    edges: Edges = set()
    project = jedi.Project(root)
    for path in sorted(by_path):
        text = (root / path).read_text("utf-8")
        script = jedi.Script(text, path=root / path, project=project)
        for line, column in calls_of(ast.parse(text)):
            source = holder(by_path[path], line)
            if source is None:
                continue
            for found in script.goto(line, column, follow_imports=True):
                place = found.module_path
                if found.type in ("function", "class") and place and place.is_relative_to(root):
                    target = defined(by_path.get(str(place.relative_to(root)), []), found.line, found.name)
                    if target is not None and target != source:
                        edges.add((source, target))
    return edges


def holder(spans: list[Span], line: int) -> Span | None:
    """Return the innermost entity that holds a line."""
    return min((s for s in spans if s.start <= line <= s.end), key=lambda s: s.end - s.start, default=None)


def defined(spans: list[Span], line: int | None, name: str) -> Span | None:
    """Return the entity of this name around its definition."""
    held = [s for s in spans if line and s.start <= line <= s.end and s.name.partition("#")[0].endswith(name)]
    return min(held, key=lambda s: s.end - s.start, default=None)


def main() -> None:
    """Print both figures, and some of the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--show", type=int, default=0)
    given = parser.parse_args()
    root = given.path.resolve()
    spans, ours = own_edges(root)
    theirs = jedi_edges(root, spans)
    both = ours & theirs
    print(f"{root.name}: {len(theirs)} call edges by jedi, {len(ours)} by xscore, {len(both)} by both")
    print(f"precision {len(both) / max(1, len(ours)):.3f}, recall {len(both) / max(1, len(theirs)):.3f}")
    for label, edges in (("missed", theirs - ours), ("extra", ours - theirs)):
        for source, target in sorted(edges)[: given.show]:
            print(f"{label}: {source.path}:{source.start} {source.name} -> {target.path}:{target.start} {target.name}")


if __name__ == "__main__":
    main()
