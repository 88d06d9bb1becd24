"""The table of languages: how a file of each is cut, and by what it is known.

A new language needs a row here and a `queries/<name>.scm`; the cutters know only the captures that
`queries/README.md` lists. One without a grammar may have a pattern of the lines that begin its
blocks. All other files are cut into windows of lines. Trade-off: a file is known by its name;
`first_lines` knows scripts whose name tells nothing.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xscore.indexer import library_names
from xscore.platform.errors import UsageError


class FileShape(StrEnum):
    """How a file is cut into memories."""

    CODE = "code"
    """Functions, classes, and blocks between them."""
    PROSE = "prose"
    """Sections by heading."""
    CONFIG = "config"
    """Top-level tables or keys with their comments."""
    BLOCKS = "blocks"
    """Blocks that each begin with a line of a known form: statements, targets, stages."""
    PAGE = "page"
    """Scripts as code, the rest as text."""
    CELLS = "cells"
    """Cells of a notebook, outputs left out."""
    TEXT = "text"
    """Windows of lines."""


class Reach(StrEnum):
    """Whose objects a file may hold, so that it may mean their methods by a name alone."""

    IMPORTS = "imports"
    """Objects of the files that it imports, and that these import."""
    PACKAGE = "package"
    """Objects of its own folder and of the packages that it imports, too."""
    HEADERS = "headers"
    """Objects of its own folder and of files that include a header with it."""
    CRATE = "crate"
    """Objects of its own crate, and of the files that it imports."""
    REPOSITORY = "repository"
    """Objects of all files: the language does not say in a file what it uses."""


class Language(Struct, frozen=True, kw_only=True):
    """One row of the table. Lists are separated by spaces."""

    name: str
    shape: FileShape
    claims: str
    """Suffixes (with a dot) and file names that it claims."""
    grammar: str = ""
    """`module:function` of a grammar wheel; empty: files are split by line rules."""
    queries: str = ""
    """Names of query files, concatenated in this order; empty: the language's name."""
    family: str = ""
    """Languages of one family may call and import each other; empty: the name."""
    module_suffixes: tuple[str, ...] = ()
    """Possible endings of a module's path, best first: `.py`, `/__init__.py`."""
    module_separator: str = "/"
    """Separator of the parts of a module name: `.` in Python, `/` in JavaScript; empty: a
    module is named by its file."""
    has_folder_modules: bool = False
    """Whether a module is a folder, and is called by the last part of its name."""
    has_named_modules: bool = False
    """Whether a module is named as a class is, wherever its file is; imports give it a short
    name."""
    has_clauses: bool = False
    """Whether a function may be written as several definitions, one below the other."""
    reach: Reach = Reach.REPOSITORY
    """The files whose entities it may mean by a name alone."""
    receivers: tuple[str, ...] = ()
    """Names of a method's own object: `self`, `this`."""
    has_implicit_receiver: bool = False
    """Whether a call without an object may be one of a method of the own class."""
    has_overloads: bool = False
    """Whether methods of one name may differ by their parameters."""
    has_open_classes: bool = False
    """Whether a class may get methods in other files than the one that defines it."""
    has_extension_methods: bool = False
    """Whether a method of any class may be called on an object of the type of its first
    parameter."""
    has_function_types: bool = False
    """Whether a parameter without a type gets one where its function is passed to a parameter
    that states it."""
    test_files: str = ""
    """Regular expression over paths of test files, in addition to the test folders of all
    languages."""
    test_classes: str = ""
    """Regular expression over the header of a test class."""
    library: str = ""
    """Methods of its own library and of the usual ones, which say nothing about an unknown
    object."""
    placeholder: str = "..."
    """Text that replaces a body which has its own memory."""
    begins: str = ""
    """Regular expression over the first line of a block; its groups name it."""
    quote: str = ""
    """Regular expression over the marks around quoted text, in which no block begins."""
    query: str = ""
    """Text of the query for the grammar, for a language of another package; empty: the text
    of the query files."""

    @property
    def path_ends(self) -> tuple[str, ...]:
        """Possible endings of a module's path."""
        return self.module_suffixes or tuple(self.claims.split())


_LIBRARIES = {
    "ruby": library_names.RUBY,
    "java": library_names.JAVA,
    "kotlin": library_names.JAVA + library_names.KOTLIN,
    "scala": library_names.JAVA + library_names.SCALA,
    "csharp": library_names.CSHARP,
    "rust": library_names.RUST,
    "go": library_names.GO,
    "swift": library_names.SWIFT,
    "cpp": library_names.CPP,
    "php": library_names.PHP,
}
"""What the rows of each language have in addition to the usual names."""


