"""Read the matches of a grammar's query into plain records, one list for each kind.

`queries/README.md` says what each capture means. Rows count from 0, ends are inclusive. Trees are
never walked here: `chains` follows an expression a bounded number of steps.
"""

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.indexer.captured_variables import variables_of
from xscore.indexer.chains import (
    STEP,
    TYPE_MARK,
    chain_before,
    chain_of,
    narrowed_by,
    type_chars,
)

if TYPE_CHECKING:
    from tree_sitter import Node

    Captures = dict[str, list[Node]]

MAX_HEADER_CHARS = 120
"""Longest name of an extension."""
MAX_TAKEN = 4
"""Most parameters of a function type that are kept."""
CALL_BYTES = 200
"""Longest part kept of a called name."""
_ENTITY_CAPTURES = (
    "overload",
    "test",
    "suite",
    "function",
    "class",
    "extension",
    "namespace",
    "scope",
    "binding",
    "type",
    "alias",
    "section",
    "subsection",
)
"""Kinds of entities; where a match captures one name as several, the first of these counts."""
_ENTITIES = frozenset(_ENTITY_CAPTURES)
_SCOPES = frozenset({"scope", "binding"})
_CHAIN_START = re.compile(r"[\w$#]+(?:\.[\w$#]+)*\.?")


class Definition(Struct, frozen=True, kw_only=True):
    """Something with a name and a span, from which an entity is made.

    Rows from 0, ends inclusive.
    """

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
    """Where its body starts, or its end if there is none."""
    owner: str = ""
    """The type that it belongs to if that is not the definition around it: a receiver, or the
    type of an `impl`."""


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
    """(byte, text as written) of each docstring."""
    constants: list[tuple[int, str]] = field(default_factory=list)
    """(row, name) of each module-level value."""
    prototypes: list[tuple[int, str]] = field(default_factory=list)
    """(row, name) of each function that is only declared."""
    statements: list[int] = field(default_factory=list)
    """First rows of module-level statements."""
    calls: list[tuple[int, str]] = field(default_factory=list)
    """(byte, name as written) of each call."""
    chains: list[tuple[int, str, int]] = field(default_factory=list)
    """(byte, chain of what is called, number of arguments) of each call.

    A call whose object has no chain is `?|name`; -1: the language has one function of a name.
    """
    variables: list[tuple[int, str, str]] = field(default_factory=list)
    """(byte, name as written, chain) of what is stated or evident about a variable; an empty
    chain: unknown."""
    closures: list[tuple[int, int]] = field(default_factory=list)
    """Byte ranges of functions without a name, whose variables are theirs."""
    narrowed: list[tuple[int, int]] = field(default_factory=list)
    """Byte ranges of branches in which a test narrows the type of a variable."""
    exports: list[tuple[str, str]] = field(default_factory=list)
    """(name, the name by which the file exports it) where these differ."""
    results: list[tuple[int, str]] = field(default_factory=list)
    """(byte, type as written) of what a definition returns, or an alias means."""
    returned: list[tuple[int, str]] = field(default_factory=list)
    """(byte, chain) of the values that code returns."""
    declared: list[tuple[int, str, str]] = field(default_factory=list)
    """(byte, name, type of its result) of the methods without a body that a class or interface
    declares."""
    taken: list[tuple[int, str, tuple[str, ...]]] = field(default_factory=list)
    """(byte, member that has it, types as written of its parameters) of each function type.

    An empty member: there is none; an empty type: it is not stated. A member's function type is
    listed twice: without its name, and right after that with it.
    """
    gives: list[tuple[int, str]] = field(default_factory=list)
    """(byte, type as written) of what a function type returns."""
    bases: list[tuple[int, str]] = field(default_factory=list)
    places: list[tuple[int, str]] = field(default_factory=list)
    """(byte, name) of each imported name, in code or not."""
    values: list[tuple[int, str]] = field(default_factory=list)
    """(byte, name as written) of what is imported and used other than by a call."""
    imports: list[Import] = field(default_factory=list)
    notations: list[tuple[int, int]] = field(default_factory=list)
    """Byte ranges that describe types: what looks like a call there is none."""
    branches: list[int] = field(default_factory=list)
    """Bytes of branching nodes."""


