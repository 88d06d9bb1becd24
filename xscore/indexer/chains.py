"""Write an expression as a chain: the name that it begins with, and the steps from there to the
member that is called.

`open(path).store.get` is `open|(1)|store|get`, with the number of arguments; an index is `[]`, a
path of modules or types one name with `::`. What has a stated type begins with it: `new
Store().get` is `:Store|get`. The nodes of all grammars are in the tables below. Trade-off: other
expressions, literals among them, have no chain, and each chain is at most `MAX_STEPS` long, so that
chains of calls cost no more than they have links.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_STEPS = 24
"""Most steps of a chain; a longer one is unknown."""
MAX_CHAIN_CHARS = 200
STEP = "|"
CALL_MARK = "("
"""Begins a step that is a call."""
ANY_CALL = "(-1)"
"""Ends a call whose arguments are not counted."""
INDEXED = "[]"
MODULE_MARK = "="
"""Precedes the module that a chain begins with, as in `await import("./store")`."""
TYPE_MARK = ":"
"""Precedes the type that a chain begins with."""
ALIKE_MARK = "%"
"""Precedes a class that a variable is named after, if nothing else is known about it: `site` of
`Site`."""
SHORTEST_ALIKE = 3
"""Shortest name of a variable that may tell its class."""
DECLARED = "()"
"""Follows the name of a method that a class only declares."""
PARAMETERS = "("
"""Key of the number of a method's parameters, where others may have its name."""
EXTENDED = "+"
"""Key of the type that methods are added to outside its definition."""
NARROWED = ";"
"""Precedes the name of a function that tells whether the value before it is of a type:
`isStore(store)`."""
UNKNOWN = "?"
"""Begins a chain whose first value is not known."""
PARAMETER = "()"
"""Chain of a parameter without a stated type. In a test, it is what the function of its name
returns."""
EXTENDS = "+"
"""Follows the name of a method that extends the type of its first parameter."""
TAKEN = "&"
"""Precedes the place of a parameter, from 0: the type that a function type says it has, as `&0`
in `type Handler = (context: Context) => void`, and `&failed.0` in `interface Options { failed:
(error: Failure) => void }`. Alone, it is the key of the types of a function's parameters that
may be functions, or have such members."""
GIVEN = "&="
"""Key of what a function type returns: `Reply` of `interface Handler { (): Reply }`."""
PASSED = "*"
"""Precedes the place of a parameter of the function that is passed to the call of the value
before it: `app|get|*0` is `c` in `app.get(c => …)`, and `open|*failed.0` is `e` in
`open({failed: e => …})`."""
OTHER_BUILD = "~"
"""Follows the name of a variable in a file that a usual build leaves out."""
ALTERNATIVE = " "
"""Separates the values that a function returns."""
OWN_TYPES = frozenset({"Self", "self", "this", "static"})
"""Names of the type of the object itself."""
_PLAIN = re.compile(r"[@$#]{0,2}\w[\w$]*(?:::\w+)*(?:(?:[?!]?\.|->)#?[\w$]+)*\Z")
_JOINTS = re.compile(r"[?!]?\.#?|->")
_NAME = re.compile(r"[@$#]{0,2}\w[\w$?!]*\Z")
_MEMBERS = {
    "attribute": ("object", "attribute"),
    "member_expression": ("object", "property"),
    "selector_expression": ("operand", "field"),
    "field_access": ("object", "field"),
    "field_expression": ("value argument", "field"),
    "member_access_expression": ("expression", "name"),
    "conditional_access_expression": ("condition", ""),
    "nullsafe_member_access_expression": ("object", "name"),
    "scoped_property_access_expression": ("scope", "name"),
    "navigation_expression": ("target *", ""),
}
"""Nodes of an object's member: the fields of the object and of the name."""
_PATHS = {
    "scoped_identifier": ("path", "name"),
    "qualified_identifier": ("scope", "name"),
    "scope_resolution": ("scope", "name"),
    "scoped_type_identifier": ("path", "name"),
}
_CALLS = frozenset(
    """
    call call_expression function_call_expression invocation_expression member_call_expression
    method_invocation nullsafe_member_call_expression scoped_call_expression
    """.split()
)
_METHODS = ("object receiver scope", "name method")
"""Nodes of a call with its object and name as fields of its own, as in Java, PHP and Ruby."""
_TYPED = {
    "new_expression": "constructor type",
    "object_creation_expression": "type *",
    "instance_expression": "*",
    "constructor_expression": "constructed_type",
    "composite_literal": "type",
    "struct_expression": "name",
    "cast_expression": "type",
    "type_assertion_expression": "type",
    "type_conversion_expression": "type",
    "as_expression": "right",
}
_INDEXES = {
    "subscript": "value",
    "subscript_expression": "object argument",
    "index_expression": "operand",
    "array_access": "array",
    "element_access_expression": "expression",
    "element_reference": "object",
}
_THROUGH = {
    "parenthesized_expression": "*",
    "await": "*",
    "await_expression": "*",
    "non_null_expression": "*",
    "try_expression": "expr *",
    "postfix_expression": "target",
    "tuple_expression": "value",
    "satisfies_expression": "*",
    "expression_list": "*",
    "reference_expression": "value",
    "clone_expression": "*",
    "unary_expression": "operand argument *",
    "pointer_expression": "argument",
    "generic_function": "function",
    "template_function": "name",
    "generic_name": "*",
    "generic_type": "type name",
    "template_type": "name",
    "type_annotation": "*",
    "equals_value_clause": "*",
}
"""Nodes that mean what one of their children means: the child in the first field that they
have; `*` is the first child."""


