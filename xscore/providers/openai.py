"""The OpenAI dialect: what is its own in a call to a host that speaks it; `wire` does what every dialect does.

The trade-off: replies are read as plain JSON, so a field that the SDK renames must be renamed in `openai_reply`.

A request in the OpenAI dialect: our Request in, the JSON body out. Pure.

Servers that call themselves compatible differ in the fields they take. A `Taken` holds what this host has shown to
take; `weaker` gives the next one to try after a refusal, or None. The judge's reasoning effort is never dropped:
it belongs to the judge's identity. The trade-off: a host that silently ignores a field is not noticed here.

A reply in the OpenAI dialect: JSON in, our Completion out, or the error that it is. Pure.

It trusts nothing: HTML at 200, `{}`, errors inside a success and usage that is not numbers are all met in the field.
It does not read scores; the scorer parses `text`. The trade-off: usage that makes no sense counts as not reported.

Every failure of the OpenAI dialect as one of ours: its SDK's classes and its hosts' codes, as tables.

How a table is read, and what may be shown of what a host says, is `wire_errors`, which all dialects share. The
trade-off: servers that call themselves compatible use codes of their own; what is not listed is taken by its status.

A streamed reply in the OpenAI dialect: one chunk at a time; `stream_reading` gathers them.

The trade-off: a chunk of a kind that is not known is passed over, since hosts add their own.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    Overloaded,
    PromptTooLong,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnknownModel,
    UnreadableResponse,
)
from xscore.providers import host_facts
from xscore.providers.catalog import model_settings
from xscore.providers.host_facts import duration_s, estimated_usage, header_count, sub_object, token_count
from xscore.providers.hosts import DUMMY_KEY, host_of, is_host_within, is_loopback, usable_key
from xscore.providers.provider import OnText
from xscore.providers.reply_schema import response_format
from xscore.providers.transport import Route
from xscore.providers.wire import LookUp, ReplyReaders, SdkClient, StreamedText, WireProvider
from xscore.providers.wire_errors import DialectProfile
from xscore.records import Capability, Completion, Finish, RateLimits, ReplyForm, Request, Usage
from xscore.settings import Settings

WEAKER_FORMS = {ReplyForm.JSON_SCHEMA: ReplyForm.JSON_OBJECT, ReplyForm.JSON_OBJECT: ReplyForm.TEXT}
FORM_WORDS = ("response_format", "json_schema", "json_object", "grammar", "guided")
"""Words by which servers name the part of the request that asks for JSON."""

OPTIONAL_FIELDS = ("prompt_cache_options", "prompt_cache_breakpoint", "prompt_cache_key", "stream_options", "store")
"""Fields that a request does without when the host does not take them."""


class AcceptedFields(Struct, frozen=True):
    """What one host takes."""

    official: bool
    """The vendor's own host, which would keep completions unless told not to."""
    form: ReplyForm = ReplyForm.JSON_SCHEMA
    without: frozenset[str] = frozenset()
    """Field names that this host refused."""


def openai_body(request: Request, taken: AcceptedFields, *, stream: bool) -> dict[str, Any]:
    """Return the JSON body of `POST /chat/completions`."""
    without = taken.without
    marked = model_settings("openai", request.model).cache_breakpoints and "prompt_cache_breakpoint" not in without
    fields: dict[str, Any] = {
        "model": request.model,
        "messages": [
            {"role": "system", "content": request.system},
            {"role": "user", "content": _content(request, marked=marked and request.prefix_ttl_s > 0)},
        ],
        "max_tokens" if "max_completion_tokens" in without else "max_completion_tokens": request.max_output_tokens,
    }
    if request.reply_ids and taken.form is not ReplyForm.TEXT:
        is_schema = taken.form is ReplyForm.JSON_SCHEMA
        schema = response_format(request.reply_ids, request.reply_questions) if is_schema else None
        fields["response_format"] = schema or {"type": "json_object"}
    if request.cache_key:
        fields["prompt_cache_key"] = request.cache_key
    if marked:
        fields["prompt_cache_options"] = {"mode": "explicit"}
    if request.reasoning:
        fields["reasoning_effort"] = request.reasoning
    if request.temperature is not None and "temperature" not in without:
        fields["temperature"] = request.temperature
    if taken.official:
        fields["store"] = False
    if stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    for name in without.intersection(OPTIONAL_FIELDS):
        fields.pop(name, None)
    return fields


