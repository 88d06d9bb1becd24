"""Session files as lines and JSON fields: flat memory, plain or zstd, and no trust in their
content.

zstd is an extra: without it a compressed file is not read, and the import says how many there are.
Only regular files of this user are opened, and no link is followed. A line over `MAX_LINE_BYTES` is
cut to its beginning, and bytes that are not UTF-8 are replaced. Trade-off: a document that is one
JSON array is held in memory.
"""

import io
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from xscore.platform.extras import has_package

MAX_LINE_BYTES = 8 << 20
MAX_ARRAY_BYTES = 32 << 20
HEAD_BYTES = 64 << 10
MAX_UNPACKED_BYTES = 4 << 30
MAX_RATIO = 500
"""Largest ratio of unpacked to packed bytes, checked after `RATIO_FROM_BYTES`; agents' logs
reach 30."""
RATIO_FROM_BYTES = 64 << 20
_MAX_WINDOW_BYTES = 128 << 20
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_CWD = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')


# Not part of the XscoreError tree: the import report shows it.
class UnreadableSession(Exception):
    """A file does not follow its format. `line` is 0 when the whole file is meant."""

    def __init__(self, line: int, expected: str) -> None:
        super().__init__(f"line {line}: {expected}" if line else expected)


class SessionLine(NamedTuple):
    """One line of a file. A named tuple, because a gigabyte holds ten million of them."""

    number: int
    """Number of the line, from 1."""
    data: bytes
    """The line without its end."""
    is_truncated: bool = False
    """Whether the line is too long, so that `data` is only its beginning."""
    is_unterminated: bool = False
    """Whether the line has no end, so that its agent may still be writing it."""


