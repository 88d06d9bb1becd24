"""The seam to a vendor's Batch API: create, find, look at, cancel and fetch; and which dialects have one.

It knows nothing of questions, judgments or money. A create that fails without an answer may have succeeded: `find`
tells, by the mark that was sent; only `CERTAINLY_NOT_CREATED` says for sure. A host is reached with the key, route and
bounds of the live calls. Trade-off: whether a compatible host has a Batch API is known only once it is asked.
"""

from collections.abc import AsyncGenerator, Sequence
from importlib import import_module
from typing import IO, Protocol

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
from xscore.providers.spec import ModelSpec, connect_provider
from xscore.providers.wire import WireProvider
from xscore.records import Capability, Request
from xscore.records.batch import BatchLimits, BatchResult, VendorBatch
from xscore.settings import Settings

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
"""Failures of `create` and `upload` after which there certainly is nothing; after any other there may be."""


class BatchHost(Protocol):
    """One vendor's Batch API, at one host.

    Methods raise leaves of `ProviderError`.
    """

    name: str
    """The dialect: `openai`, `anthropic`."""
    host: str
    limits: BatchLimits
    """The vendor's own."""

    def adopt(self, capability: Capability) -> None:
        """Make bodies from now on in this form and without these fields, as the live calls would."""
        ...

    def line(self, custom_id: str, body: bytes) -> bytes:
        """Return a request's line of the input: its id around the JSON body of the live call, with a line break."""
        ...

    def body(self, request: Request) -> bytes:
        """Return the JSON body of a request, as the live call would send it, in UTF-8."""
        ...

    async def upload(self, lines: IO[bytes], *, mark: str) -> str:
        """Bring the input to the vendor and return the id of its file; empty where it travels with `create`."""
        ...

    async def create(self, lines: IO[bytes], *, mark: str, file_id: str, requests: int) -> VendorBatch:
        """Create the batch from an input that begins at the start of `lines`, one line a request."""
        ...

    async def find(self, *, mark: str, since: float, requests: int) -> Sequence[VendorBatch]:
        """Return the vendor's batches that may be the one of this mark, created from `since` (Unix seconds) on.

        One that certainly is bears the mark. Others, whose vendor keeps no mark, bear none and have as many requests;
        their results tell, once they have ended.
        """
        ...

    async def find_file(self, *, mark: str, since: float) -> str:
        """Return the id of the uploaded input of this mark; empty where there is none."""
        ...

    async def look(self, vendor_id: str) -> VendorBatch:
        """Return the batch as it stands."""
        ...

    async def cancel(self, vendor_id: str) -> VendorBatch:
        """Ask for it to be cancelled; what has been run is kept, and charged. Asking twice is no error."""
        ...

    def results(self, seen: VendorBatch, *, model: str) -> AsyncGenerator[BatchResult, None]:
        """Yield what became of each request of a batch that has ended, in any order, read as a stream.

        A request that was never run may be missing. Where an answered one reports no usage, its input tokens are 0:
        whoever sent it knows the estimate. No detail quotes the host: its words may repeat the prompt.
        """
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...


BATCH_DIALECTS = {
    "anthropic": ("xscore.extensions.batch.anthropic_batches", "AnthropicBatches"),
    "openai": ("xscore.extensions.batch.openai_batches", "OpenAIBatches"),
}
"""Dialect -> module and class of its Batch API, imported when one is needed."""
LIVE_HINT = "`xscore batch run --live` does the same job through live calls."


class _MakeBatchHost(Protocol):
    def __call__(self, provider: WireProvider) -> BatchHost: ...


def batch_host(spec: ModelSpec, settings: Settings) -> BatchHost:
    """Return the Batch API behind this judge; nothing is sent yet.

    Raises UsageError where there is none, and what `spec.connect` raises.
    """
    if spec.provider not in BATCH_DIALECTS:
        raise _no_batch_api(str(spec))
    return batch_host_of_provider(connect_provider(spec, settings))


def batch_host_of_provider(provider: Provider) -> BatchHost:
    """Return the Batch API of a provider as it was connected; closing either closes both. Raises UsageError."""
    if not isinstance(provider, WireProvider) or provider.name not in BATCH_DIALECTS:
        raise _no_batch_api(f"the provider `{provider.name}`")
    module, name = BATCH_DIALECTS[provider.name]
    make: _MakeBatchHost = getattr(import_module(module), name)
    return make(provider)


def _no_batch_api(what: str) -> UsageError:
    return UsageError(f"{what} has no Batch API", hint=LIVE_HINT)
