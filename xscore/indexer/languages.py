"""The table of languages: which files a language claims, its grammar, and the query files that find its entities.

A new language costs a row here and a `queries/<name>.scm`; the cutters know only the captures that
`queries/README.md` lists. What no row claims is read as windows of lines. `syntax` loads the grammars.

Module names and the files they stand for.

A *reference* is how a module is remembered in the store: `./src/pkg/x` is a place in this repository, `pkg/x` is a name
that some file path may end in. Resolving needs only the list of paths; nothing is read. It knows no path aliases of
bundlers and no installed packages: what does not resolve is taken to be foreign.
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
_SCRIPT_MODULES = (*_SCRIPTS, *(f"/index{suffix}" for suffix in _SCRIPTS))
_SCRIPT_TESTS = r"[.-](test|spec)\.[cm]?[jt]sx?$|(^|/)test/"


def _script(name: str, *, suffixes: tuple[str, ...], grammar: str, queries: tuple[str, ...]) -> Language:
    return Language(
        name=name,
        shape=FileShape.CODE,
        suffixes=suffixes,
        grammar=grammar,
        queries=queries,
        family="javascript",
        module_suffixes=_SCRIPT_MODULES,
        receivers=("this", "super"),
        test_files=_SCRIPT_TESTS,
        placeholder="{ ... }",
    )


LANGUAGES: tuple[Language, ...] = (
    _PYTHON,
    _script(
        "javascript",
        suffixes=(".js", ".jsx", ".mjs", ".cjs"),
        grammar="tree_sitter_javascript:language",
        queries=("ecmascript", "javascript", "jsx"),
    ),
    _script(
        "typescript",
        suffixes=(".ts", ".mts", ".cts"),
        grammar="tree_sitter_typescript:language_typescript",
        queries=("ecmascript", "typescript"),
    ),
    _script(
        "tsx",
        suffixes=(".tsx",),
        grammar="tree_sitter_typescript:language_tsx",
        queries=("ecmascript", "typescript", "jsx"),
    ),
    Language(
        name="markdown",
        shape=FileShape.PROSE,
        suffixes=(".md", ".markdown", ".mdx"),
        grammar="tree_sitter_markdown:language",
        queries=("markdown",),
    ),
    Language(name="restructuredtext", shape=FileShape.PROSE, suffixes=(".rst",)),
    Language(
        name="toml",
        shape=FileShape.CONFIG,
        suffixes=(".toml",),
        grammar="tree_sitter_toml:language",
        queries=("toml",),
    ),
    Language(
        name="yaml",
        shape=FileShape.CONFIG,
        suffixes=(".yaml", ".yml"),
        filenames=(".clang-format", "CITATION.cff"),
        grammar="tree_sitter_yaml:language",
        queries=("yaml",),
    ),
    Language(
        name="json",
        shape=FileShape.CONFIG,
        suffixes=(".json", ".jsonc", ".json5", ".webmanifest"),
        filenames=(".babelrc", ".eslintrc", ".prettierrc"),
        grammar="tree_sitter_json:language",
        queries=("json",),
    ),
    Language(
        name="ini",
        shape=FileShape.CONFIG,
        suffixes=(".ini", ".cfg", ".conf", ".properties"),
        filenames=(".editorconfig", ".gitconfig", ".flake8", ".pylintrc", ".coveragerc", ".gitmodules"),
    ),
    *(
        Language(name=name, shape=FileShape.TEXT, suffixes=suffixes, filenames=filenames)
        for name, suffixes, filenames in (
            ("c", (".c", ".h"), ()),
            ("cpp", (".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), ()),
            ("csharp", (".cs",), ()),
            ("css", (".css", ".scss", ".sass", ".less"), ()),
            ("go", (".go",), ()),
            ("html", (".html", ".htm", ".jinja", ".j2", ".vue", ".svelte"), ()),
            ("java", (".java",), ()),
            ("kotlin", (".kt", ".kts"), ()),
            ("php", (".php",), ()),
            ("ruby", (".rb", ".rake"), ("Rakefile", "Gemfile")),
            ("rust", (".rs",), ()),
            ("shell", (".sh", ".bash", ".zsh", ".fish"), ()),
            ("sql", (".sql",), ()),
            ("swift", (".swift",), ()),
            ("xml", (".xml", ".xsd"), ()),
            ("cython", (".pyx", ".pxd"), ()),
            ("make", (".mk",), ("Makefile", "GNUmakefile")),
            ("docker", (".dockerfile",), ("Dockerfile", "Containerfile")),
        )
    ),
)

PLAIN_TEXT = Language(name="text", shape=FileShape.TEXT, suffixes=(".txt",))
"""What no row claims."""

_TEST_FOLDERS = re.compile(r"(^|/)(tests|__tests__|specs?|e2e)/|^test/")


@cache
def _claims() -> tuple[dict[str, Language], dict[str, Language]]:
    by_suffix = {suffix: row for row in LANGUAGES for suffix in row.suffixes}
    by_filename = {name: row for row in LANGUAGES for name in row.filenames}
    return by_suffix, by_filename


@cache
def language_named(name: str) -> Language:
    """The row of this name; `TEXT` where there is none."""
    return next((row for row in LANGUAGES if row.name == name), PLAIN_TEXT)


def language_of(path: str) -> Language:
    """The row that claims this path, by file name, then by its longest known suffix."""
    by_suffix, by_filename = _claims()
    name = path.rpartition("/")[2]
    if name in by_filename:
        return by_filename[name]
    return by_suffix.get("." + name.rpartition(".")[2].lower(), PLAIN_TEXT) if "." in name else PLAIN_TEXT


def family_of(language: str) -> str:
    """The family that a language's names resolve in."""
    return language_named(language).family or language


@cache
def _pattern(expression: str) -> re.Pattern[str]:
    return re.compile(expression)


def is_test_path(path: str, language: Language) -> bool:
    """Whether a file's place or name says that it holds tests."""
    if _TEST_FOLDERS.search(path):
        return True
    return bool(language.test_files) and bool(_pattern(language.test_files).search(path))


def is_test_class(header: str, language: Language) -> bool:
    """Whether a class header alone says that the class holds tests."""
    return bool(language.test_classes) and bool(_pattern(language.test_classes).search(header))


_SCRIPT_SUFFIXES = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx")


def module_reference(module: str, *, path: str, separator: str = "/", is_relative: bool = False) -> str:
    """How the module that `path` names is remembered; empty where the name leads out of the repository."""
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
        """The file that a reference means when `importer` says it; empty: none, or several as likely."""
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
        path.endswith(suffix) for row in LANGUAGES if (row.family or row.name) == family for suffix in _endings(row)
    )


def _endings(row: Language) -> tuple[str, ...]:
    return row.module_suffixes or row.suffixes


def _shared(one: str, other: str) -> int:
    """Leading folders that two paths share."""
    count = 0
    for a, b in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if a != b:
            break
        count += 1
    return count
