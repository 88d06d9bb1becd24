"""Where the payloads of `eval attack` are planted: five places of real files of a repository.

It picks one small file for each place (a comment, a docstring, a string, a document, a setting),
copies them, and writes a line into one of their memories; a file that is not Python gets its
comment, string or block comment before the last line of a function. Nothing of the repository
itself is changed. Trade-off: an edited file need not run, only to be read.
"""

import ast
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from xscore.platform.errors import NothingMatched
from xscore.records.candidates import Candidate
from xscore.records.memory import Kind

LEAST_BYTES, MOST_BYTES = 120, 12_000
"""Size of a file that is copied: large enough to hold something, small enough to be cheap."""
_HASHES = frozenset({"python", "ruby", "bash", "yaml", "toml", "ini"})
"""Languages whose comments begin with `#`."""
_STRING_OF_LANGUAGE = {
    "python": "_note = {}",
    "ruby": "_note = {}",
    "javascript": "const note = {};",
    "typescript": "const note = {};",
    "tsx": "const note = {};",
    "go": "_ = {}",
    "rust": "let _note = {};",
    "java": "String note = {};",
    "c": "const char *note = {};",
    "cpp": "const char *note = {};",
    "c_sharp": "var note = {};",
    "php": "$note = {};",
}


class Place(StrEnum):
    """A kind of place where a stranger may write."""

    COMMENT = "comment"
    DOCSTRING = "docstring"
    STRING = "string"
    DOCUMENT = "document"
    CONFIG = "config"


_KINDS_OF_PLACE: Mapping[Place, frozenset[Kind]] = {
    Place.COMMENT: frozenset({Kind.FUNCTION, Kind.METHOD}),
    Place.DOCSTRING: frozenset({Kind.FUNCTION, Kind.METHOD}),
    Place.STRING: frozenset({Kind.FUNCTION, Kind.METHOD}),
    Place.DOCUMENT: frozenset({Kind.DOC}),
    Place.CONFIG: frozenset({Kind.CONFIG}),
}


class Host(Struct, frozen=True):
    """A memory of the repository into which a payload is written."""

    place: Place
    path: str
    entity: str
    kind: Kind
    language: str
    start_line: int
    end_line: int
    text: str
    """The text of the whole file."""


def choose_hosts(root: Path, candidates: Iterable[Candidate]) -> tuple[Host, ...]:
    """Return a host for each place that the repository has, in files of their own.

    Raises NothingMatched if it has none.
    """
    by_size: list[tuple[int, Candidate]] = []
    for candidate in candidates:
        if candidate.path and candidate.start_line and candidate.kind in _ALL_KINDS:
            by_size.append((_file_size(root / candidate.path), candidate))
    by_size.sort(key=lambda pair: (pair[0], pair[1].path, pair[1].start_line))
    hosts: list[Host] = []
    taken: set[str] = set()
    for place, kinds in _KINDS_OF_PLACE.items():
        for size, candidate in by_size:
            is_fit = LEAST_BYTES <= size <= MOST_BYTES and candidate.path not in taken
            if not is_fit or candidate.kind not in kinds:
                continue
            host = _host(root, place, candidate)
            if host is not None:
                hosts.append(host)
                taken.add(host.path)
                break
    if not hosts:
        raise NothingMatched(
            "no file here is suitable for the attack",
            hint=f"It needs a text file of {LEAST_BYTES} to {MOST_BYTES:,} bytes with a function,"
            " a section or a setting.",
        )
    return tuple(hosts)


_ALL_KINDS = frozenset().union(*_KINDS_OF_PLACE.values())


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _host(root: Path, place: Place, candidate: Candidate) -> Host | None:
    """Return the host, if its file is text in which the place can be found."""
    try:
        text = (root / candidate.path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    host = Host(
        place,
        candidate.path,
        candidate.entity,
        candidate.kind,
        candidate.language,
        candidate.start_line,
        candidate.end_line,
        text,
    )
    if write_into(host, "x") is not None:
        return host
    return None


def write_into(host: Host, words: str) -> str | None:
    """Return the file of a host with these words in its place; None if it has no such place."""
    lines = host.text.splitlines()
    if not 0 < host.start_line <= host.end_line <= len(lines):
        return None
    match host.place:
        case Place.DOCUMENT:
            # At its end: a document without a heading is named by its first line.
            return _with_lines(lines, host.end_line, ["", words])
        case Place.CONFIG:
            return _in_config(host, lines, words)
        case _:
            return _in_code(host, lines, words)


def _in_config(host: Host, lines: Sequence[str], words: str) -> str | None:
    if host.path.endswith(".json"):
        if lines[0].strip() != "{":
            return None
        return _with_lines(lines, 1, [f'  "note": {json.dumps(words)},'])
    if not host.path.endswith((".toml", ".yaml", ".yml", ".ini", ".cfg")):
        return None
    first_line = lines[host.start_line - 1]
    # Below a section's head, whose indentation in YAML is that of its keys.
    indent = first_line[: len(first_line) - len(first_line.lstrip())]
    return _with_lines(lines, host.start_line, [f"{indent}# {words}"])


def _in_code(host: Host, lines: Sequence[str], words: str) -> str | None:
    if host.language == "python":
        position = _first_statement(host)
    else:
        position = _before_the_end(host, lines)
    if position is None:
        return None
    after, indent = position
    written = _code_line(host, words)
    if written:
        return _with_lines(lines, after, [indent + written])
    return None


def _code_line(host: Host, words: str) -> str:
    """Return the words as a line of the host's language; empty if it has no such line."""
    if host.place is Place.STRING:
        form = _STRING_OF_LANGUAGE.get(host.language, "")
        return form.replace("{}", json.dumps(words, ensure_ascii=False))
    if host.place is Place.DOCSTRING:
        if host.language == "python":
            return f'"""{words}"""'
        return f"/** {words} */"
    if host.language in _HASHES:
        return f"# {words}"
    return f"// {words}"


def _first_statement(host: Host) -> tuple[int, str] | None:
    """Return the line after which a Python function begins, and its indentation."""
    try:
        tree = ast.parse(host.text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not host.start_line <= node.lineno <= host.end_line:
            continue
        first = node.body[0]
        # A function on one line has no line of its own to write.
        if first.lineno > node.lineno:
            return first.lineno - 1, " " * first.col_offset
    return None


def _before_the_end(host: Host, lines: Sequence[str]) -> tuple[int, str] | None:
    """Return the line before the last one of a function in braces, and its indentation."""
    if host.end_line - host.start_line < 2:
        return None
    if not lines[host.end_line - 1].strip().startswith("}"):
        return None
    before = lines[host.end_line - 2]
    return host.end_line - 1, before[: len(before) - len(before.lstrip())]


def _with_lines(lines: Sequence[str], after: int, written: Sequence[str]) -> str:
    return "\n".join([*lines[:after], *written, *lines[after:]]) + "\n"
