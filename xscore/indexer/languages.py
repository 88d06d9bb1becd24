"""The table of languages, and the files that module names stand for.

A new language costs a row here and a `queries/<name>.scm`; the cutters know only the captures that `queries/README.md`
lists. What no row claims is read as windows of lines. A *reference* is how a module is remembered in the store:
`./src/pkg/x` is a place in this repository, `pkg/x` is a name that some file path may end in. Resolving needs only the
list of paths. Trade-off: no path aliases of bundlers, no installed packages; what does not resolve counts as foreign.
"""

import posixpath
import re
from collections.abc import Iterable
from enum import StrEnum
from functools import cache

from msgspec import Struct


class FileShape(StrEnum):
    """How a file is cut into memories."""

    CODE = "code"
    """Functions, classes, and blocks between them."""
    PROSE = "prose"
    """Sections by heading."""
    CONFIG = "config"
    """Top-level tables or keys with their comments."""
    TEXT = "text"
    """Windows of lines."""


class Language(Struct, frozen=True, kw_only=True):
    """One row of the table."""

    name: str
    shape: FileShape
    suffixes: tuple[str, ...]
    filenames: tuple[str, ...] = ()
    grammar: str = ""
    """`module:function` of a grammar wheel; empty: the file is cut by line rules alone."""
    queries: tuple[str, ...] = ()
    """Query files by name, joined in this order."""
    family: str = ""
    """Languages of one family may call and import each other; empty: the name."""
    module_suffixes: tuple[str, ...] = ()
    """What a module path may end in on disk, best first: `.py`, `/__init__.py`."""
    module_separator: str = "/"
    """Between the parts of a module name: `.` in Python, `/` in JavaScript."""
    receivers: tuple[str, ...] = ()
    """What a method calls its own object: `self`, `this`."""
    test_files: str = ""
    """Regular expression over paths of test files, beside the folders that hold tests in any language."""
    test_classes: str = ""
    """Regular expression over a class header that makes it a test wherever it stands."""
    placeholder: str = "..."
    """Stands for a body that is a memory of its own."""


_PYTHON = Language(
    name="python",
    shape=FileShape.CODE,
    suffixes=(".py", ".pyi", ".pyw"),
    grammar="tree_sitter_python:language",
    queries=("python",),
    module_suffixes=(".py", "/__init__.py", ".pyi", "/__init__.pyi"),
    module_separator=".",
    receivers=("self", "cls", "super()"),
    test_files=r"(^|/)(test_[^/]*|[^/]*_test|conftest)\.pyi?$|^testing/",
    test_classes=r"\bTestCase\b",
)

_SCRIPTS = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".d.ts")


def _script(name: str, suffixes: str, grammar: str, queries: str) -> Language:
    return Language(
        name=name,
        shape=FileShape.CODE,
        suffixes=tuple(suffixes.split()),
        grammar=grammar,
        queries=tuple(queries.split()),
        family="javascript",
        module_suffixes=(*_SCRIPTS, *(f"/index{suffix}" for suffix in _SCRIPTS)),
        receivers=("this", "super"),
        test_files=r"[.-](test|spec)\.[cm]?[jt]sx?$|(^|/)test/",
        placeholder="{ ... }",
    )


def _parsed(name: str, shape: FileShape, suffixes: str, filenames: str = "") -> Language:
    """Describe a language whose grammar wheel and query file bear its name."""
    return Language(
        name=name,
        shape=shape,
        suffixes=tuple(suffixes.split()),
        filenames=tuple(filenames.split()),
        grammar=f"tree_sitter_{name}:language",
        queries=(name,),
    )


_TEXTS = """
    c .c .h
    cpp .cc .cpp .cxx .hh .hpp .hxx
    csharp .cs
    css .css .scss .sass .less
    go .go
    html .html .htm .jinja .j2 .vue .svelte
    java .java
    kotlin .kt .kts
    php .php
    ruby .rb .rake Rakefile Gemfile
    rust .rs
    shell .sh .bash .zsh .fish
    sql .sql
    swift .swift
    xml .xml .xsd
    cython .pyx .pxd
    make .mk Makefile GNUmakefile
    docker .dockerfile Dockerfile Containerfile
"""
"""Cut into windows of lines: a name, then suffixes and file names."""


def _text(row: str) -> Language:
    name, *claims = row.split()
    suffixes = tuple(claim for claim in claims if claim.startswith("."))
    return Language(name=name, shape=FileShape.TEXT, suffixes=suffixes, filenames=tuple(claims[len(suffixes) :]))


LANGUAGES: tuple[Language, ...] = (
    _PYTHON,
    _script("javascript", ".js .jsx .mjs .cjs", "tree_sitter_javascript:language", "ecmascript javascript jsx"),
    _script("typescript", ".ts .mts .cts", "tree_sitter_typescript:language_typescript", "ecmascript typescript"),
    _script("tsx", ".tsx", "tree_sitter_typescript:language_tsx", "ecmascript typescript jsx"),
    _parsed("markdown", FileShape.PROSE, ".md .markdown .mdx"),
    Language(name="restructuredtext", shape=FileShape.PROSE, suffixes=(".rst",)),
    _parsed("toml", FileShape.CONFIG, ".toml"),
    _parsed("yaml", FileShape.CONFIG, ".yaml .yml", ".clang-format CITATION.cff"),
    _parsed("json", FileShape.CONFIG, ".json .jsonc .json5 .webmanifest", ".babelrc .eslintrc .prettierrc"),
    Language(
        name="ini",
        shape=FileShape.CONFIG,
        suffixes=(".ini", ".cfg", ".conf", ".properties"),
        filenames=(".editorconfig", ".gitconfig", ".flake8", ".pylintrc", ".coveragerc", ".gitmodules"),
    ),
    *(_text(row) for row in _TEXTS.strip().splitlines()),
)

