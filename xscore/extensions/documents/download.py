"""Download a document: https alone, no cookies, no proxy, few redirects, bounded in bytes and time.

Each hop of a redirect is checked like the first address, and asks its host's robots.txt. A proxy
would resolve the name in place of us, so that its address could not be checked: none is used.
Trade-off: each hop makes a connection of its own.
"""

import asyncio
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from msgspec import Struct

from xscore.extensions.documents.addresses import why_refused
from xscore.extensions.documents.files import TOO_LARGE
from xscore.extensions.documents.hosts import (
    checked_address,
    may_be_private,
    origin_of,
    redirected_address,
)
from xscore.extensions.documents.parsed import RobotsJob
from xscore.extensions.documents.reading import read_in_process
from xscore.platform.errors import NotFetched
from xscore.platform.text import one_line
from xscore.providers.reply_bounds import IDENTITY_ENCODING, BoundedBody, OversizedReply
from xscore.providers.transport import trusted_ssl_context
from xscore.settings import DocumentSettings

if TYPE_CHECKING:
    import ssl

AGENT = "xscore"
ACCEPT = "text/html, application/pdf, text/markdown, text/plain;q=0.9, */*;q=0.5"
MOST_REDIRECTS = 5
ROBOTS_BYTES = 500 << 10
"""The least that RFC 9309 allows to read."""
CONNECT_TIMEOUT_S = 10.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NOT_MODIFIED = 304
_RETRY_HINT = "Fetch it again; if it fails again, save the page and fetch the file."
_SAVE_IT_HINT = "A page that you can open in a browser can be saved and fetched as a file."
_NO_PROXY_HINT = (
    "Proxies of the environment are not used. If there is no other route, save the page and"
    " fetch the file."
)


class Download(Struct, frozen=True, kw_only=True):
    """What a host sent."""

    address: str
    """The address that it came from after redirects."""
    data: bytes = b""
    content_type: str = ""
    etag: str = ""
    last_modified: str = ""
    is_unchanged: bool = False
    """Whether nothing is new since the document was last fetched."""


