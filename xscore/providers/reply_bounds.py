"""How much of a reply is read: every body, whole or streamed, success or error, is unpacked and
counted as it comes.

A reply may never end, or unpack from a few kilobytes to gigabytes. The bound follows from the
tokens that a call asks for; only what can be shown of an error is read, and its status still
says what it is. Calls of models and downloads of pages read through here. Trade-off: a reply
cut off here may have been charged and is lost, and only gzip and deflate are unpacked, neither
of which was asked for.
"""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

MIB = 1 << 20
MIN_BYTES = 4 * MIB
"""Bytes allowed for even a short reply: hosts add their own fields, and models think aloud
beyond their cap."""
BYTES_PER_TOKEN = 64
"""Most bytes of a token, which is about 4 characters; as `\\uXXXX`, 6 bytes each."""
STREAMED_BYTES_PER_TOKEN = 1_024
"""Most bytes of a streamed token, which comes in an event of its own, of 200 to 400 bytes,
padded by some hosts."""
LISTING_BYTES = 32 * MIB
"""Most bytes of a reply where no tokens were asked for: the longest known list of models takes
1 MiB."""
ERROR_BYTES = MIB // 4
"""Bytes read of an error, which is shown in one line."""
PIECE_BYTES = 1 << 16
"""Bytes unpacked at a time."""
IDENTITY_ENCODING = {"Accept-Encoding": "identity"}
"""Encoding that is asked for: replies are short, and packing them would only hide how long they
are."""
PLAIN_ENCODINGS, PACKED_ENCODINGS = ("", "identity"), ("gzip", "x-gzip", "deflate")
"""Values of Content-Encoding that can be read; the others were not asked for."""
_EITHER_HEADER = 32 + zlib.MAX_WBITS
"""Value with which zlib tells gzip from deflate by the first bytes."""

_asked_tokens: ContextVar[int | None] = ContextVar("asked_tokens", default=None)


@contextmanager
def expecting_tokens(tokens: int) -> Iterator[None]:
    """Bound the replies to what is sent in here by the bytes that this many tokens may take."""
    before = _asked_tokens.set(tokens)
    try:
        yield
    finally:
        _asked_tokens.reset(before)


def allowed_bytes(content_type: str, is_success: bool = True) -> int:
    """Return what a body of this content type may weigh here and now, unpacked."""
    tokens = _asked_tokens.get()
    if not is_success:
        return ERROR_BYTES
    if tokens is None:
        return LISTING_BYTES
    if "text/event-stream" in content_type.lower():
        token_bytes = STREAMED_BYTES_PER_TOKEN
    else:
        token_bytes = BYTES_PER_TOKEN
    return max(MIN_BYTES, token_bytes * tokens)


class OversizedReply(Exception):
    """A success of which no more is or can be read; its words follow `the host answered`."""


class BoundedBody:
    """One body, unpacked up to its bound.

    limit: most bytes of a success; None: what its tokens may take.
    """

    def __init__(
        self, status: int, headers: Mapping[str, str], *, limit: int | None = None
    ) -> None:
        self._status = status
        self._is_success = 200 <= status < 300
        if limit is None or not self._is_success:
            limit = allowed_bytes(headers.get("Content-Type", ""), self._is_success)
        self._limit = self._left = limit
        self._encoding = headers.get("Content-Encoding", "").strip().lower()
        is_packed = self._encoding in PACKED_ENCODINGS
        self._unpacking = zlib.decompressobj(_EITHER_HEADER) if is_packed else None
        self._is_foreign = self._unpacking is None and self._encoding not in PLAIN_ENCODINGS
        self.is_over: bool = False
        """Whether no more of the reply is read."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what these bytes hold, within the bound.

        Raises OversizedReply where a success goes on beyond it.
        """
        if self._is_foreign:
            self._stop("a body in an encoding that was not asked for")
            return
        for piece in (data,) if self._unpacking is None else self._unpacked(data):
            self._left -= len(piece)
            if self._left < 0:
                self._stop(f"more than {self._limit:,} bytes, longer than any reply")
                return
            yield piece

    @property
    def is_cut_short(self) -> bool:
        """Whether a packed body has not reached its end."""
        return self._unpacking is not None and not self._unpacking.eof

    def rest(self) -> bytes:
        """Return what unpacking holds back at the end, at most a few kilobytes."""
        if self._unpacking is not None and not self.is_over:
            return self._unpacking.flush()
        return b""

    def _unpacked(self, data: bytes) -> Iterator[bytes]:
        assert self._unpacking is not None
        while data and not self._unpacking.eof:
            try:
                piece = self._unpacking.decompress(data, PIECE_BYTES)
            except zlib.error:
                self._stop(f"a body that is not the {self._encoding} it claims to be")
                return
            data = self._unpacking.unconsumed_tail
            yield piece

    def _stop(self, why: str) -> None:
        self.is_over = True
        if self._is_success:
            raise OversizedReply(f"{self._status} with {why}")
