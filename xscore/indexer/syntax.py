"""Parse a file with a tree-sitter grammar into plain records; also the memory drafts that the cutters make.

`parse_syntax` runs one grammar and its query over a file, under a deadline, and returns definitions, imports, calls and
so on with rows and bytes. Rows count from 0, ends are inclusive. Trees are never walked: nesting is recovered from byte
ranges (`entities.outline`), so deep nesting cannot exhaust the stack. It decides nothing about memories.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.indexer.languages import Language
from xscore.records.memory import CodeFacts, Kind

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query


class SourceFile(Struct, frozen=True):
    """A textual file, as read."""

    path: str
    text: str
    """Line ends are `\\n`."""
    language: Language
    is_test: bool
    window_lines: int

    @property
    def lines(self) -> list[str]:
        """The lines without line breaks."""
        return self.text.split("\n")


class NameUse(Struct, frozen=True):
    """A name that a draft uses; `links` documents the hints."""

    name: str
    hint: str
    is_reference: bool = False
    """Named (a base class, a mention in prose) rather than called."""


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


PARSE_SECONDS = 1.0
"""CPU time any file may take; a slower one is cut into windows of lines."""
PARSE_BYTES_PER_SECOND = 100_000
"""Additional time by size: a fiftieth of the usual speed."""
READ_BYTES = 1 << 16
MAX_DEPTH = 200
"""Nesting of brackets, list marks or indentation; from 250 on the YAML grammar crashes the interpreter."""
MAX_HEADER_CHARS = 120
"""Longest name of an extension."""
CALL_BYTES = 200
"""Longest part kept of a called name."""
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"()[]{}")
_MARK_RUN = re.compile(rb"(?:[-?>:][ \t]*){%d}" % MAX_DEPTH)
_INDENT = re.compile(rb"^[ \t]+", re.MULTILINE)
_MACRO = re.compile(
    rb"^[ \t]*#(?:[^\n\\]|\\[\s\S])*"
    rb"|(?P<before>^[ \t]*|[\s;{}>])(?P<macro>[A-Z][A-Z0-9]*_[A-Z0-9_]*(?:\([^()\n;{}]{0,200}\))?)"
    rb"(?=[ \t]+[A-Za-z_~]|[ \t]*$)"
    rb"|(?P<head>\)\s{0,80}(?:const\s{1,80})?)(?P<tail>[A-Z][A-Z0-9]*_[A-Z0-9_]*(?:\([^()\n;{}]{0,200}\))?)(?=\s*[{;])",
    re.MULTILINE,
)
"""A line of the preprocessor, which stays, or a macro to blank."""
_DEEP_INDENT = re.compile(rb"^[ \t]{%d}" % MAX_DEPTH, re.MULTILINE)
_ENTITY_CAPTURES = (
    *("test", "suite", "function", "class", "extension", "namespace", "scope", "type", "overload"),
    *("section", "subsection"),
)
_ENTITIES = frozenset(_ENTITY_CAPTURES)


class GrammarGaveUp(Exception):  # not an XscoreError: it never leaves this package
    """The grammar could not read the file in time, or at all."""


class Definition(Struct, frozen=True, kw_only=True):
    """Something with a name and a span, from which an entity is made. Rows from 0, ends inclusive."""

    kind: str
    name: str
    start: int
    end: int
    start_byte: int
    end_byte: int
    inner_start_byte: int
    """Where the definition itself starts: after its decorators."""
    inner_start: int
    body_byte: int
    """Where its body starts, or its end without one."""
    owner: str = ""
    """The type that it belongs to, where that is not the definition around it: a receiver, the type of an `impl`."""


class Import(Struct, frozen=True):
    """One imported name: `from module import name as alias`. Empty name: the module itself."""

    module: str
    name: str
    alias: str
    row: int


class LeadingComment(Struct, frozen=True):
    """A comment or decorator that may belong to the entity below it."""

    start: int
    end: int
    start_byte: int
    end_byte: int


class Syntax(Struct):
    """Everything the query found in one file, each list in source order."""

    definitions: list[Definition] = field(default_factory=list)
    leads: list[LeadingComment] = field(default_factory=list)
    docs: list[tuple[int, str]] = field(default_factory=list)
    """(byte, text as written) of docstrings."""
    constants: list[tuple[int, str]] = field(default_factory=list)
    """(row, name) of module-level values."""
    statements: list[int] = field(default_factory=list)
    """First rows of module-level statements."""
    calls: list[tuple[int, str]] = field(default_factory=list)
    """(byte, name as written)."""
    bases: list[tuple[int, str]] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    branches: list[int] = field(default_factory=list)
    """Bytes of branching nodes."""


def parse_syntax(data: bytes, language: Language) -> Syntax:
    """Run the language's queries over these bytes (UTF-8, `\\n` line ends). Raises GrammarGaveUp."""
    from tree_sitter import QueryCursor

    if _is_too_deep(data):
        raise GrammarGaveUp(f"it nests more than {MAX_DEPTH} deep")
    parser, query = _loaded(language)
    parsed = _without_macros(data) if language.family == "c" else data
    deadline = thread_time() + PARSE_SECONDS + len(data) / PARSE_BYTES_PER_SECOND
    parser.reset()
    try:
        tree = parser.parse(
            lambda offset, _point: parsed[offset : offset + READ_BYTES],
            progress_callback=lambda _at, _error: thread_time() > deadline,
        )
    except ValueError as error:
        raise GrammarGaveUp(f"the {language.name} grammar took too long") from error
    # no progress callback here: `matches` with one crashes the interpreter (tree-sitter 0.26.1)
    matches = QueryCursor(query).matches(tree.root_node)
    return _collect(data, matches)