def _code(name: str, claims: str, **fields: Any) -> Language:
    """Return a row of code in braces, whose grammar wheel has its name."""
    usual = {
        "grammar": f"tree_sitter_{name}:language",
        "library": f"{library_names.USUAL} {_LIBRARIES.get(name, '')}",
        "placeholder": "{ ... }",
    }
    return Language(name=name, shape=FileShape.CODE, claims=claims, **(usual | fields))


_PYTHON = _code(
    "python",
    ".py .pyi .pyw .bzl .star SConstruct SConscript wscript BUILD.bazel WORKSPACE.bazel"
    " MODULE.bazel",
    module_suffixes=(".py", "/__init__.py", ".pyi", "/__init__.pyi"),
    module_separator=".",
    reach=Reach.IMPORTS,
    receivers=("self", "cls", "super()"),
    test_files=r"(^|/)(test_[^/]*|[^/]*_test|conftest)\.pyi?$|^testing/",
    test_classes=r"\bTestCase\b",
    library=library_names.PYTHON,
    placeholder="...",
)
_SCRIPTS = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".d.ts")
_JAVASCRIPT = _code(
    "javascript",
    ".js .jsx .mjs .cjs",
    queries="ecmascript javascript jsx",
    family="javascript",
    module_suffixes=(*_SCRIPTS, *(f"/index{suffix}" for suffix in _SCRIPTS)),
    reach=Reach.IMPORTS,
    receivers=("this", "super"),
    test_files=r"[.-](test|spec)\.[cm]?[jt]sx?$|(^|/)test/",
    library=library_names.JAVASCRIPT,
)
_TYPESCRIPT = (
    replace(
        _JAVASCRIPT,
        name="typescript",
        claims=".ts .mts .cts",
        grammar="tree_sitter_typescript:language_typescript",
        queries="ecmascript typescript",
        has_function_types=True,
    ),
    replace(
        _JAVASCRIPT,
        name="tsx",
        claims=".tsx",
        grammar="tree_sitter_typescript:language_tsx",
        queries="ecmascript typescript jsx",
        has_function_types=True,
    ),
)
_CLASSES = {
    "module_separator": ".",
    "receivers": ("this", "super", "base"),
    "has_implicit_receiver": True,
    "has_overloads": True,
}
_PACKAGED = _CLASSES | {"reach": Reach.PACKAGE}
_MORE_CODE = (
    _code(
        "go",
        ".go",
        has_folder_modules=True,
        has_open_classes=True,
        reach=Reach.PACKAGE,
        test_files=r"_test\.go$",
    ),
    _code(
        "rust",
        ".rs",
        module_suffixes=(".rs", "/mod.rs", "/lib.rs", "/main.rs"),
        module_separator="::",
        reach=Reach.CRATE,
        receivers=("self", "Self"),
        has_open_classes=True,
        test_files=r"(^|/)tests?\.rs$",
    ),
    _code(
        "java", ".java", **_PACKAGED, test_files=r"(^|/)test/|(Test|Tests|TestCase|IT)\.java$"
    ),
    _code(
        "c",
        ".c",
        family="c",
        module_separator="",
        reach=Reach.HEADERS,
        test_files=r"(^|/)(test[-_][^/]*|[^/]*[-_]test)\.c$",
    ),
    _code(
        "cpp",
        ".cc .cpp .cxx .c++ .cppm .ixx .h .hh .hpp .hxx .h++ .inl .ipp .tpp .tcc .cu .cuh .ino"
        " .pde",
        queries="c cpp",
        family="c",
        module_separator="",
        reach=Reach.HEADERS,
        receivers=("this",),
        has_implicit_receiver=True,
        has_overloads=True,
        has_open_classes=True,
        test_files=r"(^|/)(test[-_][^/]*|[^/]*[-_](unit)?test)\.(cc|cpp|cxx|h|hpp)$",
    ),
    _code(
        "csharp",
        ".cs",
        grammar="tree_sitter_c_sharp:language",
        **_CLASSES,
        has_open_classes=True,
        has_extension_methods=True,
        test_files=r"[Tt]ests?/|Tests?\.cs$|\.Tests?",
    ),
    _code(
        "ruby",
        ".rb .rake Rakefile Gemfile .gemspec .podspec .jbuilder .ru Vagrantfile Podfile Brewfile"
        " Fastfile Guardfile Dangerfile Appfile Capfile",
        module_suffixes=(".rb",),
        receivers=("self", "super"),
        has_implicit_receiver=True,
        has_open_classes=True,
        test_files=r"(^|/)(test_[^/]*|[^/]*_(test|spec))\.rb$|(^|/)test/",
        placeholder="...",
    ),
    _code(
        "php",
        ".php .phtml",
        grammar="tree_sitter_php:language_php",
        module_separator="\\",
        reach=Reach.PACKAGE,
        receivers=("$this", "self", "static", "parent"),
        test_files=r"Test\.php$",
    ),
    _code(
        "shell",
        ".sh .bash .zsh",
        grammar="tree_sitter_bash:language",
        module_suffixes=(".sh", ".bash"),
    ),
    _code(
        "kotlin",
        ".kt .kts",
        **_PACKAGED,
        has_open_classes=True,
        test_files=r"(^|/)\w*[tT]est/|Tests?\.kt$",
    ),
    _code(
        "swift",
        ".swift",
        receivers=("self", "super"),
        has_implicit_receiver=True,
        has_open_classes=True,
        test_files=r"Tests?\.swift$|Tests/",
    ),
    _code(
        "scala",
        ".scala .sc .sbt .mill",
        **_PACKAGED,
        test_files=r"(^|/)test/|(Test|Spec|Suite)\.scala$",
    ),
    _code(
        "lua",
        ".lua",
        module_separator=".",
        receivers=("self",),
        test_files=r"_(spec|test)\.lua$",
        placeholder="...",
    ),
    _code(
        "elixir",
        ".ex .exs",
        module_separator=".",
        has_named_modules=True,
        has_clauses=True,
        receivers=("__MODULE__",),
        has_implicit_receiver=True,
        test_files=r"_test\.exs$",
        placeholder="...",
    ),
)


