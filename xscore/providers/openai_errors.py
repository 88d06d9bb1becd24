"""Every failure of the OpenAI dialect as one of ours: its SDK's classes and its hosts' codes, as tables.

How a table is read, and what may be shown of what a host says, is `wire_errors`, which all dialects share. The
trade-off: servers that call themselves compatible use codes of their own; what is not listed is taken by its status.
"""

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
    UnreadableResponse,
)
from xscore.providers.wire_errors import Vocabulary

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

OPENAI = Vocabulary(
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
