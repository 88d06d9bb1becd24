"""Session files as lines, with flat memory: plain or compressed, of any size, believed in nothing.

Only regular files of this user are opened, and no link is followed. A line beyond `MAX_LINE_BYTES` is handed over as
its beginning. A compressed file is unpacked as it is read, within a window and a ratio that no honest log reaches.
Trade-off: going on in the middle of a compressed file unpacks what stands before it.
"""

import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from xscore.sessions.session_format import Line, UnreadableSession

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
def opened(path: Path) -> Iterator[BinaryIO]:
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


def head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """Return the first bytes, unpacked; nothing where they cannot be read. Raises UnreadableSession if packed."""
    try:
        with opened(path) as file:
            return bytes(_unpacked(path, file).read(size) or b"")
    except UnreadableSession:
        if is_compressed(path):
            raise
        return b""
    except OSError:
        return b""


def lines_of(path: Path, file: BinaryIO, *, offset: int = 0, number: int = 1) -> Iterator[Line]:
    """Read the lines from a byte on, which line `number` begins at. Raises UnreadableSession, OSError."""
    source = _unpacked(path, file)
    _go_to(source, offset)
    while line := _next(source, offset, number):
        yield line
        offset, number = line.end, number + 1


def runs_of(path: Path, file: BinaryIO, speaking: bytes, *, offset: int = 0, number: int = 1) -> Iterator[Line]:
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


def elements_of(file: BinaryIO) -> Iterator[Line]:
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
        yield Line(number, 0, text[place:end].encode("utf-8", "replace"))
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


def _next(source: io.BufferedReader, offset: int, number: int) -> Line | None:
    data = source.readline(MAX_LINE_BYTES)
    if not data:
        return None
    size, is_cut, ended = len(data), False, data.endswith(b"\n")
    if not ended and size == MAX_LINE_BYTES:
        data, is_cut = data[:HEAD_BYTES], True
        size, ended = _skip_line(source, size)
    return Line(number, offset, data.rstrip(b"\r\n"), is_cut, not ended, offset + size if ended else offset)


def _runs(block: bytes, telling: re.Pattern[bytes], offset: int, number: int) -> Iterator[Line]:
    """Part whole lines before and after each that tells something."""
    text, place = b"\n" + block[:-1], 0  # every line behind its break: places are those of the block
    cuts = [cut for found in telling.finditer(text) for cut in found.span()]
    for cut in (*cuts, len(text)):
        if place < cut:
            data, count = text[place + 1 : cut], text.count(b"\n", place, cut)
            yield Line(number, offset + place, _without_returns(data), end=offset + cut, lines=count)
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
