"""JSON lines that a person wrote: a regular file of limited size, each line validated, errors with line numbers.

Blank lines are skipped; a repeated id, or a key twice in one object, is an error: parsers take the last of two equal
keys, people often mean the first. What a line means is up to the caller. Trade-off: the whole file is read at once and
each line is parsed twice; hand-written files are small.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from xscore.platform.errors import UsageError
from xscore.platform.files import FileRefused, read_named_file

MAX_BYTES = 50_000_000
TOO_LARGE = f"has more than {MAX_BYTES:,} bytes"
_NO_FILE = {"not_a_file": "is no regular file", "too_large": TOO_LARGE}
_NAME_ONE = "Name a file of JSON lines."


class HasId(Protocol):
    """A line with an id."""

    @property
    def id(self) -> str:
        """Unique within the file."""
        ...


Line = TypeVar("Line", bound=HasId)


def read_lines_file(path: Path) -> bytes:
    """Return the bytes of the file. Raises UsageError."""
    try:
        return read_named_file(path, max_bytes=MAX_BYTES, follow=True)
    except FileRefused as error:
        raise UsageError(f"{path} {_NO_FILE[str(error)]}", hint=_NAME_ONE) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=_NAME_ONE) from error


def parse_lines(data: bytes, name: str, shape: type[Line], *, hint: str) -> tuple[Line, ...]:
    """Return the parsed lines. name: their source, for errors. hint: what a line looks like.

    Raises UsageError with the line number for a line of another shape or a repeated id.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: {error.reason} at byte {error.start}", hint=hint) from error
    found: dict[str, tuple[int, Line]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            refuse_repeated_keys(line)
            read = msgspec.json.decode(line, type=shape)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{name}:{number}: {error}", hint=hint) from error
        if read.id in found:
            raise UsageError(
                f"{name}:{number}: id `{read.id}` is that of line {found[read.id][0]} as well",
                hint="Give each question an id of its own.",
            )
        found[read.id] = number, read
    return tuple(read for _, read in found.values())


def refuse_repeated_keys(text: str) -> None:
    """Raise ValueError for a key that one object has twice, or for invalid JSON."""
    json.loads(text, object_pairs_hook=_once)


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {json.dumps(key[:80])} stands twice in one object")
        found[key] = value
    return found
