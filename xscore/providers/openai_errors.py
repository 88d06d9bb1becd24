"""Every failure of the OpenAI dialect as one of ours: one table of types, one of statuses, one of codes.

What a server says is untrusted and may repeat what it was sent: of a body only a short message is ever shown, with
the key cut out, and not at all where it repeats the prompt. Nothing here decides by the words of a message.
The trade-off: a host that says "no money" in prose only, without a code, is taken by its status.
"""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from xscore.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    Overloaded,
    PromptTooLong,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnknownModel,
    Unreachable,
    UnreadableResponse,
)

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

BY_STATUS: dict[int, type[ProviderError]] = {
    400: RequestRejected,
    401: AuthenticationFailed,
    402: QuotaExhausted,
    403: AuthenticationFailed,
    404: UnknownModel,
    408: Overloaded,
    409: Overloaded,
    413: PromptTooLong,
    422: RequestRejected,
    429: RateLimited,
}
"""HTTP status -> ours; 5xx is Overloaded, any other RequestRejected."""

BY_CODE: dict[str, type[ProviderError]] = {
    "insufficient_quota": QuotaExhausted,
    "credit_balance_exhausted": QuotaExhausted,
    "billing_hard_limit_reached": QuotaExhausted,
    "billing_not_active": QuotaExhausted,
    "invalid_api_key": AuthenticationFailed,
    "account_deactivated": AuthenticationFailed,
    "model_not_found": UnknownModel,
    "context_length_exceeded": PromptTooLong,
    "exceed_context_size_error": PromptTooLong,
    "string_above_max_length": PromptTooLong,
    "rate_limit_exceeded": RateLimited,
    "server_overloaded": Overloaded,
    "server_error": Overloaded,
}
"""`code` or `type` of the error body -> ours; stands over the status."""

SPEND_LIMIT_SUFFIX = "_spend_limit_exceeded"
REFUSAL_CODES = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
"""Codes by which a host declines the prompt itself: a refusal, not a mistake of ours."""

NEVER_CONNECTED = frozenset({"ClientConnectorError", "ConnectionTimeoutError", "UnsupportedProtocol"})
"""Classes of the transport for a connection that was never made: DNS, refused, TLS, connect timeout."""

MESSAGE_LIMIT = 200
ECHO_CHARS = 24
"""A run of so many characters that the prompt has as well is an echo of the prompt."""


def hint_for(kind: type[ProviderError], host: str, model: str) -> str:
    """Say what to do about this kind of failure at this host."""
    hints: dict[type[ProviderError], str] = {
        AuthenticationFailed: f"Check the key in your environment, and that {host} is the host it belongs to.",
        QuotaExhausted: f"Add credit or raise the spending limit of your account at {host}.",
        UnknownModel: f"Check the name `{model}` and that openai.base_url ends where /chat/completions begins.",
        RateLimited: "Lower judge.rpm, judge.tpm or judge.concurrency.",
        Overloaded: "Try again later; what was judged is kept.",
        ConnectionFailed: "Check the network; what was judged is kept.",
        Unreachable: f"Check that a server listens at {host} (openai.base_url).",
        PromptTooLong: "Lower judge.pack_tokens, or give the model a longer context (num_ctx in Ollama).",
        UnreadableResponse: f"Check that {host} speaks the OpenAI dialect (openai.base_url, with /v1).",
        RequestRejected: f"See whether `{model}` takes these request fields; docs/providers.md lists them.",
    }
    return hints.get(kind, "")


def translate(error: Exception, *, host: str, model: str, secret: str, prompt: tuple[str, ...]) -> ProviderError:
    """Return our error for one raised by the SDK or its transport; the caller raises it `from error`.

    secret: the key, cut out of every message. prompt: what was sent, never repeated.
    """
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    kind = _kind(error, status if isinstance(status, int) else None, body)
    said = shown_message(body, secret=secret, prompt=prompt)
    where = f"{host} answered {status}" if isinstance(status, int) else f"{host}: {_plainly(kind)}"
    message = f"{where}: {said}" if said else where
    return kind(message, hint=hint_for(kind, host, model), retry_after_s=_retry_after_s(error))


def from_body(body: Mapping[str, Any], *, host: str, model: str, secret: str, prompt: tuple[str, ...]) -> ProviderError:
    """Return our error for an error object inside a success (a numeric `code` is a status there)."""
    code = body.get("code")
    status = code if isinstance(code, int) and not isinstance(code, bool) else None
    kind = _by_body(body) or (_by_status(status) if status is not None else UnreadableResponse)
    said = shown_message(body, secret=secret, prompt=prompt)
    message = f"{host} answered 200 with an error inside" + (f": {said}" if said else "")
    return kind(message, hint=hint_for(kind, host, model))


def is_refusal(error: Exception) -> bool:
    """Whether the host declined the prompt for its content."""
    return getattr(error, "code", None) in REFUSAL_CODES


def shown_message(body: object, *, secret: str, prompt: tuple[str, ...]) -> str:
    """Return what may be shown of an error body: its message on one line, short, without key or prompt."""
    message = body.get("message") if isinstance(body, Mapping) else None
    if not isinstance(message, str):
        return ""
    line = " ".join(message.split())
    if secret:
        line = line.replace(secret, "[key]")
    if len(line) > MESSAGE_LIMIT:
        line = line[: MESSAGE_LIMIT - 1] + "…"
    return "(its message repeats the prompt and is withheld)" if _echoes(line, prompt) else line


def _echoes(line: str, prompt: tuple[str, ...]) -> bool:
    sent = " ".join(" ".join(prompt).split())
    return any(line[at : at + ECHO_CHARS] in sent for at in range(len(line) - ECHO_CHARS + 1))


def _kind(error: Exception, status: int | None, body: object) -> type[ProviderError]:
    found = _by_body(body)
    if found is not None:
        return found
    if status is not None:
        return _by_status(status)
    if _never_connected(error):
        return Unreachable
    return SDK_ERRORS.get(type(error).__name__, ConnectionFailed)


def _by_body(body: object) -> type[ProviderError] | None:
    if not isinstance(body, Mapping):
        return None
    names = [name for name in (body.get("code"), body.get("type")) if isinstance(name, str)]
    kinds = [QuotaExhausted if name.endswith(SPEND_LIMIT_SUFFIX) else BY_CODE.get(name) for name in names]
    if QuotaExhausted in kinds:
        return QuotaExhausted
    return next((kind for kind in kinds if kind is not None), None)


def _by_status(status: int) -> type[ProviderError]:
    return BY_STATUS.get(status, Overloaded if status >= 500 else RequestRejected)


def _never_connected(error: BaseException) -> bool:
    """Whether the chain of causes holds the transport's failure to connect (DNS, refused, TLS)."""
    cause: BaseException | None = error
    while cause is not None:
        if any(base.__name__ in NEVER_CONNECTED for base in type(cause).__mro__):
            return True
        cause = cause.__cause__
    return False


def _retry_after_s(error: Exception) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    if headers is None:
        return None
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return _seconds_between(headers.get("date", ""), headers.get("retry-after", ""))


def _seconds_between(sent: str, until: str) -> float | None:
    """Read a Retry-After that is a date against the reply's own Date, so that no clock of ours is needed."""
    try:
        wait = parsedate_to_datetime(until) - parsedate_to_datetime(sent)
    except (ValueError, TypeError):
        return None
    return max(0.0, wait.total_seconds())


def _plainly(kind: type[ProviderError]) -> str:
    if kind is Unreachable:
        return "no connection could be made"
    if kind is ConnectionFailed:
        return "the connection broke before the reply was whole"
    return "the SDK could not use the reply"