def _without_macros(data: bytes) -> bytes:
    """Blank macros before a declaration, behind its parameters or alone on a row, which the grammars cannot place.

    `class API_EXPORT Pool {`, `LIB_BEGIN_NAMESPACE`. Bytes and rows stay where they are.
    """

    def blank(found: re.Match[bytes]) -> bytes:
        before, macro = found["before"] or found["head"] or b"", found["macro"] or found["tail"]
        return found[0] if macro is None else before + b" " * len(macro)

    return _MACRO.sub(blank, data)


def _is_too_deep(data: bytes) -> bool:
    """Whether brackets or marks nest too deep, by counting."""
    if _MARK_RUN.search(data):
        return True
    if _DEEP_INDENT.search(data) and len(set(map(len, _INDENT.findall(data)))) > MAX_DEPTH:
        return True
    if data.count(b"(") + data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in data.translate(None, _NOT_BRACKETS):
        depth = depth + 1 if bracket in b"([{" else max(0, depth - 1)
        if depth > MAX_DEPTH:
            return True
    return False


@cache
def _loaded(language: Language) -> "tuple[Parser, Query]":
    from importlib import import_module

    from tree_sitter import Language as Grammar
    from tree_sitter import Parser, Query

    module, function = language.grammar.split(":")
    grammar = Grammar(getattr(import_module(module), function)())
    folder = Path(__file__).with_name("queries")
    source = "\n".join(
        (folder / f"{name}.scm").read_text("utf-8") for name in (language.queries or language.name).split()
    )
    return Parser(grammar), Query(grammar, source)


def _collect(data: bytes, matches: "list[tuple[int, dict[str, list[Node]]]]") -> Syntax:
    found = Syntax()
    definitions: dict[int, Definition] = {}
    for _, captures in matches:
        kinds = _ENTITIES & captures.keys()
        kind = min(kinds, key=_ENTITY_CAPTURES.index) if kinds else ""
        if kind:
            _define(definitions, data, kind, captures)
        elif "import.module" in captures:
            found.imports.extend(_imports(data, captures))
        elif "receiver" in captures:
            receiver, called = captures["receiver"][0], captures["call"][0]
            found.calls.append((receiver.start_byte, f"{_called(data, receiver)}.{_text(data, called)}"))
        else:
            for name, nodes in captures.items():
                field_name, read = _SPOTS.get(name, ("", _text))
                if field_name:
                    getattr(found, field_name).extend(read(data, node) for node in nodes)
    found.definitions = sorted(definitions.values(), key=lambda d: (d.start_byte, -d.end_byte))
    found.leads.sort(key=lambda lead: lead.start_byte)
    found.imports = sorted(set(found.imports), key=lambda i: (i.row, i.module, i.name))
    found.statements = sorted(set(found.statements))
    for spots in (found.docs, found.constants, found.calls, found.bases, found.branches):
        spots.sort()
    return found


