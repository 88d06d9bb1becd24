"""The Anthropic dialect over the official SDK: one request in, one reply out.

The SDK does the wire (its aiohttp transport, its low-level `post`); it neither retries, redirects nor sets the
deadline. Retries, limits and metering are wrapped around. It is imported at the first call, because importing it costs
more than a second of CPU and a cached turn makes none. The trade-off: replies are read as plain JSON, so a field that
the SDK renames must be renamed in `anthropic_reply`.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from xscore.errors import CallTimedOut, PromptCut, PromptTooLong, ProviderError
from xscore.providers import anthropic_reply as reply
from xscore.providers import context_length
from xscore.providers.anthropic_errors import ANTHROPIC
from xscore.providers.anthropic_request import body, refuses_the_schema
from xscore.providers.anthropic_stream import StreamedReply
from xscore.providers.credentials import DUMMY_KEY, usable_key
from xscore.providers.hosts import host_of
from xscore.providers.prompt_seen import Seen, is_cut, seen
from xscore.providers.provider import OnText
from xscore.providers.reply_facts import count, json_object
from xscore.providers.transport import Route, route_to
from xscore.providers.wire_errors import error_body
from xscore.records import Capability, Completion, RateLimits, ReplyForm, Request
from xscore.settings import Settings

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

LONGEST_UNSTREAMED_TOKENS = 21_333
"""A longer reply is streamed even if nobody watches: idle connections are closed after ten minutes, and the SDK's own
typed call refuses it."""
VENDOR = "anthropic.com"
LOOK_TIMEOUT_S = 10.0
"""Deadline of looking something up at the host, without a model's work in it."""


def connect(model: str, settings: Settings) -> "AnthropicProvider":
    """Return a provider for the host in the settings; nothing is sent yet.

    Raises UsageError for a base URL or key that is none, AuthenticationFailed where a remote host would get no key.
    """
    host = host_of(settings.anthropic.base_url, setting=ANTHROPIC.setting)
    key = usable_key(settings.anthropic, host=host, model=model)
    return AnthropicProvider(base_url=settings.anthropic.base_url, api_key=key)


