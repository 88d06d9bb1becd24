"""Write the type of a parameter that no one states as a chain, from the place of its function.

`context` of `app.get("/", (context) => …)` is what `get` passes to what it is given, so its chain
is `app|get|*0`. A few parents of the function are looked at, and no more.
"""

from typing import TYPE_CHECKING

from xscore.indexer.chains import PASSED, STEP, TAKEN, TYPE_MARK, chain_of, type_chars

if TYPE_CHECKING:
    from tree_sitter import Node

_FUNCTIONS = frozenset({"arrow_function", "function_expression"})


def chain_of_parameter(parameter: "Node", data: bytes) -> str:
    """Return the chain of a parameter without a stated type; empty if its place says
    nothing."""
    around = parameter.parent
    index = 0
    if around is not None and around.type == "formal_parameters":
        index = around.named_children.index(parameter)
        around = around.parent
    if around is None or around.type not in _FUNCTIONS or around.parent is None:
        return ""
    return _chain_at(around, around.parent, str(index), data)


def _chain_at(value: "Node", place: "Node", parameter: str, data: bytes) -> str:
    """Return the chain of a parameter of a function, or of a member of an object, at a place.

    parameter: its index from 0, for a member with the name before it (`failed.0`).
    """
    outer = place.parent
    if place.type == "pair" and "." not in parameter:
        key = place.child_by_field_name("key")
        if (
            key is None
            or key.type != "property_identifier"
            or outer is None
            or outer.parent is None
        ):
            return ""
        name = data[key.start_byte : key.end_byte].decode("utf-8", "replace")
        return _chain_at(outer, outer.parent, f"{name}.{parameter}", data)
    if place.type == "arguments" and outer is not None:
        called = outer.child_by_field_name("function")
        chain = "" if called is None else chain_of(called, data)
        if chain:
            return f"{chain}{STEP}{PASSED}{parameter}"
        return ""
    stated = place.child_by_field_name("type")
    if place.type == "return_statement" and outer is not None:
        function = outer.parent
        stated = None if function is None else function.child_by_field_name("return_type")
    elif place.type == "arrow_function" and place.child_by_field_name("body") == value:
        stated = place.child_by_field_name("return_type")
    written = "" if stated is None else type_chars(stated, data)
    if written:
        return f"{TYPE_MARK}{written}{STEP}{TAKEN}{parameter}"
    return ""