def collect(data: bytes, matches: "list[tuple[int, Captures]]") -> Syntax:
    """Return what the matches of a query say about a file, in source order."""
    syntax = Syntax()
    definitions: dict[int, Definition] = {}
    spots = {
        name: (getattr(syntax, field_name).append, read)
        for name, (field_name, read) in _SPOTS.items()
    }
    for _, captures in matches:
        for name, add_main in _MAIN:
            if name in captures:
                add_main(syntax, data, captures)
                break
        else:
            _add_parts(definitions, data, captures, spots)
    syntax.definitions = sorted(definitions.values(), key=lambda d: (d.start_byte, -d.end_byte))
    _order(syntax)
    return syntax


def _add_parts(
    definitions: dict[int, Definition],
    data: bytes,
    captures: "Captures",
    spots: "dict[str, tuple[Callable[[object], None], Callable[[bytes, Node], object]]]",
) -> None:
    """Add a definition, or what each capture of a match says by itself."""
    kinds = _ENTITIES & captures.keys()
    if kinds:
        _define(definitions, data, min(kinds, key=_ENTITY_CAPTURES.index), captures)
        return
    for name in captures.keys() & spots.keys():
        add, read = spots[name]
        for node in captures[name]:
            add(read(data, node))


def _order(syntax: Syntax) -> None:
    syntax.leads.sort(key=lambda lead: lead.start_byte)
    inner = [(d.start, d.end) for d in syntax.definitions if d.kind == "namespace"]
    seen: set[Import] = set()
    for imported in syntax.imports:
        is_inner = any(start <= imported.row <= end for start, end in inner)
        seen.add(_seen_by_file(imported) if is_inner else imported)
    syntax.imports = sorted(seen, key=lambda i: (i.row, i.module, i.name))
    syntax.statements = sorted(set(syntax.statements))
    for name in _ORDERED:
        getattr(syntax, name).sort()
    if syntax.notations:
        syntax.calls = _outside(syntax.notations, syntax.calls)
        syntax.chains = _outside(syntax.notations, syntax.chains)


Spot = TypeVar("Spot", bound="tuple[int, *tuple[Any, ...]]")
"""An occurrence: its byte, and what is there."""


def _outside(ranges: Sequence[tuple[int, int]], spots: Sequence[Spot]) -> list[Spot]:
    """Return those in none of these ranges; both are sorted, no range holds another."""
    outside: list[Spot] = []
    for spot in spots:
        before = bisect_right(ranges, (spot[0], sys.maxsize)) - 1
        if before < 0 or spot[0] >= ranges[before][1]:
            outside.append(spot)
    return outside


_ORDERED = [
    "notations",
    "prototypes",
    "docs",
    "constants",
    "calls",
    "chains",
    "variables",
    "closures",
    "results",
    "returned",
    "declared",
    "taken",
    "gives",
    "bases",
    "branches",
]


def _add_call(syntax: Syntax, data: bytes, captures: "Captures") -> None:
    count = _argument_count(captures)
    if receivers := captures.get("receiver"):
        begin, written = _called(data, receivers[0])
        name = _text(data, captures["call"][0])
        receiver = chain_of(receivers[0], data) or "?"
        syntax.calls.append((begin, f"{written}.{name}"))
        syntax.chains.append((begin, f"{receiver}{STEP}{name}", count))
        return
    if modules := captures.get("call.module"):
        module = _text(data, modules[0])
        name = _text(data, captures["call"][0])
        syntax.calls.append((modules[0].start_byte, f"{module}.{name}"))
        syntax.chains.append((modules[0].start_byte, f"{TYPE_MARK}{module}{STEP}{name}", count))
        return
    for node in captures["call"]:
        begin, written = _called(data, node)
        chain = written if written.isidentifier() else _chain(data, node)
        syntax.calls.append((begin, written))
        syntax.chains.append((begin, chain, count))


def _add_made(syntax: Syntax, data: bytes, captures: "Captures") -> None:
    """Add a call that makes an object: its name is that of a class, whatever methods have it."""
    count = _argument_count(captures)
    for node in captures["made"]:
        begin, written = _called(data, node)
        syntax.calls.append((begin, written))
        syntax.chains.append((begin, TYPE_MARK + written.partition("<")[0], count))


def _add_declared(syntax: Syntax, data: bytes, captures: "Captures") -> None:
    stated = captures.get("declared.type", ())
    name = captures["declared"][0]
    result = type_chars(stated[0], data) if stated else ""
    syntax.declared.append((name.start_byte, _text(data, name), result))


def _add_documented(syntax: Syntax, data: bytes, captures: "Captures") -> None:
    """Add the docstring of a body that does not begin with it."""
    body = captures["documented"][0]
    syntax.docs.append((body.start_byte, _text(data, captures["doc"][0])))


