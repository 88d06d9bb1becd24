"""The Anthropic dialect: what is its own in a call to a host that speaks it; `wire` does what every dialect does.

The trade-off: replies are read as plain JSON, so a field that the SDK renames must be renamed in `anthropic_reply`.

A request in the Anthropic dialect: our Request in, the JSON body out. Pure.

No temperature, top_p or top_k is ever sent: the API has none. Numeric bounds stay out of the schema, since it answers
400 to them; the scorer checks. Only the end of the stable parts is ever marked for the cache, and only where the
request asks for it, because writing costs. A host that calls itself compatible and refuses the schema is asked without;
what it then writes is for the repair ladder. The trade-off: a host that ignores the schema in silence is not noticed
here.

A reply in the Anthropic dialect: JSON in, our Completion out, or the error that it is. Pure.

The host counts what its cache served and what was written to it apart from `input_tokens`; ours is the sum. It does
not read scores; the scorer parses `text`. The trade-off: blocks that are no text (thinking) are dropped unread.

Every failure of the Anthropic dialect as one of ours: its SDK's classes and its API's types and codes, as tables.

How a table is read, and what may be shown of what a host says, is `wire_errors`, which all dialects share. The SDK has
a class for every `error_code`; only those of its classes that stand for a status are listed, the rest go with them.
The trade-off: a prompt that is too long and a balance that ran out before 402 existed come as a plain 400 without a
code; they are rejections of that request.

A streamed reply in the Anthropic dialect: one event at a time; `stream_reading` gathers them.

Thinking is not shown. The trade-off: an event of a kind that is not known is passed over, as the API asks of clients.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

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
from xscore.providers.catalog import HOUR_S
from xscore.providers.host_facts import estimated_usage, header_count, sub_object, token_count
from xscore.providers.hosts import DUMMY_KEY, host_of, usable_key
from xscore.providers.provider import OnText
from xscore.providers.reply_schema import reply_schema
from xscore.providers.transport import Route
from xscore.providers.wire import LookUp, ReplyReaders, SdkClient, StreamedText, WireProvider
from xscore.providers.wire_errors import DialectProfile
from xscore.records import Capability, Completion, Finish, RateLimits, ReplyForm, Request, Usage
from xscore.settings import Settings

THINKING = frozenset({"disabled", "between_tools", "adaptive"})
"""Reasoning words that name a way of thinking; every other is an effort."""


FORM_WORDS = ("output_config", "output_format", "json_schema")
"""Words by which hosts name the part of the request that asks for JSON."""


def anthropic_body(request: Request, *, stream: bool, form: ReplyForm = ReplyForm.JSON_SCHEMA) -> dict[str, Any]:
    """Return the JSON body of `POST /v1/messages`. form: anything but the schema is a reply in plain text here."""
    fields: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_output_tokens,
        "messages": [{"role": "user", "content": _content(request)}],
    }
    if request.system:
        fields["system"] = [{"type": "text", "text": request.system}]
    output: dict[str, Any] = {}
    if request.reply_ids and form is ReplyForm.JSON_SCHEMA:
        schema = reply_schema(request.reply_ids, questions=request.reply_questions, bounds=False)
        output["format"] = {"type": "json_schema", "schema": schema}
    if request.reasoning in THINKING:
        fields["thinking"] = {"type": request.reasoning}
    elif request.reasoning:
        output["effort"] = request.reasoning
    if output:
        fields["output_config"] = output
    if stream:
        fields["stream"] = True
    return fields


def refuses_the_schema(request: Request, error_body: object) -> bool:
    """Whether a host that answered 400 with this error object names what asks for the schema."""
    message = error_body.get("message") if isinstance(error_body, Mapping) else None
    return bool(request.reply_ids) and isinstance(message, str) and any(word in message for word in FORM_WORDS)


def _content(request: Request) -> str | list[dict[str, Any]]:
    """Join the parts, or, where a prefix is to be kept, mark the end of what is stable over turns."""
    if request.prefix_ttl_s <= 0 or not 0 < request.stable_parts <= len(request.content):
        return "\n\n".join(request.content)
    mark = {"type": "ephemeral"} | ({"ttl": "1h"} if request.prefix_ttl_s >= HOUR_S else {})
    stable = "\n\n".join(request.content[: request.stable_parts])
    rest = "\n\n".join(request.content[request.stable_parts :])
    parts = [{"type": "text", "text": stable, "cache_control": mark}]
    return [*parts, {"type": "text", "text": "\n\n" + rest}] if rest else parts


SDK_ERRORS: dict[str, type[ProviderError]] = {
    "AnthropicError": RequestRejected,
    "APIError": UnreadableResponse,
    "APIResponseValidationError": UnreadableResponse,
    "APIWebhookValidationError": UnreadableResponse,
    "APIConnectionError": ConnectionFailed,
    "APITimeoutError": ConnectionFailed,  # the deadline is ours; the transport calls a dropped connection so
    "APIStatusError": RequestRejected,
    "BadRequestError": RequestRejected,
    "AuthenticationError": AuthenticationFailed,
    "PaymentRequiredError": QuotaExhausted,
    "PermissionDeniedError": AuthenticationFailed,
    "NotFoundError": UnknownModel,
    "RequestTimeoutError": Overloaded,
    "ConflictError": Overloaded,
    "PreconditionFailedError": RequestRejected,
    "ContentTooLargeError": PromptTooLong,
    "UnprocessableEntityError": RequestRejected,
    "RateLimitError": RateLimited,
    "RequestHeaderFieldsTooLargeError": RequestRejected,
    "ClientClosedRequestError": RequestRejected,
    "InternalServerError": Overloaded,
    "RetryableError": Overloaded,
    "CredentialsError": AuthenticationFailed,
    "WorkloadIdentityError": AuthenticationFailed,
    "MutuallyExclusiveAuthError": AuthenticationFailed,
    "MissingDependencyError": RequestRejected,
    "StreamAlreadyConsumed": UnreadableResponse,
    "ToolsetUsageError": RequestRejected,
}
"""Name of the SDK's class -> ours, where neither code nor status says more."""