class _Reply(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    data: bytes


class Downloader:
    """Downloads documents; keeps the rules for robots of each host meanwhile."""

    def __init__(self, settings: DocumentSettings) -> None:
        self._settings = settings
        self._rules: dict[str, bytes] = {}
        self._tls: ssl.SSLContext | None = None

    async def download(self, address: str, *, since: Mapping[str, str]) -> Download:
        """Download a document. Raises NotFetched.

        since: headers that ask only for what is new, `If-None-Match` and `If-Modified-Since`.
        """
        seconds = self._settings.timeout_s
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(address, since)
        except TimeoutError as error:
            raise NotFetched(
                f"{origin_of(address)} did not finish within {seconds:g} s",
                hint="`documents.timeout_s` sets how long a document may take.",
            ) from error
        finally:
            # The last connection is closed by the loop, which ends with this download.
            await asyncio.sleep(0)

    async def _follow(self, address: str, since: Mapping[str, str]) -> Download:
        hop = address
        for _ in range(MOST_REDIRECTS + 1):
            hop = checked_address(hop, self._settings)
            await self._check_robots(hop)
            headers = {"Accept": ACCEPT, **since}
            reply = await self._request(hop, headers, max_bytes=self._settings.max_bytes)
            if reply.status not in _REDIRECTS:
                return _checked_download(hop, reply, is_conditional=bool(since))
            hop = redirected_address(hop, reply.headers.get("Location", ""))
        raise NotFetched(
            f"{origin_of(address)} redirects more than {MOST_REDIRECTS} times",
            hint=_SAVE_IT_HINT,
        )

    async def _check_robots(self, address: str) -> None:
        """Raise NotFetched if the host's robots.txt forbids the address, or cannot be asked for."""
        origin = origin_of(address)
        if origin not in self._rules:
            self._rules[origin] = await self._fetch_robots(origin)
        rules = self._rules[origin]
        if not rules:
            return
        verdict = await asyncio.to_thread(read_in_process, RobotsJob(rules, address, AGENT))
        if verdict.problem:
            raise NotFetched(
                f"{one_line(address)[:200]}: {verdict.problem}",
                hint=_SAVE_IT_HINT,
            )

    async def _fetch_robots(self, origin: str) -> bytes:
        hop = f"{origin}/robots.txt"
        for _ in range(MOST_REDIRECTS + 1):
            hop = checked_address(hop, self._settings)
            headers = {"Accept": "text/plain"}
            reply = await self._request(
                hop, headers, max_bytes=ROBOTS_BYTES, too_large=_SAVE_IT_HINT
            )
            if reply.status in _REDIRECTS:
                hop = redirected_address(hop, reply.headers.get("Location", ""))
            elif 200 <= reply.status < 300:
                return reply.data
            elif 400 <= reply.status < 500:
                return b""
            else:
                break
        # RFC 9309: where the rules cannot be read, all is forbidden.
        raise NotFetched(
            f"{origin}/robots.txt cannot be read, so nothing is fetched from there",
            hint=_SAVE_IT_HINT,
        )

    async def _request(
        self,
        address: str,
        headers: Mapping[str, str],
        *,
        max_bytes: int,
        too_large: str = TOO_LARGE,
    ) -> _Reply:
        """Send one request to one host, and read its reply. Raises NotFetched.

        too_large: what to do about a body that is.
        """
        if self._tls is None:
            self._tls = trusted_ssl_context()
        gate = _AddressGate(may_be_private=may_be_private(address, self._settings))
        session = _new_session(self._tls, gate)
        try:
            async with (
                session,
                session.get(address, headers=headers, allow_redirects=False) as response,
            ):
                body = BoundedBody(response.status, response.headers, limit=max_bytes)
                data = bytearray()
                async for received in response.content.iter_any():
                    for piece in body.pieces(received):
                        data += piece
                    if body.is_over:
                        break
                data += body.rest()
                if response.status == 200 and body.is_cut_short:
                    raise NotFetched(f"{origin_of(address)} sent only a part", hint=_RETRY_HINT)
                return _Reply(response.status, response.headers, bytes(data))
        except OversizedReply as error:
            raise NotFetched(
                f"{origin_of(address)} answered {error}", hint=too_large
            ) from error
        except (ClientError, OSError, ValueError) as error:
            raise gate.translated(address, error) from error


class _AddressGate:
    """Makes the sockets of one request, and none to an address that may not be called."""

    def __init__(self, *, may_be_private: bool) -> None:
        self._may_be_private = may_be_private
        self._refusal = ""

    def make_socket(
        self, info: "tuple[int, int, int, str, tuple[object, ...]]"
    ) -> socket.socket:
        """Make a socket for an address that a name was resolved to. Raises OSError."""
        family, kind, protocol, _, address = info
        refusal = why_refused(str(address[0]), may_be_private=self._may_be_private)
        if refusal:
            self._refusal = refusal
            raise OSError(refusal)
        return socket.socket(family=family, type=kind, proto=protocol)

    def translated(self, address: str, error: Exception) -> NotFetched:
        """Return our error for one of a connection."""
        origin = origin_of(address)
        if self._refusal:
            return NotFetched(
                f"{origin}: {self._refusal}",
                hint=(
                    "A host of your own network may be fetched once you name it in"
                    " documents.private_hosts."
                ),
            )
        words = one_line(str(error))[:200] or type(error).__name__
        return NotFetched(f"{origin} cannot be reached: {words}", hint=_NO_PROXY_HINT)


def _checked_download(address: str, reply: _Reply, *, is_conditional: bool) -> Download:
    headers = reply.headers
    if reply.status == _NOT_MODIFIED and is_conditional:
        return Download(address=address, is_unchanged=True)
    if reply.status != 200:
        raise NotFetched(
            f"{one_line(address)[:200]}: its host answered {reply.status}", hint=_SAVE_IT_HINT
        )
    return Download(
        address=address,
        data=reply.data,
        content_type=headers.get("Content-Type", ""),
        etag=_sendable(headers.get("ETag", ""), 500),
        last_modified=_sendable(headers.get("Last-Modified", ""), 100),
    )


def _sendable(value: str, most_chars: int) -> str:
    """Return what the host gets back when it is asked again; empty if that cannot be sent."""
    if value.isascii() and value.isprintable():
        return value[:most_chars]
    return ""


def _new_session(tls: "ssl.SSLContext", gate: _AddressGate) -> ClientSession:
    """Return a session for one request: no cookies, no proxy, no second host, nothing unpacked."""
    connector = TCPConnector(
        ssl=tls, use_dns_cache=False, force_close=True, socket_factory=gate.make_socket
    )
    return ClientSession(
        connector=connector,
        headers={"User-Agent": AGENT, **IDENTITY_ENCODING},
        timeout=ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        cookie_jar=DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
    )
