"""Parse a file with a tree-sitter grammar into plain records; also the memory drafts that the
cutters make.

`parse_syntax` runs one grammar and its query over a file and returns definitions, imports, calls
and so on with rows and bytes. It bounds neither time nor memory: strangers' files are for
`parse_process` alone. Rows count from 0, ends are inclusive. Trees are never walked: nesting is
recovered from byte ranges (`entities.outline`), so deep nesting cannot exhaust the stack. It
decides nothing about memories.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path

from msgspec import Struct, field
from tree_sitter import Node, Parser, Query, QueryCursor, TreeCursor

from xscore.indexer.captures import Import, Syntax, collect
from xscore.indexer.grammars import for_grammar, load_parser
from xscore.indexer.imported_values import imported_values, is_class_name, name_places
from xscore.indexer.languages import FileShape, Language
from xscore.records.memory import CodeFacts, Kind


class SourceFile(Struct, frozen=True, dict=True):
    """A textual file, as read."""

    path: str
    text: str
    """The text, with `\\n` as line ends."""
    language: Language
    is_test: bool
    window_lines: int

    @cached_property
    def lines(self) -> list[str]:
        """The lines without line breaks."""
        return self.text.split("\n")


class NameUse(Struct, frozen=True):
    """A name that a draft uses; `links` documents the hints."""

    name: str
    hint: str
    is_reference: bool = False
    """Whether it is named (a base class, a mention in prose) rather than called."""


class MemoryDraft(Struct, frozen=True, kw_only=True):
    """A memory before redaction and hashing."""

    kind: Kind
    entity: str
    start: int
    end: int
    text: str
    title: str
    card: str = ""
    facts: CodeFacts = field(default_factory=CodeFacts)
    uses: tuple[NameUse, ...] = ()
    types: dict[str, str] = {}
    """What it returns, under an empty name, and the types of its members; `receivers` documents
    the values."""


def number_names(names: Iterable[str]) -> list[str]:
    """Number repeated names of one file: `x`, `x#2`, `x#3`."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return numbered


def trim_rows(lines: Sequence[str], start: int, end: int) -> tuple[int, int]:
    """Trim blank rows at both ends; end < start if all are blank."""
    while start <= end and not lines[start].strip():
        start += 1
    while end >= start and not lines[end].strip():
        end -= 1
    return start, end


MAX_DEPTH = 200
"""Most nesting of brackets, list marks or indentation; from 250 on the YAML grammar crashes the
interpreter."""
MAX_CODE_DEPTH = 1_000
"""Most nesting of brackets in a programming language. None of their grammars crashes at 20,000;
from 3,000 on some take seconds."""
MAX_TREE_DEPTH = 5_000
"""Longest chain of calls, `a.b().b()`, or of operators: queries take time by the square of
it."""
MAX_DEPTH_WITH_STRINGS = 10_000
"""Most nesting where brackets in strings count, too. What looks like a string may be code
between two quotes of characters or comments; the slowest grammar, Lua's, takes 0.5 s for as
many. The most that was seen in strings of real code is 3,420."""
MANY_BRACKETS = 2_000
"""Number of closing brackets from which on those in strings may not hide what nests: Lua's
grammar takes time by the square of the depth where it has to mend the rest, 6.5 s for 10,000
calls that nobody closes."""
_STRINGS = rb'(?<!\\)"(?:[^"\\\n]|\\.)*+"' rb"|(?<!\\)'(?:[^'\\\n]|\\.)*+'"
"""Matches strings of one line. None begins behind a backslash, or a line of `"\\` would take
time by the square of it."""
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"()[]{}")
_MARKS, _MARK_RUN = bytes.maketrans(b"?>:", b"---"), b"-" * MAX_DEPTH
_TABS, _DEEP_INDENT = bytes.maketrans(b"\t", b" "), b" " * MAX_DEPTH
_MARKS_APART = rb"(?:[-?:][ \t]++|>[ \t]*+)++"
"""Matches marks that nest, not a rule of dashes."""
_INDENT = rb"(?m)^[ \t]+"


class GrammarGaveUp(Exception):  # not an XscoreError: it never leaves this package
    """The grammar cannot read the file, or may not."""


def parse_syntax(data: bytes, language: Language) -> Syntax:
    """Run the language's queries over these bytes (UTF-8, `\\n` line ends).

    Raises GrammarGaveUp.
    """
    _refuse_deep(data, language)
    parser, query = load_queries(language)
    if query is None:
        raise GrammarGaveUp(f"the installed {language.name} grammar does not fit its queries")
    parsed = for_grammar(data, language)
    # No progress callback: a parse that one ends keeps its memory for ever, and `matches` with one
    # crashes the interpreter (tree-sitter 0.26.1). The kernel ends the process instead.
    tree = parser.parse(parsed)
    if tree.root_node.descendant_count > MAX_TREE_DEPTH and _is_tree_deep(tree.walk()):
        raise GrammarGaveUp(f"code nested more than {MAX_TREE_DEPTH:,} deep")
    matches = QueryCursor(query).matches(tree.root_node)
    syntax = collect(data, matches)
    syntax.places = name_places(
        data, {local_name(imported, language) for imported in syntax.imports}
    )
    syntax.values = _imported_values(tree.root_node, data, syntax, language)
    return syntax


