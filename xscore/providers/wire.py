"""One request over the wire of a vendor's SDK, whatever the dialect: opened late, within its deadline, read whole.

What it does with a request: send it, send it again without what the host refuses, read the reply or the stream, turn
the SDK's errors into ours, and see that the host read all of the prompt. A `Dialect` holds what is its own: the SDK,
the bodies, the readers, the vocabulary. The SDK does the bytes (its low-level `post`: 1.0 ms of CPU a call where its
typed calls take 1.3 to 3); it neither retries, redirects nor sets the deadline, and `connection` makes it when a
call needs it. Retries, limits and metering are wrapped around. The trade-off: a dialect whose SDK is not of the
same generator would need a wire of its own.

A streamed reply, gathered event by event into one Completion, whatever the dialect.

Text goes to the caller as it comes. A stream that ends without saying how it finished has broken off. A dialect brings
a `StreamedReply` that takes one event at a time. The trade-off: it does not reconnect, because what was shown cannot
be taken back, so the caller decides.

The connection of one dialect to one host: made late, and every failure on it one of ours.

What travels over it (`wire` for calls, the batches for files and lists) is not its business. The SDK is imported when
the connection is first needed, because that costs about a second of CPU and a cached turn makes none. The trade-off:
the clients of the SDKs are alike because one generator writes them all, and here they are `Any`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.errors import CallTimedOut, PromptCut, PromptTooLong, ProviderError
from xscore.providers.host_facts import PromptCount, count_prompt, estimated_usage, is_prompt_cut, json_object
from xscore.providers.hosts import host_of, is_host_within
from xscore.providers.provider import OnText
from xscore.providers.reply_bounds import expecting_tokens
from xscore.providers.transport import Route, route_to
from xscore.providers.wire_errors import DialectProfile, StreamCleaner, clean_completion, error_body
from xscore.records import Capability, Completion, Finish, RateLimits, ReplyForm, Request, Usage

if TYPE_CHECKING:
    import httpx2


class StreamReader(Protocol):
    """The state of one streamed reply in one dialect."""

    shown: "StreamedText"
    model: str
    """As the host names it, once it does."""

    @property
    def finish(self) -> Finish | None:
        """How it ended; None: not yet."""

    @property
    def usage(self) -> Usage | None:
        """What the host reports; None: nothing, or no sense."""

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next event; raise the error that it carries."""


class StreamedText:
    """Text that the caller sees piece by piece."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._pieces: list[str] = []

    def add(self, piece: object) -> None:
        """Show a piece; what is no text, or empty, is none."""
        if isinstance(piece, str) and piece:
            self._pieces.append(piece)
            self._on_text(piece)

    def whole(self) -> str:
        """Return all of it."""
        return "".join(self._pieces)


async def gather_stream(
    events: AsyncIterator[object],
    reply: StreamReader,
    request: Request,
    *,
    words: DialectProfile,
    host: str,
    limits: RateLimits,
) -> Completion:
    """Read the stream to its end.

    Raises ConnectionFailed when it ends unfinished, UnreadableResponse for what is not the dialect, or the error that
    an event carries.
    """
    try:
        async for event in events:
            if not isinstance(event, Mapping):
                raise words.unreadable("a stream of something else than objects", host=host, model=request.model)
            reply.take(event)
    except (ValueError, RecursionError) as error:
        raise words.unreadable("a stream whose events are not JSON", host=host, model=request.model) from error
    if reply.finish is None:
        raise words.broken_off(host=host, model=request.model)
    text, usage = reply.shown.whole(), reply.usage
    return Completion(
        text=text,
        finish=reply.finish,
        usage=usage or estimated_usage(request, text),
        model=reply.model,
        usage_reported=usage is not None,
        limits=limits,
    )


class SdkClient(Struct, frozen=True):
    """A vendor's SDK, imported, and its client for one host."""

    client: Any
    """Asynchronous; neither retries nor follows redirects."""
    stream_class: Any
    errors: type[Exception]
    """The root of what it raises."""


class SdkLoader(Protocol):
    """What a connection needs of a dialect."""

    words: DialectProfile

    def load(self, base_url: str, *, key: str, route: Route) -> SdkClient:
        """Import the SDK and make a client."""


class HostConnection:
    """A host, reached through an SDK once something is sent."""

    def __init__(self, dialect: SdkLoader, *, base_url: str, api_key: str) -> None:
        self.host = host_of(base_url, setting=dialect.words.setting)
        self.words = dialect.words
        self.base_url = base_url
        self.key = api_key
        self.caught: tuple[type[Exception], ...] = ()
        """What the SDK and its transport raise, once it is open."""
        self._dialect = dialect
        self._route = Route(self.host, None)
        self._sdk: SdkClient | None = None

    def open(self) -> SdkClient:
        """Return the SDK with its client; import it the first time."""
        if self._sdk is None:
            import aiohttp
            import httpx2

            self._route = route_to(self.base_url)
            self._sdk = self._dialect.load(self.base_url, key=self.key, route=self._route)
            self.caught = (self._sdk.errors, httpx2.HTTPError, aiohttp.ClientError)
        return self._sdk

    def translated(self, error: Exception, *, model: str = "", prompt: tuple[str, ...] = ()) -> ProviderError:
        """Return our error for one of `caught`; the caller raises it `from error`."""
        ours = self.words.translate(error, host=self.host, model=model, secret=self.key, prompt=prompt)
        return self._route.explained(ours, error)

    def json(self, response: "httpx2.Response", *, model: str = "") -> dict[str, Any]:
        """Return the JSON object of a success. Raises UnreadableResponse."""
        return json_object(response.content, response.headers, words=self.words, host=self.host, model=model)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._sdk is not None:
            await self._sdk.client.close()
            self._sdk = None


