"""Parse a file with a tree-sitter grammar into plain records; also the memory drafts that the cutters make.

`parse_syntax` runs one grammar and its query over a file and returns definitions, imports, calls and so on with rows
and bytes. It bounds neither time nor memory: strangers' files are for `parse_process` alone. Rows count from 0, ends
are inclusive. Trees are never walked: nesting is recovered from byte ranges (`entities.outline`), so deep nesting
cannot exhaust the stack. It decides nothing about memories.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.indexer.chains import INDEXED, STEP, TYPE_MARK, chain_before, chain_of, type_chars
from xscore.indexer.grammars import for_grammar, load_parser
from xscore.indexer.imported_values import imported_values, is_class_name, name_places
from xscore.indexer.languages import Language
from xscore.records.memory import CodeFacts, Kind

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query, TreeCursor


class SourceFile(Struct, frozen=True, dict=True):
    """A textual file, as read."""

    path: str
    text: str
    """Line ends are `\\n`."""
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
    types: dict[str, str] = {}
    """What it gives, under an empty name, and of what types its members are; `receivers` documents the values."""


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
"""Nesting of brackets, list marks or indentation; from 250 on the YAML grammar crashes the interpreter."""
MAX_HEADER_CHARS = 120
"""Longest name of an extension."""
CALL_BYTES = 200
"""Longest part kept of a called name."""
MAX_TREE_DEPTH = 5_000
"""Of a chain of calls, `a.b().b()`, or of operators: queries take time by the square of it."""
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"()[]{}")
_MARKS, _MARK_RUN = bytes.maketrans(b"?>:", b"---"), b"-" * MAX_DEPTH
_TABS, _DEEP_INDENT = bytes.maketrans(b"\t", b" "), b" " * MAX_DEPTH
_MARKS_APART = rb"(?:[-?:][ \t]++|>[ \t]*+)++"
"""A rule of dashes nests nothing."""
_INDENT = rb"(?m)^[ \t]+"
_ENTITY_CAPTURES = (
    *("overload", "test", "suite", "function", "class", "extension", "namespace", "scope", "type"),
    *("section", "subsection"),
)
_ENTITIES = frozenset(_ENTITY_CAPTURES)


class GrammarGaveUp(Exception):  # not an XscoreError: it never leaves this package
    """The grammar cannot read the file, or may not."""


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
    chains: list[tuple[int, str, int]] = field(default_factory=list)
    """(byte, chain of what is called, number of arguments) of each call.

    A call whose object has no chain is `?|name`; -1: the language has one function of a name.
    """
    variables: list[tuple[int, str, str]] = field(default_factory=list)
    """(byte, name as written, chain) of what is stated or evident of a variable; empty chain: it is unknown."""
    closures: list[tuple[int, int]] = field(default_factory=list)
    """Bytes of functions without a name, whose variables are theirs."""
    results: list[tuple[int, str]] = field(default_factory=list)
    """(byte, type as written) of what a definition returns, or an alias stands for."""
    returned: list[tuple[int, str]] = field(default_factory=list)
    """(byte, chain) of the values that code returns."""
    declared: list[tuple[int, str, str]] = field(default_factory=list)
    """(byte, name, type of its result) of the methods without a body that a class or interface declares."""
    bases: list[tuple[int, str]] = field(default_factory=list)
    places: list[tuple[int, str]] = field(default_factory=list)
    """(byte, name) where an imported name stands, in code or not."""
    values: list[tuple[int, str]] = field(default_factory=list)
    """(byte, name as written) of what is imported and used other than by a call."""
    imports: list[Import] = field(default_factory=list)
    branches: list[int] = field(default_factory=list)
    """Bytes of branching nodes."""


def parse_syntax(data: bytes, language: Language) -> Syntax:
    """Run the language's queries over these bytes (UTF-8, `\\n` line ends). Raises GrammarGaveUp."""
    from tree_sitter import QueryCursor

    if _is_too_deep(data):
        raise GrammarGaveUp(f"it nests more than {MAX_DEPTH} deep")
    parser, query = load_queries(language)
    if query is None:
        raise GrammarGaveUp(f"the installed {language.name} grammar does not fit its queries")
    parsed = for_grammar(data, language)
    # No progress callback: a parse that one ends keeps its memory for ever, and `matches` with one crashes the
    # interpreter (tree-sitter 0.26.1). The kernel ends the process instead.
    tree = parser.parse(parsed)
    if tree.root_node.descendant_count > MAX_TREE_DEPTH and _is_tree_deep(tree.walk()):
        raise GrammarGaveUp(f"its code nests more than {MAX_TREE_DEPTH:,} deep")
    matches = QueryCursor(query).matches(tree.root_node)
    found = _collect(data, matches)
    found.places = name_places(data, {local_name(one, language) for one in found.imports})
    found.values = _imported_values(tree.root_node, data, found, language)
    return found


