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
BODY_HEADERS = (b"content-encoding", b"content-length", b"content-type", b"transfer-encoding")
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
    stated = _body_headers(response)
    encoding = stated.get(b"content-encoding", "")
    if encoding:
        del response.headers["content-encoding"]  # unpacked here, and not a second time
    limit = allowed(stated.get(b"content-type", ""), response.is_success)
    length = stated.get(b"content-length", "")
    announced = int(length) if len(length) < MAX_DIGITS and length.isdecimal() else inf
    if not encoding and b"transfer-encoding" not in stated and announced <= limit:
        return  # the transport reads no more than was announced
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = BoundedStream(response.stream, BodyAllowance(limit, encoding=encoding), response)


def _body_headers(response: httpx2.Response) -> dict[bytes, str]:
    """Return what the headers say of the body, in one walk through them: each look-up would be one."""
    stated: dict[bytes, str] = {}
    for name, value in response.headers.raw:
        if (name := name.lower()) in BODY_HEADERS:
            before = f"{stated[name]}," if name in stated else ""
            stated[name] = before + value.decode("latin-1")
    return stated


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
        """Unpack what came. Raises BodyUnreadable past the limit, or where it cannot be unpacked."""
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


class ReplyTooLarge(httpx2.RequestError):
    """A success of which no more is read; its words follow `the host answered`.

    It is the client's own kind of error, because the SDKs let no other through. `Route.explained` makes it ours.
    """


class BoundedStream(httpx2.AsyncByteStream):
    """A body that ends with its allowance: in an error where it is a success, in silence where it is not."""

    def __init__(self, body: httpx2.AsyncByteStream, allowance: BodyAllowance, response: httpx2.Response) -> None:
        self._body = body
        self._allowance = allowance
        self._status = response.status_code
        self._is_success = response.is_success

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = aiter(self._body)
        try:
            async for data in body:
                for piece in self._allowance.read(data):
                    yield piece
            if rest := self._allowance.rest():
                yield rest
        except BodyUnreadable as error:
            if self._is_success:
                raise ReplyTooLarge(f"{self._status} with {error}") from error
        finally:
            if isinstance(body, AsyncGenerator):
                await body.aclose()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._body.aclose()
