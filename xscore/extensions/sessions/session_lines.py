"""Session files as lines, with flat memory: plain or compressed, of any size, believed in nothing.

Only regular files of this user are opened, and no link is followed. A line beyond `MAX_LINE_BYTES` is handed over as
its beginning. A compressed file is unpacked as it is read, within a window and a ratio that no honest log reaches.
Trade-off: going on in the middle of a compressed file unpacks what stands before it.

JSON out of strangers' files: an object or a plain refusal, times as unix seconds, fields only of the type they have.

Bytes that are not UTF-8 are replaced, not refused: one bad letter must not cost a session.
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

from xscore.extensions.sessions.session_format import SessionLine, UnreadableSession

MAX_LINE_BYTES = 8 << 20
MAX_WHOLE_BYTES = 32 << 20
"""Of a file that is one JSON document."""
HEAD_BYTES = 64 << 10
MAX_UNPACKED_BYTES = 4 << 30
MAX_RATIO = 500
"""Unpacked to packed, looked at once `RATIO_FROM_BYTES` are unpacked; logs of agents reach 30."""
RATIO_FROM_BYTES = 64 << 20
_MAX_WINDOW_BYTES = 128 << 20
_FEED_BYTES = 1024
"""Packed bytes at a time: at most 32 MiB unpacked, by the densest blocks there are."""
_RETURNS = re.compile(rb"\r+\n")
_BLANKS = frozenset(" \t\r\n")
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def open_session_file(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file of this user, last step not a link. Raises UnreadableSession, OSError."""
    descriptor = os.open(path, _READ_FLAGS)
    with os.fdopen(descriptor, "rb", buffering=1 << 20) as file:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise UnreadableSession(0, "it is no regular file")
        if info.st_uid != os.geteuid():
            raise UnreadableSession(0, "it belongs to another user")
        yield file


def is_compressed(path: Path) -> bool:
    """Whether the file is unpacked as it is read."""
    return path.suffix == ".zst"


def read_head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """Return the first bytes, unpacked; nothing where they cannot be read. Raises UnreadableSession if packed."""
    try:
        with open_session_file(path) as file:
            return bytes(_unpacked(path, file).read(size) or b"")
    except UnreadableSession:
        if is_compressed(path):
            raise
        return b""
    except OSError:
        return b""


def read_lines(path: Path, file: BinaryIO, *, offset: int = 0, number: int = 1) -> Iterator[SessionLine]:
    """Read the lines from a byte on, which line `number` begins at. Raises UnreadableSession, OSError."""
    source = _unpacked(path, file)
    _go_to(source, offset)
    while line := _next(source, offset, number):
        yield line
        offset, number = line.end, number + 1


def read_runs(
    path: Path, file: BinaryIO, speaking: bytes, *, offset: int = 0, number: int = 1
) -> Iterator[SessionLine]:
    """Read like `lines_of`, but hand over as one those lines in a row that begin with none of `speaking`.

    The first line, one that is very long and one without its end come by themselves. Raises like `lines_of`.
    """
    source = _unpacked(path, file)
    telling = re.compile(rb"\n[%b][^\n]*" % re.escape(speaking))
    _go_to(source, offset)
    while line := _next(source, offset, number):
        yield line
        offset, number = line.end, number + 1
        while whole := source.peek().rfind(b"\n") + 1:
            for line in _runs(source.read(whole), telling, offset, number):
                yield line
                number += line.lines
            offset += whole


def read_array(file: BinaryIO) -> Iterator[SessionLine]:
    """Read a file that is one JSON array, an element a line. Raises UnreadableSession, also where it is too large."""
    data = file.read(MAX_WHOLE_BYTES + 1)
    if len(data) > MAX_WHOLE_BYTES:
        size = os.fstat(file.fileno()).st_size
        raise UnreadableSession(0, f"{size >> 20:,} MiB are more than the {MAX_WHOLE_BYTES >> 20} MiB of one document")
    text = data.decode("utf-8", "replace").lstrip("\ufeff")
    decode, number = json.JSONDecoder().raw_decode, 1
    place = _past_blanks(text, 0)
    if text[place : place + 1] != "[":
        raise UnreadableSession(1, "expected a JSON array of messages")
    while text[(place := _past_blanks(text, place + 1)) : place + 1] != "]":
        try:
            _, end = decode(text, place)
        except (ValueError, RecursionError) as error:
            raise UnreadableSession(number, f"expected a message of a JSON array, whole ({error})") from error
        yield SessionLine(number, 0, text[place:end].encode("utf-8", "replace"))
        number += 1
        place = _past_blanks(text, end)
        if text[place : place + 1] == "]":
            return
        if text[place : place + 1] != ",":
            raise UnreadableSession(number, "expected a comma or the end of the JSON array")


def _past_blanks(text: str, place: int) -> int:
    while text[place : place + 1] in _BLANKS and place < len(text):
        place += 1
    return place


def _unpacked(path: Path, file: BinaryIO) -> io.BufferedReader:
    if is_compressed(path):
        return io.BufferedReader(_Unpacking(file), buffer_size=1 << 20)
    assert isinstance(file, io.BufferedReader)
    return file


def _go_to(source: io.BufferedReader, offset: int) -> None:
    if source.seekable():
        source.seek(offset)
        return
    while offset > 0:
        passed = len(source.read(min(offset, 1 << 20)))
        if not passed:
            return
        offset -= passed


