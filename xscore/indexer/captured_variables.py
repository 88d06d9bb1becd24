"""Read what a match of a query says about variables: a declaration, an assignment, a parameter or a
member."""

from typing import TYPE_CHECKING

from xscore.indexer.chains import (
    EXTENDS,
    INDEXED,
    PARAMETER,
    STEP,
    TYPE_MARK,
    chain_of,
    type_chars,
)
from xscore.indexer.passed_functions import chain_of_parameter

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_OUTER = 12
"""Most nodes around a definition that are asked whether they are a function."""
_FORMS = {
    "property": "@.{}",
    "extends": "@.{}" + EXTENDS,
    "generic": "<{}>",
    "first": ".0",
    "read": ".{}",
    "member": ".{}",
}
"""Captures for a variable, and the form in which its name is kept."""
_REQUIRED = f"require{STEP}("
_INFERRED = frozenset({"var", "auto", "val", "const auto", "auto&", "const auto&"})
"""Words in place of a type where it is to be inferred."""


def variables_of(data: bytes, captures: "dict[str, list[Node]]") -> list[tuple[int, str, str]]:
    """Return (byte, name, chain) of each variable of a match."""
    if "inner" in captures and not _is_in_function(captures["inner"][0]):
        return []
    chain = _chain(data, captures)
    if chain.startswith(_REQUIRED):
        return []  # an import, not a variable
    if chain and (part := captures.get("field")):
        chain = f"{chain}{STEP}{_text(data, part[0])}"
    if "parameter" in captures:
        chain = PARAMETER
    form = _form(captures)
    # What it was before counts up to the end of the new value: `store = store.reopened()`.
    value_end = max([value.end_byte for value in captures.get("variable.value", ())], default=0)
    variables: list[tuple[int, str, str]] = []
    for node in captures["variable"]:
        name = _text(data, node)
        if "read" in captures:
            name = name.lstrip(":")
            chain = f"self{STEP}@{name}"
        byte = max(node.start_byte, value_end - 1)
        variables.append((byte, form.format(name) if form else name, chain))
    return variables


def _form(captures: "dict[str, list[Node]]") -> str:
    """Return the form in which the name of a variable is kept; empty: as it is."""
    for mark in captures:
        if mark in _FORMS:
            return _FORMS[mark]
    return ""


def _chain(data: bytes, captures: "dict[str, list[Node]]") -> str:
    """Return the chain of a variable's stated type, otherwise of its value, or of the items of
    what is walked."""
    if stated := captures.get("variable.type"):
        written = type_chars(stated[0], data)
        if written and written.lstrip(": ") not in _INFERRED:
            return TYPE_MARK + written
    if values := captures.get("variable.value"):
        chain = chain_of(values[0], data)
        if chain:
            return chain
    if walked := captures.get("variable.each"):
        chain = chain_of(walked[0], data)
        if chain:
            return f"{chain}{STEP}{INDEXED}"
    if untyped := captures.get("untyped"):
        return chain_of_parameter(untyped[0], data)
    return ""


def _is_in_function(node: "Node") -> bool:
    """Whether a definition is a part of a function, and so no entity."""
    outer = node.parent
    for _ in range(MAX_OUTER):
        if outer is None or outer.type in ("class_definition", "function_definition"):
            break
        outer = outer.parent
    return outer is not None and outer.type == "function_definition"


def _text(data: bytes, node: "Node") -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace")
