"""How hard the source is to read, and what a stranger meets: text, imports, words, and one turn.

    python benchmarks/house.py [--json] [--fast]

All figures are counted from the source, but for the last group: `--fast` leaves out what runs the
command. CPU is given as a multiple of `python -c "import click"`, measured in the same run, so that
the machine does not matter.
"""

import argparse
import ast
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT))  # for `tests.servers`

from tests.servers import OpenAIServer  # noqa: E402  found by the path set above
from tests.servers.decision_server import DecisionServer  # noqa: E402  found by the path set above
from xscore.providers.scripted import ShownMemory  # noqa: E402  found by the path set above

PACKAGE = CHECKOUT / "xscore"
GOALS = {
    "modules of a first ask": 115,
    "lines of a first ask": 21_000,
    "functions of a first ask": 1_200,
    "files a task enters": 30,
    "hops of a task": 80,
    "carriers of a task": 8,
    "import depth": 14,
    "class names defined twice": 0,
    "longest function": 50,
    "tokens a statement": 11,
    "comprehensions a kloc": 25,
    "nested comprehensions a kloc": 1,
    "conditional expressions a kloc": 20,
    "vague locals, %": 2,
    "imports within functions": 120,
    "top-level commands": 21,
    "options of ask shown": 20,
    "glossary rows": 40,
    "words of docs": 25_000,
    "words of README": 900,
    "status, CPU": 3.0,
    "cached ask, CPU": 5.0,
}
"""Upper limits; `status` and `ask` in multiples of importing click."""
FILES, FUNCTIONS = 100, 100
"""Size of the repository in which commands are timed: 10,000 memories."""
WANTED_NAME = "price_of_7_in_3"
SCRIPT = {
    "default": 0.03,
    "answer": "In total.",
    "rules": [{"entity": WANTED_NAME, "score": 0.95, "reason": "asked"}],
}
TASK = "Where are the prices summed?"
JUDGE, ANSWERER = "systemone:jev-1.14.0", "openai:gpt-6-luna"
TRACED = """
import dis, json, sys
from functools import cache
task, package = sys.argv[1], sys.argv[2]
functions, files, carriers, hops, last = set(), set(), set(), 0, None

@cache
def first_resume(code):
    # where a call begins; a coroutine that goes on after an await resumes further down
    return next(step.offset for step in dis.get_instructions(code) if step.opname == "RESUME")

def is_task(value):
    return value == task if isinstance(value, str) else getattr(value, "task", None) == task

def carries(value):
    # through two levels of records: a record with the task, or one that holds such a record
    if value is None or is_task(value):
        return value is not None
    names = getattr(type(value), "__struct_fields__", ())
    parts = (getattr(value, name, None) for name in names) if isinstance(names, tuple) else ()
    return any(part is not None and is_task(part) for part in parts)

def seen(frame, event, _):
    global hops, last
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(package):
        return
    functions.add((code.co_filename, code.co_qualname))
    if frame.f_lasti > first_resume(code):
        return  # no new call, so no hop
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    holders = [value for value in map(frame.f_locals.get, names) if carries(value)]
    if holders:
        carriers.update(type(value).__name__ for value in holders if not isinstance(value, str))
        files.add(code.co_filename)
        hops += last not in (None, code.co_filename)
        last = code.co_filename

from xscore.cli import main
sys.argv = ["xscore", *sys.argv[3:]]
sys.setprofile(seen)
try:
    main.run_command_line()
except SystemExit:
    pass
sys.setprofile(None)
own = [module for name, module in sys.modules.items() if name.split(".")[0] == "xscore"]
paths = sorted(module.__file__ for module in own if getattr(module, "__file__", None))
print(json.dumps([paths, len(functions), len(files), hops, len(carriers)]), file=sys.stderr)
"""
VAGUE_NAMES = frozenset(
    """
    found one each said other others known given what own left most made told here there whole
    wanted asked more some again
    """.split()
)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


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


def code_tokens(source: str) -> tuple[int, int]:
    """Count tokens, and lines that hold one; docstrings and comments are no code."""
    tokens, rows = 0, set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_on_one_line = token.type == tokenize.STRING and token.start[0] == token.end[0]
        if token.type in {tokenize.NAME, tokenize.OP, tokenize.NUMBER} or is_on_one_line:
            tokens += 1
            rows.add(token.start[0])
    return tokens, len(rows)


