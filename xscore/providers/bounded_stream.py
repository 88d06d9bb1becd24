"""Read every reply of an HTTP client within its bounds, streamed or whole, success or error.

A reply may never end, or unpack from a few kilobytes to gigabytes. A body is counted as it comes and unpacked in small
pieces; of an error only what can be shown is read, and its status still says what it is. It hangs on the client's hook
for responses, so neither dialect nor SDK needs to know. Trade-off: a reply cut off here may have been charged and is
lost, and only gzip and deflate are unpacked, neither of which was asked for.
"""

import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from math import inf

import httpx2

PIECE_BYTES = 1 << 16
"""Unpacked at a time."""
MAX_DIGITS = 12
"""A longer Content-Length is not worth reading."""
IDENTITY_ENCODING = {"Accept-Encoding": "identity"}
"""Replies are short; packing them would only hide how long they are."""
PLAIN_ENCODINGS, PACKED_ENCODINGS = ("", "identity"), ("gzip", "x-gzip", "deflate")
"""Values of Content-Encoding that can be read; the others were not asked for."""
_EITHER_HEADER = 32 + zlib.MAX_WBITS
"""Makes zlib tell gzip from deflate by the first bytes."""


async def bound_response(response: httpx2.Response, *, allowed: Callable[[str, bool], int]) -> None:
    """Have this response read within its bounds; nothing of its body has been read yet.

    allowed: bytes of a body of this content type, and of a success or not.
    """
    headers = response.headers
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding:
        del headers["content-encoding"]  # unpacked here, and not a second time
    limit = allowed(headers.get("content-type", ""), response.is_success)
    length = headers.get("content-length", "")
    announced = int(length) if len(length) < MAX_DIGITS and length.isdecimal() else inf
    if not encoding and "transfer-encoding" not in headers and announced <= limit:
        return  # the transport reads no more than was announced
    response.stream = BoundedStream(response, limit, encoding=encoding)


class _Unreadable(Exception):
    """A body that is not read any further; says what it is."""


class ReplyTooLarge(httpx2.RequestError):
    """A success of which no more is read; its words follow `the host answered`.

    It is the client's own kind of error, because the SDKs let no other through. `Route.explained` makes it ours.
    """


class BoundedStream(httpx2.AsyncByteStream):
    """A body, unpacked, that ends at its limit: in an error where it is a success, in silence where it is not."""

    def __init__(self, response: httpx2.Response, limit: int, *, encoding: str) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._body, self._limit, self._encoding = response.stream, limit, encoding
        self._status, self._is_success = response.status_code, response.is_success
        self._unpacking = zlib.decompressobj(_EITHER_HEADER) if encoding in PACKED_ENCODINGS else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body, left = aiter(self._body), self._limit
        try:
            async for data in body:
                for piece in self._unpacked(data):
                    left -= len(piece)
                    if left < 0:
                        raise _Unreadable(f"more than {self._limit:,} bytes, where no reply is so long")
                    yield piece
            if self._unpacking is not None and (rest := self._unpacking.flush()):
                yield rest  # at most a few kilobytes
        except _Unreadable as error:
            if self._is_success:
                raise ReplyTooLarge(f"{self._status} with {error}") from error
        finally:
            if isinstance(body, AsyncGenerator):
                await body.aclose()

    def _unpacked(self, data: bytes) -> Iterator[bytes]:
        if self._unpacking is None:
            if self._encoding not in PLAIN_ENCODINGS:
                raise _Unreadable("a body in an encoding that was not asked for")
            yield data
            return
        while data and not self._unpacking.eof:
            try:
                piece = self._unpacking.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise _Unreadable(f"a body that is not the {self._encoding} it claims to be") from error
            data = self._unpacking.unconsumed_tail
            yield piece

    async def aclose(self) -> None:
        """Close the connection."""
        await self._body.aclose()
