"""The edges of a Python tree against what others know: calls against jedi, test links against a run's coverage.

    python benchmarks/call_graph.py PATH [--show 10] [--coverage FILE]

The calls need jedi (not installed with xscore). Functions, methods and classes count, on both ends, and a decorator is
a call. jedi follows each called name to its definition; a name that it cannot follow is no edge. FILE is what coverage
wrote of the tree's tests under `dynamic_context = test_function`: a link is right if its test ran a line of the target.
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

from xscore.indexer.index import index_repository
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


CALLERS = "('function', 'method', 'class')"


def own_edges(root: Path, relation: str = "calls", sources: str = CALLERS) -> tuple[list[Span], Edges]:
    """Index the tree; return its entities, and the edges of this relation from these kinds to functions and classes."""
    with tempfile.TemporaryDirectory() as folder:
        connection: sqlite3.Connection = connect_store(Path(folder) / "memory.db")
        index_repository(connection, find_root(root), IndexSettings(), now=2e9)
        ends = [
            {
                name: Span(*row)
                for name, *row in connection.execute(
                    "SELECT id, path, start_line, end_line, entity FROM memory"
                    f" WHERE language = 'python' AND kind IN {kinds}"
                )
            }
            for kinds in (sources, CALLERS)
        ]
        linked = connection.execute("SELECT source, target FROM edge WHERE relation = ?", (relation,)).fetchall()
    return list(ends[0].values()), {(ends[0][a], ends[1][b]) for a, b in linked if a in ends[0] and b in ends[1]}


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


def lines_run(file: Path, root: Path) -> dict[str, dict[str, set[int]]]:
    """Return the lines that each test ran, by its name, then by path."""
    ran: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as opened:
        for test, path, bits in opened.execute(
            "SELECT context, path, numbits FROM line_bits JOIN context ON context.id = context_id"
            " JOIN file ON file.id = file_id WHERE context != ''"
        ):
            place = Path(path)
            if place.is_relative_to(root):
                numbers = {8 * at + bit for at, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1}
                ran[test][str(place.relative_to(root))] |= numbers
    return ran


def check_tests(root: Path, file: Path, *, show: int) -> None:
    """Print how many links of the tests that ran lead to what they ran, and how many of the tests have one."""
    tests, edges = own_edges(root, "tests", "('test')")
    ran = lines_run(file, root)
    by_end = {name.rpartition(".")[2]: [one for one in ran if one.endswith(name.rpartition(".")[2])] for name in ran}
    context: dict[Span, str] = {}
    for test in tests:
        written = f".{test.path.removesuffix('.py').replace('/', '.')}.{test.name}"
        found = [one for one in by_end.get(test.name.rpartition(".")[2], ()) if written.endswith(f".{one}")]
        context |= {test: found[0]} if found else {}
    known = [(test, target) for test, target in sorted(edges) if test in context]
    right = {
        (test, target)
        for test, target in known
        if not ran[context[test]][target.path].isdisjoint(range(target.start, target.end + 1))
    }
    linked = {test for test, _ in right}
    print(f"{root.name}: {len(context)} tests ran, {len(known)} links of theirs, {len(right)} lead to what they ran")
    print(f"precision {len(right) / max(1, len(known)):.3f}; {len(linked)} tests have a right one")
    for test, target in [pair for pair in known if pair not in right][:show]:
        print(f"extra: {test.path}:{test.start} {test.name} -> {target.path}:{target.start} {target.name}")
    for test in sorted(context.keys() - linked)[:show]:
        print(f"none: {test.path}:{test.start} {test.name}")


def main() -> None:
    """Print both figures, and some of the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--coverage", type=Path)
    given = parser.parse_args()
    root = given.path.resolve()
    if given.coverage:
        check_tests(root, given.coverage, show=given.show)
        return
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
