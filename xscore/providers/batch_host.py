"""The seam to a vendor's Batch API: create, find, look at, cancel, and fetch what came back.

It knows nothing of questions, judgments or money; `offline` does. A batch is created at most once for each call here,
and a create that fails without an answer may have succeeded all the same: `find` tells, by the mark that was sent.
Only a failure among `NOT_CREATED` says for certain that there is none. `batches.batch_host` gives one.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import IO, Protocol

from xscore.errors import (
    AuthenticationFailed,
    NoBatchApi,
    PromptTooLong,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnknownModel,
    Unreachable,
)
from xscore.records import Capability, Request
from xscore.records.offline import BatchLimits, BatchResult, BatchSeen

NOT_CREATED: tuple[type[ProviderError], ...] = (
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

    async def create(self, lines: IO[bytes], *, mark: str, file_id: str, requests: int) -> BatchSeen:
        """Create the batch from an input that begins at the start of `lines`, one line a request."""
        ...

    async def find(self, *, mark: str, since: float, requests: int) -> Sequence[BatchSeen]:
        """Return the vendor's batches that may be the one of this mark, created from `since` (Unix seconds) on.

        One that certainly is bears the mark. Others, whose vendor keeps no mark, bear none and have as many requests;
        their results tell, once they have ended.
        """
        ...

    async def find_file(self, *, mark: str, since: float) -> str:
        """Return the id of the uploaded input of this mark; empty where there is none."""
        ...

    async def look(self, vendor_id: str) -> BatchSeen:
        """Return the batch as it stands."""
        ...

    async def cancel(self, vendor_id: str) -> BatchSeen:
        """Ask for it to be cancelled; what has been run is kept, and charged. Asking twice is no error."""
        ...

    def results(self, seen: BatchSeen, *, model: str) -> AsyncGenerator[BatchResult, None]:
        """Yield what became of each request of a batch that has ended, in any order, read as a stream.

        A request that was never run may be missing. Where an answered one reports no usage, its input tokens are 0:
        whoever sent it knows the estimate. No detail quotes the host: its words may repeat the prompt.
        """
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...
