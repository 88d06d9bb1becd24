"""What one file of code shows of conventions: what it imports, how it names, tests and raises.

Read from the rows that the index wrote, not from the file. A trait is counted, with the first line
that shows it; a file is looked at again when its version changes. Pure but for that one read.
Trade-off: only what the index keeps can be seen: quotes and spaces are a formatter's business.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Struct

from xscore.platform.database import damage_if_invalid
from xscore.records.memory import Kind
from xscore.store.file_bodies import read_with_bodies
from xscore.store.memory_rows import IN_JSON_LIST

IMPORT = "import "
"""Begins the trait of a known package that the file imports."""
ERROR_BASE = "error of "
"""Begins the trait of an error class with this base."""
_ENTITIES = "source = 'index' AND layer = 'graph' AND status = 'active'"
_MANY = 500
"""Number of changed files above which all rows are read, which is faster."""
_TEST_PATH = re.compile(
    r"(?:\A|/)(?:tests?|testing|specs?|__tests__|features)/|(?:\A|/)(?:test_|conftest)[^/]*\Z"
    r"|[._-](?:test|tests|spec)\.[\w.]{1,40}\Z|Tests?\.(?:java|kt|cs|php|swift)\Z"
)
_SNAKE = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)+\Z")
_CAMEL = re.compile(r"[a-z]+(?:[A-Z][a-z0-9]*)+\Z")
_ERROR_CLASS = re.compile(
    r"class[ \t]+\w*(?:Error|Exception)[ \t]*(?:\(([\w.]+)|extends[ \t]+([\w.]+))"
)
_ERR = re.compile(r"\berr\b")
_REQUIRE = re.compile(r"(?m)^(?:const|var|let)\b[^\n=]*=[ \t]*require\(")
_SCRIPTS = frozenset({"javascript", "typescript", "tsx"})
_FUNCTIONS = frozenset({Kind.FUNCTION, Kind.METHOD})


class _Attributes(Struct):
    """What is read of a memory's attributes."""

    signature: str = ""
    docstring: str = ""
    imports: tuple[str, ...] = ()


_ATTRIBUTES = msgspec.json.Decoder(_Attributes)


class Trait(Struct, array_like=True):
    """How often a file shows a trait, and where first."""

    count: int
    line: int


class FileTraits(Struct, array_like=True):
    """What one version of a file shows."""

    version: str
    """Version of the file: the beginning of its hash."""
    language: str
    is_test: bool
    traits: dict[str, Trait]

    def shows_the_same(self, version: "FileTraits") -> bool:
        """Whether two versions show the same, wherever in the file."""
        return self.is_test == version.is_test and self.counts == version.counts

    @property
    def counts(self) -> dict[str, int]:
        """How often each trait is shown."""
        return {name: trait.count for name, trait in self.traits.items()}


class LocatedEntity(Struct, array_like=True, frozen=True):
    """A memory of a file, as far as it shows conventions."""

    kind: str
    entity: str
    line: int
    language: str
    attributes: _Attributes
    text: str


def read_traits(
    connection: sqlite3.Connection, versions: Mapping[str, str], known_packages: Iterable[str]
) -> Iterator[tuple[str, FileTraits]]:
    """Yield what these files show.

    versions: path -> the beginning of its hash.
    Raises StoreDamaged.
    """
    packages = frozenset(known_packages)
    where = _ENTITIES
    parameters: tuple[str, ...] = ()
    if len(versions) <= _MANY:
        where = f"{_ENTITIES} AND path {IN_JSON_LIST}"
        parameters = (msgspec.json.encode(list(versions)).decode(),)
    rows = read_with_bodies(
        connection, "path, kind, entity, start_line, language", where, parameters
    )
    for path, of_file in groupby(rows, key=itemgetter(0)):
        if path in versions:
            yield path, _traits_of(path, versions[path], map(_entity_row, of_file), packages)


def _entity_row(row: tuple[Any, ...]) -> LocatedEntity:
    _, kind, entity, line, language, attrs, _, text = row
    with damage_if_invalid("a memory"):
        return LocatedEntity(kind, entity, line, language, _ATTRIBUTES.decode(attrs), text)


def _traits_of(
    path: str, version: str, rows: Iterable[LocatedEntity], packages: frozenset[str]
) -> FileTraits:
    traits: dict[str, Trait] = {}
    language = ""
    is_test = _TEST_PATH.search(path) is not None
    for row in rows:
        language = row.language
        is_test = is_test or row.kind == Kind.TEST
        names = list(_shown_by(row))
        for imported in row.attributes.imports:
            package = package_of(imported, language)
            if package in packages:
                names.append(f"{IMPORT}{package}")
        for name in names:
            earlier = traits.get(name)
            if earlier is None:
                traits[name] = Trait(1, row.line)
            else:
                earlier.count += 1
    return FileTraits(version, language, is_test, traits)


def _shown_by(row: LocatedEntity) -> Iterator[str]:
    """Yield the traits that one definition or block shows."""
    if row.kind in _FUNCTIONS:
        yield from _of_function(row)
    elif row.kind == Kind.CLASS:
        yield from _error_base(row)
    elif row.kind == Kind.TEST and row.language == "python":
        yield "test method" if "." in row.entity else "test function"
    elif row.kind == Kind.BLOCK:
        yield from _of_module(row)
    if row.language == "go":
        yield from _errors_made(row.text)


def _errors_made(text: str) -> Iterator[str]:
    """Yield how the errors of Go are made: wrapped, or only formatted."""
    for line in text.split("\n"):
        _, is_made, arguments = line.partition("fmt.Errorf(")
        if not is_made:
            continue
        if "%w" in arguments:
            yield "wraps errors"
        elif _ERR.search(arguments):
            yield "formats errors"


def _of_module(row: LocatedEntity) -> Iterator[str]:
    if row.language == "python":
        if "from __future__ import annotations" in row.text:
            yield "future annotations"
    elif row.language in _SCRIPTS:
        if _REQUIRE.search(row.text):
            yield "imports by require"
        elif row.attributes.imports:
            yield "imports by import"


def _of_function(row: LocatedEntity) -> Iterator[str]:
    name = row.entity.rpartition(".")[2].partition("#")[0]
    bare_name = name.strip("_")
    if _SNAKE.match(bare_name):
        yield "snake_case name"
    elif _CAMEL.match(bare_name):
        yield "camelCase name"
    if row.language != "python":
        return
    if not name.startswith("__"):
        yield "annotated" if "->" in row.attributes.signature else "not annotated"
    if not name.startswith("_"):
        yield "documented" if row.attributes.docstring else "not documented"


def _error_base(row: LocatedEntity) -> Iterator[str]:
    named = _ERROR_CLASS.match(row.attributes.signature)
    base = ""
    if named:
        base = named[1] or named[2] or ""
    if base:
        yield f"{ERROR_BASE}{base.rpartition('.')[2]}"


def package_of(module: str, language: str) -> str:
    """Return the package of an imported module, as manifests and the list of packages name it.

    `a` of `a.b` and `a/b`, `@a/b` of `@a/b/c`, `host/a/b` of a Go path, `org.a` of a Java name.
    """
    name = module.partition(":")[0]
    if language == "go":
        return "/".join(name.split("/")[:3]).lower()
    if language in ("java", "kotlin", "scala"):
        return ".".join(name.split(".")[:2]).lower()
    first, _, rest = name.partition("/")
    if first.startswith("@"):
        first = f"{first}/{rest.partition('/')[0]}"
    else:
        first = first.partition(".")[0]
    return first.lower().replace("_", "-")