def class_named_like(name: str) -> str:
    """`page_reader` -> `PageReader`; empty if the name is too short to tell a class."""
    if len(name) < SHORTEST_ALIKE or not name.isidentifier():
        return ""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def chain_of(node: "Node", data: bytes) -> str:
    """Return the chain of an expression; empty if it has none."""
    if node.end_byte - node.start_byte <= MAX_CHAIN_CHARS:
        text = data[node.start_byte : node.end_byte].decode("utf-8", "replace")
        if _PLAIN.match(text):
            return STEP.join(_JOINTS.split(text))
    steps: list[str] = []
    inner: Node | None = node
    while inner is not None and len(steps) <= MAX_STEPS:
        kind = inner.type
        if kind not in _INNER:
            head = _head(inner, kind, data)
            if head:
                return _joined([*steps, head])
            return ""
        inner = _INNER[kind](inner, steps, data)
    if inner is None and steps:
        return _joined(steps)
    return ""


def _into_choice(node: "Node", steps: list[str], data: bytes) -> "Node | None":
    """Go on with one of two values: the one that says its type, or the first that is not null."""
    first = _child(node, _FIRST_VALUE)
    second = _child(node, _SECOND_VALUE)
    operator = node.child_by_field_name("operator")
    is_choice = operator is None or operator.type in _CHOICES
    if first is None or second is None or not is_choice:
        steps.clear()
        return None
    if operator is not None and operator.type in ("and", "&&"):
        return second
    if first.type in _LITERALS:
        return second
    is_made = _MADE.match(data, second.start_byte) is not None
    if is_made and first.type == "identifier":
        return second
    return first


_FIRST_VALUE = "left consequence body condition *"
"""Fields of a conditional's first value. Without a `consequence` the condition is the value (`a
?: b`); PHP calls it `body`, and Python names no part: `a if b else c`."""
_SECOND_VALUE = "right alternative -*"
_CHOICES = frozenset({"or", "and", "||", "&&", "??"})
_LITERALS = frozenset(
    {"none", "null", "undefined", "list", "array", "dictionary", "object", "false"}
)
_MADE = re.compile(rb"new\s|[A-Z][a-z]\w{0,80}\(")
"""Matches what makes an object: `value or Store()`."""


def _copied(node: "Node", called: "Node", data: bytes) -> "Node | None":
    """Return the argument of a call that gives the same or its items: `list(stores)`; None if
    it does not."""
    if data[called.start_byte : called.end_byte] not in _COPIES:
        return None
    arguments = node.child_by_field_name("arguments")
    if arguments is None or not arguments.named_children:
        return None
    first = arguments.named_children[0]
    return None if first.type in _NO_COPIED else first