LOOK_TIMEOUT_S = 10.0
"""Deadline of looking something up at the host, without a model's work in it."""
FIELD_REFUSAL_STATUSES = (400, 422)
"""Statuses by which a host may say that it does not take a field."""

LookUp = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Gets the JSON object at a path of the host, or raises a leaf of `ProviderError`."""


class ReplyReaders(Protocol):
    """How replies are read: a module of pure functions."""

    def completion(
        self, found: Mapping[str, Any], request: Request, *, host: str, secret: str, limits: RateLimits
    ) -> Completion:
        """Return the completion in this reply object; raise the error it carries, or UnreadableResponse."""

    def rate_limits(self, headers: Mapping[str, str]) -> RateLimits:
        """Return the limits that the reply's headers state."""

    def reports_cached(self, found: object) -> bool:
        """Say whether this usage tells what came from a prefix cache."""


class Dialect(Protocol):
    """What is one dialect's own."""

    name: str
    words: DialectProfile
    replies: ReplyReaders
    forms: tuple[ReplyForm, ...]
    """Of the reply, from the strongest."""
    longest_unstreamed_tokens: int | None
    """A longer reply is streamed even if nobody watches; None: never."""

    def load(self, base_url: str, *, key: str, route: Route) -> SdkClient:
        """Import the SDK and make a client."""

    def body(self, request: Request, known: Capability, *, stream: bool) -> dict[str, Any]:
        """Return the JSON body of a request to a host that takes so much."""

    def weaker(self, request: Request, known: Capability, refusal: object) -> Capability | None:
        """Return what a host takes that refused with this error object; None: it names nothing to leave out."""

    def streamed(self, request: Request, *, host: str, secret: str, on_text: OnText) -> StreamReader:
        """Return the reader of one stream."""

    async def models(self, look: LookUp) -> tuple[str, ...]:
        """Return the names of the models that the host lists."""

    async def context_tokens(self, look: LookUp, model: str) -> int | None:
        """Return the longest input, where the host tells."""