def local_name(imported: Import, language: Language) -> str:
    """Return the name by which a file knows what it imports; empty if it has none."""
    bound = imported.alias or imported.name
    if not bound and language.module_separator == ".":
        bound = imported.module.split(".")[0]
    if not bound and language.has_folder_modules:
        bound = _GO_VERSION.sub("", imported.module).rpartition("/")[2]
    return "" if bound == "*" else bound


_GO_VERSION = re.compile(r"(?:/v\d+|\.v\d+)\Z")
"""What ends the path of a Go module in a later version, and is no part of the package's name."""


def _imported_values(root: "Node", data: bytes, found: Syntax, language: Language) -> list[tuple[int, str]]:
    """Return the uses of imported names that have one meaning in the file and may be defined in this repository."""
    library = sys.stdlib_module_names if language.module_separator == "." else frozenset[str]()
    meanings: dict[str, set[tuple[str, str]]] = {}
    for one in found.imports:
        meanings.setdefault(local_name(one, language), set()).add((one.module, one.name))
    given = {name for _, name in found.constants} | {one.name for one in found.definitions}
    meant = {name: one[0] for name, (one, *others) in meanings.items() if not others and name not in given}
    names = {name for name, module in meant.items() if module.partition(".")[0] not in library}
    places = [one for one in found.places if one[1] in names and not is_class_name(one[1])]
    spans = [(d.start_byte, d.body_byte, d.end_byte) for d in found.definitions if d.kind not in ("scope", "namespace")]
    return imported_values(root, data, places, spans, is_rust=language.module_separator == "::")


def _is_too_deep(data: bytes) -> bool:
    """Whether brackets or marks nest too deep, by counting."""
    if _MARK_RUN in data.translate(_MARKS, b" \t"):
        runs = re.findall(_MARKS_APART, data)
        if any(len(run.translate(None, b" \t")) >= MAX_DEPTH for run in runs):
            return True
    if _DEEP_INDENT in data.translate(_TABS) and len(set(map(len, re.findall(_INDENT, data)))) > MAX_DEPTH:
        return True
    if data.count(b"(") + data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in data.translate(None, _NOT_BRACKETS):
        depth = depth + 1 if bracket in b"([{" else max(0, depth - 1)
        if depth > MAX_DEPTH:
            return True
    return False


def _is_tree_deep(cursor: "TreeCursor") -> bool:
    """Whether the tree is too deep below its largest child, that one's largest child, and so on."""
    for _ in range(MAX_TREE_DEPTH):
        if not cursor.goto_first_child():
            return False
        widest = cursor.node
        while cursor.goto_next_sibling():
            widest = max(widest, cursor.node, key=lambda node: node.end_byte - node.start_byte if node else 0)
        if widest is None:
            return False
        cursor.reset(widest)
    return True


@cache
def load_queries(language: Language) -> "tuple[Parser, Query | None]":
    """Return the parser and the compiled query; None: the query does not fit the installed version of the grammar."""
    from tree_sitter import Query

    parser, grammar = load_parser(language)
    folder = Path(__file__).with_name("queries")
    source = language.query or "\n".join(
        (folder / f"{name}.scm").read_text("utf-8") for name in (language.queries or language.name).split()
    )
    try:
        return parser, Query(grammar, source)
    except ValueError:
        return parser, None


