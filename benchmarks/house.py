"""The size of the house, as a stranger meets it: lines, imports, names, words, and what one turn
loads.

    python benchmarks/house.py [--json] [--fast]

All figures are counted from the source, but for the last group: `--fast` leaves out what runs the
command. CPU is given as a multiple of `python -c "import click"`, measured in the same run, so that
the machine does not matter.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

CHECKOUT = Path(__file__).resolve().parents[1]
PACKAGE = CHECKOUT / "xscore"
GOALS = {
    "source files": 300,
    "source lines": 38_000,
    "test lines": 38_000,
    "modules of a turn": 100,
    "lines of a turn": 13_000,
    "files a task enters": 30,
    "hops of a task": 90,
    "import depth": 14,
    "modules with one importer": 60,
    "class names defined twice": 0,
    "longest function": 68,
    "top-level commands": 21,
    "options of ask shown": 20,
    "settings": 75,
    "glossary rows": 40,
    "words of docs": 25_000,
    "words of README": 900,
    "status, CPU": 3.0,
    "cached ask, CPU": 5.0,
}
"""Upper limits; `status` and `ask` in multiples of importing click."""
FILES, FUNCTIONS = 100, 100
"""Of the repository in which the command is run: 10,000 memories."""
SCRIPT = {
    "default": 0.03,
    "answer": "In total.",
    "rules": [{"entity": "price_of_7_in_3", "score": 0.95, "reason": "asked"}],
}
TASK = "Where are the prices summed?"
TRACED = """
import json, sys
task, package = sys.argv[1], sys.argv[2]
files, hops, last = set(), 0, None

def carries(value):
    return value is not None and (value == task if isinstance(value, str) else getattr(value, "task", None) == task)

def seen(frame, event, _):
    global hops, last
    name = frame.f_code.co_filename
    if event == "call" and name.startswith(package):
        count = frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount
        if any(carries(frame.f_locals.get(arg)) for arg in frame.f_code.co_varnames[:count]):
            files.add(name)
            hops += last not in (None, name)
            last = name

from xscore.cli import main
sys.argv = ["xscore", *sys.argv[3:]]
sys.setprofile(seen)
try:
    main.run_command_line()
except SystemExit:
    pass