def _add_variables(syntax: Syntax, data: bytes, captures: "Captures") -> None:
    syntax.variables += variables_of(data, captures)


def _add_taken(syntax: Syntax, data: bytes, captures: "Captures") -> None:
    parameters = captures["taken"][0]
    types: list[str] = []
    for parameter in parameters.named_children[:MAX_TAKEN]:
        stated = parameter.child_by_field_name("type")
        types.append("" if stated is None else type_chars(stated, data))
    member = captures.get("taken.by", ())
    name = _text(data, member[0]) if member else ""
    syntax.taken.append((parameters.start_byte, name, tuple(types)))


def _add_exports(syntax: Syntax, data: bytes, captures: "Captures") -> None:
    name = _text(data, captures["export.name"][0])
    alias = _text(data, captures["export.alias"][0])
    alias = alias.removeprefix("module.").removeprefix("exports").lstrip(".") or "default"
    if name != alias:
        syntax.exports.append((name, alias))


def _add_narrowed(syntax: Syntax, data: bytes, captures: "Captures") -> None:
    branch = captures["narrowed"][0]
    tested = narrowed_by(data, captures["condition"][0], branch)
    syntax.variables += tested
    if any(branch.start_byte <= at < branch.end_byte for at, _, _ in tested):
        syntax.narrowed.append((branch.start_byte, branch.end_byte))


def _add_imports(syntax: Syntax, data: bytes, captures: "Captures") -> None:
    syntax.imports.extend(_imports(data, captures))


def _define(
    definitions: dict[int, Definition], data: bytes, kind: str, captures: "Captures"
) -> None:
    node = captures[kind][0]
    name = captures["name"][0] if "name" in captures else node
    if "body" in captures:
        body_byte = captures["body"][0].start_byte
    else:
        body_byte = node.end_byte
    if name.type == "parameter_list":  # of `TEST(Suite, Name)`
        parts = _text(data, name).strip("()").split(",")
        written = ".".join(part.strip() for part in parts)
    elif "name" in captures:
        written = _text(data, name)
        if kind in _SCOPES:
            written = _without_calls(written)
    else:  # an extension is named by its header: `impl Display for Point`
        header = data[node.start_byte : body_byte].decode("utf-8", "replace")
        written = " ".join(header.split())[:MAX_HEADER_CHARS]
    owner = ""
    if "owner" in captures:
        owner = _text(data, captures["owner"][0])
    definition = Definition(
        kind=kind,
        name=written if kind in {"test", "suite"} else written.replace("::", "."),
        start=node.start_point.row,
        end=_last_row(node),
        start_byte=node.start_byte,
        end_byte=node.end_byte,
        inner_start_byte=node.start_byte,
        inner_start=node.start_point.row,
        body_byte=body_byte,
        owner=owner.replace("::", "."),
    )
    earlier = definitions.get(name.start_byte)
    if earlier is not None:
        definition = _merged(earlier, definition)
    definitions[name.start_byte] = definition


def _without_calls(written: str) -> str:
    """`suite.run` of `suite.on('cycle', () => {…}).run`: what a chain passes to calls is no
    name."""
    first = _CHAIN_START.match(written)
    if first is None or "(" not in written:
        return written
    return f"{first[0].rstrip('.')}.{written.rpartition('.')[2]}"


def _merged(first: Definition, second: Definition) -> Definition:
    """Merge two captures of one name (a decorated definition, a value that is both): the wider
    span, inner start."""
    wide, narrow = first, second
    if second.start_byte < first.start_byte:
        wide, narrow = second, first
    return replace(
        wide,
        kind=min(first.kind, second.kind, key=_ENTITY_CAPTURES.index),
        end=max(wide.end, narrow.end),
        end_byte=max(wide.end_byte, narrow.end_byte),
        inner_start_byte=narrow.inner_start_byte,
        inner_start=narrow.inner_start,
        body_byte=min(wide.body_byte, narrow.body_byte),
        owner=first.owner or second.owner,
    )


def _imports(data: bytes, captures: "Captures") -> list[Import]:
    module = captures["import.module"][0]
    row = module.start_point.row
    written = _text(data, module).strip("'\"`")
    # `mod walk;` declares the module below this one.
    if module.parent is not None and module.parent.type == "mod_item":
        return [Import("self", written, "", row)]
    names = captures.get("import.name", [])
    aliases = captures.get("import.alias", [])
    if len(names) > 1:
        return [Import(written, _text(data, name), "", name.start_point.row) for name in names]
    name = _text(data, names[0]) if names else ""
    if name == "self" and "::" in written:  # `use crate::walk::{self}`
        written, _, name = written.rpartition("::")
    alias = _text(data, aliases[0]) if aliases else ""
    return [Import(written, name, alias, row)]


