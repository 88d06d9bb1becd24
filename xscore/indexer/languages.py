"""The table of languages, and the files that module names stand for.

A new language needs a row here and a `queries/<name>.scm`; the cutters know only the captures that `queries/README.md`
lists. Other files are cut into windows of lines. A *reference* is how the store names a module: `./src/pkg/x` is a path
in this repository, `pkg/x` a name that some path may end in. Resolving needs only the list of paths. Trade-off: no path
aliases of bundlers, no installed packages; unresolved modules count as foreign.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from os.path import commonprefix
from typing import Any

from msgspec import Struct
from msgspec.structs import replace


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
    """One row of the table. Lists are separated by spaces."""

    name: str
    shape: FileShape
    claims: str
    """Suffixes (with a dot) and file names."""
    grammar: str = ""
    """`module:function` of a grammar wheel; empty: the file is cut by line rules."""
    queries: str = ""
    """Names of query files, concatenated in this order; empty: the language's name."""
    family: str = ""
    """Languages of one family may call and import each other; empty: the name."""
    module_suffixes: tuple[str, ...] = ()
    """Possible endings of a module's path, best first: `.py`, `/__init__.py`."""
    module_separator: str = "/"
    """Separates the parts of a module name: `.` in Python, `/` in JavaScript; empty: a module is named by its file."""
    has_folder_modules: bool = False
    """A module is a folder, and is called by the last part of its name."""
    receivers: tuple[str, ...] = ()
    """Names of a method's own object: `self`, `this`."""
    test_files: str = ""
    """Regular expression over paths of test files, besides the test folders of all languages."""
    test_classes: str = ""
    """Regular expression over the header of a test class."""
    placeholder: str = "..."
    """Replaces a body that has its own memory."""

    @property
    def path_ends(self) -> tuple[str, ...]:
        """Possible endings of a module's path."""
        return self.module_suffixes or tuple(self.claims.split())


_PYTHON = Language(
    name="python",
    shape=FileShape.CODE,
    claims=".py .pyi .pyw",
    grammar="tree_sitter_python:language",
    module_suffixes=(".py", "/__init__.py", ".pyi", "/__init__.pyi"),
    module_separator=".",
    receivers=("self", "cls", "super()"),
    test_files=r"(^|/)(test_[^/]*|[^/]*_test|conftest)\.pyi?$|^testing/",
    test_classes=r"\bTestCase\b",
)
_SCRIPTS = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".d.ts")
_JAVASCRIPT = Language(
    name="javascript",
    shape=FileShape.CODE,
    claims=".js .jsx .mjs .cjs",
    grammar="tree_sitter_javascript:language",
    queries="ecmascript javascript jsx",
    family="javascript",
    module_suffixes=(*_SCRIPTS, *(f"/index{suffix}" for suffix in _SCRIPTS)),
    receivers=("this", "super"),
    test_files=r"[.-](test|spec)\.[cm]?[jt]sx?$|(^|/)test/",
    placeholder="{ ... }",
)
_GRAMMAR = "tree_sitter_typescript:language_"
_PARSED = (
    _PYTHON,
    _JAVASCRIPT,
    replace(
        _JAVASCRIPT,
        name="typescript",
        claims=".ts .mts .cts",
        grammar=_GRAMMAR + "typescript",
        queries="ecmascript typescript",
    ),
    replace(_JAVASCRIPT, name="tsx", claims=".tsx", grammar=_GRAMMAR + "tsx", queries="ecmascript typescript jsx"),
)


def _code(name: str, claims: str, **own: Any) -> Language:
    """Return a row of code in braces, whose grammar wheel has its name."""
    return Language(
        **{
            "name": name,
            "shape": FileShape.CODE,
            "claims": claims,
            "grammar": f"tree_sitter_{name}:language",
            "placeholder": "{ ... }",
            **own,
        }
    )