def _collect(data: bytes, matches: "list[tuple[int, dict[str, list[Node]]]]") -> Syntax:
    found = Syntax()
    definitions: dict[int, Definition] = {}
    spots = {name: (getattr(found, field_name).append, read) for name, (field_name, read) in _SPOTS.items()}
    for _, captures in matches:
        if "variable" in captures:
            found.variables.extend(_variables(data, captures))
            continue
        kinds = () if len(captures) == 1 and next(iter(captures)) in spots else _ENTITIES & captures.keys()
        if kinds:
            _define(definitions, data, min(kinds, key=_ENTITY_CAPTURES.index), captures)
        elif "import.module" in captures:
            found.imports.extend(_imports(data, captures))
        elif "declared" in captures:
            stated = captures.get("declared.type", ())
            name = captures["declared"][0]
            found.declared.append((name.start_byte, _text(data, name), type_chars(stated[0], data) if stated else ""))
        elif "receiver" in captures:
            begin, written = _called(data, captures["receiver"][0])
            name = _text(data, captures["call"][0])
            found.calls.append((begin, f"{written}.{name}"))
            chain = chain_of(captures["receiver"][0], data) or "?"
            found.chains.append((begin, f"{chain}{STEP}{name}", _argument_count(captures)))
        else:
            for name, nodes in captures.items():
                if name in spots:
                    add, read = spots[name]
                    for node in nodes:
                        add(read(data, node))
                if name == "call":
                    count = _argument_count(captures)
                    for node, (begin, written) in zip(nodes, found.calls[-len(nodes) :], strict=True):
                        chain = written if written.isidentifier() else _chain(data, node)
                        found.chains.append((begin, chain, count))
    found.definitions = sorted(definitions.values(), key=lambda d: (d.start_byte, -d.end_byte))
    found.leads.sort(key=lambda lead: lead.start_byte)
    inner = [(d.start, d.end) for d in found.definitions if d.kind == "namespace"]
    seen = {_seen_by_file(one) if any(a <= one.row <= b for a, b in inner) else one for one in found.imports}
    found.imports = sorted(seen, key=lambda i: (i.row, i.module, i.name))
    found.statements = sorted(set(found.statements))
    for places in (found.docs, found.constants, found.calls, found.bases, found.branches, found.chains):
        places.sort()
    for places in (found.variables, found.results, found.returned, found.declared):
        places.sort()
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
    if module.parent is not None and module.parent.type == "mod_item":  # `mod walk;` declares the module below this one
        return [Import("self", written, "", module.start_point.row)]
    names = captures.get("import.name", [])
    aliases = captures.get("import.alias", [])
    if len(names) > 1:
        return [Import(written, _text(data, name), "", name.start_point.row) for name in names]
    name = _text(data, names[0]) if names else ""
    if name == "self" and "::" in written:  # `use crate::walk::{self}`
        written, _, name = written.rpartition("::")
    alias = _text(data, aliases[0]) if aliases else ""
    return [Import(written, name, alias, module.start_point.row)]


def _word(data: bytes, node: "Node") -> str:
    """Return a name that stands alone; `?` for one that is defined there, or follows what it belongs to."""
    before = data[max(0, node.start_byte - 5) : node.start_byte]
    is_other = before.endswith((b".", b":", b"@", b"def ", b"$")) or _ASSIGNED.match(data, node.end_byte)
    return "?" if is_other else _text(data, node)


_ASSIGNED = re.compile(rb"[ \t]*[-+*/|&]{0,2}=(?![=~>])")


def _argument_count(captures: "dict[str, list[Node]]") -> int:
    given = captures.get("arguments")
    return given[0].named_child_count if given else -1


