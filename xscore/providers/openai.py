"""The OpenAI dialect over the official SDK: one request in, one reply out, at any host that speaks it.

The SDK does the wire (its aiohttp transport, its low-level `post`: 1.0 ms of CPU a call where its typed `create`
takes 1.3 to 3); it neither retries, redirects nor sets the deadline. Retries, limits and metering are wrapped around.
The SDK is imported at the first call, because importing it costs 0.7 s of CPU and a cached turn makes none.
The trade-off: replies are read as plain JSON, so a field that the SDK renames must be renamed in `openai_reply`.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from xscore.errors import CallTimedOut, PromptTooLong, ProviderError
from xscore.providers import openai_reply as reply
from xscore.providers.catalog import declared
from xscore.providers.credentials import DUMMY_KEY, usable_key
from xscore.providers.hosts import host_of
from xscore.providers.openai_errors import hint_for, is_refusal, translate
from xscore.providers.openai_request import Dialect, body, weaker
from xscore.providers.openai_stream import StreamedReply
from xscore.providers.provider import OnText
from xscore.records import Completion, Finish, Request, Usage
from xscore.settings import Settings

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

PATH = "/chat/completions"
CONNECT_TIMEOUT_S = 10.0
ACCOUNT_HEADERS = ("OpenAI-Organization", "OpenAI-Project")
"""The SDK fills these from the environment; they are the vendor's business and no other host's."""
SEEN_AT_LEAST = 0.5
"""A host that counts less than this share of our estimate has cut the prompt (estimates err by a quarter or so)."""
MODELS_TIMEOUT_S = 10.0


def connect(model: str, settings: Settings) -> "OpenAIProvider":
    """Return a provider for the host in the settings; nothing is sent yet.

    Raises UsageError for a base URL or key that is none, AuthenticationFailed where a remote host would get no key.
    """
    host = host_of(settings.openai.base_url)
    key = usable_key(settings.openai, host=host, model=model)
    return OpenAIProvider(base_url=settings.openai.base_url, api_key=key)


class OpenAIProvider:
    """A host that speaks the OpenAI dialect."""

    name = "openai"

    def __init__(self, *, base_url: str, api_key: str) -> None:
        self.host = host_of(base_url)
        self._base_url = base_url
        self._key = api_key
        self._client: AsyncOpenAI | None = None
        self._caught: tuple[type[Exception], ...] = ()
        is_official = (urlsplit(base_url).hostname or "").endswith(".openai.com")
        self._dialect = Dialect(official=is_official)

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
        """Return the names of the models that the host lists, for `doctor`."""
        client = self._open()
        import httpx2

        try:
            async with asyncio.timeout(MODELS_TIMEOUT_S):
                response = await client.get("/models", cast_to=httpx2.Response)
        except TimeoutError as error:
            raise CallTimedOut(
                f"{self.host} did not list its models within {MODELS_TIMEOUT_S:g} s",
                hint=f"Check that a server listens at {self.host} (openai.base_url).",
            ) from error
        except self._caught as error:
            raise translate(error, host=self.host, model="", secret=self._key, prompt=()) from error
        listed = self._json(response, "").get("data")
        entries = listed if isinstance(listed, list) else []
        return tuple(str(entry["id"]) for entry in entries if isinstance(entry, dict) and "id" in entry)

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
            timeout = httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S)
            withheld: dict[str, Any] = {} if self._dialect.official else dict.fromkeys(ACCOUNT_HEADERS, Omit())
            self._client = AsyncOpenAI(
                api_key=self._key or DUMMY_KEY,
                base_url=self._base_url,
                max_retries=0,
                timeout=timeout,
                default_headers=withheld,
                http_client=DefaultAioHttpClient(follow_redirects=False, timeout=timeout),
            )
        return self._client

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
                    raise self._translated(error, request) from error

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
        return reply.completion(found, request, host=self.host, secret=self._key, limits=limits)

    def _json(self, response: "httpx2.Response", model: str) -> dict[str, Any]:
        content_type = response.headers.get("content-type", "")
        return reply.parse_json(response.content, content_type, host=self.host, model=model)

    def _weaken(self, request: Request, error: Exception) -> bool:
        """Leave out what this refusal names; False where it names nothing that can be left out."""
        if getattr(error, "status_code", None) not in (400, 422):
            return False
        error_body = getattr(error, "body", None)
        weakened = weaker(self._dialect, request, error_body if isinstance(error_body, Mapping) else None)
        if weakened is not None:
            self._dialect = weakened
        return weakened is not None

    def _translated(self, error: Exception, request: Request) -> ProviderError:
        prompt = (request.system, *request.content)
        return translate(error, host=self.host, model=request.model, secret=self._key, prompt=prompt)

    def _check_seen_whole(self, request: Request, completion: Completion) -> None:
        """Fail loudly where the host cut the prompt in silence (Ollama does, past num_ctx).

        Models with declared settings are spared: their hosts answer 400 instead.
        """
        seen = completion.usage.input_tokens
        if not completion.usage_reported or declared(self.name, request.model).known:
            return
        if seen < SEEN_AT_LEAST * request.input_tokens:
            raise PromptTooLong(
                f"{self.host} read {seen} tokens of about {request.input_tokens}: it cut the prompt",
                hint=hint_for(PromptTooLong, self.host, request.model),
            )


def _declined(request: Request) -> Completion:
    """Return the refusal of a prompt that was turned away unread, and so unpaid."""
    return Completion(text="", finish=Finish.REFUSAL, usage=Usage(), model=request.model, usage_reported=False)
