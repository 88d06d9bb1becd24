"""What the sources claim is checked: pure rooms, hints, reasons next to ignores, one edge for
exceptions."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest

import xscore
from xscore.platform import errors

PACKAGE = Path(xscore.__file__).parent
SOURCES = {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
NAMES = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, Exception)
}
VAGUE_NAMES = frozenset(
    "found one each said other others known given what own left most made told here there whole"
    " wanted asked more some again".split()
)
"""Names that tell a reader nothing about their value."""
VAGUE_NAME_BUDGETS = {("xscore",): 19, ("tests", "benchmarks"): 0}
"""How many locals and parameters of each tree may still have such a name; only ever lowered."""
PURE = re.compile(r"\bPure\b(?! but| Python)|\bPure but for the texts")


def module_of(path: Path) -> str:
    """Return the module of a source file."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


class ModuleFacts(NamedTuple):
    """What the promises ask of a module's source; the tree is parsed once and not kept."""

    docstring: str
    errors_without_hint: tuple[int, ...]
    """Lines that raise one of our errors by name, without a hint."""
    catch_alls: int
    """Handlers that catch everything and do not raise it again."""
    silent_imports: frozenset[int]
    """Lines of imports within functions that give no reason."""
    vague_names: tuple[tuple[int, str], ...]


@cache
def facts_by_path() -> dict[Path, ModuleFacts]:
    """Read every module of the package."""
    return {path: _facts_of(text) for path, text in SOURCES.items()}


def _facts_of(text: str) -> ModuleFacts:
    tree, lines = ast.parse(text), text.splitlines()
    errors_without_hint: list[int] = []
    catch_alls = 0
    silent_imports = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and _raises_without_hint(node):
            errors_without_hint.append(node.lineno)
        elif isinstance(node, ast.ExceptHandler) and _catches_all(node):
            catch_alls += 1
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            silent_imports |= set(_silent_imports(node, lines))
    return ModuleFacts(
        docstring=ast.get_docstring(tree) or "",
        errors_without_hint=tuple(errors_without_hint),
        catch_alls=catch_alls,
        silent_imports=frozenset(silent_imports),
        vague_names=tuple(_vague_names(tree)),
    )


def test_a_module_that_calls_itself_pure_is_held_to_it() -> None:
    """Every module whose docstring says so is in an import-linter contract, alone or with its
    room."""
    rules = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text("utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    held = {
        module
        for rule in rules
        if rule["type"] == "forbidden"
        for module in rule["source_modules"]
    }
    pure_modules = {
        module_of(path)
        for path, facts in facts_by_path().items()
        if PURE.search(facts.docstring)
    }
    assert len(pure_modules) > 10
    loose = {
        module
        for module in pure_modules
        if not any(f"{module}.".startswith(f"{room}.") for room in held)
    }
    assert loose == set()


def test_every_error_says_what_to_do_next() -> None:
    """Every error raised by name has a hint."""
    bare = [
        f"{module_of(path)}:{line}"
        for path, facts in facts_by_path().items()
        for line in facts.errors_without_hint
    ]
    assert bare == []


def test_every_ignore_has_its_reason_beside_it() -> None:
    """`noqa` and `type: ignore` name a rule and give a reason."""
    ignores = re.compile(r"#\s*(?:noqa|type: ignore)(.*)$", re.MULTILINE)
    root = PACKAGE.parent
    folders = [root / name for name in ("xscore", "tests", "benchmarks", "ci", "examples")]
    silent = [
        f"{path.relative_to(root)}: {match[0]}"
        for path in chain.from_iterable(folder.rglob("*.py") for folder in folders)
        if ".cache" not in path.parts  # what a benchmark downloaded
        for match in ignores.finditer(path.read_text("utf-8"))
        if not re.match(r"(?::? ?\[?[\w, -]+\]?)\s{2,}(?:# )?`?\w+", match[1])
    ]
    assert silent == []


@pytest.mark.parametrize("trees", VAGUE_NAME_BUDGETS)
def test_names_say_what_their_values_are(trees: tuple[str, ...]) -> None:
    """No more locals and parameters than budgeted are called `found`, `one`, `said` and the
    like."""
    root = PACKAGE.parent
    places: list[str] = []
    for path in chain.from_iterable((root / tree).rglob("*.py") for tree in trees):
        if ".cache" in path.parts:  # what a benchmark downloaded
            continue
        if path in SOURCES:
            vague_names: Sequence[tuple[int, str]] = facts_by_path()[path].vague_names
        else:
            vague_names = _vague_names(ast.parse(path.read_text("utf-8")))
        places += [f"{path.relative_to(root)}:{line} {name}" for line, name in vague_names]
    assert len(places) <= VAGUE_NAME_BUDGETS[trees], (
        f"choose names that say what the value is (VAGUE_NAMES: {' '.join(sorted(VAGUE_NAMES))}),"
        f" and lower VAGUE_NAME_BUDGETS with each that goes: {'; '.join(sorted(places))}"
    )


