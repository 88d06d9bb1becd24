"""One host over HTTP: requests with our bounds, and every failure as one of our errors.

Every call to a model goes through here: judging, streamed answers, embeddings, Batch APIs and
look-ups. Redirects are not followed, no cookie is kept, only `transport` reads the environment, and
a reply is read to its bound and no further. Trade-off: it does not retry; `Retrying` and `Limited`
wrap it.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.errors import CallTimedOut, ProviderError, Unreachable
from xscore.providers.host_facts import header_count, json_object, listed_model_names
from xscore.providers.hosts import host_of
from xscore.providers.reply_bounds import IDENTITY_ENCODING, BoundedBody, OversizedReply
from xscore.providers.transport import CONNECT_TIMEOUT_S, Route, route_to, trusted_ssl_context
from xscore.providers.wire_errors import CallContext, DialectProfile
from xscore.records.calls import Capability, RateLimits

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

HEADERS = {"Accept": "application/json", **IDENTITY_ENCODING}
"""Headers of every request."""
JSON_BODY = {"Content-Type": "application/json"}
EVENT_STREAM = "text/event-stream"
LOOK_UP_TIMEOUT_S = 10.0
"""Deadline of a look-up at the host, which no model works on."""
SLOW_HINT = "Raise judge.timeout_s or primary.timeout_s, or lower judge.concurrency."


class HttpReply(Struct, frozen=True):
    """A reply, read whole."""

    status: int
    headers: Mapping[str, str]
    """Headers by name, in any case."""
    data: bytes


class OpenReply:
    """A success whose head has been read; its body is still to come, within its bounds."""

    def __init__(self, response: "ClientResponse") -> None:
        self.status: int = response.status
        self.headers: Mapping[str, str] = response.headers
        """Headers by name, in any case."""
        content_type = response.headers.get("Content-Type", "").lower()
        self.is_event_stream: bool = EVENT_STREAM in content_type
        self._response = response
        # The bound depends on what is asked for here and now.
        self._body = BoundedBody(response.status, response.headers)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it comes, unpacked. Raises one of `HostConnection.caught`."""
        async for received in self._response.content.iter_any():
            for piece in self._body.pieces(received):
                yield piece
            if self._body.is_over:
                return
        yield self._body.rest()
        if self._body.is_cut_short and 200 <= self.status < 300:
            raise OversizedReply(f"{self.status} with a packed body that ends too early")

    async def read(self) -> bytes:
        """Return the whole body. Raises one of `HostConnection.caught`."""
        data = bytearray()
        async for piece in self.pieces():
            data += piece
        return bytes(data)


class HostRefused(Exception):
    """A reply that is not a success; `DialectProfile.translate` reads it."""

    def __init__(self, reply: HttpReply) -> None:
        super().__init__(f"status {reply.status}")
        self.response = reply
        self.status_code: int = reply.status
        self.body: Any = None
        """The JSON in the reply; None where there was none."""
        with suppress(ValueError, RecursionError):
            self.body = json.loads(reply.data)