BY_CODE: dict[str, type[ProviderError]] = {
    "billing_error": QuotaExhausted,
    "credit_balance_too_low": QuotaExhausted,
    "linked_organization_billing_unavailable": QuotaExhausted,
    "authentication_error": AuthenticationFailed,
    "permission_error": AuthenticationFailed,
    "organization_on_hold": AuthenticationFailed,
    "not_found_error": UnknownModel,
    "request_too_large": PromptTooLong,
    "request_body_too_large_after_decoding": PromptTooLong,
    "ramp_limit_exceeded": RateLimited,
    "rate_limit_error": RateLimited,
    "timeout_error": Overloaded,
    "conflict_error": Overloaded,
    "api_error": Overloaded,
    "overloaded_error": Overloaded,
    "invalid_request_error": RequestRejected,
}
"""`details.error_code` or `type` of the error body -> ours; stands over the status."""

ANTHROPIC = DialectProfile(
    name="Anthropic",
    vendor="anthropic.com",
    setting="anthropic.base_url",
    base_url_ends="without /v1",
    path="/v1/messages",
    by_class=SDK_ERRORS,
    by_code=BY_CODE,
    money_endings=("_spend_limit_reached",),
)


FINISH: dict[str, Finish] = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_use": Finish.STOP,  # no tools are offered; what stands there is what there is
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "pause_turn": Finish.LENGTH,  # the host stopped in the middle and would be asked to go on
    "refusal": Finish.REFUSAL,
}
"""`stop_reason` -> ours; one that is not listed is a stop."""
LIMITED = ("requests", "tokens", "input-tokens", "output-tokens")
"""What the host limits, as its headers name it."""


def completion(found: Mapping[str, Any], request: Request, *, host: str, secret: str, limits: RateLimits) -> Completion:
    """Return the completion in this reply object; raise the error it carries, or UnreadableResponse."""
    raise_inner(found, request, host=host, secret=secret)
    blocks = found.get("content")
    if not isinstance(blocks, list):
        raise ANTHROPIC.unreadable("a JSON object without content", host=host, model=request.model)
    text = "".join(text_of(block) for block in blocks)
    usage = reported_usage(found.get("usage"))
    return Completion(
        text=text,
        finish=finish_of(found.get("stop_reason")),
        usage=usage or estimated_usage(request, text),
        model=str(found.get("model") or request.model),
        usage_reported=usage is not None,
        limits=limits,
    )


def raise_inner(found: Mapping[str, Any], request: Request, *, host: str, secret: str) -> None:
    """Raise the error that stands inside a success, if there is one."""
    error = found.get("error")
    if not error:
        return
    inner: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error}
    prompt = (request.system, *request.content)
    raise ANTHROPIC.from_body(inner, host=host, model=request.model, secret=secret, prompt=prompt)


def finish_of(stop_reason: object) -> Finish:
    """Return how the reply ended."""
    return FINISH.get(str(stop_reason), Finish.STOP)


def text_of(block: object) -> str:
    """Return the text of a content block; thinking and anything else has none."""
    if not isinstance(block, Mapping) or block.get("type") != "text":
        return ""
    text = block.get("text")
    return text if isinstance(text, str) else ""


def reported_usage(found: object) -> Usage | None:
    """Return the usage that the host reports; None where it reports none, or no sense."""
    if not isinstance(found, Mapping):
        return None
    fresh = token_count(found.get("input_tokens"))
    output = token_count(found.get("output_tokens"))
    read = token_count(found.get("cache_read_input_tokens")) or 0
    written = token_count(found.get("cache_creation_input_tokens")) or 0
    if fresh is None or output is None or not fresh + read + written:
        return None
    written_1h = token_count(sub_object(found, "cache_creation").get("ephemeral_1h_input_tokens")) or 0
    thought = token_count(sub_object(found, "output_tokens_details").get("thinking_tokens")) or 0
    return Usage(
        input_tokens=fresh + read + written,
        cached_input_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=min(written, written_1h),
        output_tokens=output,
        reasoning_tokens=min(output, thought),
    )


def reports_cached(found: object) -> bool:
    """Say whether this usage tells what came from a prefix cache."""
    return isinstance(found, Mapping) and token_count(found.get("cache_read_input_tokens")) is not None


