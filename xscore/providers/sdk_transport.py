"""The HTTP client under a vendor's SDK: the same routes, certificates and bounds as `connection`,
as an SDK wants them.

The bounds hang on the client's hook for responses, so neither dialect nor SDK needs to know.
Imported with the first SDK, since it needs `httpx2` and `aiohttp`. Trade-off: only answers,
embeddings and Batch APIs pass through here; judging does not.
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator

import aiohttp
import httpx2

from xscore.providers.reply_bounds import IDENTITY_ENCODING, BoundedBody, OversizedReply
from xscore.providers.transport import CONNECT_TIMEOUT_S, Route, trusted_ssl_context

TRANSPORT_ERRORS = (httpx2.HTTPError, aiohttp.ClientError)
"""What the client under an SDK raises, and the SDK lets through."""


class ReplyTooLarge(httpx2.RequestError):
    """An `OversizedReply` in the client's own kind of error, because the SDKs let no other
    through."""


def http_client(kind: type[httpx2.AsyncClient], route: Route) -> httpx2.AsyncClient:
    """Return an HTTP client of an SDK's own kind.

    Raises UsageError for certificates that cannot be read.
    """
    # plain HTTP needs no certificates, and reading the system's takes 30 ms
    if route.is_encrypted:
        verify = trusted_ssl_context()
    else:
        verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return kind(
        follow_redirects=False,
        timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
        trust_env=False,
        proxy=route.proxy,
        verify=verify,
        headers=IDENTITY_ENCODING,
        event_hooks={"response": [bound_response]},
    )


async def bound_response(response: httpx2.Response) -> None:
    """Have this response read within its bounds; nothing of its body has been read yet."""
    response.stream = BoundedStream(
        response, BoundedBody(response.status_code, response.headers)
    )
    response.headers.pop("content-encoding", None)  # unpacked there, and not a second time


class BoundedStream(httpx2.AsyncByteStream):
    """A body that ends at its bound: in an error where it is a success, in silence where it is
    not."""

    def __init__(self, response: httpx2.Response, body: BoundedBody) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._source = response.stream
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        source = aiter(self._source)
        try:
            async for data in source:
                for piece in self._body.pieces(data):
                    yield piece
                if self._body.is_over:
                    return
            if rest := self._body.rest():
                yield rest
        except OversizedReply as error:
            raise ReplyTooLarge(str(error)) from error
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._source.aclose()