def _next(source: io.BufferedReader, offset: int, number: int) -> SessionLine | None:
    data = source.readline(MAX_LINE_BYTES)
    if not data:
        return None
    size, is_cut, ended = len(data), False, data.endswith(b"\n")
    if not ended and size == MAX_LINE_BYTES:
        data, is_cut = data[:HEAD_BYTES], True
        size, ended = _skip_line(source, size)
    return SessionLine(number, offset, data.rstrip(b"\r\n"), is_cut, not ended, offset + size if ended else offset)


def _runs(block: bytes, telling: re.Pattern[bytes], offset: int, number: int) -> Iterator[SessionLine]:
    """Part whole lines before and after each that tells something."""
    text, place = b"\n" + block[:-1], 0  # every line behind its break: places are those of the block
    cuts = [cut for found in telling.finditer(text) for cut in found.span()]
    for cut in (*cuts, len(text)):
        if place < cut:
            data, count = text[place + 1 : cut], text.count(b"\n", place, cut)
            yield SessionLine(number, offset + place, _without_returns(data), end=offset + cut, lines=count)
            place, number = cut, number + count


def _without_returns(data: bytes) -> bytes:
    return _RETURNS.sub(b"\n", data.rstrip(b"\r")) if b"\r" in data else data


def _skip_line(source: io.BufferedReader, size: int) -> tuple[int, bool]:
    while True:
        rest = source.readline(1 << 20)
        size += len(rest)
        if not rest or rest.endswith(b"\n"):
            return size, bool(rest)


class _Unpacking(io.RawIOBase):
    """Unpacks zstd as it is read, frame after frame; says where a file ends too soon or unfolds without measure."""

    def __init__(self, file: BinaryIO) -> None:
        import zstandard

        self._file = file
        self._error: type[Exception] = zstandard.ZstdError
        self._frame: Callable[[], zstandard.ZstdDecompressionObj] = zstandard.ZstdDecompressor(
            max_window_size=_MAX_WINDOW_BYTES
        ).decompressobj
        self._current = self._frame()
        self._is_within = False
        self._ready = memoryview(b"")
        self._packed = self._out = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview[int]") -> int:  # type: ignore[override]  # that is what BufferedReader hands over
        while not self._ready:
            if not self._unpack():
                return 0
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _unpack(self) -> bool:
        fed = self._file.read(_FEED_BYTES)
        if not fed:
            if self._is_within:
                raise UnreadableSession(0, "the compressed file ends too soon")
            return False
        self._packed += len(fed)
        pieces = []
        while fed:
            if self._current.eof:
                self._current = self._frame()
            try:
                pieces.append(self._current.decompress(fed))
            except self._error as error:
                raise UnreadableSession(0, f"it cannot be unpacked: {error}") from error
            fed = self._current.unused_data if self._current.eof else b""
        self._is_within = not self._current.eof
        self._ready = memoryview(b"".join(pieces))
        self._out += len(self._ready)
        self._check_measure()
        return True

    def _check_measure(self) -> None:
        if self._out > MAX_UNPACKED_BYTES or (self._out > RATIO_FROM_BYTES and self._out > MAX_RATIO * self._packed):
            raise UnreadableSession(0, f"{self._packed:,} packed bytes unfold to more than {self._out:,}: no log does")


_CWD = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')


def parse_record(line: SessionLine) -> dict[str, Any] | None:
    """Read a line as one object; None for a blank line, and for the last one where it is only half written."""
    text = line.data.decode("utf-8", "replace").lstrip("\ufeff").strip()
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        if line.is_open:
            return None
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UnreadableSession(line.number, f"expected one JSON object ({why})") from error
    if not isinstance(found, dict):
        raise UnreadableSession(line.number, f"expected one JSON object, found {type(found).__name__}")
    return found


def looks_whole(line: SessionLine) -> bool:
    """Whether a line that is not worth parsing is an object at least by its ends; blank lines pass."""
    return not line.data or (line.data.startswith(b"{") and line.data.endswith(b"}"))


def text_field(record: Mapping[str, Any], name: str) -> str:
    """Return a field that is text; empty where it is not."""
    value = record.get(name)
    return value if isinstance(value, str) else ""


def object_field(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is an object; empty where it is not."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def object_list(record: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a field that is a list."""
    value = record.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def required_text(record: Mapping[str, Any], name: str, line: SessionLine, where: str) -> str:
    """Return a field that the format cannot do without. Raises UnreadableSession."""
    value = text_field(record, name)
    if not value:
        raise UnreadableSession(line.number, f"expected `{name}` in {where}")
    return value


def parse_time(written: object) -> float | None:
    """Read a time in ISO 8601 or in milliseconds as unix seconds; None: it is no time."""
    try:
        if isinstance(written, str):
            told = datetime.fromisoformat(written)
            return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
        if isinstance(written, int | float) and not isinstance(written, bool):
            return datetime.fromtimestamp(written / 1000, UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        pass
    return None


def required_time(record: Mapping[str, Any], name: str, line: SessionLine, where: str) -> float:
    """Return a time that the format cannot do without. Raises UnreadableSession."""
    told = parse_time(record.get(name))
    if told is None:
        raise UnreadableSession(line.number, f"expected a time as `{name}` in {where}")
    return told


def message_text(content: object, *types: str) -> str:
    """Join the texts of a message: plain, or of its blocks of these types."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") in types]
    return "\n".join(text for text in texts if isinstance(text, str))


def recorded_folders(head: bytes) -> list[str]:
    """Return the `cwd` values in the first bytes of a file, each once."""
    found = []
    for quoted in dict.fromkeys(_CWD.findall(head)):
        try:
            found.append(str(json.loads(quoted)))
        except ValueError:
            continue
    return found