class WireProvider:
    """A host that speaks a dialect. It is `Adaptable`."""

    def __init__(self, dialect: Dialect, *, base_url: str, api_key: str) -> None:
        self.name = dialect.name
        self.connection = HostConnection(dialect, base_url=base_url, api_key=api_key)
        self.dialect = dialect
        self.host = self.connection.host
        self.forms = dialect.forms
        self.is_vendors_own = is_host_within(base_url, dialect.words.vendor)
        self._key = api_key
        self._known = Capability(provider=self.name, host=self.host, model="", probed_at=0.0)
        self._shortest: PromptCount | None = None

    def adopt(self, capability: Capability) -> None:
        """Ask from now on in this form and without these fields."""
        self._known = capability

    def learned(self, model: str) -> Capability:
        """Return what was adopted, corrected by every reply since."""
        return self._known if self._known.model else replace(self._known, model=model)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Make one attempt within `request.timeout_s`; what the host refuses is left out from then on."""
        sdk = self.connection.open()
        try:
            async with asyncio.timeout(request.timeout_s):
                completion = await self._in_the_hosts_words(sdk, request, on_text)
        except TimeoutError as error:
            raise CallTimedOut(
                f"{self.host} did not finish its reply within {request.timeout_s:g} s",
                hint="Raise judge.timeout_s or primary.timeout_s, or lower judge.concurrency.",
            ) from error
        self._check_seen_whole(request, completion)
        return completion

    def body(self, request: Request) -> bytes:
        """Return the JSON body of a request as it would be sent now, not streamed."""
        fields = self.dialect.body(request, self._known, stream=False)
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()

    async def models(self) -> tuple[str, ...]:
        """Return the names of the models that the host lists."""
        return await self.dialect.models(self._look)

    async def context_tokens(self, model: str) -> int | None:
        """Return the longest input, where the host tells."""
        return await self.dialect.context_tokens(self._look, model)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.connection.aclose()

    async def _look(self, path: str) -> Mapping[str, Any]:
        """Return the JSON object at this path: of the base URL, or the whole URL of one."""
        sdk = self.connection.open()
        import httpx2

        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                response = await sdk.client.get(path, cast_to=httpx2.Response)
        except TimeoutError as error:
            raise CallTimedOut(
                f"{self.host} did not answer within {LOOK_TIMEOUT_S:g} s",
                hint=f"Check that a server listens at {self.host} ({self.dialect.words.setting}).",
            ) from error
        except self.connection.caught as error:
            raise self.connection.translated(error) from error
        return self.connection.json(response)

    async def _in_the_hosts_words(self, sdk: SdkClient, request: Request, on_text: OnText | None) -> Completion:
        """Send, and send again without what the host refuses, until nothing is left to leave out."""
        longest = self.dialect.longest_unstreamed_tokens
        if on_text is None and longest is not None and request.max_output_tokens > longest:
            on_text = _unwatched
        while True:
            known = self._known
            try:
                with expecting_tokens(request.max_output_tokens):
                    return await self._send(sdk, request, known, on_text)
            except self.connection.caught as error:
                if self.dialect.words.is_refusal(error):
                    return _declined(request)
                if _asked(self._known) == _asked(known) and not self._weaken(request, error):
                    prompt = (request.system, *request.content)
                    raise self.connection.translated(error, model=request.model, prompt=prompt) from error

    async def _send(self, sdk: SdkClient, request: Request, known: Capability, on_text: OnText | None) -> Completion:
        import httpx2

        body = self.dialect.body(request, known, stream=on_text is not None)
        path = self.dialect.words.path
        if on_text is None:
            return self._read(await sdk.client.post(path, cast_to=httpx2.Response, body=body), request)
        stream = await sdk.client.post(path, cast_to=object, body=body, stream=True, stream_cls=sdk.stream_class)
        async with stream:
            if "text/event-stream" not in stream.response.headers.get("content-type", ""):
                await stream.response.aread()
                whole = self._read(stream.response, request)
                on_text(whole.text)
                return whole
            text = StreamCleaner(secret=self._key, on_text=on_text)
            reading = self.dialect.streamed(request, host=self.host, secret=self._key, on_text=text.add)
            limits, words = self._limits(stream.response), self.dialect.words
            found = await gather_stream(stream, reading, request, words=words, host=self.host, limits=limits)
            text.end()
            return clean_completion(found, secret=self._key)

    def _read(self, response: "httpx2.Response", request: Request) -> Completion:
        replies = self.dialect.replies
        found = self.connection.json(response, model=request.model)
        limits = self._limits(response)
        completion = replies.completion(found, request, host=self.host, secret=self._key, limits=limits)
        completion = clean_completion(completion, secret=self._key)
        self._learn(request.model, completion, replies.reports_cached(found.get("usage")))
        return completion

    def _limits(self, response: "httpx2.Response") -> RateLimits:
        """Read what is stated of limits: headers are copied once, since each look-up walks through all of them."""
        pairs = ((name.lower(), value) for name, value in response.headers.raw)
        stated = {name.decode("ascii"): value.decode("latin-1") for name, value in pairs if b"ratelimit" in name}
        return self.dialect.replies.rate_limits(stated)

    def _learn(self, model: str, completion: Completion, reports_cached: bool) -> None:
        """Keep what this reply shows of the host, where it is news."""
        known = self.learned(model)
        limits = known.limits if completion.limits == RateLimits() else completion.limits
        shown = (completion.usage_reported, reports_cached, limits)
        if (known.reports_usage, known.reports_cached_tokens, known.limits) != shown:
            known = replace(
                known, reports_usage=completion.usage_reported, reports_cached_tokens=reports_cached, limits=limits
            )
        self._known = known

    def _weaken(self, request: Request, error: Exception) -> bool:
        """Leave out what this refusal names; False where it names nothing that can be left out."""
        if getattr(error, "status_code", None) not in FIELD_REFUSAL_STATUSES:
            return False
        weaker = self.dialect.weaker(request, self._known, error_body(error))
        self._known = weaker or self._known
        return weaker is not None

    def _check_seen_whole(self, request: Request, completion: Completion) -> None:
        """Fail loudly where the host cut the prompt in silence; the vendor's own answers 400 instead."""
        if self.is_vendors_own or not completion.usage_reported:
            return
        found = count_prompt(request, completion.usage.input_tokens)
        if is_prompt_cut(request, found, context_tokens=self._known.context_tokens, shortest=self._shortest):
            raise PromptCut(
                f"{self.host} read {found.tokens:,} tokens of about {request.input_tokens:,}: it cut the prompt",
                hint=self.dialect.words.hint_for(PromptTooLong, self.host, request.model),
            )
        if self._shortest is None or found.chars < self._shortest.chars:
            self._shortest = found


def _asked(known: Capability) -> tuple[object, ...]:
    """Return what of a capability changes the body of a request."""
    return known.reply_form, known.without


def _declined(request: Request) -> Completion:
    """Return the refusal of a prompt that was turned away unread, and so unpaid."""
    return Completion(text="", finish=Finish.REFUSAL, usage=Usage(), model=request.model, usage_reported=False)


def _unwatched(piece: str) -> None:
    """Take a piece that nobody asked to see."""
