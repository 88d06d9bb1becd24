"""What a text names that can be looked up: files, symbols, commands, versions.

Names are taken where they are marked as such (backticks, shell blocks) or have a form that prose
has not (`a/b.py`, `name()`, `snake_case`). Pure. Trade-off: a name that looks like any word, such
as a class called `Cart` in a plain sentence, is not seen: better none than a warning about prose.
"""

import re
from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

MOST_NAMED = 60
"""Most names of one text that are looked up."""
LONGEST_LINE = 2_000
"""How many characters of a line are read."""
SAID_BEFORE = 40
"""How many characters before a command are searched for `run` and the like, which make it
one."""
_FENCE = re.compile(r"[ \t]*(```+|~~~+)[ \t]*([\w+-]*)")
_SHELLS = frozenset({"sh", "bash", "shell", "console", "zsh", "shell-session"})
_CODE_SPAN = re.compile(r"(?<!`)(`{1,3}+)([^`]++)\1(?!`)")
_ELSEWHERE = re.compile(
    r"!?\[[^\[\]\n]{0,300}+\]\([a-z]{2,10}://[^)\s]*+\)|\b[a-z]{2,10}://\S++"
    r"|<[^<>\s@]++@[^<>\s]++>"
)
"""Matches links to other sites, with their texts."""
_PART = r"[\w@%+.-]+"
_ENDING = (
    r"pyi?|[mc]?[jt]sx?|go|rs|java|kt|rb|php|cs|c|cc|cpp|h|hpp|swift|scala|sh|sql|toml|ya?ml|json"
    r"|md|rst|txt|ini|cfg|lock|html|css|scss|vue|svelte|proto|tf"
)
_PATH = re.compile(
    rf"(?<![\w/.:@%+*~${{<-])(?:\./)?((?:{_PART}/)+{_PART}\.(?:{_ENDING})|[\w-]+\.(?:{_ENDING}))"
    r"(?![\w*}/-]|\.\w)"
)
_FOLDER = re.compile(rf"(?:\./)?(?:{_PART}/)+(?:{_PART})?\Z")
_DOTTED = r"[^\W\d]\w*(?:(?:\.|::)[^\W\d]\w*)*"
_SYMBOL = re.compile(rf"({_DOTTED})(\(\))?\Z")
_CALL = re.compile(rf"(?<![\w.`/:-])({_DOTTED})\(\)")
_SNAKE = re.compile(r"(?<![\w.`/:@-])([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?![\w(/:`*@-]|\.\w)")
_VERSION = re.compile(
    r"(?<![\w./@-])([A-Za-z@][\w./@-]{0,60}?)[ \t]*(?:\bversions?[ \t]+|[=><~^]=?=?[ \t]*|@|\bv)?"
    r"(?<![\w.])(\d{1,4}(?:\.\d{1,5}){0,3})(?![\w-]|\.\d)"
)
_SAYS_RUN = re.compile(
    r"(?i)\b(?:run|runs|running|use|execute|invoke|call|type|with|via|command)\b"
)
_SHELL_SPLIT = re.compile(r"&&|\|\||;")
_PIPE = re.compile(r"(?<!\|)\|(?!\|).*")
_COMMENT = re.compile(r"(?:\A|[ \t])#.*")
_ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=\S*")
_WORD = re.compile(r"[A-Za-z.][\w./+-]*\Z")
_BEGINS_CODE = frozenset(
    """
    async await class const def else except export extends fn for from func function if impl import
    interface let lambda not package private pub public raise return static struct throw try type
    var while with yield
    """.split()
)
"""Words that begin a line of code and no command: `from __future__ import annotations`."""


class NamedKind(StrEnum):
    """What sort of thing a name is of."""

    FILE = "file"
    SYMBOL = "symbol"
    COMMAND = "command"
    VERSION = "version"