class HostConnection:
    """Connections to one host; opened by the first request, closed by `aclose`."""

    name: str
    """Name of the dialect, or of the declared host."""
    profile: DialectProfile

    def __init__(self, base_url: str, api_key: str) -> None:
        self.base_url: str = base_url.rstrip("/")
        self.key: str = api_key
        self.host: str = host_of(base_url, setting=self.profile.setting)
        self.caught: tuple[type[Exception], ...] = (HostRefused, OversizedReply, OSError)
        """Exceptions that requests raise; complete once one was sent."""
        self._route = Route(self.host, None)
        self._capability = Capability(
            provider=self.name, host=self.host, model="", probed_at=0.0
        )
        self._session: ClientSession | None = None
        self._own_headers: Mapping[str, str] = {}

    def learned(self, model: str) -> Capability:
        """Return what was declared or adopted, corrected by every reply since."""
        return replace(self._capability, model=model)

    def headers(self) -> dict[str, str]:
        """Return the authentication headers."""
        if self.key:
            return {"Authorization": f"Bearer {self.key}"}
        return {}

    def rate_limits(self, headers: Mapping[str, str]) -> RateLimits:
        """Return the limits a minute that a reply's headers state; where a host counts by the day,
        they bind less."""
        return RateLimits(
            requests_per_minute=header_count(headers.get("x-ratelimit-limit-requests")),
            tokens_per_minute=header_count(headers.get("x-ratelimit-limit-tokens")),
        )

    @asynccontextmanager
    async def open_reply(
        self,
        method: str,
        path: str,
        data: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str | int] | None = None,
    ) -> AsyncIterator[OpenReply]:
        """Send a request to this path of the base URL, or to this URL, and yield a success with
        its body still unread.

        data: the body, as aiohttp takes it; None if it has none.
        headers: in addition to those of every request; with a body, its `Content-Type`.
        Raises one of `caught`; HostRefused for every status that is not a success.
        """
        session = self._session or self._open()
        url = path if "://" in path else f"{self.base_url}{path}"
        sent = session.request(
            method,
            url,
            data=data,
            headers=self._with_own(headers or {}),
            params=query,
            allow_redirects=False,
            proxy=self._route.proxy,
        )
        async with sent as response:
            reply = OpenReply(response)
            if not 200 <= response.status < 300:
                raise HostRefused(HttpReply(response.status, reply.headers, await reply.read()))
            yield reply

    async def send(self, path: str, body: bytes | None) -> HttpReply:
        """Post this JSON, or get what is there, and read the reply whole.

        Raises as `open_reply` does.
        """
        if body is None:
            sent = self.open_reply("GET", path)
        else:
            sent = self.open_reply("POST", path, body, headers=JSON_BODY)
        async with sent as reply:
            return HttpReply(reply.status, reply.headers, await reply.read())

    async def exchange(self, path: str, body: bytes | None, call: CallContext) -> HttpReply:
        """Do what `send` does. Raises leaves of `ProviderError`."""
        try:
            return await self.send(path, body)
        except self.caught as error:
            raise self.translated(error, call) from error

    @asynccontextmanager
    async def deadline(self, seconds: float, *, hint: str = SLOW_HINT) -> AsyncIterator[None]:
        """Bound what is done in here. Raises CallTimedOut."""
        import asyncio  # a turn that is all cached names its host, and calls nothing

        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            raise CallTimedOut(
                f"{self.host} did not finish its reply within {seconds:g} s", hint=hint
            ) from error

    def translated(self, error: Exception, call: CallContext | None = None) -> ProviderError:
        """Return our error for one of `caught`; the caller raises it `from error`. call: None for a
        look-up."""
        ours = self.profile.translate(error, call or CallContext(self.host, self.key))
        return self._route.explained(ours, error)

    async def look_up(self, path: str) -> Mapping[str, Any]:
        """Return the JSON object at this path of the base URL, or at this URL.

        Raises leaves of `ProviderError`.
        """
        async with self.deadline(
            LOOK_UP_TIMEOUT_S, hint=self.profile.hint_for(Unreachable, self.host, "")
        ):
            reply = await self.exchange(path, None, CallContext(self.host, self.key))
        return json_object(reply.data, reply.headers, self.profile, CallContext(self.host))

    async def models(self) -> tuple[str, ...]:
        """Return the names of the models that the host lists. Raises leaves of `ProviderError`."""
        return listed_model_names(await self.look_up(self.profile.models_path))

    async def aclose(self) -> None:
        """Close the connections."""
        # Taken first: a cancellation may come while it closes.
        session = self._session
        self._session = None
        if session is not None:
            await session.close()

    def _with_own(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return our own headers and these, which replace ours of the same name."""
        names = {name.lower() for name in headers}
        not_replaced = {
            name: value
            for name, value in self._own_headers.items()
            if name.lower() not in names
        }
        return {**not_replaced, **headers}

    def _open(self) -> "ClientSession":
        # A turn that is all cached calls nothing.
        from aiohttp import (
            ClientError,
            ClientSession,
            ClientTimeout,
            DummyCookieJar,
            TCPConnector,
        )

        self._route = route_to(self.base_url)
        self.caught = (*self.caught, ClientError)
        ssl = trusted_ssl_context() if self._route.is_encrypted else False
        # These are not the session's: aiohttp sends those to a proxy too, the key as
        # `Proxy-Authorization`.
        self._own_headers = {**HEADERS, **self.headers()}
        self._session = ClientSession(
            connector=TCPConnector(limit=0, ssl=ssl),
            timeout=ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            cookie_jar=DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
        )
        return self._session
