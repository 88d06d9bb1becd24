"""Session files as lines and JSON fields: flat memory, plain or zstd, and no trust in their content.

Only regular files of this user are opened, and no link is followed. A line over `MAX_LINE_BYTES` is cut to its
beginning, and bytes that are not UTF-8 are replaced. Trade-off: resuming in the middle of a compressed file has to
decompress everything before it.
"""

import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from xscore.extensions.sessions.session_format import SessionLine, UnreadableSession

MAX_LINE_BYTES = 8 << 20
MAX_ARRAY_BYTES = 32 << 20
HEAD_BYTES = 64 << 10
MAX_UNPACKED_BYTES = 4 << 30
MAX_RATIO = 500
"""Unpacked to packed bytes, checked after `RATIO_FROM_BYTES`; agents' logs reach 30."""
RATIO_FROM_BYTES = 64 << 20
_MAX_WINDOW_BYTES = 128 << 20
_FEED_BYTES = 1024
"""Packed bytes at a time: at most 32 MiB unpacked."""
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_CWD = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')


@contextmanager
def open_session_file(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file of this user without following a link. Raises UnreadableSession, OSError."""
    descriptor = os.open(path, _READ_FLAGS)
    with os.fdopen(descriptor, "rb", buffering=1 << 20) as file:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise UnreadableSession(0, "it is not a regular file")
        if info.st_uid != os.geteuid():
            raise UnreadableSession(0, "it belongs to another user")
        yield file


def read_head(path: Path) -> bytes:
    """Return the first bytes, unpacked; empty if unreadable. Raises UnreadableSession for a bad compressed file."""
    try:
        with open_session_file(path) as file:
            return _unpacked(path, file).read(HEAD_BYTES) or b""
    except UnreadableSession:
        if path.suffix == ".zst":
            raise
    except OSError:
        pass
    return b""


def recorded_folders(head: bytes) -> list[str]:
    """Return the `cwd` values in the first bytes of a file, each once."""
    found = []
    for quoted in dict.fromkeys(_CWD.findall(head)):
        try:
            found.append(str(json.loads(quoted)))
        except ValueError:
            continue
    return found


def read_lines(path: Path, file: BinaryIO, *, offset: int = 0, number: int = 1) -> Iterator[SessionLine]:
    """Read the lines from a byte offset, where line `number` begins. Raises UnreadableSession, OSError."""
    source = _unpacked(path, file)
    if source.seekable():
        source.seek(offset)
    passed = source.tell() if source.seekable() else 0
    while passed < offset and (skipped := len(source.read(min(offset - passed, 1 << 20)))):
        passed += skipped
    while data := source.readline(MAX_LINE_BYTES):
        size, is_truncated, ended = len(data), False, data.endswith(b"\n")
        if not ended and size == MAX_LINE_BYTES:
            data, is_truncated = data[:HEAD_BYTES], True
            while not ended and (rest := source.readline(1 << 20)):
                size, ended = size + len(rest), rest.endswith(b"\n")
        end = offset + size if ended else offset
        yield SessionLine(number, offset, data.rstrip(b"\r\n"), is_truncated, not ended, end)
        offset, number = end, number + 1


def read_array(file: BinaryIO) -> Iterator[SessionLine]:
    """Read a file that is one JSON array, one element per line. Raises UnreadableSession."""
    data = file.read(MAX_ARRAY_BYTES + 1)
    if len(data) > MAX_ARRAY_BYTES:
        size = os.fstat(file.fileno()).st_size >> 20
        raise UnreadableSession(0, f"{size:,} MiB is over the limit of {MAX_ARRAY_BYTES >> 20} MiB for one document")
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").encode()
    try:
        messages = msgspec.json.decode(text, type=list[msgspec.Raw])
    except (ValueError, RecursionError) as error:
        raise UnreadableSession(1, f"expected a complete JSON array of messages ({error})") from error
    for number, message in enumerate(messages, 1):
        yield SessionLine(number, 0, bytes(message))


def _unpacked(path: Path, file: BinaryIO) -> io.BufferedReader:
    if path.suffix == ".zst":
        return io.BufferedReader(_ZstdFile(file), buffer_size=1 << 20)
    assert isinstance(file, io.BufferedReader)
    return file


class _ZstdFile(io.RawIOBase):
    """Decompresses while reading, frame by frame; refuses truncated files and decompression bombs."""

    def __init__(self, file: BinaryIO) -> None:
        import zstandard

        self._file = file
        self._error: type[Exception] = zstandard.ZstdError
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
        self._new_frame: Callable[[], zstandard.ZstdDecompressionObj] = decompressor.decompressobj
        self._frame = self._new_frame()
        self._ready = b""
        self._packed = self._out = 0
        self._is_mid_frame = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview[int]") -> int:  # type: ignore[override]  # what BufferedReader passes
        while not self._ready and (packed := self._file.read(_FEED_BYTES)):
            self._ready = self._decompress(packed)
        if not self._ready and self._is_mid_frame:
            raise UnreadableSession(0, "the compressed file is truncated")
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def _decompress(self, packed: bytes) -> bytes:
        self._packed += len(packed)
        pieces = []
        while packed:
            if self._frame.eof:
                self._frame = self._new_frame()
            try:
                pieces.append(self._frame.decompress(packed))
            except self._error as error:
                raise UnreadableSession(0, f"it cannot be decompressed: {error}") from error
            packed = self._frame.unused_data if self._frame.eof else b""
        self._is_mid_frame = not self._frame.eof
        out = b"".join(pieces)
        self._out += len(out)
        if self._out > MAX_UNPACKED_BYTES or (self._out > RATIO_FROM_BYTES and self._out > MAX_RATIO * self._packed):
            raise UnreadableSession(0, f"{self._packed:,} compressed bytes expand to more than {self._out:,}")
        return out


def parse_record(line: SessionLine) -> dict[str, Any] | None:
    """Parse a line as a JSON object; None for a blank line or a half-written last line. Raises UnreadableSession."""
    try:
        found = msgspec.json.decode(line.data)
    except (ValueError, RecursionError):  # also bad UTF-8 and lone surrogates, which the slower parser accepts
        text = line.data.decode("utf-8", "replace").lstrip("\ufeff").strip()
        if not text:
            return None
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            if line.is_unterminated:
                return None
            why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise UnreadableSession(line.number, f"expected one JSON object ({why})") from error
    if not isinstance(found, dict):
        raise UnreadableSession(line.number, f"expected one JSON object, found {type(found).__name__}")
    return found


def parse_object(text: str) -> dict[str, Any]:
    """Parse JSON that a record carries as text; empty where it is not an object."""
    try:
        found = json.loads(text) if text.startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def text_field(record: Mapping[str, Any], name: str) -> str:
    """Return a text field; empty for any other type."""
    value = record.get(name)
    return value if isinstance(value, str) else ""


def object_field(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object field; empty for any other type."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def object_list(record: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a list field."""
    value = record.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


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
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") in types]
    return "\n".join(text for text in texts if isinstance(text, str))