def _word(data: bytes, node: "Node") -> str:
    """Return a name on its own; `?` for one that is defined there, or follows what it
    belongs to."""
    before = data[max(0, node.start_byte - 5) : node.start_byte]
    if before.endswith((b".", b":", b"@", b"def ", b"$")):
        return "?"
    if _ASSIGNED.match(data, node.end_byte):
        return "?"
    return _text(data, node)


_ASSIGNED = re.compile(rb"[ \t]*[-+*/|&]{0,2}=(?![=~>])")


def _argument_count(captures: "Captures") -> int:
    arguments = captures.get("arguments")
    if not arguments:
        return -1
    return arguments[0].named_child_count


def _chain(data: bytes, node: "Node") -> str:
    """Return the chain of what is called; if the object has none, only the name that is called
    on it."""
    chain = chain_of(node, data)
    if chain:
        return chain
    start = max(node.start_byte, node.end_byte - CALL_BYTES)
    end = data[start : node.end_byte].decode("utf-8", "replace")
    last = _LAST_WORD.search(end)
    if last:
        return f"?{STEP}{last[0]}"
    return "?"


_LAST_WORD = re.compile(r"(?<![\w$])[\w$]+\Z")


def _seen_by_file(imported: Import) -> Import:
    """`super` of a module inside a Rust file is the module of the file itself."""
    first, joint, rest = imported.module.partition("::")
    if first != "super":
        return imported
    return replace(imported, module=f"self{joint}{rest}")


def _last_row(node: "Node") -> int:
    """Return the last row of a node; an end at column 0 means the line break before."""
    end = node.end_point
    if end.column == 0 and end.row > node.start_point.row:
        return end.row - 1
    return end.row


def _called(data: bytes, node: "Node") -> tuple[int, str]:
    """Return where a called name begins, and it, or the end of a long chain: each link of it is a
    call of its own."""
    begin = node.start_byte
    end = node.end_byte
    start = max(begin, end - CALL_BYTES)
    written = data[start:end].decode("utf-8", "replace").replace("::", ".").replace("->", ".")
    if start > begin:
        written = "?()." + written.rpartition(".")[2]
    return begin, written


def _text(data: bytes, node: "Node") -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _base(written: str) -> str:
    return written.replace("::", ".").lstrip(".").partition("<")[0]


_SPOTS: "dict[str, tuple[str, Callable[[bytes, Node], object]]]" = {
    "spliced": (
        "chains",
        lambda data, node: (
            node.start_byte,
            chain_before(data, node.start_byte, node.end_byte) or "?",
            -1,
        ),
    ),
    "super": ("chains", lambda _data, node: (node.start_byte, "super", -1)),
    "word": ("chains", lambda data, node: (node.start_byte, _word(data, node), 0)),
    "closure": ("closures", lambda _data, node: (node.start_byte, node.end_byte)),
    "result": ("results", lambda data, node: (node.start_byte, type_chars(node, data))),
    "gives": ("gives", lambda data, node: (node.start_byte, type_chars(node, data))),
    "returned": ("returned", lambda data, node: (node.start_byte, chain_of(node, data))),
    "notation": ("notations", lambda _data, node: (node.start_byte, node.end_byte)),
    "branch": ("branches", lambda _data, node: node.start_byte),
    "statement": ("statements", lambda _data, node: node.start_point.row),
    "lead": (
        "leads",
        lambda _data, node: LeadingComment(
            node.start_point.row, _last_row(node), node.start_byte, node.end_byte
        ),
    ),
    "doc": ("docs", lambda data, node: (node.start_byte, _text(data, node))),
    "constant": ("constants", lambda data, node: (node.start_point.row, _text(data, node))),
    "prototype": ("prototypes", lambda data, node: (node.start_point.row, _text(data, node))),
    "base": ("bases", lambda data, node: (node.start_byte, _base(_text(data, node)))),
}
"""Capture -> its list in `Syntax`, and the function that reads it."""

_MAIN = (
    ("variable", _add_variables),
    ("call", _add_call),
    ("narrowed", _add_narrowed),
    ("export.name", _add_exports),
    ("made", _add_made),
    ("import.module", _add_imports),
    ("declared", _add_declared),
    ("documented", _add_documented),
    ("taken", _add_taken),
)
"""Captures that represent the whole match, and the function that reads it; the most frequent ones
first."""
