"""One HTTP client for judging: a POST or GET with our bounds, without a vendor's client classes around it.

Redirects are not followed, no cookie is kept, the environment is not read, a reply is read to its bound and no further,
and an encoding that was not asked for is not unpacked; proxies and certificates are those of `transport.Route`.
Trade-off: it neither streams nor retries; `Retrying` and `Limited` stand around it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from xscore.providers.transport import CONNECT_TIMEOUT_S, Route, allowed_bytes, trusted_ssl_context

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

JSON_HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}


class HttpReply(Struct, frozen=True):
    """A reply, read whole."""

    status: int
    headers: Mapping[str, str]
    """By name, in any case."""
    data: bytes


class HostRefused(Exception):
    """A reply that is no success; `DialectProfile.translate` reads it like an SDK's error."""

    def __init__(self, reply: HttpReply, body: object) -> None:
        super().__init__(f"status {reply.status}")
        self.response = reply
        self.status_code = reply.status
        self.body = body
        """The JSON in it; None where there was none."""


class OversizedReply(Exception):
    """A success of which no more is read; its words follow `the host answered`."""


class LeanClient:
    """Connections to one host; opened by the first call, closed by `aclose`."""

    def __init__(self, base_url: str, route: Route, headers: Mapping[str, str]) -> None:
        self._base_url, self._route = base_url.rstrip("/"), route
        self._headers = {**JSON_HEADERS, **headers}
        self._session: ClientSession | None = None

    async def post(self, path: str, body: bytes) -> HttpReply:
        """Send this JSON. Raises aiohttp.ClientError, HostRefused, OversizedReply."""
        return await self._send("POST", path, body)

    async def get(self, path: str) -> HttpReply:
        """Read what is there. Raises what `post` raises."""
        return await self._send("GET", path, None)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _send(self, method: str, path: str, body: bytes | None) -> HttpReply:
        session = self._session or self._open()
        sent = session.request(
            method, f"{self._base_url}{path}", data=body, allow_redirects=False, proxy=self._route.proxy
        )
        async with sent as response:
            data = await _read_within_bounds(response)
            reply = HttpReply(response.status, response.headers, data)
        if not 200 <= reply.status < 300:
            raise HostRefused(reply, _json_or_none(data))
        return reply

    def _open(self) -> "ClientSession":
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

        ssl = trusted_ssl_context() if self._route.is_encrypted else False
        self._session = ClientSession(
            connector=TCPConnector(limit=0, ssl=ssl),
            headers=self._headers,
            timeout=ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            cookie_jar=DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
        )
        return self._session


async def _read_within_bounds(response: "ClientResponse") -> bytes:
    """Return the body, of an error only what can be shown. Raises OversizedReply."""
    headers, is_success = response.headers, 200 <= response.status < 300
    if headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        if is_success:
            raise OversizedReply(f"{response.status} with a body in an encoding that was not asked for")
        return b""
    limit, data = allowed_bytes(headers.get("Content-Type", ""), is_success), bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > limit:
            if is_success:
                raise OversizedReply(f"{response.status} with more than {limit:,} bytes, where no reply is so long")
            break
    return bytes(data)


def _json_or_none(data: bytes) -> Any:
    import json

    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