sys.setprofile(None)
own = [m for name, m in sys.modules.items() if name.split(".")[0] == "xscore" and getattr(m, "__file__", None)]
print(json.dumps([sorted(m.__file__ for m in own), len(files), hops]), file=sys.stderr)
"""  # noqa: E501  its lines are read by others


@cache
def sources(folder: Path) -> dict[Path, ast.Module]:
    """Parse every Python file below a folder."""
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(folder.rglob("*.py"))}


def lines(paths: Iterable[Path]) -> int:
    """Count the lines of files."""
    return sum(path.read_text("utf-8").count("\n") for path in paths)


def module_name(path: Path) -> str:
    """Return the dotted name of a module of the package."""
    return ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")


def imports(tree: ast.Module, module_names: set[str], *, top: bool) -> Iterator[str]:
    """Name the modules of the package that a module imports; top: leave out what a function
    imports."""
    for node in tree.body if top else ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                full = f"{node.module}.{name.name}"
                if (
                    imported := full
                    if full in module_names
                    else node.module
                    if node.module in module_names
                    else ""
                ):
                    yield imported


def depth(graph: dict[str, set[str]]) -> int:
    """Return how many modules the longest chain of imports has."""

    @cache
    def below(name: str) -> int:
        return 1 + max((below(imported) for imported in graph[name] if imported != name), default=0)

    return max(map(below, graph))


def counted_from_source() -> dict[str, float]:
    """Measure what needs no run."""
    trees = sources(PACKAGE)
    module_names = {module_name(path) for path in trees}
    graph = {
        module_name(path): set(imports(tree, module_names, top=True))
        for path, tree in trees.items()
    }
    importers = Counter(
        name
        for path, tree in trees.items()
        for name in set(imports(tree, module_names, top=False)) - {module_name(path)}
    )
    packages = {module_name(path) for path in trees if path.name == "__init__.py"}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    classes = Counter(
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {
        "source files": len(trees),
        "source lines": lines(trees),
        "test files": len(sources(CHECKOUT / "tests")),
        "test lines": lines(sources(CHECKOUT / "tests")),
        "import depth": depth(graph),
        "modules with one importer": sum(
            count == 1 for name, count in importers.items() if name not in packages
        ),
        "class names defined twice": sum(count > 1 for count in classes.values()),
        "longest function": max((n.end_lineno or 0) - n.lineno + 1 for n in functions),
        "files past 400 lines": sum(lines([path]) > 400 for path in trees),
        **counted_from_docs(),
    }


def counted_from_docs() -> dict[str, float]:
    """Count words written by hand, rows of the glossary and what the references list."""
    pages = [*(CHECKOUT / "docs").rglob("*.md"), CHECKOUT / "README.md"]
    by_hand = [page for page in pages if "<!-- Generated" not in page.read_text("utf-8")]
    glossary = CHECKOUT / "docs" / "glossary.md"
    settings = (CHECKOUT / "docs" / "reference" / "settings.md").read_text("utf-8")
    return {
        "words of docs": sum(len(page.read_text("utf-8").split()) for page in by_hand),
        "words of README": len((CHECKOUT / "README.md").read_text("utf-8").split()),
        "glossary rows": len(re.findall(r"^\| (?!word|---)", glossary.read_text("utf-8"), re.M)),
        "settings": len(set(re.findall(r"`(XSCORE_\w+)`", settings))),
    }


def build(folder: Path) -> None:
    """Write the repository, and a script that judges it."""
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    (folder / "repo" / "shop").mkdir(parents=True)
    for number in range(FILES):
        body = (
            f'def price_of_{index}_in_{number}(items):\n    """Sum prices {index}."""\n    return'
            f" sum(items) + {index}\n"
            for index in range(FUNCTIONS)
        )
        (folder / "repo" / "shop" / f"cart_{number}.py").write_text("\n\n".join(body))
    subprocess.run(["git", "init", "-q"], cwd=folder / "repo", check=True)


def run(arguments: list[str], *, folder: Path) -> tuple[float, str, str]:
    """Run Python in a home of its own; return CPU seconds, standard output and standard error."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(CHECKOUT)}
    before = getrusage(RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder / "repo",
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    after = getrusage(RUSAGE_CHILDREN)
    return (
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        done.stdout,
        done.stderr,
    )


def least_cpu(arguments: list[str], *, folder: Path, times: int = 5) -> float:
    """Return the least CPU seconds of several runs."""
    return min(run(arguments, folder=folder)[0] for _ in range(times))


def measured_by_running() -> dict[str, float]:
    """Measure what one plain `ask` loads and walks through, and what small commands cost."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        script = f"scripted:{folder / 'script.json'}"
        ask = [
            "-m",
            "xscore",
            "ask",
            TASK,
            "--judge",
            script,
            "--model",
            script,
            "--no-answer",
            "--json",
            "-q",
            "-y",
        ]
        run(ask, folder=folder)
        loaded, files, hops = json.loads(
            run(["-c", TRACED, TASK, str(PACKAGE), *ask[2:]], folder=folder)[2]
            .strip()
            .splitlines()[-1]
        )
        click = least_cpu(["-c", "import click"], folder=folder)
        _, out, _ = run(["-m", "xscore", "--help"], folder=folder)
        _, shown, _ = run(["-m", "xscore", "ask", "--help"], folder=folder)
        return {
            "modules of a turn": len(loaded),
            "lines of a turn": lines(map(Path, loaded)),
            "files a task enters": files,
            "hops of a task": hops,
            "top-level commands": len(
                re.findall(r"^  [a-z]+(?=  )", out.partition("--help")[2], re.M)
            ),
            "options of ask shown": len(
                re.findall(r"^  (?:-\w, )?--", shown.partition("Advanced")[0], re.M)
            ),
            "options of ask": len(re.findall(r"^  (?:-\w, )?--", shown, re.M)),
            "status, CPU": round(least_cpu(["-m", "xscore", "status"], folder=folder) / click, 1),
            "cached ask, CPU": round(least_cpu(ask, folder=folder) / click, 1),
        }


def main() -> int:
    """Print every figure beside its goal; the goals are told, not enforced."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--fast", action="store_true", help="count only what needs no run")
    options = parser.parse_args()
    figures = counted_from_source() | ({} if options.fast else measured_by_running())
    if options.json:
        print(json.dumps(figures, indent=2))
        return 0
    for name, figure in figures.items():
        goal = GOALS.get(name)
        beside = "" if goal is None else f"   goal {goal:,}{'   OVER' if figure > goal else ''}"
        print(f"{name:<28}{figure:>10,}{beside}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