def rate_limits(headers: Mapping[str, str]) -> RateLimits:
    """Return the limits a minute that the reply's headers state.

    The total is left out where input is stated apart: it is then input and output added up, and a call would be held
    back by what the cache served, which the host does not count.
    """
    stated = {name: header_count(headers.get(f"anthropic-ratelimit-{name}-limit")) for name in LIMITED}
    return RateLimits(
        requests_per_minute=stated["requests"],
        tokens_per_minute=None if stated["input-tokens"] else stated["tokens"],
        input_tokens_per_minute=stated["input-tokens"],
        output_tokens_per_minute=stated["output-tokens"],
    )


class AnthropicStream:
    """The state of one streamed reply."""

    def __init__(self, request: Request, *, host: str, secret: str, on_text: OnText) -> None:
        self.shown = StreamedText(on_text)
        self.model = request.model
        self.finish: Finish | None = None
        self._request = request
        self._host = host
        self._secret = secret
        self._stated: dict[str, object] = {}

    @property
    def usage(self) -> Usage | None:
        """What the host reports; None: nothing, or no sense."""
        return reported_usage(self._stated)

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next event; raise the error that it carries."""
        raise_inner(event, self._request, host=self._host, secret=self._secret)
        match event.get("type"):
            case "message_start":
                message = sub_object(event, "message")
                self.model = str(message.get("model") or self.model)
                self._count(sub_object(message, "usage"))
            case "content_block_start":
                self.shown.add(text_of(event.get("content_block")))
            case "content_block_delta":
                delta = sub_object(event, "delta")
                self.shown.add(delta.get("text") if delta.get("type") == "text_delta" else None)
            case "message_delta":
                self._count(sub_object(event, "usage"))
                reason = sub_object(event, "delta").get("stop_reason")
                self.finish = finish_of(reason) if reason else self.finish

    def _count(self, usage: Mapping[str, object]) -> None:
        """Keep the counts that are stated: later events repeat some cumulatively and leave others out."""
        self._stated |= {name: value for name, value in usage.items() if value is not None}


LONGEST_UNSTREAMED_TOKENS = 21_333
"""A longer reply is streamed even if nobody watches: idle connections are closed after ten minutes, and the SDK's own
typed call refuses it."""


def connect(model: str, settings: Settings) -> WireProvider:
    """Return a provider for the host in the settings; nothing is sent yet.

    Raises UsageError for a base URL or key that is none, AuthenticationFailed where a remote host would get no key.
    """
    base_url = settings.anthropic.base_url
    key = usable_key(settings.anthropic, host=host_of(base_url, setting=ANTHROPIC.setting), model=model)
    return WireProvider(AnthropicDialect(), base_url=base_url, api_key=key)


class _Replies:
    completion = staticmethod(completion)
    rate_limits = staticmethod(rate_limits)
    reports_cached = staticmethod(reports_cached)


class AnthropicDialect:
    """How hosts are spoken to that answer Anthropic's messages."""

    name = "anthropic"
    words = ANTHROPIC
    replies: ReplyReaders = _Replies()
    forms: tuple[ReplyForm, ...] = (ReplyForm.JSON_SCHEMA, ReplyForm.TEXT)
    longest_unstreamed_tokens: int | None = LONGEST_UNSTREAMED_TOKENS

    def load(self, base_url: str, *, key: str, route: Route) -> SdkClient:
        """Import the SDK and make a client."""
        from anthropic import AnthropicError, AsyncAnthropic, AsyncStream, DefaultAioHttpClient

        http = route.client(DefaultAioHttpClient)
        client = AsyncAnthropic(api_key=key or DUMMY_KEY, base_url=base_url, max_retries=0, http_client=http)
        return SdkClient(client, AsyncStream[object], AnthropicError)

    def body(self, request: Request, known: Capability, *, stream: bool) -> dict[str, Any]:
        """Return the JSON body of a request to a host that takes so much."""
        return anthropic_body(request, stream=stream, form=known.reply_form)

    def weaker(self, request: Request, known: Capability, refusal: object) -> Capability | None:
        """Return what a host takes that refused the schema with this error object; None: it was not the schema."""
        if known.reply_form is not ReplyForm.JSON_SCHEMA or not refuses_the_schema(request, refusal):
            return None
        return replace(known, reply_form=ReplyForm.TEXT)

    def streamed(self, request: Request, *, host: str, secret: str, on_text: OnText) -> AnthropicStream:
        """Return the reader of one stream."""
        return AnthropicStream(request, host=host, secret=secret, on_text=on_text)

    async def models(self, look: LookUp) -> tuple[str, ...]:
        """Return the names of the models that the host lists."""
        return host_facts.listed_model_names(await look("/v1/models?limit=1000"))

    async def context_tokens(self, look: LookUp, model: str) -> int | None:
        """Return the longest input, where the host tells."""
        with suppress(ProviderError):
            told = await look(f"/v1/models/{quote(model, safe='')}")
            return token_count(told.get("max_input_tokens")) or host_facts.served_context({"data": [told]}, model)
        return None