_NO_COPIED = frozenset(
    {"spread_element", "list_splat", "keyword_argument", "generator_expression"}
)
_COPIES = frozenset(
    b"""
    list tuple sorted set frozenset reversed iter copy.copy copy.deepcopy deepcopy Object.values
    Object.entries Object.freeze Array.from
    """.split()
)
"""Functions that return what they are given, or something of the same items."""


def _into_call(node: "Node", steps: list[str], data: bytes) -> "Node | None":
    called = node.child_by_field_name("function")
    if called is not None:
        copied = _copied(node, called, data)
        if copied is not None:
            return copied
        if called.type == "import":
            steps.append(_imported(node, data))
            return None
    # Kotlin and Swift give no names to the parts.
    if called is None and _child(node, " ".join(_METHODS)) is None:
        arguments = _child(node, "-*")
        if arguments is None:
            steps.clear()
            return None
        is_index = data[arguments.start_byte : arguments.start_byte + 1] == b"["
        steps.append(INDEXED if is_index else ANY_CALL)
        return node.named_children[0]
    steps.append(f"({_argument_count(node) or ''})")
    if called is not None:
        return called
    return _step_into(node, _METHODS, steps, data)


def _into_index(node: "Node", steps: list[str], _data: bytes) -> "Node | None":
    steps.append(INDEXED)
    return _child(node, f"{_INDEXES[node.type]} *")


def _into_member(node: "Node", steps: list[str], data: bytes) -> "Node | None":
    return _step_into(node, _MEMBERS[node.type], steps, data)


def _through(node: "Node", steps: list[str], _data: bytes) -> "Node | None":
    inner = _child(node, _THROUGH[node.type])
    if inner is None:
        steps.clear()
    return inner


_INNER = {
    **dict.fromkeys(_CALLS, _into_call),
    **dict.fromkeys(_MEMBERS, _into_member),
    **dict.fromkeys(_INDEXES, _into_index),
    **dict.fromkeys(_THROUGH, _through),
    **dict.fromkeys(
        (
            "boolean_operator",
            "binary_expression",
            "ternary_expression",
            "conditional_expression",
        ),
        _into_choice,
    ),
}
"""Nodes around another node, and the function that adds their step and returns that node, or
None where the chain begins."""


def chain_before(data: bytes, start: int, end: int) -> str:
    """Return the chain that ends in the name between two bytes, where the grammar has only words
    and brackets."""
    written = data[max(0, start - MAX_CHAIN_CHARS) : end].decode("utf-8", "replace")
    text = " ".join(written.split())
    steps: list[str] = []
    for name, arguments in _LINK.findall(text, _chain_start(text)):
        steps.append(name)
        if arguments:
            inner = arguments[1:-1].strip()
            count = inner.count(",") + 1 if inner else ""
            steps.append(f"({count})")
    if len(steps) > MAX_STEPS:
        return ""
    return STEP.join(steps)


def _chain_start(text: str) -> int:
    """Return where the chain at the end of a text begins."""
    at = len(text) - 1
    depth = 0
    while at >= 0:
        char = text[at]
        if char == ")" and (depth or text[at + 1 : at + 2] == "."):
            depth += 1
        elif char == "(" and depth:
            depth -= 1
        elif not depth and not (char.isalnum() or char in "_:."):
            break
        at -= 1
    return at + 1


_LINK = re.compile(r"((?:\w+::)*\w+)(\((?:[^()]|\([^()]*\))*\))?")


def _argument_count(node: "Node") -> int:
    arguments = node.child_by_field_name("arguments")
    if arguments is None:
        return 0
    return arguments.named_child_count


def _imported(node: "Node", data: bytes) -> str:
    arguments = node.child_by_field_name("arguments")
    if arguments is None:
        return MODULE_MARK
    start = arguments.start_byte
    end = min(arguments.end_byte, start + MAX_CHAIN_CHARS)
    return MODULE_MARK + data[start:end].decode("utf-8", "replace").strip("()'\"` ")


def _joined(steps: list[str]) -> str:
    chain = STEP.join(reversed(steps))
    if len(chain) > MAX_CHAIN_CHARS:
        return ""
    return chain


