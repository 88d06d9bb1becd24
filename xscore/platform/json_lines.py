"""JSON lines from outside: a regular file or standard input, of limited size; each line validated,
errors by line.

Blank lines are skipped; a repeated id, or a key twice in one object, is an error: parsers take the
last of two equal keys, people often mean the first. What a line means is up to the caller.
Trade-off: the whole file is read at once and each line is parsed twice.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from xscore.platform.errors import UsageError, newer_file_error
from xscore.platform.files import read_input_file
from xscore.platform.patterns import compiled_late
from xscore.platform.text import one_line

MAX_BYTES = 50_000_000
MAX_LINE_BYTES = 8_000_000
STDIN = "-"
_QUOTED_VALUE = compiled_late(r"(Invalid(?: enum)? value) .*?( - at `\$|$)", re.DOTALL)
_SURROGATE = compiled_late(rb"\\u[dD][89a-fA-F]")
_ESCAPE = compiled_late(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""Matches an escape, or two that are a surrogate pair; the group is a surrogate without its
partner."""
_NAME_ONE = "Name a file of JSON lines, or - for standard input."


class HasId(Protocol):
    """A line with an id."""

    @property
    def id(self) -> str:
        """Unique within the file."""
        ...


Line = TypeVar("Line", bound=HasId)
Shape = TypeVar("Shape")


def read_lines_file(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the bytes of the file, or for `-` of standard input. Raises UsageError."""
    if str(path) != STDIN:
        return read_input_file(path, max_bytes=max_bytes, hint=_NAME_ONE)
    data = sys.stdin.buffer.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UsageError(f"standard input has more than {max_bytes:,} bytes", hint=_NAME_ONE)
    return data


def name_lines_file(path: Path) -> str:
    """Name the source for messages."""
    if str(path) == STDIN:
        return "standard input"
    return one_line(str(path))


def parse_lines(data: bytes, name: str, shape: type[Line], *, hint: str) -> tuple[Line, ...]:
    """Return the parsed lines.

    name: their source, for errors.
    hint: what a line looks like.

    Raises UsageError with the line number for a line of another shape or a repeated id.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name} is not UTF-8: {error.reason} at byte {error.start}", hint=hint
        ) from error
    decoder = msgspec.json.Decoder(shape)
    numbered = list[tuple[int, Line]]()
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            numbered.append((number, decode_line(line, f"{name}:{number}", decoder, hint=hint)))
    return unique_lines(numbered, name)


def decode_line(
    line: str | bytes,
    place: str,
    decoder: "msgspec.json.Decoder[Shape]",
    *,
    hint: str,
    schema: int | None = None,
    checks_keys: bool = True,
) -> Shape:
    """Return what a line holds. place: file and line number, for errors.

    schema: the highest number that the line's `schema` may have; None: lines have none.
    checks_keys: refuse a key that appears twice in one object; a program writes none.
    Raises UsageError.
    """
    try:
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"{len(line):,} characters are too many for a line")
        if checks_keys:
            text = line if isinstance(line, str) else line.decode()
            value = refuse_repeated_keys(text)
            if schema is not None:
                refuse_newer_schema(value, place, schema)
        return decoder.decode(line)
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{place} is not UTF-8: {error.reason} at byte {error.start}", hint=hint
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place}: {without_values(error)}", hint=hint) from error


def unique_lines(numbered: Iterable[tuple[int, Line]], name: str) -> tuple[Line, ...]:
    """Return the lines. Raises UsageError where two have one id."""
    by_id: dict[str, tuple[int, Line]] = {}
    for number, line in numbered:
        if line.id in by_id:
            raise UsageError(
                f"{name}:{number}: id `{line.id}` is that of line {by_id[line.id][0]} as well",
                hint="Give each line an id of its own.",
            )
        by_id[line.id] = number, line
    return tuple(line for _, line in by_id.values())


def decode_agent_json(data: bytes, shape: type[Shape]) -> Shape:
    """Decode what an agent sent; half an emoji that it cut, a lone surrogate, becomes U+FFFD.

    Raises ValueError or RecursionError.
    """
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.DecodeError:
        if not _SURROGATE.search(data):
            raise
    mended = _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], data)
    return msgspec.json.decode(mended, type=shape)


def without_values(error: Exception) -> str:
    """Return a decoder's message without the values it quotes, which may be secrets."""
    return _QUOTED_VALUE.sub(r"\1\2", str(error))[:400]


def refuse_repeated_keys(text: str) -> object:
    """Return the value of a JSON text.

    Raises ValueError for a key that one object has twice, or for invalid JSON.
    """
    return json.loads(text, object_pairs_hook=_once)


def refuse_newer_schema(value: object, name: str, readable: int) -> None:
    """Raise UsageError if an object's `schema` is a higher number than this xscore reads."""
    version = value.get("schema") if isinstance(value, dict) else None
    if isinstance(version, int) and version > readable:
        raise newer_file_error(name, version, readable)


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"the key {json.dumps(key[:80])} appears twice in one object")
        members[key] = value
    return members