@contextmanager
def open_session_file(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file of this user without following a link.

    Raises UnreadableSession, OSError.
    """
    descriptor = os.open(path, _READ_FLAGS)
    with os.fdopen(descriptor, "rb", buffering=1 << 20) as file:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise UnreadableSession(0, "it is not a regular file")
        if info.st_uid != os.geteuid():
            raise UnreadableSession(0, "it belongs to another user")
        yield file


def read_head(path: Path) -> bytes:
    """Return the first bytes, unpacked; empty if unreadable.

    Raises UnreadableSession for a bad compressed file.
    """
    with ExitStack() as opened:
        try:
            file = opened.enter_context(open_session_file(path))
        except (UnreadableSession, OSError):
            return b""
        with _decompression_errors(path), suppress(OSError):
            return _unpacked(path, file).read(HEAD_BYTES) or b""
    return b""


def recorded_folders(head: bytes) -> list[str]:
    """Return the `cwd` values in the first bytes of a file, each once."""
    folders = []
    for quoted in dict.fromkeys(_CWD.findall(head)):
        try:
            folders.append(str(json.loads(quoted)))
        except ValueError:
            continue
    return folders


def read_lines(path: Path, file: BinaryIO) -> Iterator[SessionLine]:
    """Read the lines of a file. Raises UnreadableSession, OSError."""
    source = _unpacked(path, file)
    with _decompression_errors(path):
        yield from _lines_of(source, file)


def _lines_of(source: BinaryIO, file: BinaryIO) -> Iterator[SessionLine]:
    number = 0
    size = 0
    while data := source.readline(MAX_LINE_BYTES):
        number += 1
        size += len(data)
        if size > RATIO_FROM_BYTES:
            _refuse_bomb(size, file)
        if data.endswith(b"\n"):
            yield SessionLine(number, data.rstrip(b"\r\n"))
            continue
        is_truncated = len(data) == MAX_LINE_BYTES
        ended = False
        while is_truncated and not ended and (rest := source.readline(1 << 20)):
            size = size + len(rest)
            ended = rest.endswith(b"\n")
            _refuse_bomb(size, file)
        data = data[:HEAD_BYTES] if is_truncated else data
        yield SessionLine(number, data.rstrip(b"\r\n"), is_truncated, not ended)


def _refuse_bomb(size: int, file: BinaryIO) -> None:
    if size > RATIO_FROM_BYTES and (
        size > MAX_UNPACKED_BYTES or size > MAX_RATIO * file.tell()
    ):
        raise UnreadableSession(
            0, f"{file.tell():,} compressed bytes expand to more than {size:,}"
        )


def read_array(file: BinaryIO) -> Iterator[SessionLine]:
    """Read a file that is one JSON array, one element per line. Raises UnreadableSession."""
    data = file.read(MAX_ARRAY_BYTES + 1)
    if len(data) > MAX_ARRAY_BYTES:
        size = os.fstat(file.fileno()).st_size >> 20
        raise UnreadableSession(
            0, f"{size:,} MiB is over the limit of {MAX_ARRAY_BYTES >> 20} MiB for one document"
        )
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").encode()
    try:
        messages = msgspec.json.decode(text, type=list[msgspec.Raw])
    except (ValueError, RecursionError) as error:
        raise UnreadableSession(
            1, f"expected a complete JSON array of messages ({error})"
        ) from error
    for number, message in enumerate(messages, 1):
        yield SessionLine(number, bytes(message))


def is_compressed(path: Path) -> bool:
    """Return whether a session file is packed with zstd, by its name."""
    return path.suffix == ".zst"


def can_decompress() -> bool:
    """Return whether the extra that unpacks compressed sessions is installed."""
    return has_package("zstandard")


@contextmanager
def _decompression_errors(path: Path) -> Iterator[None]:
    """Raise UnreadableSession for compressed data that is damaged."""
    if not is_compressed(path):
        yield
        return
    import zstandard  # an extra, which the importer asked for before

    try:
        yield
    except zstandard.ZstdError as error:
        raise UnreadableSession(0, f"it cannot be decompressed: {error}") from error


def _unpacked(path: Path, file: BinaryIO) -> io.BufferedReader:
    if is_compressed(path):
        import zstandard  # an extra, which the importer asked for before

        unpacker = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
        reader = unpacker.stream_reader(file, read_across_frames=True, closefd=False)
        return io.BufferedReader(reader, buffer_size=1 << 20)
    assert isinstance(file, io.BufferedReader)
    return file


def parse_record(line: SessionLine) -> dict[str, Any] | None:
    """Parse a line as a JSON object; None for a blank line or a half-written last line.

    Raises UnreadableSession.
    """
    try:
        record = msgspec.json.decode(line.data)
    # Also bad UTF-8 and lone surrogates, which the slower parser accepts.
    except (ValueError, RecursionError):
        text = line.data.decode("utf-8", "replace").lstrip("\ufeff").strip()
        if not text:
            return None
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            if line.is_unterminated:
                return None
            why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise UnreadableSession(line.number, f"expected one JSON object ({why})") from error
    if not isinstance(record, dict):
        raise UnreadableSession(
            line.number, f"expected one JSON object, found {type(record).__name__}"
        )
    return record


def parse_object(text: str) -> dict[str, Any]:
    """Parse JSON that a record carries as text; empty where it is not an object."""
    try:
        if text.startswith("{"):
            fields = json.loads(text)
        else:
            fields = {}
    except (ValueError, RecursionError):
        return {}
    if isinstance(fields, dict):
        return fields
    return {}


def text_field(record: Mapping[str, Any], name: str) -> str:
    """Return a text field; empty for any other type."""
    value = record.get(name)
    return value if isinstance(value, str) else ""


def object_field(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object field; empty for any other type."""
    value = record.get(name)
    if isinstance(value, dict):
        return value
    return {}


def object_list(record: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a list field."""
    value = record.get(name)
    if isinstance(value, list):
        return [entry for entry in value if isinstance(entry, dict)]
    return []


def required_text(record: Mapping[str, Any], name: str, line: SessionLine, where: str) -> str:
    """Return a field that the format requires. Raises UnreadableSession."""
    value = text_field(record, name)
    if not value:
        raise UnreadableSession(line.number, f"expected `{name}` in {where}")
    return value


def required_time(record: Mapping[str, Any], name: str, line: SessionLine, where: str) -> float:
    """Return an ISO 8601 or millisecond time as unix seconds. Raises UnreadableSession."""
    written = record.get(name)
    try:
        if isinstance(written, str):
            moment = datetime.fromisoformat(written)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        if isinstance(written, int | float) and not isinstance(written, bool):
            return datetime.fromtimestamp(written / 1000, UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        pass
    raise UnreadableSession(line.number, f"expected a time as `{name}` in {where}")


def message_text(content: object, *types: str) -> str:
    """Join the texts of a message: plain, or of its blocks of these types."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = []
    for block in blocks:
        if isinstance(block, dict) and block.get("type") in types:
            texts.append(block.get("text"))
    return "\n".join(text for text in texts if isinstance(text, str))