def local_name(imported: Import, language: Language) -> str:
    """Return the name by which a file knows what it imports; empty if it has none."""
    bound = imported.alias or imported.name
    if not bound and language.has_named_modules:
        bound = imported.module.rpartition(".")[2]
    if not bound and language.module_separator == ".":
        bound = imported.module.split(".")[0]
    if not bound and language.has_folder_modules:
        bound = _GO_VERSION.sub("", imported.module).rpartition("/")[2]
    return "" if bound == "*" else bound


_GO_VERSION = re.compile(r"(?:/v\d+|\.v\d+)\Z")
"""Matches the end of a Go module's path in a later version, which is not part of the package's
name."""


def _imported_values(
    root: "Node", data: bytes, syntax: Syntax, language: Language
) -> list[tuple[int, str]]:
    """Return the uses of imported names that have one meaning in the file and may be defined in
    this repository."""
    if language.module_separator == ".":
        library = sys.stdlib_module_names
    else:
        library = frozenset[str]()
    defined_here = {name for _, name in syntax.constants}
    defined_here |= {definition.name for definition in syntax.definitions}
    meanings: dict[str, set[tuple[str, str]]] = {}
    for imported in syntax.imports:
        meaning = imported.module, imported.name
        meanings.setdefault(local_name(imported, language), set()).add(meaning)
    names: set[str] = set()
    for name, sources in meanings.items():
        # Imported twice (try/except, two branches): it is unknown which one is meant.
        if len(sources) != 1 or name in defined_here:
            continue
        ((module, _),) = sources
        if module.partition(".")[0] not in library:
            names.add(name)
    places = [
        (at, name) for at, name in syntax.places if name in names and not is_class_name(name)
    ]
    spans: list[tuple[int, int, int]] = []
    for d in syntax.definitions:
        if d.kind not in ("scope", "namespace"):
            spans.append((d.start_byte, d.body_byte, d.end_byte))
    return imported_values(root, data, places, spans, is_rust=language.module_separator == "::")


def _refuse_deep(data: bytes, language: Language) -> None:
    """Raise GrammarGaveUp where brackets, marks or indentation nest too deep, by counting."""
    is_code = language.shape is FileShape.CODE
    deepest = MAX_CODE_DEPTH if is_code else MAX_DEPTH
    is_deep = _brackets_are_deep(data, deepest)
    may_differ = is_deep or _opening_brackets(data) > MANY_BRACKETS
    if may_differ and is_code and not _brackets_are_deep(data, MAX_DEPTH_WITH_STRINGS):
        # Brackets in strings nest and close nothing: codes of a terminal, patterns, messages.
        is_deep = _brackets_are_deep(re.sub(_STRINGS, b"", data), deepest)
    if is_deep:
        raise GrammarGaveUp(f"nested more than {deepest:,} deep")
    if _marks_are_deep(data):
        raise GrammarGaveUp(f"nested more than {MAX_DEPTH} deep")


def _marks_are_deep(data: bytes) -> bool:
    """Whether list marks or indentation nest too deep, by counting."""
    if _MARK_RUN in data.translate(_MARKS, b" \t"):
        runs = re.findall(_MARKS_APART, data)
        if any(len(run.translate(None, b" \t")) >= MAX_DEPTH for run in runs):
            return True
    if _DEEP_INDENT in data.translate(_TABS):
        indents = set(map(len, re.findall(_INDENT, data)))
        return len(indents) > MAX_DEPTH
    return False


def _opening_brackets(data: bytes) -> int:
    return data.count(b"(") + data.count(b"[") + data.count(b"{")


def _brackets_are_deep(data: bytes, deepest: int) -> bool:
    """Whether brackets nest too deep, by counting."""
    # Ordinary files end here; only those with many brackets are read byte by byte.
    if _opening_brackets(data) <= deepest:
        return False
    depth = 0
    for bracket in data.translate(None, _NOT_BRACKETS):
        depth = depth + 1 if bracket in b"([{" else max(0, depth - 1)
        if depth > deepest:
            return True
    return False


def _is_tree_deep(cursor: "TreeCursor") -> bool:
    """Whether the tree is too deep below its largest child, that one's largest child, and so on."""
    for _ in range(MAX_TREE_DEPTH):
        if not cursor.goto_first_child():
            return False
        widest = cursor.node
        while cursor.goto_next_sibling():
            widest = max(widest, cursor.node, key=_width)
        if widest is None:
            return False
        cursor.reset(widest)
    return True


def _width(node: "Node | None") -> int:
    if not node:
        return 0
    return node.end_byte - node.start_byte


@cache
def load_queries(language: Language) -> "tuple[Parser, Query | None]":
    """Return the parser and the compiled query; None if the query does not fit the installed
    version of the grammar."""
    parser, grammar = load_parser(language)
    source = language.query
    if not source:
        folder = Path(__file__).with_name("queries")
        names = (language.queries or language.name).split()
        source = "\n".join((folder / f"{name}.scm").read_text("utf-8") for name in names)
    try:
        return parser, Query(grammar, source)
    except ValueError:
        return parser, None
