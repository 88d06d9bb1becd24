"""Add entries to a user's JSON or TOML file and remove them again, without touching anything else.

A parser finds the place and the file is edited there as text, so comments, order and indentation
stay. Removing what was added gives back the same bytes. For this, an entry goes right after the
opening bracket, and a list or object that we create begins with a line break; one that the user
left empty does not. This module knows no client and opens no file. Trade-off: an entry added to
`{}` shares its line with the bracket.
"""

import codecs
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tree_sitter_json
from msgspec import Struct
from tree_sitter import Language, Parser

from xscore.platform.errors import UsageError
from xscore.platform.toml_text import parse_toml

if TYPE_CHECKING:
    from tree_sitter import Node

_STRING_OR_COMMENT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|//[^\n]*|/\*', re.DOTALL)
"""Matches a string or a comment. It never fails at a quote, so that an open string is not
searched again from each quote within."""
_UNCHANGED = "The file was not changed. Fix it, or add the entries by hand."


class Entry(Struct, frozen=True):
    """One entry of ours in a JSON file."""

    path: tuple[str, ...]
    """Keys from the root to the object or list that holds the entry."""
    key: str
    """The entry's key in that object; empty in a list."""
    value: Any
    is_ours: Callable[[object], bool]
    """Recognizes an entry of ours, including one from another version."""
    gives_way: Callable[[Any], bool] = lambda _: True
    """Whether to replace an entry of ours that differs; if not, it is kept as the user changed
    it."""

    @property
    def label(self) -> str:
        """How notes name it."""
        return ".".join(filter(None, (*self.path, self.key)))


def add_entries(
    source: bytes | None, entries: Sequence[Entry], file: Path, *, head: dict[str, Any]
) -> bytes:
    """Return a JSON file with these entries; those already there stay. source: None if there
    is no file.

    head: members that a new file begins with and an existing one must have.
    Raises UsageError if the file is not JSON, lacks such a member, or has a value of another type
    where an entry belongs.
    """
    if source is None:
        document: dict[str, Any] = dict(head)
        for entry in entries:
            node = document
            for name in entry.path if entry.key else entry.path[:-1]:
                node = node.setdefault(name, {})
            if entry.key:
                node[entry.key] = entry.value
            else:
                node.setdefault(entry.path[-1], []).append(entry.value)
        return (json.dumps(document, indent=2) + "\n").encode()
    parsed = _Source(source, file)
    for entry in entries:
        parsed.container(entry)
    if missing := head.keys() - parsed.pairs(parsed.root).keys():
        raise UsageError(
            f"{file}: has no {', '.join(sorted(missing))}",
            hint=f"Add {json.dumps(head)[1:-1]} to it.",
        )
    for entry in reversed(entries):  # each is inserted at the front, so this keeps their order
        parsed = _Source(source, file)
        ours = parsed.own(entry)
        values = [parsed.value(node) for node in ours]
        is_kept = parsed.holds(entry) and not any(map(entry.gives_way, values))
        if is_kept or entry.value in values:
            continue
        source = _Source(remove_entries(source, [entry], file), file).insert(entry)
    return source


def remove_entries(source: bytes, entries: Sequence[Entry], file: Path) -> bytes:
    """Return a JSON file without our entries, and without the lists and objects created for them.

    Raises UsageError if the file is not JSON.
    """
    for entry in entries:
        while ours := (parsed := _Source(source, file)).own(entry):
            source = parsed.cut(ours[0])
    return source


def has_entry(source: bytes, entry: Entry, file: Path) -> bool:
    """Whether the file has this entry, or our entry from another version.

    Raises UsageError if it is not JSON.
    """
    return bool(_Source(source, file).own(entry))


def add_table(source: bytes | None, name: str, body: str, file: Path) -> bytes:
    """Return a TOML file with the table `name` at its end, unless it has one. body: the table's
    lines.

    Raises UsageError if the file is not TOML, or if the parent of the table is written as an inline
    table.
    """
    block = f"[{name}]\n{body}"
    if source is None:
        return block.encode()
    if read_table(source, name, file) is not None:
        return source
    line_end = "\r\n" if b"\r\n" in source else "\n"
    text = f"\n{block}" if source.endswith(b"\n") or not source else f"\n\n{block.rstrip()}"
    after = source + text.replace("\n", line_end).encode()
    try:
        _toml(after, file)
    except UsageError as error:
        parent = name.rpartition(".")[0]
        raise UsageError(
            f"{file}: `{parent}` is an inline table, so nothing can be added to it",
            hint=_UNCHANGED,
        ) from error
    return after


