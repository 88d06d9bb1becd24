"""The table of languages: which files a language claims, its grammar, and the query files that find its entities.

A new language costs a row here and a `queries/<name>.scm`; the cutters know only the captures that
`queries/README.md` lists. What no row claims is read as windows of lines. `syntax` loads the grammars.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache


class Shape(StrEnum):
    """How a file is cut into memories."""

    CODE = "code"
    """Functions, classes, and blocks between them."""
    PROSE = "prose"
    """Sections by heading."""
    CONFIG = "config"
    """Top-level tables or keys with their comments."""
    TEXT = "text"
    """Windows of lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """One row of the table."""

    name: str
    shape: Shape
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
    shape=Shape.CODE,
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
        shape=Shape.CODE,
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
        shape=Shape.PROSE,
        suffixes=(".md", ".markdown", ".mdx"),
        grammar="tree_sitter_markdown:language",
        queries=("markdown",),
    ),
    Language(name="restructuredtext", shape=Shape.PROSE, suffixes=(".rst",)),
    Language(
        name="toml",
        shape=Shape.CONFIG,
        suffixes=(".toml",),
        grammar="tree_sitter_toml:language",
        queries=("toml",),
    ),
    Language(
        name="yaml",
        shape=Shape.CONFIG,
        suffixes=(".yaml", ".yml"),
        filenames=(".clang-format", "CITATION.cff"),
        grammar="tree_sitter_yaml:language",
        queries=("yaml",),
    ),
    Language(
        name="json",
        shape=Shape.CONFIG,
        suffixes=(".json", ".jsonc", ".json5", ".webmanifest"),
        filenames=(".babelrc", ".eslintrc", ".prettierrc"),
        grammar="tree_sitter_json:language",
        queries=("json",),
    ),
    Language(
        name="ini",
        shape=Shape.CONFIG,
        suffixes=(".ini", ".cfg", ".conf", ".properties"),
        filenames=(".editorconfig", ".gitconfig", ".flake8", ".pylintrc", ".coveragerc", ".gitmodules"),
    ),
    *(
        Language(name=name, shape=Shape.TEXT, suffixes=suffixes, filenames=filenames)
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

TEXT = Language(name="text", shape=Shape.TEXT, suffixes=(".txt",))
"""What no row claims."""

_TEST_FOLDERS = re.compile(r"(^|/)(tests|__tests__|specs?|e2e)/|^test/")


@cache
def _claims() -> tuple[dict[str, Language], dict[str, Language]]:
    by_suffix = {suffix: row for row in LANGUAGES for suffix in row.suffixes}
    by_filename = {name: row for row in LANGUAGES for name in row.filenames}
    return by_suffix, by_filename


@cache
def by_name(name: str) -> Language:
    """The row of this name; `TEXT` where there is none."""
    return next((row for row in LANGUAGES if row.name == name), TEXT)


def language_of(path: str) -> Language:
    """The row that claims this path, by file name, then by its longest known suffix."""
    by_suffix, by_filename = _claims()
    name = path.rpartition("/")[2]
    if name in by_filename:
        return by_filename[name]
    return by_suffix.get("." + name.rpartition(".")[2].lower(), TEXT) if "." in name else TEXT


def family_of(language: str) -> str:
    """The family that a language's names resolve in."""
    return by_name(language).family or language


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
