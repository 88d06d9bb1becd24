"""The Batch API behind a judge: which vendor's, at which host, with whose key.

It holds the table of dialects that have one, and nothing of how they speak. A host is reached exactly as the live calls
reach it: same key, route, certificates and bounds. The trade-off: whether a host that calls itself compatible has a
Batch API at all is known only once it is asked: NoBatchApi.
"""

from importlib import import_module
from typing import Protocol

from xscore.errors import UsageError
from xscore.providers.batch_host import BatchHost
from xscore.providers.provider import Provider
from xscore.providers.spec import Spec, connect
from xscore.providers.wire import WireProvider
from xscore.settings import Settings

DIALECTS = {
    "anthropic": ("xscore.providers.anthropic_batches", "AnthropicBatches"),
    "openai": ("xscore.providers.openai_batches", "OpenAIBatches"),
}
"""Dialect -> module and class of its Batch API, imported when one is needed."""
INSTEAD = "`xscore batch run --live` does the same job through live calls."


class _Make(Protocol):
    def __call__(self, provider: WireProvider) -> BatchHost: ...


def batch_host(spec: Spec, settings: Settings) -> BatchHost:
    """Return the Batch API behind this judge; nothing is sent yet.

    Raises UsageError where there is none, and what `spec.connect` raises.
    """
    if spec.provider not in DIALECTS:
        raise _has_none(str(spec))
    return batches_of(connect(spec, settings))


def batches_of(provider: Provider) -> BatchHost:
    """Return the Batch API of a provider as it was connected; closing either closes both. Raises UsageError."""
    if not isinstance(provider, WireProvider) or provider.name not in DIALECTS:
        raise _has_none(f"the provider `{provider.name}`")
    module, name = DIALECTS[provider.name]
    make: _Make = getattr(import_module(module), name)
    return make(provider)


def _has_none(what: str) -> UsageError:
    return UsageError(f"{what} has no Batch API", hint=INSTEAD)