def _chain(data: bytes, node: "Node") -> str:
    """Return the chain of what is called; of an object without one only the name that is called on it."""
    chain = chain_of(node, data)
    if chain:
        return chain
    end = data[max(node.start_byte, node.end_byte - CALL_BYTES) : node.end_byte].decode("utf-8", "replace")
    last = _LAST_WORD.search(end)
    return f"?{STEP}{last[0]}" if last else "?"


_LAST_WORD = re.compile(r"(?<![\w$])[\w$]+\Z")


def _variables(data: bytes, captures: "dict[str, list[Node]]") -> Iterator[tuple[int, str, str]]:
    """Yield what a declaration, an assignment or a parameter says of each of its names."""
    chain = ""
    if stated := captures.get("variable.type"):
        written = type_chars(stated[0], data)
        chain = TYPE_MARK + written if written and written.lstrip(": ") not in _INFERRED else ""
    given = captures.get("variable.value", ())
    if not chain and given:
        chain = chain_of(given[0], data)
    if not chain and (walked := captures.get("variable.each")):
        begins = chain_of(walked[0], data)
        chain = f"{begins}{STEP}{INDEXED}" if begins else ""
    for node in captures["variable"]:
        name = _text(data, node)
        if "property" in captures:
            name = f"this.{name}"
        elif "generic" in captures:
            name = f"<{name}>"
        elif "first" in captures:
            name = ".0"
        elif "member" in captures:
            name = f".{name}"
        # What it was before counts up to the end of the new value: `store = store.reopened()`.
        yield max([node.start_byte, *(value.end_byte - 1 for value in given)]), name, chain


_INFERRED = frozenset({"var", "auto", "val", "const auto", "auto&", "const auto&"})
"""Written in the place of a type where it is to be inferred."""


def _seen_by_file(imported: Import) -> Import:
    """`super` of a module inside a Rust file is the module of the file itself."""
    first, joint, rest = imported.module.partition("::")
    return replace(imported, module=f"self{joint}{rest}") if first == "super" else imported


def _last_row(node: "Node") -> int:
    """Return the last row of a node; an end at column 0 means the line break before."""
    end = node.end_point
    return end.row - 1 if end.column == 0 and end.row > node.start_point.row else end.row


def _called(data: bytes, node: "Node") -> tuple[int, str]:
    """Return where a called name begins, and it, or the end of a long chain: each link of it is a call of its own."""
    begin, end = node.start_byte, node.end_byte
    start = max(begin, end - CALL_BYTES)
    written = data[start:end].decode("utf-8", "replace").replace("::", ".").replace("->", ".")
    return begin, written if start == begin else "?()." + written.rpartition(".")[2]


def _text(data: bytes, node: "Node") -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _base(written: str) -> str:
    return written.replace("::", ".").lstrip(".").partition("<")[0]


_SPOTS: "dict[str, tuple[str, Callable[[bytes, Node], object]]]" = {
    "call": ("calls", _called),
    "spliced": (
        "chains",
        lambda data, node: (node.start_byte, chain_before(data, node.start_byte, node.end_byte) or "?", -1),
    ),
    "word": ("chains", lambda data, node: (node.start_byte, _word(data, node), 0)),
    "closure": ("closures", lambda _data, node: (node.start_byte, node.end_byte)),
    "result": ("results", lambda data, node: (node.start_byte, type_chars(node, data))),
    "returned": ("returned", lambda data, node: (node.start_byte, chain_of(node, data))),
    "branch": ("branches", lambda _data, node: node.start_byte),
    "statement": ("statements", lambda _data, node: node.start_point.row),
    "lead": (
        "leads",
        lambda _data, node: LeadingComment(node.start_point.row, _last_row(node), node.start_byte, node.end_byte),
    ),
    "doc": ("docs", lambda data, node: (node.start_byte, _text(data, node))),
    "constant": ("constants", lambda data, node: (node.start_point.row, _text(data, node))),
    "base": ("bases", lambda data, node: (node.start_byte, _base(_text(data, node)))),
}
"""Capture -> its list in `Syntax`, and the function that reads it."""
