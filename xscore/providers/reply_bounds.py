"""How much is read of a host's reply: one may come without an end, or unpack from a few kilobytes to gigabytes.

A body is counted as it comes and unpacked in small pieces, so that nothing holds the event loop or the memory for
long. What a reply may weigh follows from the tokens it may have. It reads no JSON and knows no SDK; `bounded_stream`
puts it under one. The trade-off: gzip and deflate alone are unpacked, and neither was asked for.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MIB = 1 << 20
MIN_BYTES = 4 * MIB
"""What a short reply may weigh too: hosts add their own fields, and models think aloud beyond their cap."""
BYTES_PER_TOKEN = 64
"""A token is about 4 characters; as `\\uXXXX`, 6 bytes each."""
STREAMED_BYTES_PER_TOKEN = 1_024
"""A streamed token comes in an event of its own, of 200 to 400 bytes, padded by some hosts."""
LISTING_BYTES = 32 * MIB
"""What may come where no tokens were asked for: the longest list of models known weighs 1 MiB."""
ERROR_BYTES = MIB // 4
"""What is read of an error, which is shown in one line."""
PIECE_BYTES = MIB // 16
"""Unpacked at a time."""
PLAIN_ENCODINGS, PACKED_ENCODINGS = ("", "identity"), ("gzip", "x-gzip", "deflate")
"""Values of Content-Encoding that can be read; the others were not asked for."""
_EITHER_HEADER = 32 + zlib.MAX_WBITS
"""zlib's word for: see by the first bytes whether it is gzip or deflate."""

_asked_tokens: ContextVar[int | None] = ContextVar("asked_tokens", default=None)


@contextmanager
def expecting_tokens(tokens: int) -> Iterator[None]:
    """Let replies to what is sent in here weigh what so many tokens may."""
    before = _asked_tokens.set(tokens)
    try:
        yield
    finally:
        _asked_tokens.reset(before)


def allowed_bytes(content_type: str) -> int:
    """Return what a success of this content type may weigh here and now, unpacked."""
    tokens = _asked_tokens.get()
    if tokens is None:
        return LISTING_BYTES
    each = STREAMED_BYTES_PER_TOKEN if "text/event-stream" in content_type else BYTES_PER_TOKEN
    return max(MIN_BYTES, each * tokens)


class BodyUnreadable(Exception):
    """A body that is not read any further; says what it is."""


class BodyAllowance:
    """What may still be read of one body."""

    def __init__(self, limit: int, *, encoding: str) -> None:
        """limit: bytes, unpacked. encoding: the Content-Encoding."""
        self._limit = limit
        self._left = limit
        self._encoding = encoding.strip().lower()
        self._unpacking = zlib.decompressobj(_EITHER_HEADER) if self._encoding in PACKED_ENCODINGS else None

    def read(self, data: bytes) -> Iterator[bytes]:
        """Unpack what came. Raises Beyond past the limit, or where it cannot be unpacked."""
        if self._unpacking is None:
            if self._encoding not in PLAIN_ENCODINGS:
                raise BodyUnreadable("a body in an encoding that was not asked for")
            yield self._counted(data)
            return
        while data and not self._unpacking.eof:
            try:
                piece = self._unpacking.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise BodyUnreadable(f"a body that is not the {self._encoding} it claims to be") from error
            data = self._unpacking.unconsumed_tail
            yield self._counted(piece)

    def rest(self) -> bytes:
        """Return what the end of the body leaves to unpack: at most a few kilobytes."""
        return self._counted(self._unpacking.flush()) if self._unpacking else b""

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise BodyUnreadable(f"more than {self._limit:,} bytes, where no reply is so long")
        return data