def _blocks(name: str, claims: str, begins: str, quote: str = "") -> Language:
    return Language(
        name=name, shape=FileShape.BLOCKS, claims=claims, begins=begins, quote=quote
    )


_SQL_OBJECTS = (
    "table view index function procedure trigger type schema sequence policy role extension domain"
    " database"
)
_BY_LINES = (
    _blocks(
        "sql",
        ".sql .ddl .psql .pgsql",
        rf"(?i)(create|alter|drop)\s+(?:(?!(?:{_SQL_OBJECTS.replace(' ', '|')})\b)\w+\s+){{0,4}}"
        rf"({_SQL_OBJECTS.replace(' ', '|')})\s+(?:if\s+(?:not\s+)?exists\s+)?([\w.\"`\[\]]+)"
        r"|(insert|update|delete|select|with|merge|grant)\b\s*(?:into\s+|from\s+)?([\w.\"`]*)",
        quote=r"\$\w*\$",
    ),
    _blocks("protobuf", ".proto", r"(message|enum|service|extend)\s+([\w.]+)"),
    _blocks(
        "graphql",
        ".graphql .gql .graphqls",
        r"(?:extend\s+)?(type|input|enum|interface|union|scalar|directive|schema|query|mutation|subscription|fragment)\b"
        r"\s*(@?\w*)",
    ),
    _blocks(
        "hcl",
        ".tf .tfvars .tofu .hcl .nomad",
        r'(\w+)\s+(?:"([^"\n]*)"\s*)?(?:"([^"\n]*)"\s*)?(?:\{|=)',
    ),
    _blocks(
        "dockerfile",
        ".dockerfile Dockerfile Containerfile",
        r"(?i)(from)\s+\S+(?:\s+as\s+(\S+))?",
    ),
    _blocks(
        "make",
        ".mk .mak Makefile makefile GNUmakefile",
        r"(?:define\s+(\S+)|([^\s:#=][^:#=\n]{0,200}?)\s*::?(?![=:]))",
    ),
    _blocks(
        "groovy",
        ".groovy .gradle Jenkinsfile",
        r"[ \t]*(stage)\s*\(?\s*['\"]([^'\"\n]+)"
        r"|(?:(?:public|private|static|final)\s+)*(class|interface|enum)\s+(\w+)"
        r"|(?:(?:public|private|static|final)\s+)*"
        r"(?:def|void|boolean|int|String|Map|List)\s+(\w+)\s*\("
        r"|(task)\s+(\w+)|(\w+)\s*\{",
        quote=r"'''|\"\"\"",
    ),
    _blocks("css", ".css .scss .sass .less", r"([@.#:&*\w\[][^{};]{0,200}?)\s*(?:[{,]|\Z)"),
)
_PAGES = tuple(
    replace(_JAVASCRIPT, name=name, shape=FileShape.PAGE, claims=claims, grammar="")
    for name, claims in (("html", ".html .htm"), ("vue", ".vue"), ("svelte", ".svelte"))
)
_NOTEBOOK = replace(
    _PYTHON,
    name="notebook",
    shape=FileShape.CELLS,
    claims=".ipynb",
    grammar="",
    family="python",
)


def _other(shape: str, name: str, wheel: str, claims: str) -> Language:
    grammar = f"tree_sitter_{name}:language" if wheel == "wheel" else ""
    return Language(name=name, shape=FileShape(shape), claims=claims, grammar=grammar)


