"""The OpenAI dialect over the official SDK: one request in, one reply out, at any host that speaks it.

The SDK does the wire (its aiohttp transport, its low-level `post`: 1.0 ms of CPU a call where its typed `create`
takes 1.3 to 3); it neither retries, redirects nor sets the deadline. Retries, limits and metering are wrapped around.
The SDK is imported at the first call, because importing it costs 0.7 s of CPU and a cached turn makes none.
The trade-off: replies are read as plain JSON, so a field that the SDK renames must be renamed in `openai_reply`.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from xscore.errors import CallTimedOut, PromptCut, PromptTooLong, ProviderError
from xscore.providers import context_length
from xscore.providers import openai_reply as reply
from xscore.providers.credentials import DUMMY_KEY, usable_key
from xscore.providers.hosts import host_of, is_loopback
from xscore.providers.openai_errors import hint_for, is_refusal, translate
from xscore.providers.openai_request import Dialect, body, weaker
from xscore.providers.openai_stream import StreamedReply
from xscore.providers.prompt_seen import Seen, is_cut, seen
from xscore.providers.provider import OnText
from xscore.providers.transport import Route, route_to
from xscore.providers.wire_errors import error_body
from xscore.records import Capability, Completion, Finish, RateLimits, Request, Usage
from xscore.settings import Settings

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

PATH = "/chat/completions"
VENDOR = "openai.com"
ACCOUNT_HEADERS = ("OpenAI-Organization", "OpenAI-Project")
"""The SDK fills these from the environment; they are the vendor's business and no other host's."""
LOOK_TIMEOUT_S = 10.0
"""Deadline of looking something up at the host, without a model's work in it."""


def connect(model: str, settings: Settings) -> "OpenAIProvider":
    """Return a provider for the host in the settings; nothing is sent yet.

    Raises UsageError for a base URL or key that is none, AuthenticationFailed where a remote host would get no key.
    """
    host = host_of(settings.openai.base_url)
    key = usable_key(settings.openai, host=host, model=model)
    return OpenAIProvider(base_url=settings.openai.base_url, api_key=key)