class AnthropicProvider:
    """A host that speaks the Anthropic dialect. It is `Adaptable`."""

    name = "anthropic"

    def __init__(self, *, base_url: str, api_key: str) -> None:
        self.host = host_of(base_url, setting=ANTHROPIC.setting)
        self._base_url = base_url
        self._key = api_key
        self._route = Route(self.host, None)
        self._client: AsyncAnthropic | None = None
        self._caught: tuple[type[Exception], ...] = ()
        self._form = ReplyForm.JSON_SCHEMA
        self._known: Capability | None = None
        self._shortest: Seen | None = None

    @property
    def is_vendors_own(self) -> bool:
        """Whether the host is Anthropic's."""
        return f".{urlsplit(self._base_url).hostname}".endswith(f".{VENDOR}")

    def adopt(self, capability: Capability) -> None:
        """Ask from now on in this form."""
        self._known = capability
        self._form = capability.reply_form

    def learned(self, model: str) -> Capability:
        """Return what was adopted, corrected by every reply since."""
        known = self._known or Capability(provider=self.name, host=self.host, model=model, probed_at=0.0)
        return replace(known, reply_form=self._form)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make one attempt within `request.timeout_s`; a schema that the host refuses is left out from then on."""
        client = self._open()
        try:
            async with asyncio.timeout(request.timeout_s):
                completion = await self._in_the_hosts_words(client, request, on_text)
        except TimeoutError as error:
            raise CallTimedOut(
                f"{self.host} did not finish its reply within {request.timeout_s:g} s",
                hint="Raise judge.timeout_s or primary.timeout_s, or lower judge.concurrency.",
            ) from error
        self._check_seen_whole(request, completion)
        return completion

    async def models(self) -> tuple[str, ...]:
        """Return the names of the models that the host lists."""
        return context_length.names(await self._look("/v1/models?limit=1000"))

    async def context_tokens(self, model: str) -> int | None:
        """Return the longest input, where the host tells."""
        with suppress(ProviderError):
            told = await self._look(f"/v1/models/{quote(model, safe='')}")
            return count(told.get("max_input_tokens")) or context_length.served({"data": [told]}, model)
        return None

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

    async def _look(self, path: str) -> Mapping[str, Any]:
        """Return the JSON object at this path."""
        client = self._open()
        import httpx2

        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                response = await client.get(path, cast_to=httpx2.Response)
        except TimeoutError as error:
            raise CallTimedOut(
                f"{self.host} did not answer within {LOOK_TIMEOUT_S:g} s",
                hint=f"Check that a server listens at {self.host} ({ANTHROPIC.setting}).",
            ) from error
        except self._caught as error:
            raise self._translated(error, "", ()) from error
        return self._json(response, "")

    async def _in_the_hosts_words(
        self, client: "AsyncAnthropic", request: Request, on_text: OnText | None
    ) -> Completion:
        """Send, and send once more without the schema where the host refuses it."""
        while True:
            form = self._form
            try:
                return await self._send(client, request, form, on_text)
            except self._caught as error:
                if self._form is form and not self._weaken(request, error):
                    raise self._translated(error, request.model, (request.system, *request.content)) from error

    async def _send(
        self, client: "AsyncAnthropic", request: Request, form: ReplyForm, on_text: OnText | None
    ) -> Completion:
        import httpx2

        if on_text is not None or request.max_output_tokens > LONGEST_UNSTREAMED_TOKENS:
            return await self._stream(client, request, form, on_text or _unwatched)
        fields = body(request, stream=False, form=form)
        response = await client.post(ANTHROPIC.path, cast_to=httpx2.Response, body=fields)
        return self._read(response, request)

    async def _stream(self, client: "AsyncAnthropic", request: Request, form: ReplyForm, on_text: OnText) -> Completion:
        from anthropic import AsyncStream

        fields = body(request, stream=True, form=form)
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
        completion = reply.completion(found, request, host=self.host, secret=self._key, limits=limits)
        self._learn(request.model, completion, reply.reports_cached(found.get("usage")))
        return completion

    def _json(self, response: "httpx2.Response", model: str) -> dict[str, Any]:
        content_type = response.headers.get("content-type", "")
        return json_object(response.content, content_type, words=ANTHROPIC, host=self.host, model=model)

    def _learn(self, model: str, completion: Completion, reports_cached: bool) -> None:
        """Keep what this reply shows of the host, where it is news."""
        known = self._known or self.learned(model)
        limits = known.limits if completion.limits == RateLimits() else completion.limits
        shown = (completion.usage_reported, reports_cached, limits)
        if (known.reports_usage, known.reports_cached_tokens, known.limits) != shown:
            known = replace(
                known, reports_usage=completion.usage_reported, reports_cached_tokens=reports_cached, limits=limits
            )
        self._known = known

    def _weaken(self, request: Request, error: Exception) -> bool:
        """Leave the schema out from now on, if that is what this refusal names."""
        if self._form is not ReplyForm.JSON_SCHEMA or getattr(error, "status_code", None) not in (400, 422):
            return False
        if refuses_the_schema(request, error_body(error)):
            self._form = ReplyForm.TEXT
        return self._form is ReplyForm.TEXT

    def _translated(self, error: Exception, model: str, prompt: tuple[str, ...]) -> ProviderError:
        ours = ANTHROPIC.translate(error, host=self.host, model=model, secret=self._key, prompt=prompt)
        return self._route.explained(ours, error)

    def _check_seen_whole(self, request: Request, completion: Completion) -> None:
        """Fail loudly where a compatible host cut the prompt in silence; the vendor's own answers 400 instead."""
        if self.is_vendors_own or not completion.usage_reported:
            return
        found = seen(request, completion.usage.input_tokens)
        context = self._known.context_tokens if self._known else None
        if is_cut(request, found, context_tokens=context, shortest=self._shortest):
            raise PromptCut(
                f"{self.host} read {found.tokens:,} tokens of about {request.input_tokens:,}: it cut the prompt",
                hint=ANTHROPIC.hint_for(PromptTooLong, self.host, request.model),
            )
        if self._shortest is None or found.chars < self._shortest.chars:
            self._shortest = found


def _unwatched(piece: str) -> None:
    """Take a piece that nobody asked to see."""