PLAIN_TEXT = Language(name="text", shape=FileShape.TEXT, suffixes=(".txt",))
"""What no row claims."""

_TEST_FOLDERS = r"(^|/)(tests|__tests__|specs?|e2e)/|^test/"


@cache
def _claims() -> tuple[dict[str, Language], dict[str, Language]]:
    by_suffix = {suffix: row for row in LANGUAGES for suffix in row.suffixes}
    by_filename = {name: row for row in LANGUAGES for name in row.filenames}
    return by_suffix, by_filename


@cache
def language_named(name: str) -> Language:
    """Return the row of this name; `PLAIN_TEXT` where there is none."""
    return next((row for row in LANGUAGES if row.name == name), PLAIN_TEXT)


def language_of(path: str) -> Language:
    """Return the row that claims this path, by file name, then by suffix."""
    by_suffix, by_filename = _claims()
    name = path.rpartition("/")[2]
    if name in by_filename:
        return by_filename[name]
    return by_suffix.get("." + name.rpartition(".")[2].lower(), PLAIN_TEXT) if "." in name else PLAIN_TEXT


def family_of(language: str) -> str:
    """Return the family in which a language's names resolve."""
    return language_named(language).family or language


@cache
def _pattern(expression: str) -> re.Pattern[str]:
    return re.compile(expression)


def is_test_path(path: str, language: Language) -> bool:
    """Whether a file holds tests, by its folder or name."""
    patterns = (_TEST_FOLDERS, language.test_files)
    return any(pattern and _pattern(pattern).search(path) for pattern in patterns)


def is_test_class(header: str, language: Language) -> bool:
    """Whether a class holds tests, by its header."""
    return bool(language.test_classes) and bool(_pattern(language.test_classes).search(header))


_SCRIPT_SUFFIXES = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx")


def module_reference(module: str, *, path: str, separator: str = "/", is_relative: bool = False) -> str:
    """Return the reference of a module that `path` names; empty where it leads out of the repository."""
    if separator == ".":
        return _dotted(module, path)
    if is_relative or module.startswith("."):
        joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), module))
        return "" if joined.startswith("..") else "./" + joined
    return module.removeprefix("@/").removeprefix("~/").split("?")[0]


def _dotted(module: str, path: str) -> str:
    name = module.lstrip(".")
    up = len(module) - len(name)
    parts = [part.strip() for part in name.split(".") if part.strip()]
    if not up:
        return "/".join(parts)
    folder = posixpath.dirname(path).split("/") if posixpath.dirname(path) else []
    if up - 1 > len(folder):
        return ""
    return "./" + "/".join([*folder[: len(folder) - (up - 1)], *parts])


class ModuleIndex:
    """The files of a repository, by the module names that may mean them."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._by_tail: dict[str, list[tuple[str, str]]] = {}
        for path in sorted(self._paths):
            for stem in _stems(path):
                self._by_tail.setdefault(stem.rpartition("/")[2], []).append((stem, path))

    def resolve(self, target: str, *, importer: str, language: str) -> str:
        """Return the file that a reference in `importer` means; empty: none, or several as likely."""
        if target.startswith("./"):
            return self._at(target[2:], language)
        found = [
            (stem, path)
            for stem, path in self._by_tail.get(target.rpartition("/")[2], ())
            if stem == target or stem.endswith("/" + target)
            if _suits(path, language)
        ]
        if not target or not found:
            return ""
        best = max(found, key=lambda pair: (_shared(pair[1], importer), -len(pair[0]), pair[1]))
        tied = [p for s, p in found if (_shared(p, importer), len(s)) == (_shared(best[1], importer), len(best[0]))]
        return best[1] if len(tied) == 1 or len({_stems(p)[0] for p in tied}) == 1 else ""

    def _at(self, place: str, language: str) -> str:
        if place in self._paths:
            return place
        bare = [place]
        bare += [place.removesuffix(suffix) for suffix in _SCRIPT_SUFFIXES if place.endswith(suffix)]
        suffixes = language_named(language).module_suffixes or language_named(language).suffixes
        for stem in bare:
            for suffix in suffixes:
                path = (stem + suffix).removeprefix("/").removeprefix("./")
                if path in self._paths:
                    return path
        return ""


@cache
def _module_suffixes() -> tuple[str, ...]:
    suffixes = {suffix for row in LANGUAGES for suffix in row.module_suffixes}
    return tuple(sorted(suffixes, key=len, reverse=True))


def _stems(path: str) -> list[str]:
    """`src/pkg/__init__.py` -> `src/pkg`; `lib/a.js` -> `lib/a`."""
    return [path.removesuffix(suffix) for suffix in _module_suffixes() if path.endswith(suffix)][:1]


def _suits(path: str, language: str) -> bool:
    family = family_of(language)
    return any(
        path.endswith(row.module_suffixes or row.suffixes) for row in LANGUAGES if (row.family or row.name) == family
    )


def _shared(one: str, other: str) -> int:
    """Count the leading folders that two paths share."""
    count = 0
    for a, b in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if a != b:
            break
        count += 1
    return count