def remove_table(source: bytes, name: str, file: Path) -> bytes:
    """Return a TOML file without the table `name` and its sub-tables.

    Raises UsageError if the file is not TOML, or if the table cannot be removed without touching
    others.
    """
    if read_table(source, name, file) is None:
        return source
    lines = source.decode().splitlines(keepends=True)
    ours = set[int]()
    inside = False
    for number, line in enumerate(lines):
        if re.match(r"\s*\[", line):
            inside = re.match(rf"\s*\[\s*{re.escape(name)}\s*[.\]]", line) is not None
        # A comment after the table may belong to the next one.
        if inside and not re.match(r"\s*(#|$)", line):
            ours.add(number)
    if not ours:
        raise UsageError(
            f"{file}: `{name}` has no line [{name}] of its own", hint="Remove it by hand."
        )
    first = min(ours)
    last = max(ours)
    bare_end = not lines[last].endswith("\n")
    for _ in range(2 if bare_end else 1):
        if first and not lines[first - 1].strip():
            first -= 1
            ours.add(first)
    kept = [line for number, line in enumerate(lines) if number not in ours]
    if bare_end and kept:
        kept[-1] = kept[-1].rstrip("\r\n")
    after = "".join(kept).encode()
    if _without(_toml(source, file), name) != _toml(after, file):
        raise UsageError(
            f"{file}: cannot remove [{name}] without changing other tables",
            hint="Remove it by hand.",
        )
    return after


def read_table(source: bytes, name: str, file: Path) -> Any:
    """Return the value under a dotted name in a TOML file; None if it has none.

    Raises UsageError if it is not TOML.
    """
    table: Any = _toml(source, file)
    for part in name.split("."):
        table = table.get(part) if isinstance(table, dict) else None
    return table


def _toml(source: bytes, file: Path) -> dict[str, Any]:
    try:
        return parse_toml(source.decode("utf-8-sig"))
    except ValueError as error:
        line = re.search(r"line (\d+)", str(error))
        raise UsageError(
            f"{file}:{line[1] if line else 1}: not TOML: {error}", hint=_UNCHANGED
        ) from error


def _without(document: dict[str, Any], name: str) -> dict[str, Any]:
    first, _, rest = name.partition(".")
    remaining = dict(document)
    inner = _without(remaining[first], rest) if rest else {}
    del remaining[first]
    if inner:
        return {**remaining, first: inner}
    return remaining