class NamedThing(Struct, frozen=True):
    """A thing that a text names."""

    kind: NamedKind
    name: str
    """Name of the thing, as the text has it; for a version, the package."""
    line: int = 1
    """Line of the text, from 1."""
    version: str = ""
    is_run: bool = False
    """Whether the text says to run this command, or it is in a shell block."""


def named_things(text: str) -> list[NamedThing]:
    """Return what a text names, each once, in its order."""
    things: dict[tuple[NamedKind, str, str], NamedThing] = {}
    for thing in _things_of(text):
        things.setdefault((thing.kind, thing.name, thing.version), thing)
        if len(things) == MOST_NAMED:
            break
    return list(things.values())


def _things_of(text: str) -> Iterator[NamedThing]:
    fence, is_shell = "", False
    for number, whole_line in enumerate(text.splitlines(), start=1):
        line = whole_line[:LONGEST_LINE]
        mark = _FENCE.match(line)
        if mark is not None and not fence:
            fence = mark[1]
            is_shell = mark[2].lower() in _SHELLS
        elif mark is not None and mark[1].startswith(fence):
            fence = ""
        elif not fence:
            yield from _things_of_line(line, number)
        elif is_shell:
            yield from _things_of_command(line.strip().removeprefix("$ "), number, is_run=True)


def _things_of_line(written: str, number: int) -> Iterator[NamedThing]:
    """Yield what a line outside of blocks names: first in its code spans, then in its words."""
    line = _ELSEWHERE.sub(" ", written)
    for span in _CODE_SPAN.finditer(line):
        code = span[2].strip()
        if code.partition(" ")[0] in _BEGINS_CODE:
            continue
        if " " in code:
            before = line[max(0, span.start() - SAID_BEFORE) : span.start()]
            is_run = _SAYS_RUN.search(before) is not None
            yield from _things_of_command(code, number, is_run=is_run)
        else:
            yield from _thing_of_span(code, number)
    words = _CODE_SPAN.sub(" ` ", line)
    yield from _versions_of(line.replace("`", ""), number)
    for path in _PATH.findall(words):
        yield NamedThing(NamedKind.FILE, path, number)
    for pattern in (_CALL, _SNAKE):
        for name in pattern.findall(words):
            yield NamedThing(NamedKind.SYMBOL, name, number)


def _thing_of_span(code: str, number: int) -> Iterator[NamedThing]:
    path, colons, entity = code.partition("::")
    if _PATH.fullmatch(path) or _FOLDER.fullmatch(code):
        yield NamedThing(NamedKind.FILE, path.removeprefix("./"), number)
        if colons and _SYMBOL.match(entity):
            yield NamedThing(NamedKind.SYMBOL, entity.removesuffix("()"), number)
        return
    symbol = _SYMBOL.match(code)
    # A plain word in backticks may be a value, an option or a branch.
    if symbol is not None and (symbol[2] or re.search(r"[._]|::|[a-z][A-Z]", symbol[1])):
        yield NamedThing(NamedKind.SYMBOL, symbol[1], number)


def _things_of_command(code: str, number: int, *, is_run: bool) -> Iterator[NamedThing]:
    """Yield the commands of a shell line, and the files that it names."""
    for part in _SHELL_SPLIT.split(_COMMENT.sub("", code)):
        words = _PIPE.sub("", part).split()
        while words and (
            _ASSIGNMENT.fullmatch(words[0]) or words[0] in ("sudo", "time", "env")
        ):
            words.pop(0)
        if not words or not _WORD.match(words[0]):
            continue
        if len(words) > 1 or is_run:
            yield NamedThing(NamedKind.COMMAND, " ".join(words), number, is_run=is_run)
        for word in words:
            path = word.partition("::")[0].removeprefix("./")
            if "/" in path and _PATH.fullmatch(path):
                yield NamedThing(NamedKind.FILE, path, number)


def _versions_of(line: str, number: int) -> Iterator[NamedThing]:
    for name, version in _VERSION.findall(line):
        yield NamedThing(NamedKind.VERSION, name, number, version)
