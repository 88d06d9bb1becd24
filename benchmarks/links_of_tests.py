"""The test links of a Python tree against what its tests ran; `graph.py` measures its calls.

    python benchmarks/links_of_tests.py PATH COVERAGE [--show 10]

COVERAGE is what coverage wrote of the tree's tests under `dynamic_context = test_function`: a link
is right if its test ran a line of the target.
"""

import argparse
import sqlite3
import sys
import tempfile
from collections import defaultdict
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


def own_edges(
    root: Path, relation: str = "calls", sources: str = CALLERS
) -> tuple[list[Span], Edges]:
    """Index the tree; return its entities, and the edges of this relation from these kinds to
    functions and classes."""
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
        linked = connection.execute(
            "SELECT source, target FROM edge WHERE relation = ?", (relation,)
        ).fetchall()
    return list(ends[0].values()), {
        (ends[0][a], ends[1][b]) for a, b in linked if a in ends[0] and b in ends[1]
    }


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
                numbers = {
                    8 * at + bit
                    for at, byte in enumerate(bits)
                    for bit in range(8)
                    if byte >> bit & 1
                }
                ran[test][str(place.relative_to(root))] |= numbers
    return ran


def check_tests(root: Path, file: Path, *, show: int) -> None:
    """Print how many links of the tests that ran lead to what they ran, and how many of the tests
    have one."""
    tests, edges = own_edges(root, "tests", "('test')")
    ran = lines_run(file, root)
    by_end = {
        name.rpartition(".")[2]: [
            name_of_run for name_of_run in ran if name_of_run.endswith(name.rpartition(".")[2])
        ]
        for name in ran
    }
    context: dict[Span, str] = {}
    for test in tests:
        written = f".{test.path.removesuffix('.py').replace('/', '.')}.{test.name}"
        matches = [
            name_of_run
            for name_of_run in by_end.get(test.name.rpartition(".")[2], ())
            if written.endswith(f".{name_of_run}")
        ]
        context |= {test: matches[0]} if matches else {}
    run_links = [(test, target) for test, target in sorted(edges) if test in context]
    right = {
        (test, target)
        for test, target in run_links
        if not ran[context[test]][target.path].isdisjoint(range(target.start, target.end + 1))
    }
    linked = {test for test, _ in right}
    print(
        f"{root.name}: {len(context)} tests ran, {len(run_links)} links of theirs,"
        f" {len(right)} lead to what they ran"
    )
    print(
        f"precision {len(right) / max(1, len(run_links)):.3f}; {len(linked)} tests have a right one"
    )
    for test, target in [pair for pair in run_links if pair not in right][:show]:
        print(
            f"extra: {test.path}:{test.start} {test.name} -> {target.path}:{target.start}"
            f" {target.name}"
        )
    for test in sorted(context.keys() - linked)[:show]:
        print(f"none: {test.path}:{test.start} {test.name}")


def main() -> None:
    """Print the figures, and some of the differences."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("coverage", type=Path)
    parser.add_argument("--show", type=int, default=0)
    options = parser.parse_args()
    check_tests(options.path.resolve(), options.coverage, show=options.show)


if __name__ == "__main__":
    main()