def weaker_request(taken: AcceptedFields, request: Request, error_body: object) -> AcceptedFields | None:
    """Return what to try after this host refused the request with this body; None: nothing can be left out."""
    said = _names_in(error_body)
    for name in ("max_completion_tokens", "temperature", *OPTIONAL_FIELDS):
        if name in said and name not in taken.without:
            gone = {name, "prompt_cache_breakpoint"} if name == "prompt_cache_options" else {name}
            return replace(taken, without=taken.without | gone)
    if request.reply_ids and any(word in said for word in FORM_WORDS) and taken.form in WEAKER_FORMS:
        return replace(taken, form=WEAKER_FORMS[taken.form])
    return None


def _content(request: Request, *, marked: bool) -> str | list[dict[str, Any]]:
    """Join the parts, or, where the host caches up to marks, mark the end of what is stable over turns."""
    if not marked or not 0 < request.stable_parts <= len(request.content):
        return "\n\n".join(request.content)
    stable = "\n\n".join(request.content[: request.stable_parts])
    rest = "\n\n".join(request.content[request.stable_parts :])
    parts = [{"type": "text", "text": stable, "prompt_cache_breakpoint": {"mode": "explicit"}}]
    return [*parts, {"type": "text", "text": "\n\n" + rest}] if rest else parts


def _names_in(error_body: object) -> str:
    """Return the places of an error body that name a field: never the echoed input."""
    if not isinstance(error_body, Mapping):
        return ""
    places = [error_body.get("param"), error_body.get("code"), error_body.get("message")]
    detail = error_body.get("detail")
    if isinstance(detail, list):
        places += [json.dumps(entry.get("loc")) for entry in detail if isinstance(entry, Mapping)]
    return " ".join(place for place in places if isinstance(place, str))


SDK_ERRORS: dict[str, type[ProviderError]] = {
    "OpenAIError": RequestRejected,
    "APIError": UnreadableResponse,
    "APIResponseValidationError": UnreadableResponse,
    "APIConnectionError": ConnectionFailed,
    "APITimeoutError": ConnectionFailed,  # the deadline is ours; the transport calls a dropped connection so
    "APIStatusError": RequestRejected,
    "BadRequestError": RequestRejected,
    "AuthenticationError": AuthenticationFailed,
    "OAuthError": AuthenticationFailed,
    "SubjectTokenProviderError": AuthenticationFailed,
    "PermissionDeniedError": AuthenticationFailed,
    "NotFoundError": UnknownModel,
    "ConflictError": Overloaded,
    "UnprocessableEntityError": RequestRejected,
    "RateLimitError": RateLimited,
    "InternalServerError": Overloaded,
    "LengthFinishReasonError": UnreadableResponse,
    "ContentFilterFinishReasonError": UnreadableResponse,
    "InvalidWebhookSignatureError": UnreadableResponse,
    "WebSocketConnectionClosedError": ConnectionFailed,
    "WebSocketQueueFullError": Overloaded,
    "StreamAlreadyConsumed": UnreadableResponse,
    "MutuallyExclusiveAuthError": AuthenticationFailed,
    "APIRemovedInV1": RequestRejected,
    "_AmbiguousModuleClientUsageError": RequestRejected,
}
"""Name of the SDK's class -> ours, where neither code nor status says more."""

BY_CODE: dict[str, type[ProviderError]] = {
    "insufficient_quota": QuotaExhausted,
    "credit_balance_exhausted": QuotaExhausted,
    "billing_hard_limit_reached": QuotaExhausted,
    "billing_not_active": QuotaExhausted,
    "invalid_api_key": AuthenticationFailed,
    "API_KEY_INVALID": AuthenticationFailed,
    "account_deactivated": AuthenticationFailed,
    "model_not_found": UnknownModel,
    "context_length_exceeded": PromptTooLong,
    "exceed_context_size_error": PromptTooLong,
    "string_above_max_length": PromptTooLong,
    "rate_limit_exceeded": RateLimited,
    "server_overloaded": Overloaded,
    "server_error": Overloaded,
    "invalid_request_error": RequestRejected,
}
"""`code`, `type` or Google's `details[].reason` of the error body -> ours; stands over the status."""

REFUSAL_CODES = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
"""Codes by which a host declines the prompt itself: a refusal, not a mistake of ours."""

OPENAI = DialectProfile(
    name="OpenAI",
    vendor="openai.com",
    setting="openai.base_url",
    base_url_ends="with /v1",
    path="/chat/completions",
    by_class=SDK_ERRORS,
    by_code=BY_CODE,
    money_endings=("_spend_limit_exceeded",),
    refusal_codes=REFUSAL_CODES,
)


FINISH = {"length": Finish.LENGTH, "content_filter": Finish.REFUSAL}
"""`finish_reason` -> ours; every other is a stop."""
ROUNDING_S = 0.001
"""Hosts write the time until a reset to the millisecond."""
LENIENCE = 2
"""By this factor a window may be off and is still taken for a minute: other calls are in flight while it is stated."""


