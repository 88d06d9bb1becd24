"""What the sources say of themselves is held: pure rooms, hints, reasons beside ignores, one edge for exceptions."""

import ast
import re
import tomllib
from pathlib import Path

import xscore
from xscore.platform import errors

PACKAGE = Path(xscore.__file__).parent
SOURCES = {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
NAMES = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
PURE = re.compile(r"\bPure\b(?! but| Python)|\bPure but for the texts")


def module_of(path: Path) -> str:
    """Name the module of a source file."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def test_a_module_that_calls_itself_pure_is_held_to_it() -> None:
    """Every module whose docstring says so stands, by itself or with its room, in a contract of import-linter."""
    rules = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    held = {module for rule in rules if rule["type"] == "forbidden" for module in rule["source_modules"]}
    said = {module_of(path) for path, text in SOURCES.items() if PURE.search(ast.get_docstring(ast.parse(text)) or "")}
    assert len(said) > 10
    loose = {module for module in said if not any(f"{module}.".startswith(f"{room}.") for room in held)}
    assert loose == set()


def test_every_error_says_what_to_do_next() -> None:
    """Wherever a leaf of the tree is raised by name, it brings a hint."""
    bare = [
        f"{module_of(path)}:{node.lineno}"
        for path, text in SOURCES.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name)
        if node.exc.func.id in NAMES and all(keyword.arg != "hint" for keyword in node.exc.keywords)
    ]
    assert bare == []


def test_every_ignore_has_its_reason_beside_it() -> None:
    """`noqa` and `type: ignore` name a rule and are followed by words."""
    ignores = re.compile(r"#\s*(?:noqa|type: ignore)(.*)$", re.MULTILINE)
    silent = [
        f"{module_of(path)}: {match[0]}"
        for path, text in SOURCES.items()
        for match in ignores.finditer(text)
        if not re.match(r"(?::? ?\[?[\w, -]+\]?)\s{2,}(?:# )?\w+", match[1])
    ]
    assert silent == []


def test_every_module_says_what_it_is_for() -> None:
    """A module opens with a docstring and has at most 400 lines."""
    assert [module_of(path) for path, text in SOURCES.items() if not ast.get_docstring(ast.parse(text))] == []
    assert [module_of(path) for path, text in SOURCES.items() if text.count("\n") > 400] == []


def test_exceptions_are_caught_whole_only_at_the_edge() -> None:
    """`except Exception` stands in `cli.failures`, once, and nowhere else."""
    found = {module_of(path): text.count("except Exception") for path, text in SOURCES.items()}
    assert {module: count for module, count in found.items() if count} == {"xscore.cli.failures": 1}
