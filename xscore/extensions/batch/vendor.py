"""Which vendors have a Batch API, and which of their failures mean that no batch was created.

It knows nothing of questions, judgments or money. A create that failed without an answer may have succeeded: look it up
with `find`, unless the error is one of `CERTAINLY_NOT_CREATED`. Key, address and size limits are those of live calls.
Trade-off: whether a compatible host has a Batch API is known only once it is asked.
"""

from xscore.extensions.batch.vendor_calls import LIVE_HINT, BatchHost
from xscore.platform.errors import (
    AuthenticationFailed,
    NoBatchApi,
    PromptTooLong,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnknownModel,
    Unreachable,
    UsageError,
)
from xscore.providers.provider import Provider
from xscore.providers.wire import WireProvider

CERTAINLY_NOT_CREATED: tuple[type[ProviderError], ...] = (
    AuthenticationFailed,
    NoBatchApi,
    PromptTooLong,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnknownModel,
    Unreachable,
)
"""Failures of `create` and `upload` that certainly created nothing; any other may have."""


def batch_host(provider: Provider) -> BatchHost:
    """Return the Batch API of a provider; nothing is sent yet. Closing either closes both. Raises UsageError."""
    if isinstance(provider, WireProvider) and provider.name == "anthropic":
        from xscore.extensions.batch.anthropic_batches import AnthropicBatches

        return AnthropicBatches(provider)
    if isinstance(provider, WireProvider) and provider.name == "openai":
        from xscore.extensions.batch.openai_batches import OpenAIBatches

        return OpenAIBatches(provider)
    raise UsageError(f"the provider `{provider.name}` has no Batch API", hint=LIVE_HINT)