def completion(found: Mapping[str, Any], request: Request, *, host: str, secret: str, limits: RateLimits) -> Completion:
    """Return the completion in this reply object; raise the error it carries, or UnreadableResponse."""
    choice = only_choice(found, request, host=host, secret=secret)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise OPENAI.unreadable("a choice without a message", host=host, model=request.model)
    refusal = message.get("refusal")
    refused = isinstance(refusal, str) and bool(refusal)
    text = _text(message.get("content"))
    usage = reported_usage(found.get("usage"))
    return Completion(
        text=text,
        finish=finish_of(choice.get("finish_reason"), refused=refused),
        usage=usage or estimated_usage(request, text),
        model=str(found.get("model") or request.model),
        usage_reported=usage is not None,
        limits=limits,
    )


def finish_of(finish_reason: object, *, refused: bool) -> Finish:
    """Return how the reply ended. refused: it holds a refusal, whatever reason is given."""
    return Finish.REFUSAL if refused else FINISH.get(str(finish_reason), Finish.STOP)


def only_choice(found: Mapping[str, Any], request: Request, *, host: str, secret: str) -> Mapping[str, Any]:
    """Return the first choice; raise the error that the reply or the choice carries instead."""
    raise_inner(found.get("error"), request, host=host, secret=secret)
    choices = found.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping):
        raise OPENAI.unreadable("a JSON object without choices", host=host, model=request.model)
    raise_inner(choice.get("error"), request, host=host, secret=secret)
    return choice


def raise_inner(error: object, request: Request, *, host: str, secret: str) -> None:
    """Raise the error that stands inside a success, if there is one."""
    if not error:
        return
    inner: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error}
    prompt = (request.system, *request.content)
    raise OPENAI.from_body(inner, host=host, model=request.model, secret=secret, prompt=prompt)


def reported_usage(found: object) -> Usage | None:
    """Return the usage that the host reports; None where it reports none, or no sense."""
    if not isinstance(found, Mapping):
        return None
    given = token_count(found.get("prompt_tokens"))
    written = token_count(found.get("completion_tokens"))
    if not given or written is None:
        return None
    prompt_details = sub_object(found, "prompt_tokens_details")
    output_details = sub_object(found, "completion_tokens_details")
    cached = min(given, token_count(prompt_details.get("cached_tokens")) or 0)
    return Usage(
        input_tokens=given,
        cached_input_tokens=cached,
        cache_write_tokens=min(given - cached, token_count(prompt_details.get("cache_write_tokens")) or 0),
        output_tokens=written,
        reasoning_tokens=min(written, token_count(output_details.get("reasoning_tokens")) or 0),
    )


def reports_cached(found: object) -> bool:
    """Say whether this usage tells what came from a prefix cache."""
    return (
        isinstance(found, Mapping)
        and token_count(sub_object(found, "prompt_tokens_details").get("cached_tokens")) is not None
    )


def rate_limits(headers: Mapping[str, str]) -> RateLimits:
    """Return the limits a minute that the reply's headers state.

    Limits of tokens are per minute wherever they are documented. Those of requests are not: some hosts
    state a day's (Groq, by what its users report).
    """
    requests = header_count(headers.get("x-ratelimit-limit-requests"))
    return RateLimits(
        requests_per_minute=requests if requests and _is_a_minutes(requests, headers) else None,
        tokens_per_minute=header_count(headers.get("x-ratelimit-limit-tokens")),
    )


def _is_a_minutes(limit: int, headers: Mapping[str, str]) -> bool:
    """Whether nothing says that this many requests are of another time than a minute.

    What was used comes back in the time that the reset header states (`1s` after one request of 60, `2m59.56s` after
    30 of 14400), so the whole limit does in proportion. Both have to be stated, and the reset is rounded.
    """
    reset_s = duration_s(headers.get("x-ratelimit-reset-requests"))
    remaining = headers.get("x-ratelimit-remaining-requests", "")
    used = limit - int(remaining) if remaining.isdecimal() and len(remaining) <= len(str(limit)) else 0
    if reset_s is None or used <= 0:
        return True
    shortest, longest = ((reset_s + rounding) * limit / used for rounding in (-ROUNDING_S, ROUNDING_S))
    return shortest <= 60 * LENIENCE and longest >= 60 / LENIENCE


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(text for text in texts if isinstance(text, str))
    return ""


