"""The Anthropic dialect over the official SDK: one request in, one reply out.

The SDK does the wire (its aiohttp transport, its low-level `post`); it neither retries, redirects nor sets the
deadline. Retries, limits and metering are wrapped around. It is imported at the first call, because importing it costs
more than a second of CPU and a cached turn makes none. The trade-off: replies are read as plain JSON, so a field that
the SDK renames must be renamed in `anthropic_reply`.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from xscore.errors import CallTimedOut, ProviderError
from xscore.providers import anthropic_reply as reply
from xscore.providers.anthropic_errors import ANTHROPIC
from xscore.providers.anthropic_request import body
from xscore.providers.anthropic_stream import StreamedReply
from xscore.providers.credentials import DUMMY_KEY, usable_key
from xscore.providers.hosts import host_of
from xscore.providers.provider import OnText
from xscore.providers.reply_facts import json_object
from xscore.providers.transport import Route, route_to
from xscore.records import Completion, Request
from xscore.settings import Settings

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

LONGEST_UNSTREAMED_TOKENS = 21_333
"""A longer reply is streamed even if nobody watches: idle connections are closed after ten minutes, and the SDK's own
typed call refuses it."""
MODELS_TIMEOUT_S = 10.0


def connect(model: str, settings: Settings) -> "AnthropicProvider":
    """Return a provider for the host in the settings; nothing is sent yet.

    Raises UsageError for a base URL or key that is none, AuthenticationFailed where a remote host would get no key.
    """
    host = host_of(settings.anthropic.base_url, setting=ANTHROPIC.setting)
    key = usable_key(settings.anthropic, host=host, model=model)
    return AnthropicProvider(base_url=settings.anthropic.base_url, api_key=key)


class AnthropicProvider:
    """A host that speaks the Anthropic dialect."""

    name = "anthropic"

    def __init__(self, *, base_url: str, api_key: str) -> None:
        self.host = host_of(base_url, setting=ANTHROPIC.setting)
        self._base_url = base_url
        self._key = api_key
        self._route = Route(self.host, None)
        self._client: AsyncAnthropic | None = None
        self._caught: tuple[type[Exception], ...] = ()

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make one attempt within `request.timeout_s`."""
        client = self._open()
        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._send(client, request, on_text)
        except TimeoutError as error:
            raise CallTimedOut(
                f"{self.host} did not finish its reply within {request.timeout_s:g} s",
                hint="Raise judge.timeout_s or primary.timeout_s, or lower judge.concurrency.",
            ) from error
        except self._caught as error:
            prompt = (request.system, *request.content)
            raise self._translated(error, request.model, prompt) from error

    async def models(self) -> tuple[str, ...]:
        """Return the names of the models that the host lists, for `doctor`."""
        client = self._open()
        import httpx2

        try:
            async with asyncio.timeout(MODELS_TIMEOUT_S):
                response = await client.get("/v1/models?limit=1000", cast_to=httpx2.Response)
        except TimeoutError as error:
            raise CallTimedOut(
                f"{self.host} did not list its models within {MODELS_TIMEOUT_S:g} s",
                hint=f"Check that a server listens at {self.host} ({ANTHROPIC.setting}).",
            ) from error
        except self._caught as error:
            raise self._translated(error, "", ()) from error
        listed = self._json(response, "").get("data")
        entries = listed if isinstance(listed, list) else []
        return tuple(str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _open(self) -> "AsyncAnthropic":
        if self._client is None:
            import aiohttp
            import httpx2
            from anthropic import AnthropicError, AsyncAnthropic, DefaultAioHttpClient

            self._caught = (AnthropicError, httpx2.HTTPError, aiohttp.ClientError)
            self._route = route_to(self._base_url)
            self._client = AsyncAnthropic(
                api_key=self._key or DUMMY_KEY,
                base_url=self._base_url,
                max_retries=0,
                http_client=self._route.client(DefaultAioHttpClient),
            )
        return self._client

    async def _send(self, client: "AsyncAnthropic", request: Request, on_text: OnText | None) -> Completion:
        import httpx2

        if on_text is not None or request.max_output_tokens > LONGEST_UNSTREAMED_TOKENS:
            return await self._stream(client, request, on_text or _unwatched)
        fields = body(request, stream=False)
        response = await client.post(ANTHROPIC.path, cast_to=httpx2.Response, body=fields)
        return self._read(response, request)

    async def _stream(self, client: "AsyncAnthropic", request: Request, on_text: OnText) -> Completion:
        from anthropic import AsyncStream

        fields = body(request, stream=True)
        stream_cls = AsyncStream[object]
        stream = await client.post(ANTHROPIC.path, cast_to=object, body=fields, stream=True, stream_cls=stream_cls)
        async with stream:
            if "text/event-stream" not in stream.response.headers.get("content-type", ""):
                await stream.response.aread()
                whole = self._read(stream.response, request)
                on_text(whole.text)
                return whole
            streamed = StreamedReply(request, host=self.host, secret=self._key, on_text=on_text)
            return await streamed.gather(stream, reply.rate_limits(stream.response.headers))

    def _read(self, response: "httpx2.Response", request: Request) -> Completion:
        found = self._json(response, request.model)
        limits = reply.rate_limits(response.headers)
        return reply.completion(found, request, host=self.host, secret=self._key, limits=limits)

    def _json(self, response: "httpx2.Response", model: str) -> dict[str, Any]:
        content_type = response.headers.get("content-type", "")
        return json_object(response.content, content_type, words=ANTHROPIC, host=self.host, model=model)

    def _translated(self, error: Exception, model: str, prompt: tuple[str, ...]) -> ProviderError:
        ours = ANTHROPIC.translate(error, host=self.host, model=model, secret=self._key, prompt=prompt)
        return self._route.explained(ours, error)


def _unwatched(piece: str) -> None:
    """Take a piece that nobody asked to see."""