_CLASSES = {"module_separator": ".", "receivers": ("this", "super", "base")}
_MORE_CODE = (
    _code("go", ".go", has_folder_modules=True, test_files=r"_test\.go$"),
    _code(
        "rust",
        ".rs",
        module_suffixes=(".rs", "/mod.rs", "/lib.rs"),
        module_separator="::",
        receivers=("self", "Self"),
        test_files=r"(^|/)tests?\.rs$",
    ),
    _code("java", ".java", **_CLASSES, test_files=r"(^|/)test/|(Test|Tests|TestCase|IT)\.java$"),
    _code("c", ".c", family="c", module_separator="", test_files=r"(^|/)(test[-_][^/]*|[^/]*[-_]test)\.c$"),
    _code(
        "cpp",
        ".cc .cpp .cxx .c++ .h .hh .hpp .hxx .h++ .inl .ipp",
        queries="c cpp",
        family="c",
        module_separator="",
        receivers=("this",),
        test_files=r"(^|/)(test[-_][^/]*|[^/]*[-_](unit)?test)\.(cc|cpp|cxx|h|hpp)$",
    ),
    _code(
        "csharp",
        ".cs",
        grammar="tree_sitter_c_sharp:language",
        **_CLASSES,
        test_files=r"[Tt]ests?/|Tests?\.cs$|\.Tests?",
    ),
    _code(
        "ruby",
        ".rb .rake Rakefile Gemfile .gemspec .ru",
        module_suffixes=(".rb",),
        receivers=("self", "super"),
        test_files=r"(^|/)(test_[^/]*|[^/]*_(test|spec))\.rb$|(^|/)test/",
        placeholder="...",
    ),
    _code(
        "php",
        ".php .phtml",
        grammar="tree_sitter_php:language_php",
        module_separator="\\",
        receivers=("$this", "self", "static", "parent"),
        test_files=r"Test\.php$",
    ),
    _code("shell", ".sh .bash .zsh", grammar="tree_sitter_bash:language", module_suffixes=(".sh", ".bash")),
    _code("kotlin", ".kt .kts", **_CLASSES, test_files=r"(^|/)\w*[tT]est/|Tests?\.kt$"),
    _code("swift", ".swift", receivers=("self", "super"), test_files=r"Tests?\.swift$|Tests/"),
    _code("scala", ".scala .sc", **_CLASSES, test_files=r"(^|/)test/|(Test|Spec|Suite)\.scala$"),
    _code(
        "lua", ".lua", module_separator=".", receivers=("self",), test_files=r"_(spec|test)\.lua$", placeholder="..."
    ),
    _code("elixir", ".ex .exs", module_separator=".", test_files=r"_test\.exs$", placeholder="..."),
)
_OTHERS = """
    prose markdown .md .markdown .mdx
    prose restructuredtext .rst
    config toml .toml
    config yaml .yaml .yml .clang-format CITATION.cff
    config json .json .jsonc .json5 .webmanifest .babelrc .eslintrc .prettierrc
    config ini .ini .cfg .conf .properties .editorconfig .gitconfig .flake8 .pylintrc .coveragerc .gitmodules
    text css .css .scss .sass .less
    text html .html .htm .jinja .j2 .vue .svelte
    text fish .fish
    text sql .sql
    text xml .xml .xsd
    text cython .pyx .pxd
    text make .mk Makefile GNUmakefile
    text docker .dockerfile Dockerfile Containerfile
"""
"""Rows of shape, name, claims."""
_WHEELS = frozenset({"markdown", "toml", "yaml", "json"})
"""Those with a grammar wheel and query file of their name."""


LANGUAGES = (
    _PARSED
    + _MORE_CODE
    + tuple(
        Language(
            name=name,
            shape=FileShape(shape),
            claims=claims,
            grammar=f"tree_sitter_{name}:language" if name in _WHEELS else "",
        )
        for shape, name, claims in (row.split(maxsplit=2) for row in _OTHERS.strip().splitlines())
    )
)
PLAIN_TEXT = Language(name="text", shape=FileShape.TEXT, claims=".txt")
"""The row for all other files."""

_TEST_FOLDERS = r"(^|/)(tests|__tests__|specs?|e2e)/|^test/"


@cache
def _claims() -> dict[str, Language]:
    return {claim: row for row in LANGUAGES for claim in row.claims.split()}


@cache
def language_named(name: str) -> Language:
    """Return the row of this name, or `PLAIN_TEXT`."""
    return next((row for row in LANGUAGES if row.name == name), PLAIN_TEXT)


def language_of(path: str) -> Language:
    """Return the row that claims this path, by file name, then by suffix."""
    name = path.rpartition("/")[2]
    _, dot, suffix = name.rpartition(".")
    return _claims().get(name) or _claims().get(dot + suffix.lower() if dot else "", PLAIN_TEXT)


