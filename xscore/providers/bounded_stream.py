"""Read every reply of an HTTP client within its bounds, streamed or whole, success or error.

It hangs on the client's own hook for responses, so that neither dialect nor SDK needs to know. Of an error only so
much is read as can be shown, and its status still says what it is. It imports the HTTP client and is therefore
imported with it, at the first call. The trade-off: a reply cut off here may have been charged and is lost.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from math import inf

import httpx2

from xscore.providers.reply_bounds import ERROR_BYTES, BodyAllowance, BodyUnreadable, allowed_bytes

BODY_HEADERS = (b"content-encoding", b"content-length", b"content-type", b"transfer-encoding")
MAX_DIGITS = 12
"""A longer Content-Length is not worth reading."""
IDENTITY_ENCODING = {"Accept-Encoding": "identity"}
"""Replies are short; packing them would only hide how long they are."""


async def bound_response(response: httpx2.Response) -> None:
    """Have this response read within its bounds; nothing of its body has been read yet."""
    told = _told(response)
    encoding = told.get(b"content-encoding", "")
    if encoding:
        del response.headers["content-encoding"]  # unpacked here, and not once more
    limit = allowed_bytes(told.get(b"content-type", "")) if response.is_success else ERROR_BYTES
    is_plain = not encoding and b"transfer-encoding" not in told
    if is_plain and _announced(told.get(b"content-length", "")) <= limit:
        return  # the transport reads no more than was announced
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = BoundedStream(response.stream, BodyAllowance(limit, encoding=encoding), response)


def _announced(length: str) -> float:
    return int(length) if len(length) < MAX_DIGITS and length.isdecimal() else inf


def _told(response: httpx2.Response) -> dict[bytes, str]:
    """Return what the headers say of the body, in one walk through them: each look-up would be one."""
    told: dict[bytes, str] = {}
    for name, value in response.headers.raw:
        if (name := name.lower()) in BODY_HEADERS:
            before = f"{told[name]}," if name in told else ""
            told[name] = before + value.decode("latin-1")
    return told


class ReplyTooLarge(httpx2.RequestError):
    """A success of which no more is read; its words go on from `the host answered`.

    It is the client's own kind of error, because the SDKs let no other through. `Route.explained` makes it ours.
    """


class BoundedStream(httpx2.AsyncByteStream):
    """A body that ends, in an error where it is a success, when its allowance does."""

    def __init__(self, body: httpx2.AsyncByteStream, allowance: BodyAllowance, response: httpx2.Response) -> None:
        self._body = body
        self._allowance = allowance
        self._status = response.status_code
        self._is_success = response.is_success

    async def __aiter__(self) -> AsyncIterator[bytes]:
        came = aiter(self._body)
        try:
            async for data in came:
                for piece in self._allowance.read(data):
                    yield piece
            if rest := self._allowance.rest():
                yield rest
        except BodyUnreadable as beyond:
            if self._is_success:
                raise ReplyTooLarge(f"{self._status} with {beyond}") from beyond
        finally:
            if isinstance(came, AsyncGenerator):
                await came.aclose()

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._body.aclose()