class _Source:
    """A JSON file, parsed so that the byte range of each value is known.

    The file may come from a repository, and recovering from some errors takes a grammar quadratic
    memory, so it reads only what the standard parser has accepted. In comments, which that parser
    does not see, a NUL or bytes that are not UTF-8 would end them for the grammar.
    """

    def __init__(self, data: bytes, file: Path) -> None:
        # Places are counted in bytes: a byte order mark is read as spaces.
        self.data = data
        self.file = file
        if data.startswith(codecs.BOM_UTF8):
            read = data.replace(codecs.BOM_UTF8, b"   ", 1)
        else:
            read = data
        self.plain = without_comments(read)
        try:
            if "\0" in read.decode():
                raise ValueError("it holds a NUL")
            value = json.loads(self.plain.decode(), parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            raise UsageError(
                f"{file}:{error.lineno}: not JSON: {error.msg}", hint=_UNCHANGED
            ) from error
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"{file}:1: not JSON in UTF-8: {error}", hint=_UNCHANGED
            ) from error
        if not isinstance(value, dict):
            raise UsageError(f"{file}:1: not a JSON object", hint=_UNCHANGED)
        document = Parser(Language(tree_sitter_json.language())).parse(read).root_node
        self.root = next(node for node in document.named_children if node.type == "object")

    def value(self, node: "Node") -> Any:
        """Return the value of a node; for a pair, of its right side."""
        return json.loads(self._text(node.child_by_field_name("value") or node))

    def pairs(self, node: "Node") -> dict[str, "Node"]:
        """Return the members of an object by key; for a repeated key the last, as JSON parsers
        do."""
        members = (child for child in node.named_children if child.type == "pair")
        return {json.loads(self._text(pair.child(0))): pair for pair in members}

    def container(self, entry: Entry) -> tuple["Node", int]:
        """Return the innermost existing object or list on an entry's path, and how many keys of the
        path lead to it."""
        node = self.root
        for depth, key in enumerate(entry.path):
            pair = self.pairs(node).get(key)
            if pair is None:
                return node, depth
            node = pair.child_by_field_name("value") or pair
            expected = "object"
            if depth == len(entry.path) - 1 and not entry.key:
                expected = "array"
            if node.type != expected:
                kind = "an object"
                if expected == "array":
                    kind = "a list"
                place = f"{self.file}:{node.start_point.row + 1}"
                raise UsageError(f"{place}: `{key}` is not {kind}", hint=_UNCHANGED)
        return node, len(entry.path)

    def holds(self, entry: Entry) -> bool:
        """Whether the key of an entry is taken, by us or by something else."""
        node, depth = self.container(entry)
        return bool(entry.key) and depth == len(entry.path) and entry.key in self.pairs(node)

    def own(self, entry: Entry) -> list["Node"]:
        """Return the nodes in the place of an entry that are ours."""
        node, depth = self.container(entry)
        if depth < len(entry.path):
            return []
        members = [self.pairs(node).get(entry.key)] if entry.key else node.named_children
        ours: list[Node] = []
        for member in members:
            if member and member.type != "comment":
                ours += self._own_within(member, entry)
        return ours

    def _own_within(self, node: "Node", entry: Entry) -> list["Node"]:
        """Return a member if it is all ours; otherwise the parts of it that are ours."""
        if entry.is_ours(self.value(node)):
            return [node]
        own_parts: list[Node] = []
        for pair in self.pairs(node).values() if node.type == "object" else ():
            sequence = pair.child_by_field_name("value")
            if not sequence or sequence.type != "array":
                continue
            for part in sequence.named_children:
                if part.type != "comment" and entry.is_ours(self.value(part)):
                    own_parts.append(part)
        return own_parts

    def indent_of(self, node: "Node") -> str:
        """Return the white space at the start of a node's line."""
        line = self.data[self.data.rfind(b"\n", 0, node.start_byte) + 1 :]
        return line[: len(line) - len(line.lstrip(b" \t"))].decode()

    def insert(self, entry: Entry) -> bytes:
        """Return the file with an entry right after the bracket of its innermost existing object or
        list."""
        node, depth = self.container(entry)
        names = [*entry.path, *filter(None, [entry.key])][depth:]
        value = entry.value if entry.key or not names else [entry.value]
        for name in reversed(names[1:]):
            value = {name: value}
        first = next(iter(node.named_children), None)
        step = self.step()
        own_line = first is not None and first.start_point.row > node.start_point.row
        indent = self.indent_of(first) if first and own_line else self.indent_of(node) + step
        body = (f"{json.dumps(names[0])}: " if names else "") + json.dumps(value, indent=step)
        text = body.replace("\n", f"\n{indent}")
        if first is not None:
            text = f"\n{indent}{text}" + (
                "" if first.type == "comment" and node.named_child_count == 1 else ","
            )
        if b"\r\n" in self.data:
            text = text.replace("\n", "\r\n")
        at = node.start_byte + 1
        return self.data[:at] + text.encode() + self.data[at:]

    def step(self) -> str:
        """Return the file's indentation of one level; two spaces if it has none."""
        first = next(iter(self.root.named_children), None)
        own_line = first is not None and first.start_point.row > self.root.start_point.row
        return (self.indent_of(first) if first and own_line else "") or "  "

    def cut(self, node: "Node") -> bytes:
        """Return the file without a member, its comma, and each object or list that we created for
        it alone."""
        parent = node.parent
        assert parent is not None
        around = [child for child in parent.children if child.type != "comment"]
        at = around.index(node)
        start = max(
            child.end_byte for child in parent.children if child.end_byte <= node.start_byte
        )
        spans = [(start, node.end_byte)]
        if around[at + 1].type == ",":
            spans.append((around[at + 1].start_byte, around[at + 1].end_byte))
        elif around[at - 1].type == ",":
            spans.insert(0, (around[at - 1].start_byte, around[at - 1].end_byte))
        elif self.made_for_it(parent, start, node) and parent.parent is not None:
            return self.cut(parent.parent)
        data = self.data
        for first, last in reversed(spans):
            data = data[:first] + data[last:]
        return data

    def made_for_it(self, parent: "Node", start: int, node: "Node") -> bool:
        """Whether we created this object or list, whose last member is `node`: then it begins with
        a line break."""
        comments = any(child.type == "comment" for child in parent.children)
        inside = parent.parent is not None and parent.parent.type == "pair"
        return inside and not comments and b"\n" in self.data[start : node.start_byte]

    def _text(self, node: "Node | None") -> bytes:
        """Return a node's text without comments."""
        assert node is not None
        return self.plain[node.start_byte : node.end_byte]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def without_comments(data: bytes) -> bytes:
    """Replace comments by spaces; no byte and no row moves."""
    if b"//" not in data and b"/*" not in data:
        return data
    plain = bytearray(data)
    at = 0
    while mark := _STRING_OR_COMMENT.search(data, at):
        at = mark.end()
        if mark[0].startswith(b'"'):
            continue
        if mark[0] == b"/*":
            at = data.find(b"*/", at) + 2
            if at == 1:  # never closed: not JSON
                break
        plain[mark.start() : at] = re.sub(rb"[^\n]", b" ", data[mark.start() : at])
    return bytes(plain)
