"""Where a file uses what it imports other than by calling it, so that `links` can tell which of it
are values.

Only imported names are looked up in the tree, each place on its own: a query for every identifier
would cost as much as all others. A name that a definition binds again (a parameter, a local
variable) is no use there. Trade-off: a binding counts for the whole definition around it, and one
at module level for the whole file; names in CapWords count as classes, so a type alias has no
users.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

Span = tuple[int, int, int]
"""Bytes where a definition starts, where its body starts, and where it ends."""
_ATTRIBUTES = {
    "attribute": ("object", "attribute"),
    "member_expression": ("object", "property"),
    "selector_expression": ("operand", "field"),
}
_CALLS = {"call": "function", "call_expression": "function", "new_expression": "constructor"}
_BOUND_IN = {
    "left": (
        """
        assignment augmented_assignment for_statement for_in_clause for_in_statement
        assignment_expression
        assignment_pattern augmented_assignment_expression"""
    ),
    "name": (
        """
        default_parameter typed_default_parameter named_expression variable_declarator
        parameter_declaration var_spec
        const_spec"""
    ),
    "parameter": "arrow_function catch_clause",
    "pattern": "required_parameter optional_parameter",
    "value": "pair_pattern",
}
_BINDING: dict[str, str] = {}
for _field, _nodes in _BOUND_IN.items():
    _BINDING |= dict.fromkeys(_nodes.split(), _field)
"""Node -> the field in which it binds a name."""
_PATTERNS = frozenset(
    """
    parameters lambda_parameters typed_parameter list_splat_pattern dictionary_splat_pattern
    tuple_pattern list_pattern pattern_list as_pattern_target formal_parameters rest_pattern
    array_pattern object_pattern
    """.split()
)
"""Nodes that bind every name directly inside them."""
_NO_USE = frozenset(
    """
    dotted_name aliased_import import_statement import_from_statement import_specifier import_clause
    namespace_import export_specifier package_clause import_spec global_statement nonlocal_statement
    labeled_statement use_declaration use_list scoped_use_list use_as_clause mod_item type_parameter
    const_item static_item scoped_identifier
    """.split()
)
_NAMES = frozenset({"identifier", "shorthand_property_identifier", "crate", "self", "super"})
_SHORT = "shorthand_property_identifier_pattern"
_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_WORD = re.compile(rb"[\w$\x80-\xff]+")
_IMPORTS = (b"import ", b"from ", b"use ", b"pub use ")
_NO_HEAD = (b".", b"@")
_RUST_PATH = re.compile(rb"\b(?:[a-z_]\w*+::)++([A-Z][A-Z0-9_]*\b(?!\s*+[:(!]))?")
"""Matches a path of modules, and the constant at its end. A path without one is matched as
well, so that each is read once."""


def is_class_name(name: str) -> bool:
    """Whether a name is written as those of classes are: `PathLike`, not `LIMIT`."""
    return name.lstrip("_")[:1].isupper() and not name.isupper()


def name_places(data: bytes, names: Iterable[str]) -> list[tuple[int, str]]:
    """Return each byte where one of these names is a word, in order."""
    words = {name.encode(): name for name in names if _NAME.fullmatch(name)}
    if not words:
        return []
    return [(word.start(), words[word[0]]) for word in _WORD.finditer(data) if word[0] in words]


def imported_values(
    root: "Node",
    data: bytes,
    places: Iterable[tuple[int, str]],
    spans: Sequence[Span],
    *,
    is_rust: bool = False,
) -> list[tuple[int, str]]:
    """Return the byte and the words (`config.LIMIT`) of each use that is not a call, in order.

    places: those of imported names.
    spans: of all definitions, in order of their starts.
    """
    candidates: list[tuple[int, str]] = []
    hidden = defaultdict[str, list[tuple[int, int]]](list)
    for at, name in places:
        if data.startswith(_IMPORTS, data.rfind(b"\n", 0, at) + 1):
            continue
        if is_rust and not name.isupper():
            continue
        node = _leaf(root, at, name) if _is_head(data, at, name) else None
        if node is None or node.parent is None:
            continue
        if node.type == _SHORT or _is_bound(node, node.parent):
            hidden[name].append(_scope(node, spans))
        elif node.parent.type not in _NO_USE and (written := _written(node, name, data)):
            candidates.append((at, written))
    # Only now: a binding further down hides the name in the whole definition around it.
    uses: list[tuple[int, str]] = []
    for at, written in candidates:
        scopes = hidden.get(written.partition(".")[0], ())
        if not any(start <= at < end for start, end in scopes):
            uses.append((at, written))
    if is_rust:
        return sorted([*uses, *_rust_paths(root, data)])
    return uses


def _is_head(data: bytes, at: int, name: str) -> bool:
    """Whether a name begins an expression, and is not called right there."""
    end = at + len(name.encode())
    return data[at - 1 : at] not in _NO_HEAD and data[end : end + 1] != b"("


def _rust_paths(root: "Node", data: bytes) -> Iterator[tuple[int, str]]:
    for path in _RUST_PATH.finditer(data):
        if not path[1]:
            continue
        written = path[0].decode("ascii", "replace")
        node = _leaf(root, path.start(), written.partition("::")[0])
        outer = node.parent if node else None
        while outer is not None and outer.type == "scoped_identifier":
            outer = outer.parent
        if outer is not None and outer.type not in _NO_USE:
            yield path.start(), written.replace("::", ".")


def _leaf(root: "Node", at: int, name: str) -> "Node | None":
    """Return the name at this byte; None if it is in a comment or a string, or a key."""
    node = root.descendant_for_byte_range(at, at + len(name.encode()))
    if node is None or node.child_count:
        return None
    if node.type in _NAMES or node.type == _SHORT:
        return node
    return None


def _is_bound(node: "Node", parent: "Node") -> bool:
    if parent.type == "expression_list" and parent.parent is not None:  # `a, b := f()` in Go
        statement = parent.parent
        return (
            statement.child_by_field_name("left") == parent and "return" not in statement.type
        )
    if parent.type in _PATTERNS:
        return True
    field = _BINDING.get(parent.type)
    return field is not None and node in parent.children_by_field_name(field)


def _scope(node: "Node", spans: Iterable[Span]) -> tuple[int, int]:
    """Return the bytes in which a bound name hides an imported one."""
    around = [(body, end) for start, body, end in spans if start <= node.start_byte < end]
    if around:
        return around[-1]
    return (0, 1 << 62)


def _written(node: "Node", name: str, data: bytes) -> str:
    """`config.LIMIT` of `config.LIMIT.get()`; empty if it is only called, or a keyword."""
    words = [name]
    outer = node.parent
    if outer is not None and outer.type == "keyword_argument" and _is_in(outer, "name", node):
        return ""
    while outer is not None and outer.type in _ATTRIBUTES:
        inner, attribute = map(outer.child_by_field_name, _ATTRIBUTES[outer.type])
        if inner != node or attribute is None:
            break
        words.append(data[attribute.start_byte : attribute.end_byte].decode("utf-8", "replace"))
        node = outer
        outer = outer.parent
    if outer is not None and outer.type in _CALLS and _is_in(outer, _CALLS[outer.type], node):
        words.pop()
    return ".".join(words)


def _is_in(outer: "Node", field: str, node: "Node") -> bool:
    return outer.child_by_field_name(field) == node