def is_statement(node: ast.AST) -> bool:
    """Whether it is a statement, docstrings apart."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return not isinstance(node.value.value, str)
    return isinstance(node, ast.stmt)


def read_as_text(trees: Mapping[Path, ast.Module]) -> dict[str, float]:
    """Measure how hard the statements are to read, whatever the formatting."""
    counts = [code_tokens(path.read_text("utf-8")) for path in trees]
    tokens = sum(count for count, _ in counts)
    kloc = sum(rows for _, rows in counts) / 1000
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    comprehensions = [node for node in nodes if isinstance(node, COMPREHENSIONS)]
    nested = sum(len(node.generators) > 1 for node in comprehensions)
    conditionals = sum(isinstance(node, ast.IfExp) for node in nodes)
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    # Names of nested functions count with each function around them.
    names = [
        inner.id
        for function in functions
        for inner in ast.walk(function)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    ]
    vague = sum(name in VAGUE_NAMES for name in names)
    late = [
        statement
        for function in functions
        for statement in function.body
        if isinstance(statement, ast.Import | ast.ImportFrom)
    ]
    return {
        "tokens a statement": round(tokens / sum(map(is_statement, nodes)), 1),
        "tokens a code line": round(tokens / kloc / 1000, 1),
        "comprehensions a kloc": round(len(comprehensions) / kloc, 1),
        "nested comprehensions a kloc": round(nested / kloc, 1),
        "conditional expressions a kloc": round(conditionals / kloc, 1),
        "vague locals, %": round(100 * vague / len(names), 1),
        "imports within functions": len(late),
    }


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
        return 1 + max(
            (below(imported) for imported in graph[name] if imported != name), default=0
        )

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
        **read_as_text(trees),
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
        "glossary rows": len(
            re.findall(r"^\| (?!word|---)", glossary.read_text("utf-8"), re.M)
        ),
        "settings": len(set(re.findall(r"`(XSCORE_\w+)`", settings))),
    }


def build(folder: Path, *, files: int = FILES) -> None:
    """Write a repository of a hundred functions a file, and a script that judges it."""
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    (folder / "repo" / "shop").mkdir(parents=True)
    for number in range(files):
        body = (
            f'def price_of_{index}_in_{number}(items):\n    """Sum prices {index}."""\n    return'
            f" sum(items) + {index}\n"
            for index in range(FUNCTIONS)
        )
        (folder / "repo" / "shop" / f"cart_{number}.py").write_text("\n\n".join(body))
    subprocess.run(["git", "init", "-q"], cwd=folder / "repo", check=True)


def run(
    arguments: list[str], *, folder: Path, environ: Mapping[str, str] | None = None
) -> tuple[float, str, str]:
    """Run Python in a home of its own; return CPU seconds, standard output and standard error."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(CHECKOUT)}
    variables |= environ or {}
    before = getrusage(RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder / "repo",
        env=variables,
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


def traced_first_ask() -> dict[str, float]:
    """Measure a first turn judged by a decision model on loopback, answered, printed as text."""
    with (
        tempfile.TemporaryDirectory() as name,
        DecisionServer(score=score_by_name) as judge,
        OpenAIServer() as answerer,
    ):
        folder = Path(name)
        build(folder, files=5)
        hosts = {
            "SYSTEMONE_BASE_URL": judge.url,
            "OPENAI_BASE_URL": answerer.url,
            "OPENAI_API_KEY": "loopback",
        }
        ask = ["ask", TASK, "--judge", JUDGE, "--model", ANSWERER, "-y"]
        traced = ["-c", TRACED, TASK, str(PACKAGE), *ask]
        _, answer, messages = run(traced, folder=folder, environ=hosts)
        if not answer.strip():
            raise SystemExit(f"the turn gave no answer: {messages}")
        paths, functions, files, hops, carriers = json.loads(messages.strip().splitlines()[-1])
        return {
            "modules of a first ask": len(paths),
            "lines of a first ask": lines(map(Path, paths)),
            "functions of a first ask": functions,
            "files a task enters": files,
            "hops of a task": hops,
            "carriers of a task": carriers,
        }


def score_by_name(memory: ShownMemory, _turn: str) -> int:
    """Find one function relevant and nothing else."""
    return 95 if memory.entity == WANTED_NAME else 3


def measured_by_running() -> dict[str, float]:
    """Measure what small commands cost, and what their help shows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        script = f"scripted:{folder / 'script.json'}"
        models = ["--judge", script, "--model", script]
        ask = ["-m", "xscore", "ask", TASK, *models, "--no-answer", "--json", "-q", "-y"]
        run(ask, folder=folder)
        click = least_cpu(["-c", "import click"], folder=folder)
        _, help_text, _ = run(["-m", "xscore", "--help"], folder=folder)
        _, ask_help, _ = run(["-m", "xscore", "ask", "--help"], folder=folder)
        commands = re.findall(r"^  [a-z]+(?=  )", help_text.partition("--help")[2], re.M)
        option = re.compile(r"^  (?:-\w, )?--", re.M)
        return {
            "top-level commands": len(commands),
            "options of ask shown": len(option.findall(ask_help.partition("Advanced")[0])),
            "options of ask": len(option.findall(ask_help)),
            "status, CPU": round(
                least_cpu(["-m", "xscore", "status"], folder=folder) / click, 1
            ),
            "cached ask, CPU": round(least_cpu(ask, folder=folder) / click, 1),
        }


def main() -> int:
    """Print every figure with its goal; the goals are printed, not enforced."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--fast", action="store_true", help="count only what needs no run")
    options = parser.parse_args()
    figures = counted_from_source()
    if not options.fast:
        figures |= traced_first_ask() | measured_by_running()
    if options.json:
        print(json.dumps(figures, indent=2))
        return 0
    for name, figure in figures.items():
        goal = GOALS.get(name)
        goal_text = (
            "" if goal is None else f"   goal {goal:,}{'   OVER' if figure > goal else ''}"
        )
        print(f"{name:<28}{figure:>10,}{goal_text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