class OpenAIStream:
    """The state of one streamed reply."""

    def __init__(self, request: Request, *, host: str, secret: str, on_text: OnText) -> None:
        self.shown = StreamedText(on_text)
        self.model = request.model
        self.usage: Usage | None = None
        self._request = request
        self._host = host
        self._secret = secret
        self._reason = ""
        self._refused = False

    @property
    def finish(self) -> Finish | None:
        """How it ended; None: not yet."""
        return finish_of(self._reason, refused=self._refused) if self._reason else None

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next chunk; raise the error that it carries."""
        self.usage = reported_usage(event.get("usage")) or self.usage
        self.model = str(event.get("model") or self.model)
        raise_inner(event.get("error"), self._request, host=self._host, secret=self._secret)
        if not event.get("choices"):
            return  # the last chunk carries usage only
        choice = only_choice(event, self._request, host=self._host, secret=self._secret)
        delta = sub_object(choice, "delta")
        self._refused = self._refused or bool(delta.get("refusal"))
        self.shown.add(delta.get("content"))
        self._reason = str(choice.get("finish_reason") or self._reason)


ACCOUNT_HEADERS = ("OpenAI-Organization", "OpenAI-Project")
"""The SDK fills these from the environment; they are the vendor's business and no other host's."""


def connect(model: str, settings: Settings) -> WireProvider:
    """Return a provider for the host in the settings; nothing is sent yet.

    Raises UsageError for a base URL or key that is none, AuthenticationFailed where a remote host would get no key.
    """
    base_url = settings.openai.base_url
    key = usable_key(settings.openai, host=host_of(base_url, setting=OPENAI.setting), model=model)
    return WireProvider(OpenAIDialect(base_url), base_url=base_url, api_key=key)


class _Replies:
    completion = staticmethod(completion)
    rate_limits = staticmethod(rate_limits)
    reports_cached = staticmethod(reports_cached)


class OpenAIDialect:
    """How hosts are spoken to that took OpenAI's chat completions for their own."""

    name = "openai"
    words = OPENAI
    replies: ReplyReaders = _Replies()
    forms: tuple[ReplyForm, ...] = tuple(ReplyForm)
    longest_unstreamed_tokens: int | None = None

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._official = is_host_within(base_url, OPENAI.vendor)

    def load(self, base_url: str, *, key: str, route: Route) -> SdkClient:
        """Import the SDK and make a client."""
        from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient, Omit, OpenAIError

        withheld: dict[str, Any] = {} if self._official else dict.fromkeys(ACCOUNT_HEADERS, Omit())
        http = route.client(DefaultAioHttpClient)
        client = AsyncOpenAI(
            api_key=key or DUMMY_KEY,
            base_url=base_url,
            max_retries=0,
            timeout=http.timeout,
            default_headers=withheld,
            http_client=http,
        )
        return SdkClient(client, AsyncStream[object], OpenAIError)

    def body(self, request: Request, known: Capability, *, stream: bool) -> dict[str, Any]:
        """Return the JSON body of a request to a host that takes so much."""
        return openai_body(request, self._taken(known), stream=stream)

    def weaker(self, request: Request, known: Capability, refusal: object) -> Capability | None:
        """Return what a host takes that refused with this error object; None: it names nothing to leave out."""
        left = weaker_request(self._taken(known), request, refusal)
        return replace(known, reply_form=left.form, without=tuple(sorted(left.without))) if left else None

    def streamed(self, request: Request, *, host: str, secret: str, on_text: OnText) -> OpenAIStream:
        """Return the reader of one stream."""
        return OpenAIStream(request, host=host, secret=secret, on_text=on_text)

    async def models(self, look: LookUp) -> tuple[str, ...]:
        """Return the names of the models that the host lists."""
        return host_facts.listed_model_names(await look("/models"))

    async def context_tokens(self, look: LookUp, model: str) -> int | None:
        """Return the longest input: as loaded, where the host tells, else as the model was made."""
        listing: Mapping[str, Any] = {}
        with suppress(ProviderError):
            listing = await look("/models")
        told = host_facts.served_context(listing, model)
        if told is None and (is_loopback(host_of(self._base_url)) or self._base_url.startswith("http:")):
            told = await self._context_loaded(look, model)
        return told or host_facts.trained_context(listing, model)

    async def _context_loaded(self, look: LookUp, model: str) -> int | None:
        """Ask a server on this machine or network, in the words of each that we know, what it has loaded."""
        parts = urlsplit(self._base_url)
        for path in host_facts.LOCAL_PATHS:
            with suppress(ProviderError):
                told = host_facts.loaded_context(await look(f"{parts.scheme}://{parts.netloc}{path}"), model)
                if told is not None:
                    return told
        return None

    def _taken(self, known: Capability) -> AcceptedFields:
        return AcceptedFields(official=self._official, form=known.reply_form, without=frozenset(known.without))