class OpenAIProvider:
    """A host that speaks the OpenAI dialect. It is `Adaptable`."""

    name = "openai"

    def __init__(self, *, base_url: str, api_key: str) -> None:
        self.host = host_of(base_url)
        self._base_url = base_url
        self._key = api_key
        self._route = Route(self.host, None)
        self._client: AsyncOpenAI | None = None
        self._caught: tuple[type[Exception], ...] = ()
        self._dialect = Dialect(official=f".{urlsplit(base_url).hostname}".endswith(f".{VENDOR}"))
        self._known: Capability | None = None
        self._shown: tuple[bool, bool, RateLimits] | None = None
        """What the latest reply showed: usage, cached tokens, limits."""
        self._shortest: Seen | None = None

    @property
    def is_vendors_own(self) -> bool:
        """Whether the host is OpenAI's."""
        return self._dialect.official

    def adopt(self, capability: Capability) -> None:
        """Ask from now on in this form and without these fields."""
        self._known, self._shown = capability, None
        self._dialect = replace(self._dialect, form=capability.reply_form, without=frozenset(capability.without))

    def learned(self, model: str) -> Capability:
        """Return what was adopted, corrected by every reply since."""
        known = self._known or Capability(provider=self.name, host=self.host, model=model, probed_at=0.0)
        return replace(known, reply_form=self._dialect.form, without=tuple(sorted(self._dialect.without)))

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make one attempt within `request.timeout_s`; a field that the host refuses is left out from then on."""
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
        return context_length.names(await self._look("/models"))

    async def context_tokens(self, model: str) -> int | None:
        """Return the longest input: as loaded, where the host tells, else as the model was made."""
        listing: Mapping[str, Any] = {}
        with suppress(ProviderError):
            listing = await self._look("/models")
        told = context_length.served(listing, model)
        if told is None and (is_loopback(self.host) or self._base_url.startswith("http:")):
            told = await self._context_loaded(model)
        return told or context_length.trained(listing, model)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _open(self) -> "AsyncOpenAI":
        if self._client is None:
            import aiohttp
            import httpx2
            from openai import AsyncOpenAI, DefaultAioHttpClient, Omit, OpenAIError

            self._caught = (OpenAIError, httpx2.HTTPError, aiohttp.ClientError)
            self._route = route_to(self._base_url)
            withheld: dict[str, Any] = {} if self._dialect.official else dict.fromkeys(ACCOUNT_HEADERS, Omit())
            http = self._route.client(DefaultAioHttpClient)
            self._client = AsyncOpenAI(
                api_key=self._key or DUMMY_KEY,
                base_url=self._base_url,
                max_retries=0,
                timeout=http.timeout,
                default_headers=withheld,
                http_client=http,
            )
        return self._client

    async def _look(self, path: str) -> Mapping[str, Any]:
        """Return the JSON object at this path: of the base URL, or the whole URL of one."""
        client = self._open()
        import httpx2

        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                response = await client.get(path, cast_to=httpx2.Response)
        except TimeoutError as error:
            raise CallTimedOut(
                f"{self.host} did not answer within {LOOK_TIMEOUT_S:g} s",
                hint=f"Check that a server listens at {self.host} (openai.base_url).",
            ) from error
        except self._caught as error:
            raise self._translated(error, "", ()) from error
        return self._json(response, "")

    async def _context_loaded(self, model: str) -> int | None:
        """Ask a server on this machine or network, in the words of each that we know, what it has loaded."""
        parts = urlsplit(self._base_url)
        for path in context_length.LOCAL_PATHS:
            with suppress(ProviderError):
                told = context_length.loaded(await self._look(f"{parts.scheme}://{parts.netloc}{path}"), model)
                if told is not None:
                    return told
        return None

    async def _in_the_hosts_words(self, client: "AsyncOpenAI", request: Request, on_text: OnText | None) -> Completion:
        """Send, and send again without what the host refuses, until nothing is left to leave out."""
        while True:
            dialect = self._dialect
            try:
                return await self._send(client, request, body(request, dialect, stream=on_text is not None), on_text)
            except self._caught as error:
                if is_refusal(error):
                    return _declined(request)
                if self._dialect is dialect and not self._weaken(request, error):
                    prompt = (request.system, *request.content)
                    raise self._translated(error, request.model, prompt) from error

    async def _send(
        self, client: "AsyncOpenAI", request: Request, fields: dict[str, Any], on_text: OnText | None
    ) -> Completion:
        import httpx2

        if on_text is not None:
            return await self._stream(client, request, fields, on_text)
        response = await client.post(PATH, cast_to=httpx2.Response, body=fields)
        return self._read(response, request)

    async def _stream(
        self, client: "AsyncOpenAI", request: Request, fields: dict[str, Any], on_text: OnText
    ) -> Completion:
        from openai import AsyncStream

        stream = await client.post(PATH, cast_to=object, body=fields, stream=True, stream_cls=AsyncStream[object])
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
        return reply.parse_json(response.content, content_type, host=self.host, model=model)

    def _learn(self, model: str, completion: Completion, reports_cached: bool) -> None:
        """Keep what this reply shows of the host, where it is news."""
        shown = (completion.usage_reported, reports_cached, completion.limits)
        if shown == self._shown:
            return
        self._shown = shown
        known = self.learned(model)
        self._known = replace(
            known,
            reports_usage=completion.usage_reported,
            reports_cached_tokens=reports_cached,
            limits=known.limits if completion.limits == RateLimits() else completion.limits,
        )

    def _weaken(self, request: Request, error: Exception) -> bool:
        """Leave out what this refusal names; False where it names nothing that can be left out."""
        if getattr(error, "status_code", None) not in (400, 422):
            return False
        weakened = weaker(self._dialect, request, error_body(error))
        if weakened is not None:
            self._dialect = weakened
        return weakened is not None

    def _translated(self, error: Exception, model: str, prompt: tuple[str, ...]) -> ProviderError:
        ours = translate(error, host=self.host, model=model, secret=self._key, prompt=prompt)
        return self._route.explained(ours, error)

    def _check_seen_whole(self, request: Request, completion: Completion) -> None:
        """Fail loudly where the host cut the prompt in silence; the vendor's own answers 400 instead."""
        if self.is_vendors_own or not completion.usage_reported:
            return
        found = seen(request, completion.usage.input_tokens)
        context = self._known.context_tokens if self._known else None
        if is_cut(request, found, context_tokens=context, shortest=self._shortest):
            raise PromptCut(
                f"{self.host} read {found.tokens:,} tokens of about {request.input_tokens:,}: it cut the prompt",
                hint=hint_for(PromptTooLong, self.host, request.model),
            )
        if self._shortest is None or found.chars < self._shortest.chars:
            self._shortest = found


def _declined(request: Request) -> Completion:
    """Return the refusal of a prompt that was turned away unread, and so unpaid."""
    return Completion(text="", finish=Finish.REFUSAL, usage=Usage(), model=request.model, usage_reported=False)