def _head(node: "Node", kind: str, data: bytes) -> str:
    """Return what a chain begins with: a name, a path of names, or a stated type."""
    if kind in _TYPED:
        is_cast = kind == "as_expression"
        stated = _child(node, "-*" if is_cast else _TYPED[kind])
        if stated is None:
            return ""
        return TYPE_MARK + type_chars(stated, data)
    if node.end_byte - node.start_byte > MAX_CHAIN_CHARS:
        return ""
    text = data[node.start_byte : node.end_byte].decode("utf-8", "replace")
    if kind in _PATHS:
        if re.fullmatch(r"\w+(?:::\w+)*", text):
            return text
        return _without_arguments(text)
    return text if _NAME.match(text) else ""


def _without_arguments(text: str) -> str:
    """`Store::<u8>::new` -> `Store::new`."""
    bare = re.sub(r"(?:::)?<[^<>]*>", "", text)
    if not re.fullmatch(r"\w+(?:::\w+)*", bare):
        return ""
    return bare


def type_chars(node: "Node", data: bytes) -> str:
    """Return the text of a type on one line, without blanks around marks; empty if it is too
    long."""
    if node.end_byte - node.start_byte > MAX_CHAIN_CHARS:
        return ""
    text = " ".join(data[node.start_byte : node.end_byte].decode("utf-8", "replace").split())
    if STEP in text:
        return text.replace(STEP, " / ")
    return text


def _step_into(
    node: "Node", fields: tuple[str, str], steps: list[str], data: bytes
) -> "Node | None":
    """Add the name of a member to the steps; return the object that has it, None without one."""
    object_fields, name_fields = fields
    name = _child(node, name_fields or "-*")
    written = ""
    if name is not None:
        written = data[name.start_byte : name.end_byte].decode("utf-8", "replace")
    steps.append(written.lstrip("?.#$").partition("<")[0])
    held = _child(node, object_fields)
    if held is None and node.type == "member_access_expression":
        held = node.children[0]  # `this` and `base` have no field in C#
    return held


_TESTED = re.compile(
    r"\b(?P<name>[\w$]{1,80}) instanceof (?P<type>[\w$.]{1,80})"
    r"|\bisinstance\((?P<given>\w{1,80}), (?P<class>[\w.]{1,80})\)"
    r"|(?<![\w$.])(?P<guard>(?:is|has)[A-Z][\w$]{0,80})\((?P<value>[\w$]{1,80})[,)]"
)
_MAY_TEST = re.compile(rb"instanceof |isinstance\(|(?:is|has)[A-Z]")
"""Matches what such a test has: most conditions are none, and are not read."""
_LEAVES = re.compile(rb"\{?\s{0,80}(?:return|throw|continue|raise)\b")
"""Matches the beginning of a branch that leaves the code around it."""


def narrowed_by(data: bytes, condition: "Node", branch: "Node") -> list[tuple[int, str, str]]:
    """Return (byte, name, chain) of each name of which a condition tells the type in a branch.

    With `!` before the test, and a branch that leaves, behind the branch.
    """
    start = condition.start_byte
    end = condition.end_byte
    if end - start > MAX_CHAIN_CHARS or not _MAY_TEST.search(data, start, end):
        return []
    text = data[start:end].decode("utf-8", "replace")
    if "||" in text or " or " in text:
        return []
    is_negated = text.startswith(("!", "not "))
    if is_negated and not _LEAVES.match(data, branch.start_byte):
        return []
    at = branch.end_byte if is_negated else branch.start_byte
    tested: list[tuple[int, str, str]] = []
    for test in _TESTED.finditer(text):
        if not is_negated and text[: test.start()].endswith("!"):
            continue
        name = test["name"] or test["given"] or test["value"]
        stated = test["type"] or test["class"]
        chain = f"{TYPE_MARK}{stated}" if stated else f"{name}{STEP}{NARROWED}{test['guard']}"
        tested.append((at, name, chain))
    return tested


def _child(node: "Node", fields: str) -> "Node | None":
    """Return the child of the first of these fields that a node has.

    `*`: its first named child, `-*`: its last. Code with an error in it may have neither.
    """
    for field in fields.split():
        if field not in ("*", "-*"):
            child = node.child_by_field_name(field)
        elif node.named_child_count:
            child = node.named_child(0 if field == "*" else node.named_child_count - 1)
        else:
            child = None
        if child is not None:
            return child
    return None