@cache
def has_grammar(language: str) -> bool:
    """Whether a language has a grammar and it is installed."""
    module = language_named(language).grammar.partition(":")[0]
    return bool(module) and find_spec(module) is not None


def without_grammar(languages: Iterable[str]) -> list[str]:
    """Return those of these languages whose grammar is not installed, so that their files are read as text."""
    return [name for name in languages if language_named(name).grammar and not has_grammar(name)]


def family_of(language: str) -> str:
    """Return the family in which a language's names resolve."""
    return language_named(language).family or language


def is_test_path(path: str, language: Language) -> bool:
    """Whether a file holds tests, by its folder or name."""
    return any(pattern and re.search(pattern, path) for pattern in (_TEST_FOLDERS, language.test_files))


def is_test_class(header: str, language: Language) -> bool:
    """Whether a class holds tests, by its header."""
    return bool(language.test_classes and re.search(language.test_classes, header))


_SCRIPT_SUFFIXES = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx")


def module_reference(module: str, *, path: str, separator: str = "/", is_relative: bool = False) -> str:
    """Return the reference of a module that `path` names; empty if it is outside the repository."""
    if separator == ".":
        return _dotted(module, path)
    if separator == "::":
        return _in_crate(module, path)
    if is_relative or module.startswith("."):
        joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), module))
        return "" if joined.startswith("..") else "./" + joined
    return module.removeprefix("@/").removeprefix("~/").split("?")[0]


def _in_crate(module: str, path: str) -> str:
    """`crate::a::b` -> `a/b`; `self::` and `super::` count from the folder of the file."""
    first, *rest = module.split("::")
    folder = posixpath.dirname(path)
    match first:
        case "crate":
            return "/".join(rest)
        case "self" | "super":
            return "./" + posixpath.join(folder, *[part for part in rest if part != "super"])
        case _:
            return "/".join([first, *rest])


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


def _with_those_above(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


class ModuleIndex:
    """The files of a repository by module name."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        folders = {path.rpartition("/")[0] for path in self._paths}
        self._folders = {above for folder in folders for above in _with_those_above(folder)}
        self._by_tail: dict[str, list[tuple[str, str]]] = {}
        for path in sorted(self._paths):
            stem = _stem(path)
            if stem:
                self._by_tail.setdefault(stem.rpartition("/")[2], []).append((stem, path))

    def resolve(self, target: str, *, importer: str, language: str) -> str:
        """Return the file that a reference in `importer` means; empty if there is none or a tie."""
        if target.startswith("./"):
            return self._at(target[2:], language)
        folders = importer.split("/")[:-1]
        found = [
            ((len(commonprefix([path.split("/")[:-1], folders])), -len(stem)), path, stem)  # noqa: RUF071  lists of folders, not text
            for stem, path in self._by_tail.get(target.rpartition("/")[2], ())
            if (stem == target or stem.endswith("/" + target)) and path.endswith(_path_ends(family_of(language)))
        ]
        if not target or not found:
            return ""
        likeness, best, stem = max(found)
        return best if {tied for other, _, tied in found if other == likeness} == {stem} else ""

    def folder(self, target: str) -> str:
        """Return the folder, with a slash, that the end of a module's name means; empty if there is none."""
        parts = target.split("/")
        ends = ("/".join(parts[at:]) for at in range(len(parts)))
        return next((f"{end}/" for end in ends if end in self._folders), "")

    def _at(self, place: str, language: str) -> str:
        if place in self._paths:
            return place
        bare = [place, *(place.removesuffix(suffix) for suffix in _SCRIPT_SUFFIXES if place.endswith(suffix))]
        paths = (
            (stem + end).removeprefix("/").removeprefix("./")
            for stem in bare
            for end in language_named(language).path_ends
        )
        return next((path for path in paths if path in self._paths), "")


@cache
def _path_ends(family: str) -> tuple[str, ...]:
    return tuple(end for row in LANGUAGES if family_of(row.name) == family for end in row.path_ends)


@cache
def _module_suffixes() -> tuple[str, ...]:
    suffixes = {suffix for row in LANGUAGES for suffix in row.module_suffixes}
    return tuple(sorted(suffixes, key=len, reverse=True))


def _stem(path: str) -> str:
    """`src/pkg/__init__.py` -> `src/pkg`; `lib/a.js` -> `lib/a`; empty if it is not a module."""
    return next((path.removesuffix(suffix) for suffix in _module_suffixes() if path.endswith(suffix)), "")