_OTHER_ROWS = """
    prose markdown wheel .md .markdown .mdx .mkd .mdown .rmd .qmd
    prose restructuredtext - .rst
    prose asciidoc - .adoc .asciidoc
    config toml wheel .toml
    config yaml wheel .yaml .yml .clang-format CITATION.cff
    config json wheel .json .jsonc .json5 .webmanifest .babelrc .eslintrc .prettierrc
    config ini - .ini .cfg .conf .properties .editorconfig .gitconfig .flake8 .pylintrc .coveragerc .gitmodules
    text template - .jinja .j2
    text fish - .fish
    text xml - .xml .xsd
    text cython - .pyx .pxd
    text gomod - go.mod
"""  # noqa: E501  a table of one row a line
"""Shape, name, whether a grammar wheel has that name, and claims of each row."""
_OTHERS = [_other(*row.split(maxsplit=3)) for row in _OTHER_ROWS.strip().splitlines()]

LANGUAGES = (
    _PYTHON,
    _JAVASCRIPT,
    *_TYPESCRIPT,
    *_MORE_CODE,
    *_BY_LINES,
    *_PAGES,
    _NOTEBOOK,
    *_OTHERS,
)
PLAIN_TEXT = Language(name="text", shape=FileShape.TEXT, claims=".txt")
"""The row for all other files."""

_TEST_FOLDERS = r"(^|/)(tests|__tests__|specs?|e2e)/|^test/"


_added: list[Language] = []
"""Rows of other packages, for as long as the process lives."""


def all_languages() -> tuple[Language, ...]:
    """Return all rows; where two claim a suffix, the later one has it."""
    return (*LANGUAGES, *_added)


def add_languages(rows: Sequence[Language]) -> None:
    """Add rows of other packages. Raises UsageError for a name that is taken."""
    for row in rows:
        if row in _added:
            continue
        names = {language.name for language in (*all_languages(), PLAIN_TEXT)}
        if not isinstance(row, Language) or row.name in names:
            raise UsageError(
                f"a plugin's language is no `Language` with a name of its own: {row!r:.200}",
                hint="Report it to its author, or remove it from plugins.enabled.",
            )
        _added.append(row)
        for cached in (_claims, language_named, path_ends_of, module_suffixes):
            cached.cache_clear()


@cache
def _claims() -> dict[str, Language]:
    claims: dict[str, Language] = {}
    for row in all_languages():
        claims |= dict.fromkeys(row.claims.split(), row)
    return claims


@cache
def names_in(names: str) -> frozenset[str]:
    """Return the names of a list that blanks separate."""
    return frozenset(names.split())


@cache
def path_ends_of(family: str) -> tuple[str, ...]:
    """Return the endings of module paths of a family's languages."""
    path_ends: list[str] = []
    for row in all_languages():
        if family_of(row.name) == family:
            path_ends += row.path_ends
    return tuple(path_ends)


@cache
def module_suffixes() -> tuple[str, ...]:
    """Return the suffixes of files that are modules, longest first."""
    suffixes: set[str] = set()
    for row in all_languages():
        if row.grammar and row.module_separator and not row.has_folder_modules:
            suffixes.update(end for end in row.path_ends if "." in end)
    return tuple(sorted(suffixes, key=len, reverse=True))


_NAMED_VARIANTS = frozenset(
    {"Dockerfile", "Containerfile", "Makefile", "GNUmakefile", "Jenkinsfile"}
)


@cache
def language_named(name: str) -> Language:
    """Return the row of this name, or `PLAIN_TEXT`."""
    return next((row for row in all_languages() if row.name == name), PLAIN_TEXT)


def language_of(path: str) -> Language:
    """Return the row that claims this path, by file name, then by suffix."""
    name = path.rpartition("/")[2]
    claims = _claims()
    if name in claims:
        return claims[name]
    _, dot, suffix = name.rpartition(".")
    by_suffix = None
    if dot:
        by_suffix = claims.get(dot + suffix.lower())
    if by_suffix is not None:
        return by_suffix
    stem = name.partition(".")[0]  # Dockerfile.dev, Makefile.am
    if stem not in _NAMED_VARIANTS:
        return PLAIN_TEXT
    return claims.get(stem, PLAIN_TEXT)


def family_of(language: str) -> str:
    """Return the family in which a language's names resolve."""
    return language_named(language).family or language


def is_test_path(path: str, language: Language) -> bool:
    """Whether a file holds tests, by its folder or name."""
    if re.search(_TEST_FOLDERS, path):
        return True
    return bool(language.test_files) and re.search(language.test_files, path) is not None