def _define(definitions: dict[int, Definition], data: bytes, kind: str, captures: "dict[str, list[Node]]") -> None:
    node = captures[kind][0]
    name = captures["name"][0] if "name" in captures else node
    body_byte = captures["body"][0].start_byte if "body" in captures else node.end_byte
    if name.type == "parameter_list":  # of `TEST(Suite, Name)`
        written = ".".join(part.strip() for part in _text(data, name).strip("()").split(","))
    elif "name" in captures:
        written = _text(data, name)
    else:  # an extension is named by its header: `impl Display for Point`
        written = " ".join(data[node.start_byte : body_byte].decode("utf-8", "replace").split())[:MAX_HEADER_CHARS]
    new = Definition(
        kind=kind,
        name=written if kind in {"test", "suite"} else written.replace("::", "."),
        start=node.start_point.row,
        end=_last_row(node),
        start_byte=node.start_byte,
        end_byte=node.end_byte,
        inner_start_byte=node.start_byte,
        inner_start=node.start_point.row,
        body_byte=body_byte,
        owner=_text(data, captures["owner"][0]).replace("::", ".") if "owner" in captures else "",
    )
    known = definitions.get(name.start_byte)
    definitions[name.start_byte] = new if known is None else _merged(known, new)


def _merged(one: Definition, other: Definition) -> Definition:
    """Merge two captures of one name (a decorated definition, a value that is both): the wider span, inner start."""
    wide, narrow = (one, other) if one.start_byte <= other.start_byte else (other, one)
    return replace(
        wide,
        kind=min(one.kind, other.kind, key=_ENTITY_CAPTURES.index),
        end=max(wide.end, narrow.end),
        end_byte=max(wide.end_byte, narrow.end_byte),
        inner_start_byte=narrow.inner_start_byte,
        inner_start=narrow.inner_start,
        body_byte=min(wide.body_byte, narrow.body_byte),
        owner=one.owner or other.owner,
    )


def _imports(data: bytes, captures: "dict[str, list[Node]]") -> list[Import]:
    module = captures["import.module"][0]
    written = _text(data, module).strip("'\"`")
    names = captures.get("import.name", [])
    aliases = captures.get("import.alias", [])
    if len(names) > 1:
        return [Import(written, _text(data, name), "", name.start_point.row) for name in names]
    name = _text(data, names[0]) if names else ""
    alias = _text(data, aliases[0]) if aliases else ""
    return [Import(written, name, alias, module.start_point.row)]


def _last_row(node: "Node") -> int:
    """Return the last row of a node; an end at column 0 means the line break before."""
    end = node.end_point
    return end.row - 1 if end.column == 0 and end.row > node.start_point.row else end.row


def _called(data: bytes, node: "Node") -> str:
    """Return a called name, or the end of a long chain, since each link of the chain is a separate call."""
    start = max(node.start_byte, node.end_byte - CALL_BYTES)
    written = data[start : node.end_byte].decode("utf-8", "replace").replace("::", ".").replace("->", ".")
    return written if start == node.start_byte else "?()." + written.rpartition(".")[2]


def _text(data: bytes, node: "Node") -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace")


_SPOTS: "dict[str, tuple[str, Callable[[bytes, Node], object]]]" = {
    "call": ("calls", lambda data, node: (node.start_byte, _called(data, node))),
    "branch": ("branches", lambda _data, node: node.start_byte),
    "statement": ("statements", lambda _data, node: node.start_point.row),
    "lead": (
        "leads",
        lambda _data, node: LeadingComment(node.start_point.row, _last_row(node), node.start_byte, node.end_byte),
    ),
    "doc": ("docs", lambda data, node: (node.start_byte, _text(data, node))),
    "constant": ("constants", lambda data, node: (node.start_point.row, _text(data, node))),
    "base": ("bases", lambda data, node: (node.start_byte, _text(data, node).replace("::", ".").partition("<")[0])),
}
"""Capture -> its list in `Syntax`, and the function that reads it."""
