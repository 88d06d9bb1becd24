"""JSON lines that a person wrote: a regular file of bounded size, each line validated and named in what is wrong.

Blank lines are skipped, ids are told apart, no key may stand twice in an object. What a line means is its reader's
business. Trade-off: the whole file is read at once, since what a person wrote is small.

JSON whose objects name each key once: what a reviewer reads in a diff is then what a program holds.

Parsers take the last of two equal keys, people often the first. It checks that alone, of text that is JSON already and
not nested beyond reason. Trade-off: the text is parsed once more.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from pydantic import BaseModel, ValidationError

from xscore.platform.errors import UsageError
from xscore.platform.files import FileRefused, read_named_file


def refuse_repeated_keys(text: str) -> None:
    """Raise ValueError that names a key which one object has twice. text: valid JSON."""
    json.loads(text, object_pairs_hook=_once)


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {json.dumps(key[:80])} stands twice in one object")
        found[key] = value
    return found


MAX_BYTES = 50_000_000
TOO_LARGE = f"has more than {MAX_BYTES:,} bytes"
_NO_FILE = {"not_a_file": "is no regular file", "too_large": TOO_LARGE}
_NAME_ONE = "Name a file of JSON lines."


class HasId(Protocol):
    """A line with an id of its own."""

    id: str


Shape = TypeVar("Shape", bound=BaseModel)
NamedLine = TypeVar("NamedLine", bound=HasId)


class JsonLinesReader(Struct, Generic[Shape], frozen=True):
    """How the lines of a file are read, and what is said of one that cannot be."""

    shape: type[Shape]
    """Strict."""
    hint: str
    """What a line looks like."""

    def read(self, path: Path) -> bytes:
        """Return the bytes of the file. Raises UsageError."""
        try:
            return read_named_file(path, max_bytes=MAX_BYTES, follow=True)
        except FileRefused as error:
            raise UsageError(f"{path} {_NO_FILE[str(error)]}", hint=_NAME_ONE) from error
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}", hint=_NAME_ONE) from error

    def of(self, data: bytes, name: str) -> Iterator[tuple[str, Shape]]:
        """Yield `name:line` and what stands there. Raises UsageError that names the line."""
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(f"{name} is not UTF-8: {error.reason} at byte {error.start}", hint=self.hint) from error
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield f"{name}:{number}", self._line(line, f"{name}:{number}")

    def _line(self, line: str, where: str) -> Shape:
        try:
            read = self.shape.model_validate_json(line)
            refuse_repeated_keys(line)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "line"
            said = first["msg"].removeprefix("Value error, ")
            raise UsageError(f"{where}: {field}: {said}", hint=self.hint) from error
        except ValueError as error:
            raise UsageError(f"{where}: {error}", hint=self.hint) from error
        return read


def with_unique_ids(lines: Iterator[tuple[str, NamedLine]]) -> Iterator[NamedLine]:
    """Yield the lines, each with an id of its own. Raises UsageError that names the second line of an id."""
    first_at: dict[str, str] = {}
    for where, line in lines:
        before = first_at.setdefault(line.id, where)
        if before != where:
            raise UsageError(
                f"{where}: id `{line.id}` is that of line {before.rpartition(':')[2]} as well",
                hint="Give each question an id of its own.",
            )
        yield line
