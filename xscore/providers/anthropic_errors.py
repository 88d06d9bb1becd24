"""Every failure of the Anthropic dialect as one of ours: its SDK's classes and its API's types and codes, as tables.

How a table is read, and what may be shown of what a host says, is `wire_errors`, which all dialects share. The SDK has
a class for every `error_code`; only those of its classes that stand for a status are listed, the rest go with them.
The trade-off: a prompt that is too long and a balance that ran out before 402 existed come as a plain 400 without a
code; they are rejections of that request.
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

ANTHROPIC = Vocabulary(
    name="Anthropic",
    vendor="anthropic.com",
    setting="anthropic.base_url",
    base_url_ends="without /v1",
    path="/v1/messages",
    by_class=SDK_ERRORS,
    by_code=BY_CODE,
    money_endings=("_spend_limit_reached",),
)