def test_every_module_says_what_it_is_for() -> None:
    """A module opens with a docstring."""
    assert [
        module_of(path) for path, facts in facts_by_path().items() if not facts.docstring
    ] == []


def test_exceptions_are_caught_whole_only_at_the_edge() -> None:
    """Catch-all handlers exist only at the command line and around others' code: plugins, grammars,
    iterators, Ray, Qdrant."""
    handlers = {
        module_of(path): facts.catch_alls
        for path, facts in facts_by_path().items()
        if facts.catch_alls
    }
    assert handlers == {
        "xscore.cli.start": 1,
        "xscore.extension": 1,
        "xscore.extensions.agents.hook_run": 1,
        "xscore.extensions.agents.tool_gate": 1,
        "xscore.extensions.batch.ray_engine": 1,
        "xscore.extensions.documents.readers": 1,
        "xscore.extensions.lists.items": 1,
        "xscore.extensions.lists.judging": 1,
        "xscore.extensions.vectors.qdrant_folder": 2,
        "xscore.indexer.grammars": 1,
        "xscore.platform.daemon_thread": 1,
        "xscore.providers.import_thread": 1,
    }


def test_every_import_within_a_function_says_why() -> None:
    """An import that is not at the top has its reason next to it or above it."""
    assert [
        f"{module_of(path)}:{line}"
        for path, facts in facts_by_path().items()
        for line in sorted(facts.silent_imports)
    ] == []


def _silent_imports(function: ast.AST, lines: Sequence[str]) -> Iterator[int]:
    """Yield the lines of imports within a function that have no reason."""
    for node in ast.walk(function):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not _has_reason(lines, node):
            yield node.lineno


def _has_reason(lines: Sequence[str], node: ast.Import | ast.ImportFrom) -> bool:
    """Whether a comment is on the lines of an import, above it, or on the import above it."""
    first = node.lineno - 1
    if any("#" in line for line in lines[first : node.end_lineno]):
        return True
    # One reason may serve several imports in a row, also across the blank line between groups.
    above = first - 1
    while above > 0 and not lines[above].strip():
        above -= 1
    line = lines[above].strip()
    return line.startswith("#") or (line.startswith(("import ", "from ")) and "#" in line)


def test_the_floor_plan_is_up_to_date() -> None:
    """The drawn floor plan matches the import contracts: `make docs` would change nothing."""
    plan = PACKAGE.parent / "benchmarks" / "floor_plan.py"
    assert subprocess.run([sys.executable, plan, "--check"], check=False).returncode == 0, (
        "run `make docs`"
    )


async def test_nothing_but_loopback_can_be_reached() -> None:
    """This suite's network guard also covers the providers' transport."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(AssertionError, match="tried to reach"):
            await session.get("http://192.0.2.1/", timeout=aiohttp.ClientTimeout(total=2))


def _vague_names(tree: ast.Module) -> list[tuple[int, str]]:
    """Return the line and name of every vague local and parameter of a module's functions."""
    places = set()
    for function in _outermost_functions(tree):
        for node in ast.walk(function):
            if isinstance(node, ast.arg):
                places.add((node.lineno, node.col_offset, node.arg))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                places.add((node.lineno, node.col_offset, node.id))
    return [(line, name) for line, _, name in sorted(places) if name in VAGUE_NAMES]


def _outermost_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the functions of a module that are in no other: walking each would walk the inner ones
    once more for every one around them."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
        else:
            yield from _outermost_functions(child)


def _raises_without_hint(node: ast.Raise) -> bool:
    """Whether one of our errors is raised by name, without a hint."""
    if not isinstance(node.exc, ast.Call) or not isinstance(node.exc.func, ast.Name):
        return False
    has_hint = any(keyword.arg == "hint" for keyword in node.exc.keywords)
    return node.exc.func.id in NAMES and not has_hint


def _catches_all(handler: ast.ExceptHandler) -> bool:
    """Whether it catches `Exception`, `BaseException` or everything, and does not raise it
    again."""
    if any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(handler)):
        return False
    if handler.type is None:
        return True
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(names & {"Exception", "BaseException"})
